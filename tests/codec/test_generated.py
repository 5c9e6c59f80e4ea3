"""The shortcuts of writing are those of the long way: the generated dump, and the check that is left out."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import AwareDatetime, BaseModel, Field, create_model, field_validator

from odm.codec import EntityCodec, compile_codec
from odm.codec.emitter import generated_dump
from odm.errors import BadValue
from tests.codec.test_laws import CODEC, Wide, moments, wides
from tests.codec.test_texts import DIRECT, Direct, anatomy, directs
from tests.effort import times


class Text(str):
    __slots__ = ()


class Mood(Enum):
    GOOD = "good"
    BAD = 1.0


class Leaf(BaseModel):
    n: int = 0
    when: AwareDatetime | None = None


class Sure(BaseModel):
    """Whatever can be written of it can be read back."""

    text: str
    flag: bool = False
    whole: int = 0
    money: Decimal = Decimal(0)
    ratio: float | None = None
    at: datetime = datetime(1, 1, 1, tzinfo=UTC)
    day: date = date(1, 1, 1)
    clock: time = time()
    took: timedelta = timedelta()
    uid: UUID = UUID(int=0)
    mood: Mood = Mood.GOOD
    mode: Literal["a", 1, b"x"] = "a"
    data: bytes = b""
    anything: Any = None
    leaf: Leaf = Leaf()
    leaves: list[Leaf] = []
    by_name: dict[str, tuple[int, str]] = {}
    many: tuple[Decimal | None, ...] = ()
    names: set[str] = set()
    numbers: frozenset[float] = frozenset()


SURE = compile_codec(Sure, "Sure")

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([10**38, -(10**125), 10**200, 2**64])
    | st.floats()
    | st.decimals()
    | st.text(max_size=4)
    | st.sampled_from(["\ud800", Text("é"), "a", "é"])
    | st.binary(max_size=4)
    | moments
    | st.sampled_from([datetime.max.replace(tzinfo=UTC), datetime.min.replace(tzinfo=UTC), datetime(2020, 1, 1)])
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.sampled_from([*Mood, Leaf(n=1), Leaf.model_construct(n="many"), Leaf.model_construct()])
)
anything = (
    scalars
    | st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(max_size=2), inner, max_size=2)
            | st.lists(inner, max_size=2).map(tuple)
        ),
        max_leaves=4,
    )
    | st.sets(st.text(max_size=2) | st.integers() | st.decimals(allow_nan=False), max_size=2)
)


def changed(entity: BaseModel, changes: dict[str, Any]) -> Any:
    """A copy whose fields were assigned without validation."""
    return entity.model_copy(update=changes)


def changes_of(model: type[BaseModel]) -> st.SearchStrategy[dict[str, Any]]:
    return st.dictionaries(st.sampled_from(list(model.model_fields)), anything, max_size=2)


def check_generated(codec: EntityCodec, entity: BaseModel) -> None:
    made = codec._dump(entity)
    if made is None:  # which only means that the interpreting codec is used
        return
    assert anatomy(made) == anatomy({"_t": codec.tag, **codec._record.dump(entity)})


@settings(max_examples=times(60, 300))
@given(wides | directs, st.data())
def test_the_generated_dump_is_the_dump(entity: Wide | Direct, data: st.DataObject) -> None:
    codec = CODEC if isinstance(entity, Wide) else DIRECT
    assert codec._dump(entity) is not None  # it can handle what was validated
    check_generated(codec, changed(entity, data.draw(changes_of(type(entity)))))


@settings(max_examples=times(100, 500))
@given(changes_of(Sure))
def test_what_needs_no_check_can_be_read_back(changes: dict[str, Any]) -> None:
    assert SURE.sure
    entity = changed(Sure(text=""), changes)
    check_generated(SURE, entity)
    try:
        item = SURE.encode(entity)
    except BadValue:
        return
    SURE.decode(item)  # does not raise


class _Checked(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def check(cls, value: int) -> int:
        return value


class _Finished(BaseModel):
    n: int

    def model_post_init(self, context: Any) -> None:
        raise ValueError(context)


@pytest.mark.parametrize(
    "type_",
    [
        (str, Field(max_length=3)),
        (int, Field(ge=0)),
        (list[int], Field(max_length=3)),
        (_Checked, ...),
        (list[_Finished], ...),
        (int | str, ...),
    ],
    ids=str,
)
def test_what_could_be_refused_is_checked(type_: Any) -> None:
    assert not compile_codec(create_model("M", value=type_), "M").sure


def test_nothing_is_generated_for_an_entity_that_is_only_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[object] = []

    def generated(*given: Any) -> Any:
        made.append(given)
        return generated_dump(*given)

    monkeypatch.setattr("odm.codec.entity.generated_dump", generated)
    codec = compile_codec(Leaf, "Leaf")
    assert codec.decode({"_t": "Leaf", "n": 1}) == Leaf(n=1)
    assert not made
    assert [codec.encode(Leaf(n=n))["n"] for n in (1, 2)] == [1, 2]
    assert len(made) == 1
