"""Generated code loads the same entities from attributes as the codec loads from decoded items."""

from decimal import Decimal
from enum import Enum, IntEnum
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, RootModel, create_model, model_validator

from odm.backends.dynamodb.items.attributes import from_attribute
from odm.backends.dynamodb.items.codec import to_attribute
from odm.backends.dynamodb.items.loading import AttributesItem, AttributesItems, Loader
from odm.codec import EntityCodec, compile_codec
from odm.codec.upgrades import Upgrades
from odm.entities.markers import Stored
from tests.backends.dynamodb.forms import forms, on_the_wire
from tests.backends.local.test_codec import VALUES
from tests.codec.test_laws import CODEC, Wide, wides
from tests.codec.test_texts import DIRECT, OTHER, Direct, Other, anatomy, directs, others, same

HIDDEN = frozenset({"pk", "sk", "by_emailpk", "by_emailsk"})
CODECS: dict[type, EntityCodec] = {Wide: CODEC, Direct: DIRECT, Other: OTHER}
LOADER = Loader(CODECS.values())

entities = wides | directs | others

numbers = st.sampled_from(
    ["1.0", "1E+2", "-0", "-0.0", "00042", "0.50", "1e5", ".5", "5.", "1E-7", "1E+126", "1E+400", "9" * 50]
) | st.from_regex(r"-?[0-9]{1,42}(\.[0-9]{1,42})?(E[+-][0-9]{1,3})?", fullmatch=True)
attributes = VALUES.map(to_attribute) | numbers.map(lambda text: {"N": text})
foreign = (
    attributes
    | st.lists(attributes, max_size=2).map(lambda parts: {"L": parts})
    | st.dictionaries(st.text(max_size=2), attributes, max_size=2).map(lambda parts: {"M": parts})
    | st.lists(numbers, min_size=1, max_size=3).map(lambda texts: {"NS": texts})
)


def loaded_by(loader: Loader, attributes: Any) -> Any:
    """The entity of an item, as a read returns it."""
    return AttributesItem(attributes, frozenset(), loader).load()


def plainly(codec: EntityCodec, parts: Any) -> Any:
    """The entity from the decoded item, or the class of the error."""
    try:
        return codec.decode({name: from_attribute(part) for name, part in parts.items() if name not in HIDDEN})
    except Exception as error:  # noqa: BLE001  # a number may be too large for every type
        return type(error)


@given(entities)
def test_a_stored_entity_loads_the_same_from_attributes(entity: BaseModel) -> None:
    codec = CODECS[type(entity)]
    for form in forms(codec.encode(entity)):
        assert same(loaded_by(LOADER, form), plainly(codec, form))


@given(st.lists(entities, max_size=5))
def test_a_page_of_several_kinds_keeps_its_order(found: list[Any]) -> None:
    parts = [forms(CODECS[type(entity)].encode(entity))[1] for entity in found]
    loaded = AttributesItems(parts, HIDDEN, LOADER).load_all()
    assert loaded is not None
    assert all(same(one, loaded_by(LOADER, part)) for one, part in zip(loaded, parts, strict=True))
    assert loaded == found


@given(entities, st.data())
def test_a_foreign_item_loads_the_same_from_attributes_or_not_at_all(entity: BaseModel, data: st.DataObject) -> None:
    codec = CODECS[type(entity)]
    names = st.sampled_from([*codec.stored.values(), "unknown"])
    others_ = data.draw(st.dictionaries(names, foreign, min_size=1, max_size=3))
    left = data.draw(st.sets(names, max_size=2))
    for form in forms(codec.encode(entity)):
        given_ = {name: part for name, part in (form | others_).items() if name not in left}
        for attributes_ in (given_, on_the_wire(given_)):
            loaded = loaded_by(LOADER, attributes_)
            assert loaded is None or same(loaded, plainly(codec, attributes_))


@cache
def codec_of(type_: Any) -> EntityCodec:
    """The codec of a model with one field of a type."""
    return compile_codec(create_model("M", value=type_), "M")


def loads(type_: Any, parts: Any) -> list[Any]:
    """What a field of this type reads from an attribute: with generated code, and from the decoded item."""
    codec = codec_of(type_)
    item = {"_t": {"S": "M"}, "value": parts}
    found = [loaded_by(Loader([codec]), item), plainly(codec, item)]
    return [anatomy(vars(one)["value"]) if isinstance(one, BaseModel) else None for one in found]


@pytest.mark.parametrize(
    "type_", [int, float, Decimal, Any, int | str, set[float], list[Decimal], dict[str, int]], ids=str
)
@given(text=numbers)
def test_a_number_is_what_its_item_holds(type_: Any, text: str) -> None:
    number: Any = {"N": text}
    part = {set[float]: {"NS": [text]}, list[Decimal]: {"L": [number]}, dict[str, int]: {"M": {"k": number}}}.get(
        type_, number
    )
    loaded, plain = loads(type_, part)
    assert loaded in (None, plain)


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class Mixed(Enum):
    ONE = 1
    TEXT = "text"
    TRUE = True  # an alias of ONE to Python, and another value to a backend


class Side(Enum):
    LEFT = "left"


class Inner(BaseModel):
    data: bytes
    deep: Annotated[str, Stored("d")] = ""


class Early(BaseModel):
    inner: Inner
    uid: UUID

    @model_validator(mode="before")
    @classmethod
    def check(cls, values: Any) -> Any:
        assert type(values["uid"]) is UUID
        return values


class Uids(RootModel[list[UUID]]):
    pass


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (Level, 2),
        (set[Level], frozenset({1, 2})),
        (Mixed, "text"),
        (Mixed, 1),
        (Literal[1, 2], 2),
        (Literal["a", 1], 1),
        (tuple[int, bytes, Inner], [1, b"x", {"data": b"y", "d": "z"}]),
        (Early, {"inner": {"data": b"x"}, "uid": str(UUID(int=5))}),
        (dict[Side, list[list[Decimal | None]]], {"left": [[1, None], []]}),
        (Uids, [str(UUID(int=5))]),
        (Annotated[list[bytes] | None, BeforeValidator(lambda value: value)], None),
        (Annotated[dict[str, frozenset[bytes]], BeforeValidator(lambda v: v)], {"a": frozenset({b"x"})}),
        (Annotated[tuple[UUID, ...], BeforeValidator(lambda value: value)], [str(UUID(int=5))]),
    ],
    ids=lambda value: str(value).split(" at 0x")[0],
)
def test_types_with_mixed_values_load_in_both_formats(type_: Any, value: Any) -> None:
    for form in forms({"value": value}):
        loaded, plain = loads(type_, form["value"])
        assert loaded is not None
        assert loaded == plain


@pytest.mark.parametrize("default", [None, Field(default_factory=lambda: {1}), Field(default_factory=set)])
def test_an_absent_set_is_empty_whatever_its_default(default: Any) -> None:
    type_ = set[int] if default is None else (set[int], default)
    codec = compile_codec(create_model("M", value=type_), "M")
    item = {"_t": {"S": "M"}}
    loaded = loaded_by(Loader([codec]), item)
    assert same(loaded, plainly(codec, item))
    assert loaded.value == set()


def test_an_item_of_another_version_or_entity_is_not_loaded() -> None:
    new = compile_codec(create_model("M", n=int), "M", Upgrades(2, (lambda item: item,)))
    item: dict[str, Any] = {"_t": {"S": "M"}, "n": {"N": "1"}}
    assert loaded_by(Loader([new]), item) is None
    assert loaded_by(Loader([new]), item | {"_v": {"N": "2"}}).n == 1
    old = Loader([compile_codec(create_model("M", n=int), "M")])
    assert loaded_by(old, item).n == 1
    damages: list[dict[str, Any]] = [{"_v": {"N": "2"}}, {"_t": {"S": "X"}}, {"_t": {"N": "1"}}, {"_t": {"L": [[]]}}]
    for other in damages:
        assert loaded_by(old, item | other) is None
        assert old.load_all([item, item | other]) is None
    assert loaded_by(old, {}) is None


def test_the_item_is_its_attributes() -> None:
    item = {"_t": "Other", "n": Decimal("1.5"), "data": b"x"}
    for form in forms(item):
        found = AttributesItem(form, HIDDEN, LOADER)
        assert [found.get(name) for name in ("n", "data", "none", "pk")] == [Decimal("1.5"), b"x", None, None]
        assert found == item
        assert (found["data"], len(found), list(found), repr(found)) == (b"x", 3, [*item], repr(item))
