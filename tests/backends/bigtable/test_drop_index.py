"""An index is removed from the lists of items before its table is deleted, while others write the items."""

from collections.abc import Callable
from typing import Any

import pytest

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import CheckAndMutateRow, Entry, MutateRow, ReadRows, SetCell
from odm.backends.bigtable.client.native_admin import CreateTable, DeleteTable
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.index.repair import drop_index
from odm.backends.bigtable.rows.codec import Form, Listed, bookkeeping, stored
from odm.backends.bigtable.rows.keys import entry_row, index_table
from odm.errors import BackendError, Throttled
from odm.protocol.connection import run
from odm.protocol.requests import Sleep
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.families import kept

Send = Callable[[Any], Any]

SHOP, DAY = "unlisted", "unlisted.by_day"
SCHEMA = Schema(name=SHOP, entities={}, indexes={})
KEPT = Listed("by_name", Key("n", "s"), "q")


@pytest.fixture
def send(bigtable_emulator: str) -> Any:
    """Makes native requests to a table with two indexes, which is deleted at the end."""
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
    call = backend.connect(SCHEMA).call
    tables = {SHOP: {"d": 1, "c": 1}, DAY: {"i": 1}}
    for table, families in tables.items():
        call(CreateTable(table, kept(families)))
    yield call
    for table in tables:
        call(DeleteTable(table))


def put(send: Send, number: int, *, revision: str = "r", listed: bool = True, kept: bool = True) -> None:
    """Write an item and its entry."""
    entry = Listed("by_day", Key(f"day{number % 7}", f"{number:04}"), f"q{number}")
    key = Key("p", f"{number:04}")
    entries = (entry,) * listed + (KEPT,) * kept
    item = (SetCell("_t", b"Hat", 1000), SetCell("x", b"1", 1000))
    send(MutateRow(SHOP, Entry("#".join(key), (*item, *bookkeeping(revision, entries, 1000)))))
    cell = SetCell(entry.qualifier, "#".join(key).encode(), 1000, "i")
    send(MutateRow(index_table(SHOP, "by_day"), Entry(entry_row(entry.key, key), (cell,))))


def listed(send: Send) -> list[tuple[Any, tuple[Listed, ...], str]]:
    rows = send(ReadRows(SHOP)).rows
    found = [one for row in rows if (one := stored(row, Form({}))) is not None]
    return [(one.item["x"], one.entries, one.revision) for one in found]


def test_every_item_that_lists_it_is_changed_and_no_other(send: Send) -> None:
    for number in range(250):
        put(send, number, listed=number != 3, kept=number % 2 == 0)
    run(drop_index(SCHEMA, DAY, Retry()), send)
    found = listed(send)
    assert [(x, entries) for x, entries, _ in found] == [(1, (KEPT,) * (number % 2 == 0)) for number in range(250)]
    assert [revision == "r" for _, _, revision in found] == [number == 3 for number in range(250)]
    assert len({revision for _, _, revision in found}) == 250
    rows = send(ReadRows(SHOP, keys=("p#0001",))).rows
    assert {cell.qualifier for cell in rows[0].cells} == {b"_t", b"x", b"~r"}


def test_a_concurrent_write_of_an_item_is_kept(send: Send) -> None:
    put(send, 1)
    waited: list[Sleep] = []

    def interfere(native: Any) -> Any:
        if isinstance(native, Sleep):
            waited.append(native)
            return None
        if isinstance(native, CheckAndMutateRow) and not waited:
            put(send, 1, revision="other", kept=False)
        return send(native)

    run(drop_index(SCHEMA, DAY, Retry()), interfere)
    assert [entries for _, entries, _ in listed(send)] == [()]
    assert len(waited) == 1


def test_it_stops_when_other_writers_keep_changing_an_item(send: Send) -> None:
    put(send, 1)
    with pytest.raises(Throttled, match="other writers kept changing 'p#0001'"):
        run(
            drop_index(SCHEMA, DAY, Retry(overall=0)),
            lambda native: False if isinstance(native, CheckAndMutateRow) else send(native),
        )


def test_an_entry_of_a_missing_item_is_ignored(send: Send) -> None:
    send(MutateRow(DAY, Entry("a##b##c##d", (SetCell("q", b"c#d", 1000, "i"),))))
    run(drop_index(SCHEMA, DAY, Retry()), send)
    assert listed(send) == []


@pytest.mark.parametrize(
    ("row_key", "cell"),
    [("AAPL", SetCell("q", b"p#0001", 1000, "i")), ("a##b##p##0001", SetCell("q", b"\xff", 1000, "i"))],
    ids=["another key", "another value"],
)
def test_a_cell_of_another_program_stops_it(send: Send, row_key: str, cell: SetCell) -> None:
    """Deleting the table would delete that cell."""
    put(send, 1)
    send(MutateRow(DAY, Entry(row_key, (cell,))))
    with pytest.raises(BackendError, match=f"row '{row_key}' has cells that odm did not write"):
        run(drop_index(SCHEMA, DAY, Retry()), send)
