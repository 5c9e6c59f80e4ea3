"""Cells of other programs: a field reads one form of its cell, finds it, and writes the same bytes."""

import struct
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Final
from uuid import UUID

import pytest
from google.cloud.bigtable.data import BigtableDataClient, SetCell
from pydantic import BaseModel, Field

from odm import Cell, Entity, ItemInvalid, PrimaryKey, Store, Stored, Table
from odm.backends.bigtable import Bigtable

NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
ID: Final = UUID("0e4fd2a7-1b5c-4d3e-8f6a-9b7c5d3e1f20")
TEXT: Final = Cell("D:x", "text")
WHOLE: Final = Cell("D:x", "int64be")


class Address(BaseModel):
    town: str


FORMS: Final[list[tuple[bytes, Any, str, Any, Any]]] = [
    # the cell, the declaration that does not accept it, what the error says, one that does, and its value
    (b"0100", Annotated[int, TEXT], "would be written as 100", Annotated[str, TEXT], "0100"),
    (
        b"600.60",
        Annotated[Decimal, TEXT],
        'Stored(format="text") and Field(decimal_places=2)',
        Annotated[Decimal, Field(decimal_places=2), Stored(format="text"), TEXT],
        Decimal("600.60"),
    ),
    (b"yes", Annotated[bool, TEXT], 'Stored(format="yes/no")', Annotated[bool, Stored(format="yes/no"), TEXT], True),
    (b"1", Annotated[bool, TEXT], 'Stored(format="1/0")', Annotated[bool, Stored(format="number"), TEXT], True),
    (
        struct.pack(">q", 1),
        Annotated[bool, TEXT],
        "the encoding that the other program writes",
        Annotated[bool, Stored(format="number"), WHOLE],
        True,
    ),
    (
        b"2026-01-05T12:00Z",
        Annotated[datetime, TEXT],
        'Stored(format="OffsetDateTime")',
        Annotated[datetime, Stored(format="OffsetDateTime"), TEXT],
        NOON,
    ),
    (
        b"2026-01-05T12:00:00.5Z",
        Annotated[datetime, Stored(format="Instant"), TEXT],
        'Stored(format="RFC3339Nano")',
        Annotated[datetime, Stored(format="RFC3339Nano"), TEXT],
        NOON.replace(microsecond=500_000),
    ),
    (b"2026-01-05T12:00:00.123456789Z", Annotated[datetime, TEXT], "declare it as str", Annotated[str, TEXT], None),
    (
        struct.pack(">q", 20458),
        Annotated[datetime, Stored(epoch="us"), WHOLE],
        "",
        Annotated[date, Stored(epoch="d"), WHOLE],
        date(2026, 1, 5),
    ),
    (
        b"1767614400.5",
        Annotated[datetime, Stored(epoch="s"), TEXT],
        'Stored(epoch="s.f")',
        Annotated[datetime, Stored(epoch="s.f"), TEXT],
        NOON.replace(microsecond=500_000),
    ),
    (
        str(ID).upper().encode(),
        Annotated[UUID, TEXT],
        'Stored(format="upper")',
        Annotated[UUID, Stored(format="upper"), TEXT],
        ID,
    ),
    (
        ID.bytes,
        Annotated[UUID, TEXT],
        'Stored(format="bytes")',
        Annotated[UUID, Stored(format="bytes"), Cell("D:x", "bytes")],
        ID,
    ),
    (
        b'{"town":"Rome"}',
        Annotated[Address, Stored(format="json.dumps"), TEXT],
        'Stored(format="JSON.stringify")',
        Annotated[Address, Stored(format="JSON.stringify"), TEXT],
        None,
    ),
    (
        b"aGVsbG8=",
        Annotated[bytes, Stored(format="hex"), TEXT],
        'Stored(format="base64")',
        Annotated[bytes, Stored(format="base64"), TEXT],
        b"hello",
    ),
]


@pytest.fixture
def client(bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    with BigtableDataClient(project="project") as made:
        yield made


def _model(address: str, number: int, annotation: Any) -> tuple[Any, Store]:
    table = Table(f"cells-{number}", row_style="verbatim")
    names = {"__annotations__": {"id": str, "x": annotation}, "primary": PrimaryKey("P#{id}")}
    return type("Product", (Entity,), names, table=table), Store(
        table, Bigtable("project", "instance", endpoint=address)
    )


@pytest.mark.parametrize("number", range(len(FORMS)), ids=[f"{one[0]!r}" for one in FORMS])
def test_a_cell_is_refused_or_declared(bigtable_emulator: str, client: Any, number: int) -> None:
    cell, wrong, says, right, value = FORMS[number]
    cls, db = _model(bigtable_emulator, number, right)
    db.create()
    with client.get_table("instance", f"cells-{number}") as table:
        table.mutate_row("P#1", [SetCell("D", "x", cell)])
        found: Any = db.get(cls, id="1")
        db.put(found)
        (stored,) = table.read_row("P#1").cells
        assert stored.value == cell
    if value is not None:
        assert found.x == value
        assert list(db.scan(cls, cls.x == value)) == [found]
    db.close()
    if says:
        cls, db = _model(bigtable_emulator, number, wrong)
        for read in (lambda: db.get(cls, id="1"), lambda: list(db.scan(cls))):
            with pytest.raises(
                ItemInvalid, match=r"a stored Product under .*P#1.* does not fit the model: x"
            ) as refused:
                read()
            assert says in str(refused.value)
        db.close()
