"""Generated code reads the same entities from cells as from decoded items, whatever is stored."""

from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, RootModel, create_model

from odm import Columns, Counter, Revision, Stored
from odm.backends.bigtable.client.native import Cell, Column, Row, SetCell
from odm.backends.bigtable.rows.codec import Form, decode, replacement
from odm.backends.bigtable.rows.loading import Loader, RowItem, RowItems
from odm.codec import EntityCodec, compile_codec
from odm.codec.types.stored import NULL, TEXT
from odm.codec.upgrades import Upgrades
from odm.errors import BackendError
from odm.immutable import evolve
from tests.backends.bigtable.values import texts
from tests.backends.dynamodb.test_loading import Inner, Level, Mixed, Side
from tests.codec.test_laws import CODEC, Wide, wides
from tests.codec.test_texts import DIRECT, OTHER, Direct, Other, anatomy, directs, others, same


def loaded_by(loader: Loader, row: Row) -> Any:
    """The entity of a row, as by a read of one."""
    return RowItem(row, loader).load()


class Named(Enum):
    ONE = "1"
    NULL = "null"
    QUOTED = "'1"


class Code(RootModel[str]):
    pass


class Counted(BaseModel):
    text: str | None = None
    views: Annotated[int, Counter] = 0
    likes: Annotated[int, Counter, Stored("l")] = 0
    revision: Annotated[int, Revision] = 0
    tags: Annotated[set[str], Columns] = set()
    sizes: Annotated[frozenset[int], Columns, Stored("s#")] = frozenset()
    moments: Annotated[set[UUID], Columns]
    prices: Annotated[dict[str, Decimal], Columns] = {}
    inner: Annotated[dict[str, Inner] | None, Columns] = None
    plain: set[bytes] = set()
    more: dict[str, str] = {}


def declared(*codecs: EntityCodec) -> frozenset[str]:
    """The attributes that every codec which has them declares as text."""
    said = [
        (field.stored, field.type.kinds - NULL == TEXT) for codec in codecs for field in codec.record.fields.values()
    ]
    return frozenset(name for name, text in said if text) - {name for name, text in said if not text}


PLAIN = Form({})
COUNTED = compile_codec(Counted, "Counted")
FORM = Form(
    {"views": "counter", "l": "counter"} | dict.fromkeys(("tags", "s#", "moments", "prices", "inner"), "columns")  # type: ignore[arg-type]
)
CODECS: dict[type, EntityCodec] = {Wide: CODEC, Direct: DIRECT, Other: OTHER, Counted: COUNTED}
FORM = evolve(FORM, texts=declared(*CODECS.values()))
LOADERS = {id(form): Loader(form, CODECS.values()) for form in (PLAIN, FORM)}
LOADER = Loader(FORM, CODECS.values())

uuids = st.integers(0, 2**128 - 1).map(lambda number: UUID(int=number))
prices = st.integers(-(10**6), 10**6).map(lambda cents: Decimal(cents) / 100)
keys = texts.filter(bool)
counted = st.builds(
    Counted,
    text=st.none() | texts,
    views=st.integers(-(2**63), 2**63 - 1),
    likes=st.integers(0, 3),
    revision=st.integers(0, 3),
    tags=st.frozensets(texts, max_size=3),
    sizes=st.frozensets(st.integers(-9, 9), max_size=3),
    moments=st.frozensets(uuids, max_size=2),
    prices=st.dictionaries(keys, prices, max_size=3),
    inner=st.none() | st.dictionaries(keys, st.builds(Inner, data=st.binary(max_size=2), deep=texts), max_size=2),
    plain=st.frozensets(st.binary(max_size=2), max_size=2),
    more=st.dictionaries(keys, texts, max_size=2),
)
entities = wides | directs | others | counted
forms = st.sampled_from([PLAIN, FORM])

cells = (
    st.sampled_from(
        [
            *(b"", b"1", b"01", b"-0", b"1.50", b"1e5", b"5.", b"+1", b"1_0", b"'1", b"null", b"true", b"True", b"\0x"),
            *(b"2024-01-02", b"2024-01-02T03:04:05.000006Z", b"9999-", b"15:21:48"),
            *(b"[]", b"{}", b'{"$set": []}', b'{"$set": [1]}', b'{"$bytes": "YQ=="}', b'["1", 1, 1.5]'),
            *(b"9" * 50, b"0." + b"0" * 50 + b"1", b'{"a": 1e400}', b"\xff"),
        ]
    )
    | st.binary(max_size=4)
    | st.from_regex(rb"-?[0-9]{1,42}(\.[0-9]{1,42})?", fullmatch=True)
)


def row_of(item: dict[str, Any], form: Form = PLAIN) -> Row:
    """The row of an item."""
    made = [cell for cell in replacement(item, form, "k", "id1", (), 5000) if isinstance(cell, SetCell)]
    return Row(b"k", sorted(Cell(cell.family, cell.qualifier.encode(), cell.value) for cell in made))


def plainly(codec: EntityCodec, row: Row, form: Form) -> Any:
    """The entity of the decoded item, or the class of its error."""
    try:
        return codec.decode(decode(row, form) or {})
    except Exception as error:  # noqa: BLE001  # a cell may hold anything
        return type(error)


@given(entities, forms)
def test_stored_rows_load_like_their_items(entity: BaseModel, form: Form) -> None:
    codec = CODECS[type(entity)]
    row = row_of(codec.encode(entity), form)
    loaded, plain = loaded_by(LOADERS[id(form)], row), plainly(codec, row, form)
    assert plain == entity
    assert loaded is None or same(loaded, plain)
    assert loaded is not None or type(entity) is Counted  # a set in Columns may be empty


@given(st.lists(directs | others, max_size=5), forms)
def test_a_page_of_several_kinds_keeps_its_order(found: list[Any], form: Form) -> None:
    rows = [row_of(CODECS[type(entity)].encode(entity), form) for entity in found]
    assert RowItems(rows, LOADERS[id(form)]).load_all() == found


@example(Counted(views=1, moments=set()), PLAIN, {Column("c", b"views"): b"\0" * 8, Column("d", b"tags#a"): b""}, [])
@example(Counted(moments=set()), FORM, {Column("d", b"plain#a"): b"", Column("d", b"plain"): b'{"$set": []}'}, [])
@example(Counted(moments=set()), FORM, {Column("d", b"views"): b"7", Column("c", b"revision"): b"\0" * 8}, [])
@given(
    entities,
    forms,
    st.dictionaries(
        st.builds(
            Column,
            st.sampled_from("dddcx"),
            st.sampled_from(
                [
                    *(name.replace("#", "$S").encode() for codec in CODECS.values() for name in codec.stored.values()),
                    *(b"unknown", b"tags#a", b"prices#a", b"plain#a", b"more#a", b"text#a"),
                    *(b"~r", b"_t", b"_v", b"\xff"),
                ]
            ),
        ),
        cells | st.just(b"\0" * 7 + b"\5"),
        min_size=1,
        max_size=3,
    ),
    st.lists(st.integers(0, 30), max_size=2),
)
def test_rows_of_other_programs_load_like_their_items_or_fail(
    entity: BaseModel, form: Form, written: dict[Column, bytes], left_out: list[int]
) -> None:
    codec = CODECS[type(entity)]
    stored = {Column(cell.family, cell.qualifier): cell.value for cell in row_of(codec.encode(entity), form).cells}
    for place in left_out:
        stored.pop([*stored][place % len(stored)], None)
    row = Row(b"k", sorted(Cell(*column, value) for column, value in (stored | written).items()))
    try:
        item = LOADERS[id(form)].item(row)
    except BackendError:
        return
    loaded = None if item is None else item.load()
    plain = plainly(CODECS[type(loaded)], row, form) if loaded is not None else None
    # attributes that the entity does not have are not read, so they cannot be invalid
    assert loaded is None or plain is BackendError or same(loaded, plain)


@cache
def codec_of(type_: Any) -> EntityCodec:
    """The codec of a model with one field of a type."""
    return compile_codec(create_model("M", value=type_), "M")


def loads(type_: Any, cell: bytes, *, declares: bool = True) -> list[Any]:
    """What a field of a type reads from a cell: by generated code, and by the codec."""
    codec = codec_of(type_)
    form = Form({}, texts=declared(codec) if declares else frozenset())
    row = Row(b"k", (Cell("d", b"_t", b"M"), Cell("d", b"value", cell)))
    found = [loaded_by(Loader(form, [codec]), row), plainly(codec, row, form)]
    return [anatomy(vars(one)["value"]) if isinstance(one, BaseModel) else None for one in found]


TYPES: list[Any] = [
    *(int, float, Decimal, str, bool, bytes, Any, int | str, UUID, Level, Mixed, Side, Literal[1, "1", True]),
    *(Literal["1", "null", "'1"] | None, Named, Named | None, Code, datetime | None, date, time),
    str | Literal["7"],  # noqa: PYI051  # a union
    *(set[float], list[Decimal], dict[str, int], list[int] | None, str | None, int | None, Inner, list[Inner]),
]


@pytest.mark.one_of(3)
@pytest.mark.parametrize("type_", TYPES, ids=str)
@given(cell=cells, declares=st.booleans())
def test_a_cell_is_what_its_item_holds(type_: Any, cell: bytes, declares: bool) -> None:
    loaded, plain = loads(type_, cell, declares=declares)
    assert loaded in (None, plain)


@pytest.mark.parametrize(
    ("type_", "cell"),
    [
        (str, b"2024"[:3] + b"x"),
        (str, b"'12"),
        (str, b"true story"),
        (str, b"12"),
        (str, b"[1]"),
        (str, b"none"),
        (str | None, b"12"),
        (Named, b"1"),
        (Named, b"'1"),
        (Literal["1", "null"], b"1"),
        (Code, b"1"),
        (datetime, b"2024-01-02T03:04:05.000006Z"),
        (time, b"15:21:48"),
        (str, b""),
        (int, b"0"),
        (int, b"-12"),
        (Decimal, b"12"),
        (Decimal, b"-0"),
        (Decimal, b"-1200"),
        (Decimal, b"0.000001"),
        (float, b"1.5"),
        (bytes, b"\0\xff"),
        (Level, b"2"),
        (Mixed, b"text"),
        (Mixed, b"1"),
        (Literal["a", 1], b"1"),
        (Literal["a", 1], b"a"),
        (str | None, b"null"),
        (set[Level], b'{"$set": [1, 2]}'),
        (list[Inner], b'[{"data": {"$bytes": "YQ=="}, "d": "x"}]'),
        (Annotated[UUID, BeforeValidator(lambda value: value)], b"00000000-0000-0000-0000-000000000005"),
    ],
    ids=lambda value: str(value).split(" at 0x")[0],
)
def test_what_is_usual_is_loaded_by_generated_code(type_: Any, cell: bytes) -> None:
    loaded, plain = loads(type_, cell)
    assert loaded is not None
    assert loaded == plain


@pytest.mark.parametrize("default", [None, Field(default_factory=lambda: {1}), Field(default_factory=set)])
def test_an_absent_set_is_empty_or_what_its_default_is_not(default: Any) -> None:
    codec = compile_codec(create_model("M", value=set[int] if default is None else (set[int], default)), "M")
    row = row_of({"_t": "M"})
    loaded = loaded_by(Loader(PLAIN, [codec]), row)
    assert same(loaded, plainly(codec, row, PLAIN))
    assert loaded.value == set()


def test_an_item_with_another_version_or_tag_is_left_to_the_core() -> None:
    new = Loader(PLAIN, [compile_codec(create_model("M", n=int), "M", Upgrades(2, (lambda item: item,)))])
    item: dict[str, Any] = {"_t": "M", "n": 1}
    assert loaded_by(new, row_of(item)) is None
    assert loaded_by(new, row_of(item | {"_v": 2})).n == 1
    old = Loader(PLAIN, [compile_codec(create_model("M", n=int), "M")])
    assert loaded_by(old, row_of(item)).n == 1
    for other in (item | {"_v": 2}, item | {"_t": "X"}, item | {"_t": 1}):
        assert loaded_by(old, row_of(other)) is None
        assert old.load_all([row_of(item), row_of(other)]) is None
    assert old.load_all([]) == []


@pytest.mark.parametrize("tag", [b"\xff", b"[", b"[1]"], ids=str)
def test_an_item_with_an_unreadable_tag_is_left_to_the_core(tag: bytes) -> None:
    row = Row(b"k", (Cell("d", b"_t", tag),))
    assert loaded_by(LOADER, row) is None
    assert LOADER.load_all([row]) is None


def test_the_item_is_its_row() -> None:
    item = {"_t": "Counted", "text": "1", "views": 5, "tags": frozenset({"a"}), "plain": frozenset({b"x"})}
    found = RowItem(row_of(item, FORM), LOADER)
    assert [found.get(name) for name in (*item, "none", "~r")] == [*item.values(), None, None]
    assert found == item
    assert (found["views"], len(found), sorted(found)) == (5, 5, sorted(item))


def test_a_cell_that_cannot_be_read_is_reported() -> None:
    found = RowItem(Row(b"k", (Cell("d", b"_t", b"M"), Cell("d", b"n", b"\xff"))), LOADER)
    with pytest.raises(BackendError, match="its cell d:n cannot be read"):
        found.get("n")


@pytest.mark.parametrize("cell", [Cell("c", b"_t", b"x"), Cell("d", b"x", b"x"), Cell("d", b"\xff", b"x")], ids=str)
def test_a_row_without_a_tag_belongs_to_another_program(cell: Cell) -> None:
    found = LOADER.item(Row(b"k", (cell,)))
    assert found is not None
    assert (found.load(), found.get("_t"), len(found)) == (None, None, 1)


def test_a_ghost_is_not_an_item() -> None:
    assert LOADER.item(Row(b"k", (Cell("d", b"_t", b""),))) is None
    assert LOADER.item(None) is None
