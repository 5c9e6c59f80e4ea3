"""The bytes that generated code writes of an entity hold the item that the codec encodes."""

import json
import re
from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from odm.backends.local.codec import decode, drafted, encode, write_item
from odm.codec import Draft, EntityCodec, ItemText, TextLoader, compile_codec
from odm.entities.markers import Stored
from odm.errors import BadValue
from odm.protocol.limits import item_size
from tests.codec.test_generated import SURE, Sure, changed, changes_of
from tests.codec.test_laws import CODEC, Wide, wides
from tests.codec.test_texts import DIRECT, Direct, anatomy, directs
from tests.effort import times


def check_written(codec: EntityCodec, entity: BaseModel) -> None:
    try:
        item = codec.encode(entity)
    except BadValue as error:
        with pytest.raises(BadValue, match=f"^{re.escape(str(error))}$"):
            write_item(codec, entity)
        return
    written = write_item(codec, entity)
    data = encode(written)
    assert anatomy(decode(data)) == anatomy(dict(written)) == anatomy(item)
    if isinstance(written, Draft):
        assert written.most >= item_size(item)
        pairs: list[Any] = []
        json.loads(data, object_pairs_hook=lambda found: pairs.append([name for name, _ in found]))
        assert all(len(set(names)) == len(names) for names in pairs)  # no name twice
        loader = TextLoader([codec])
        assert loader.load(data) == loader.load(encode(item))


@settings(max_examples=times(60, 300))
@given(wides | directs, st.data())
def test_what_is_written_is_the_item(entity: Wide | Direct, data: st.DataObject) -> None:
    codec = CODEC if isinstance(entity, Wide) else DIRECT
    check_written(codec, entity)
    check_written(codec, changed(entity, data.draw(changes_of(type(entity)))))


@settings(max_examples=times(100, 500))
@given(changes_of(Sure))
def test_what_was_assigned_unchecked_is_written_alike_or_refused_alike(changes: dict[str, Any]) -> None:
    check_written(SURE, changed(Sure(text=""), changes))


class Inner(BaseModel):
    a: str | None = None
    amounts: list[Decimal] = []


class Plain(BaseModel):
    """All of it has a place in JSON, if the numbers are short and the free value is."""

    text: Annotated[str, Stored('it\'s {a} "name" \\ \n %s')] = ""
    inner: Inner = Inner()
    amount: Decimal = Decimal(0)
    ratio: float = 0.0
    digits: list[int] = []
    nested: list[list[Inner]] = []
    names: set[str] = set()
    counts: Annotated[frozenset[int], Stored('"c"')] = frozenset()
    prices: set[Decimal] = set()
    free: Any = None


PLAIN = compile_codec(Plain, 'Pl"ain')
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)


@settings(max_examples=times(100, 500))
@given(
    st.builds(
        Plain,
        text=TEXTS,
        inner=st.builds(Inner, a=TEXTS | st.none(), amounts=st.lists(st.decimals(-9999, 9999, places=2), max_size=3)),
        amount=st.decimals(-9999, 9999, places=3),
        ratio=st.integers(-9999, 9999).map(lambda number: number / 8),
        digits=st.lists(st.integers(0, 9)),
        nested=st.lists(st.lists(st.builds(Inner), max_size=2), max_size=2),
        names=st.sets(TEXTS, max_size=3),
        counts=st.frozensets(st.integers(-5, 10**37), max_size=3),
        prices=st.sets(st.decimals(-9, 9, places=2), max_size=3),
        free=st.recursive(
            st.none() | TEXTS | st.booleans() | st.integers(-9, 9), lambda one: st.lists(one, max_size=3)
        ),
    )
)
def test_sets_and_short_numbers_are_written_by_generated_code(entity: Plain) -> None:
    assert isinstance(write_item(PLAIN, entity), Draft)
    check_written(PLAIN, entity)


@pytest.mark.parametrize("changes", [{"digits": [1] * 999}, {"nested": [[]] * 999}])
def test_the_size_of_an_item_is_bounded_by_its_bytes(changes: dict[str, Any]) -> None:
    item = write_item(PLAIN, changed(Plain(), changes))
    assert isinstance(item, Draft)
    assert len(item.form) < item_size(item) <= item.most  # in JSON they are the shortest
    assert drafted({**item}).most == item.most


@pytest.mark.parametrize(
    "changes",
    [
        {"amount": Decimal("1.000000000000000000001")},
        {"amount": Decimal("912752405701983.2")},
        {"inner": Inner(amounts=[Decimal("0.1234567890123456789")])},
        {"ratio": 0.1 + 0.2},
        {"prices": {Decimal("912752405701983.2")}},
        {"free": b"bytes"},
        {"free": {"deep": [{"a"}]}},
        {"free": {"$n": "1"}},
        {"text": "\ud800"},
        {"amount": Decimal("NaN")},
    ],
)
def test_what_json_has_no_type_for_is_written_as_before(changes: dict[str, Any]) -> None:
    check_written(PLAIN, changed(Plain(), changes))


class Nested(BaseModel):
    rows: list[set[str]] = []


class Blob(BaseModel):
    blob: bytes = b""


class Listed(BaseModel):
    names: set[str] = set()
    other: Annotated[str, Stored("_s")] = ""


@pytest.mark.parametrize("entity", [Nested(rows=[{"a"}]), Blob(blob=b"a"), Listed(names={"a"}, other="b")])
def test_entities_of_other_types_are_written_as_before(entity: BaseModel) -> None:
    codec = compile_codec(type(entity), "tag")
    assert not isinstance(write_item(codec, entity), Draft)
    check_written(codec, entity)


def test_a_text_that_holds_the_name_of_an_attribute_finds_it() -> None:
    name = PLAIN.stored["text"]
    item = ItemText(encode(write_item(PLAIN, Plain(text="x"))), decode, TextLoader([PLAIN]))
    assert item.get(name) == "x"
