"""Rows from stored items and back, exactly.

A cell an attribute, as `odm.backends.bigtable.cells` writes it, but two kinds of fields, which the server itself can
change in part: a Counter is a 64-bit number in a family of its own, and each member of Columns has a column::

    d:_t = Order    d:total = 12.5    c:views = (8 bytes)    d:tags = {"$set": []}    d:tags#new =    d:tags#felt =

An attribute that every entity of the table which has it declares as text is written as the text itself, and read as
text whatever it looks like. All others show their type by their form.

Rows are read without knowing which fields are Counters or in Columns, so what was written before a field got its marker
still counts: a number in a plain cell is added to the counter, and a plain set or map is joined by the members in
columns.

Beside the item a row holds ``~r``, the id of the attempt that wrote it last, and ``_ix``, the index entries it has. A
row without ``_t`` is no item: increments of counters leave such *ghosts* where there was nothing.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from attrs import frozen

from odm.backends.bigtable.cells import (
    EMPTY_MAP,
    EMPTY_SET,
    member_qualifier,
    qualifier,
    read,
    read_counter,
    read_member,
    set_member,
    write,
    write_counter,
)
from odm.backends.bigtable.columns import (
    LISTED,
    REVISION,
    SIDE_COLUMNS,
    Count,
    Member,
    Shape,
    SideColumn,
    Slot,
    shape_of,
)
from odm.backends.bigtable.form import Form, Kind
from odm.backends.bigtable.native import COUNTERS, FAMILY, Column, DeleteColumn, Mutation, Row, SetCell
from odm.backends.bigtable.ownership import REMOVED, raw_cells
from odm.codec import TAG, Draft
from odm.errors import BackendError, BadValue, ItemTooLarge
from odm.expressions.nodes import Item, Value
from odm.schema.entity import Key

__all__ = [
    "LISTED",
    "REVISION",
    "TAG",
    "Listed",
    "Stored",
    "attribute_cells",
    "attribute_gone",
    "bookkeeping",
    "cells",
    "decode",
    "entries_of",
    "is_item",
    "joined",
    "listed",
    "replacement",
    "stored",
]

MAX_QUALIFIER = 16 * 1024
MAX_CELL = 100 * 1024 * 1024
MAX_CELLS = 99_990
"""google.bigtable.v2, data.proto: bytes of a qualifier and a cell; a row is replaced by at most 100,000 mutations, of
which some are for what is no cell of the item."""

SURELY_FITS = MAX_QUALIFIER // 4
"""Characters of a column's name, none of which has more than 4 bytes."""

NO_MEMBERS: Final = frozenset[Any]()
"""How an empty set is read, which is stored as absence."""

UNREADABLE: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError)
"""What reading a cell raises that odm did not write."""


@frozen
class Listed:
    """An index entry as the item's row lists it: where it stands, and in which column."""

    index: str
    key: Key
    qualifier: str


@frozen
class Stored:
    """An item with what its row holds beside it.

    Attributes:
        item: the stored item.
        revision: the id of the attempt that wrote it last; "" in a row that something else wrote.
        entries: the index entries that it has now.
        row: the row itself.
    """

    item: Item
    revision: str
    entries: tuple[Listed, ...]
    row: Row


def stored(row: Row | None, form: Form) -> Stored | None:
    """What a row of a table of this form holds; None if there is no row, or no item in it.

    Of what another program wrote, a list of entries that cannot be read is none.

    Raises:
        BackendError: a cell is not as odm writes it.
    """
    item = None if row is None else decode(row, form)
    if item is None or row is None:
        return None
    revision = _cells_of(row).get(SideColumn(REVISION), b"").decode(errors="backslashreplace")
    return Stored(item, revision, entries_listed(row, form.is_strange(item.get(TAG))), row)


def entries_listed(row: Row, strange: bool) -> tuple[Listed, ...]:
    """As `listed`; none where the list of another program's item cannot be read."""
    try:
        return listed(row)
    except BackendError:
        if not strange:
            raise
        return ()


def listed(row: Row) -> tuple[Listed, ...]:
    """The index entries that an item has.

    Raises:
        BackendError: the list of them is not as odm writes it.
    """
    found = _cells_of(row).get(SideColumn(LISTED), b"[]")
    try:
        return tuple(Listed(index, Key(*key), column) for index, *key, column in json.loads(found))
    except UNREADABLE as fault:
        raise _foreign(row, f"{FAMILY}:{LISTED}", fault) from fault


def entries_of(row: Row) -> dict[str, Key]:
    """The index entries that an item has, by the name of the index; errors as of `listed`."""
    return {entry.index: entry.key for entry in listed(row)}


def is_item(row: Row, form: Form) -> bool:
    """Whether the row holds an item, of odm or of another program."""
    return _is_item(_shape_of(row), row) or form.owned.is_strange(row)


def decode(row: Row, form: Form) -> dict[str, Value] | None:
    """The item of a row of a table of this form; None if it holds none. An empty set is no attribute.

    Of a row that another program wrote, where it cannot be read otherwise, its cells as they are, by column.

    Raises:
        BackendError: a cell is not as odm writes it.
    """
    shape = _shape_of(row)
    if not _is_item(shape, row):
        return raw_cells(row) if form.owned.is_strange(row) else None
    reader = form.readers.get
    try:
        item = {
            slot: reader(slot, read)(cell)
            for slot, cell in zip(shape.slots, row.values, strict=True)
            if type(slot) is str
        }
        if shape.counted or shape.parted:
            _join_counters(item, row)
            _join_members(item, row)
    except UNREADABLE as fault:
        if form.is_strange(tag := _tag(shape, row)):
            return raw_cells(row) | ({} if tag is None else {TAG: tag})
        raise _foreign(row, _unreadable(row), fault) from fault
    return {name: value for name, value in item.items() if value != NO_MEMBERS}


def _tag(shape: Shape, row: Row) -> str | None:
    """The tag of an item, if it is text."""
    cell = row.values[shape.places[TAG]]
    try:
        return cell.decode()
    except UnicodeDecodeError:
        return None


def _is_item(shape: Shape, row: Row) -> bool:
    tag = shape.places.get(TAG)
    return tag is not None and row.values[tag] != b""


def joined(whole: Value, members: Mapping[str, bytes]) -> Value:
    """An attribute with its members in columns, which win.

    Without the marker beside them they are left over from an attribute that is gone.

    Raises:
        ValueError, TypeError, LookupError or RecursionError: nobody writes such members.
    """
    if isinstance(whole, frozenset):
        return whole.union(map(read_member, members))
    return whole | {key: read(cell) for key, cell in members.items()} if isinstance(whole, dict) else whole


def _join_counters(item: dict[str, Value], row: Row) -> None:
    """Add counters to the numbers from before; what is no number cannot be counted, and stays."""
    for slot, cell in _cells_of(row).items():
        if isinstance(slot, Count):
            counted, before = read_counter(cell), item.get(slot.name, 0)
            item[slot.name] = before + counted if type(before) is int else before


def _join_members(item: dict[str, Value], row: Row) -> None:
    members: dict[str, dict[str, bytes]] = {}
    for slot, cell in _cells_of(row).items():
        if isinstance(slot, Member) and slot.name in item:
            members.setdefault(slot.name, {})[slot.member] = cell
    for name, its in members.items():
        item[name] = joined(item[name], its)


def _cells_of(row: Row) -> dict[Slot, bytes]:
    return dict(zip(_shape_of(row).slots, row.values, strict=True))


def _shape_of(row: Row) -> Shape:
    try:
        return shape_of(row.columns)
    except ValueError as fault:
        raise _foreign(row, _unreadable(row), fault) from fault


def _unreadable(row: Row) -> str:
    """The first column whose name or cell cannot be read."""
    for cell in row.cells:
        try:
            (slot,) = shape_of((Column(cell.family, cell.qualifier),)).slots
            _try(slot, cell.value)
        except UNREADABLE:
            return f"{cell.family}:{cell.qualifier.decode(errors='backslashreplace')}"
    return f"{FAMILY}:*"


def _try(slot: Slot, cell: bytes) -> None:
    if isinstance(slot, Count):
        read_counter(cell)
    elif isinstance(slot, str | Member):
        read(cell)
    if isinstance(slot, Member) and not cell:
        read_member(slot.member)


def cells(item: Item, form: Form, row_key: str, now: int) -> tuple[SetCell, ...]:
    """The cells of an item, without the bookkeeping.

    Args:
        item: the stored item.
        form: of its table.
        row_key: where it goes, for messages.
        now: the cells' timestamp, in microseconds.

    Raises:
        BadValue: an attribute's name or value cannot be stored.
        ItemTooLarge: it has too many cells, or one has too many bytes.
    """
    if not item.get(TAG):
        raise BadValue(f"the item {row_key!r} has no tag: every item has the name of its entity as {TAG!r}")
    made: list[SetCell] = []
    for name, value in item.items():
        if name in form.kinds:
            made += attribute_cells(name, value, form, row_key, now)
        else:
            made.append(_plain_cell(name, value, form, row_key, now))
    if len(made) > MAX_CELLS:
        raise ItemTooLarge(f"the item {row_key!r} has {len(made)} cells; Bigtable takes {MAX_CELLS} in one write")
    return tuple(made)


def attribute_cells(name: str, value: Value, form: Form, row_key: str, now: int) -> tuple[SetCell, ...]:
    """The cells of one attribute.

    Raises:
        BadValue: its name or value cannot be stored.
        ItemTooLarge: a cell has too many bytes.
    """
    made = tuple(_in_parts(name, value, form.kind(name), row_key, now))
    if not made:
        return (_plain_cell(name, value, form, row_key, now),)
    for cell in made:
        _check(cell.qualifier, cell.value, name, row_key)
    return made


def _in_parts(name: str, value: Value, kind: Kind | None, row_key: str, now: int) -> Iterator[SetCell]:
    """The cells of an attribute that is not in one plain cell; none for any other."""
    try:
        if kind == "counter" and type(value) is int:
            yield SetCell(qualifier(name), write_counter(value), now, COUNTERS)
        elif kind == "columns" and isinstance(value, frozenset):
            yield SetCell(qualifier(name), EMPTY_SET, now)
            for member in sorted(value):
                yield SetCell(member_qualifier(name, set_member(member)), b"", now)
        elif kind == "columns" and isinstance(value, dict):
            yield SetCell(qualifier(name), EMPTY_MAP, now)
            for key, part in value.items():
                yield SetCell(member_qualifier(name, key), write(part), now)
    except BadValue as error:
        raise _bad(error, name, row_key) from error


def _plain_cell(name: str, value: Value, form: Form, row_key: str, now: int) -> SetCell:
    try:
        cell = form.write(name, value)
    except BadValue as error:
        raise _bad(error, name, row_key) from error
    column = qualifier(name)
    if len(column) > SURELY_FITS or len(cell) > MAX_CELL or name in SIDE_COLUMNS:
        _check(column, cell, name, row_key)
    return SetCell(column, cell, now)


def _bad(error: BadValue, name: str, row_key: str) -> BadValue:
    return BadValue(f"attribute {name!r} of the item {row_key!r}: {error}")


def _check(column: str, cell: bytes, name: str, row_key: str) -> None:
    if name in SIDE_COLUMNS:
        raise BadValue(f"the item {row_key!r} has an attribute {name!r}: that name is reserved")
    if (size := len(column.encode())) > MAX_QUALIFIER:
        raise BadValue(
            f"attribute {name[:40]!r} of the item {row_key!r} needs the column {column[:40]!r}… of {size} bytes; "
            f"Bigtable allows {MAX_QUALIFIER} in a column's name"
        )
    if len(cell) > MAX_CELL:
        raise ItemTooLarge(
            f"attribute {name!r} of the item {row_key!r} has {len(cell)} bytes; Bigtable allows {MAX_CELL} in a cell"
        )


def attribute_gone(name: str, row: Row | None, form: Form) -> tuple[DeleteColumn, ...]:
    """What takes an attribute away: all columns in which it stands or may stand.

    Without the row only what its form says: then members in columns stay, and would count again with their attribute.
    """
    column = qualifier(name)
    gone = [DeleteColumn(column)]
    if form.kind(name) == "counter":  # the server may have made it since the row was read
        gone.append(DeleteColumn(column, COUNTERS))
    whole, member = column.encode(), f"{column}#".encode()
    for cell in () if row is None else row.cells:
        if cell.family == COUNTERS and cell.qualifier == whole and form.kind(name) != "counter":
            gone.append(DeleteColumn(column, COUNTERS))
        elif cell.family == FAMILY and cell.qualifier.startswith(member):
            gone.append(DeleteColumn(cell.qualifier.decode()))
    return tuple(gone)


def bookkeeping(revision: str, entries: Sequence[Listed] | None, now: int) -> tuple[Mutation, ...]:
    """The cells that each write to an item's row leaves.

    Args:
        revision: the id of the attempt.
        entries: the index entries that the item has from now on; None: as before.
        now: the cells' timestamp, in microseconds.
    """
    attempt = (DeleteColumn(REVISION), SetCell(REVISION, revision.encode(), now))
    return attempt if entries is None else (*attempt, DeleteColumn(LISTED), *_listed(entries, now))


def replacement(
    item: Item, form: Form, row_key: str, revision: str, entries: Sequence[Listed], now: int
) -> tuple[Mutation, ...]:
    """All that makes the families of an item hold it and nothing else; see `cells` and `bookkeeping`."""
    if type(item) is Draft and item.most <= MAX_CELL:  # no cell, and no number of them, is too large in it
        made = tuple([SetCell(column, cell, now) for column, cell in item.form])
    else:
        made = cells(item, form, row_key, now)
    return (*REMOVED, *made, SetCell(REVISION, revision.encode(), now), *_listed(entries, now))


def _listed(entries: Sequence[Listed], now: int) -> tuple[SetCell, ...]:
    """The list of index entries; none for none."""
    if not entries:
        return ()
    rows: list[list[Any]] = [[entry.index, *entry.key, entry.qualifier] for entry in entries]
    return (SetCell(LISTED, json.dumps(rows, ensure_ascii=False).encode(), now),)


def _foreign(row: Row, column: str, fault: Exception) -> BackendError:
    return BackendError(
        f"the row {row.text!r} is not one that odm wrote: its cell {column} cannot be read ({fault}). Keep the table "
        "to odm, or delete the row or the cell"
    )
