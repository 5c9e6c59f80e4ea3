"""Attributes that are declared as text: their cells are the text itself, so that other programs read it."""

from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field, RootModel

import odm
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import Cell, Row
from odm.backends.bigtable.rows.codec import Form, attribute_cells, cells, decode
from odm.errors import BackendError, BadValue
from tests.backends.bigtable.values import texts

table = odm.Table("texts")


class Named(Enum):
    ONE = "1"


class Numbered(Enum):
    ONE = 1


class Code(RootModel[str]):
    pass


class Parcel(odm.Entity, table=table):
    code: str
    note: str | None = "none"
    short: Annotated[str, Field(max_length=3)] = ""
    at: datetime | None = None
    id: UUID | None = None
    named: Named = Named.ONE
    choice: Literal["1"] | None = "1"
    root: Code = Code("1")
    either: Literal["7"] | str = ""  # noqa: PYI051  # a union
    renamed: Annotated[str, odm.Stored("r")] = ""
    shared: str = ""
    size: int = 0
    mixed: str | int = 0
    numbered: Numbered = Numbered.ONE
    constant: Literal["1", 1] = "1"
    anything: Any = None
    tags: set[str] = set()
    disputed: str = ""

    primary = odm.PrimaryKey("PARCEL#{code}")


class Letter(odm.Entity, table=table):
    code: str
    shared: datetime | None = None
    disputed: int = 0

    primary = odm.PrimaryKey("LETTER#{code}")


FORM = Form.of(table.compile())
LOOKALIKES = [
    "42",
    "-1.5",
    "0",
    "true",
    "false",
    "[x]",
    "[1]",
    "{}",
    '{"$set": []}',
    "2024",
    "1e3",
    "",
    "é",
    "nul",
    "n",
]


def written(name: str, value: Any) -> bytes:
    """The cell of an attribute."""
    (cell,) = [cell for cell in cells({"_t": "Parcel", name: value}, FORM, "k", 5000) if cell.qualifier == name]
    assert attribute_cells(name, value, FORM, "k", 5000) == (cell,)
    return cell.value


def row(**found: bytes) -> Row:
    return Row(b"k", tuple(Cell("d", name.encode(), value) for name, value in {"_t": b"Parcel", **found}.items()))


@pytest.mark.parametrize("text", LOOKALIKES)
def test_a_declared_text_is_stored_as_it_is(text: str) -> None:
    assert written("code", text) == text.encode()


@pytest.mark.parametrize("text", ["'42", "'", "''tis", "null", "\0", "\0a"])
def test_a_text_that_would_be_misread_gets_an_apostrophe(text: str) -> None:
    assert written("code", text) == b"'" + text.encode()


@pytest.mark.parametrize("name", ["size", "mixed", "unknown", "disputed", "_v", "_ttl"])
def test_the_text_of_any_other_attribute_describes_itself(name: str) -> None:
    assert written(name, "42") == b"'42"
    assert decode(row(**{name: b"42"}), FORM) == {"_t": "Parcel", name: 42}


def test_the_attributes_that_every_entity_declares_as_text() -> None:
    others = {"size", "mixed", "numbered", "constant", "anything", "tags", "disputed"}
    assert FORM.texts == {*Parcel.model_fields} - others - {"renamed"} | {"r"}
    assert not FORM.disputed


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        *((text.encode(), text) for text in LOOKALIKES),
        *((b"'42", "42"), (b"''tis", "'tis"), (b"'", ""), (b"'null", "null"), (b"'a", "a"), (b"'\0a", "\0a")),
        *((b"null", None), (b"\0\xff", b"\xff"), (b"1.50", "1.50"), (b"[", "[")),
    ],
)
def test_a_cell_of_a_declared_text_is_read_as_text(cell: bytes, value: Any) -> None:
    """Also an older cell: of a text with an apostrophe, or of another type."""
    assert decode(row(code=cell), FORM) == {"_t": "Parcel", "code": value}
    assert written("code", value) == cell or cell[:1] == b"'"


def test_a_cell_that_is_not_text_is_reported() -> None:
    for cell in (b"\xff", b"'\xff"):
        with pytest.raises(BackendError, match="its cell d:code cannot be read"):
            decode(row(code=cell), FORM)


@given(texts | st.text("0179-.'[{truefalsn\0", max_size=6))
def test_a_declared_text_comes_back(text: str) -> None:
    for cell in (written("code", text), written("unknown", text)):  # the current cell, and the older one
        assert decode(row(code=cell), FORM) == {"_t": "Parcel", "code": text}


@pytest.mark.parametrize("value", [42, True, [1], {"a": 1}, frozenset({"a"})], ids=str)
def test_values_that_would_be_read_back_as_text_are_refused(value: Any) -> None:
    with pytest.raises(BadValue, match=r"attribute 'code' of the item 'k': .* declare the attribute as text"):
        written("code", value)


def test_a_lone_surrogate_is_refused() -> None:
    with pytest.raises(BadValue, match="surrogate"):
        written("code", "\ud800")


def test_entities_are_written_and_read_so(bigtable_emulator: str) -> None:
    """By generated code, and by an update."""
    with odm.Store(table, Bigtable("project", "texts", endpoint=bigtable_emulator)) as db:
        db.create()
        parcel = Parcel(code="42", note="null", short="1", named=Named.ONE, root=Code("[1]"), either="7", renamed="'1")
        db.put(parcel)
        assert db.get(Parcel.primary(code="42")) == parcel
        assert '    "42"\n' in db.explain(parcel).stored
        for note in ("7", "'7", "null", None):
            updated = db.update(Parcel.primary(code="42"), odm.set_(Parcel.note, note), when=Parcel.note == parcel.note)
            parcel = parcel.model_copy(update={"note": note})
            assert updated is None
            assert db.get(Parcel.primary(code="42")) == parcel
