"""Stored items and rows, without loss, in the form that the entities of a table declare for their attributes.

Each attribute is one cell, as `odm.backends.bigtable.rows.cells` writes it. Two kinds of fields differ, so that the
server can change parts of them: a Counter is a 64-bit number in its own column family, and each member of a field in
Columns has its own column::

    d:_t = Order    d:total = 12.5    c:views = (8 bytes)    d:tags = {"$set": []}    d:tags#new =    d:tags#felt =

An attribute that all entities of the table declare as text is written and read as the text itself. All other cells show
their type.

Reads do not use the declarations of Counters and Columns, so they include values that were stored before a field had
such a declaration: a number in a plain cell is added to the counter, and members in columns to a plain set or map.

In addition to the item, a row has ``~r``, the id of the attempt that wrote it last, and ``_ix``, the list of its index
entries. A row without ``_t`` is not an item: an increment of a Counter leaves such a *ghost* if there was no item.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, Final, Literal, TypeAlias

from odm.backends.bigtable.client.filters import Filter, ValueIs, chain, interleave, newest
from odm.backends.bigtable.client.native import COUNTERS, FAMILY, Column, DeleteColumn, Mutation, Row, SetCell
from odm.backends.bigtable.rows.cells import (
    EMPTY_MAP,
    EMPTY_SET,
    LISTED,
    REVISION,
    SIDE_COLUMNS,
    Count,
    Member,
    Shape,
    SideColumn,
    Slot,
    member_qualifier,
    qualifier,
    read,
    read_counter,
    read_member,
    read_text,
    set_member,
    shape_of,
    write,
    write_counter,
    write_text,
)
from odm.backends.bigtable.rows.keys import is_wide
from odm.backends.bigtable.rows.ownership import REMOVED, Owned, owned_by, raw_cells
from odm.backends.bigtable.rows.placement import USUAL, Placement, misread, placement_of
from odm.cache import Cache
from odm.codec import TAG, Draft
from odm.codec.types.stored import NULL, TEXT
from odm.errors import BackendError, BadValue, ItemTooLarge
from odm.expressions.nodes import Item, Value
from odm.immutable import Immutable, field
from odm.schema.entity import Key
from odm.schema.model import Schema

NO_NAMES: Final = frozenset[str]()

Kind: TypeAlias = Literal["counter", "columns"]


class Form(Immutable, dict=True):
    """How the attributes of a table are stored; an attribute not named here is in one cell that shows its type.

    Attributes:
        kinds: which attributes are Counters or in Columns, by stored name.
        disputed: stored names that have different kinds in different entities of the table. They are written to one
            cell, and only after a read of the row.
        texts: stored names that all entities of the table declare as text, if they have them.
        tags: the tags of the entities; an item with another tag belongs to another program. None: every tag is odm's.
        owned: distinguishes odm's rows from those of other programs.
        placements: where the cells of entities stand, by tag; an entity that is not named here has the usual form.
        aging: by tag, the entities whose items Bigtable deletes by their age, with the attributes that have a family or
            a cell of their own.
        aged_families: the families whose garbage collection may delete also the newest cell of a column, by its age.
        readers: how to read the cells of ``texts``.
        encodes: some attributes have encodings of their own, which may not be able to read a cell.
    """

    kinds: Mapping[str, Kind]
    disputed: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    tags: frozenset[str] | None = None
    owned: Owned = field(factory=Owned)
    placements: Mapping[str, Placement] = field(factory=dict)
    aging: Mapping[str, frozenset[str]] = field(factory=dict)
    aged_families: frozenset[str] = frozenset()

    @cached_property
    def readers(self) -> Mapping[str, Callable[[bytes], Value]]:
        return dict.fromkeys(self.texts, read_text)

    @cached_property
    def predicates(self) -> Cache[tuple[object, ...], Any]:
        """By condition; Any, because `odm.backends.bigtable.rows.predicates`, which fills it, imports this module."""
        return Cache()

    @cached_property
    def updates(self) -> Cache[tuple[object, ...], Any]:
        """By kind of update; Any, as `odm.backends.bigtable.rows.mutations`, which fills it, imports this module."""
        return Cache()

    @cached_property
    def encodes(self) -> bool:
        return any(spot.form for placement in self.placements.values() for spot in placement.spots.values())

    @classmethod
    def of(cls, schema: Schema) -> "Form":
        """The form of a table's attributes."""
        said: dict[str, set[Kind | None]] = {}
        others: set[str] = set()
        counters: set[str] = set()
        wide = is_wide(schema)  # then Counters are in an aggregate family, too
        for entity in schema.entities.values():
            for part in entity.codec.record.fields.values():
                counted = part.name in entity.counters or (wide and entity.aggregates.get(part.name) == "sum")
                kind: Kind | None = "counter" if counted else "columns" if part.name in entity.columns else None
                said.setdefault(part.stored, set()).add(kind)
                if kind == "counter":
                    counters.add(qualifier(part.stored))
                if part.type.kinds - NULL != TEXT:
                    others.add(part.stored)
        agreed: dict[str, Kind] = {
            name: kind for name, kinds in said.items() if len(kinds) == 1 for kind in kinds if kind is not None
        }
        disputed = frozenset(name for name, kinds in said.items() if len(kinds) > 1)
        texts = frozenset(said.keys() - others)
        rows = schema.verbatim_rows
        found = {tag: placement_of(entity, texts, wide=wide, rows=rows) for tag, entity in schema.entities.items()}
        placements = {tag: placement for tag, placement in found.items() if not placement.usual}
        tags = frozenset(schema.entities) or None  # without entities, any tag may be odm's
        aged = frozenset(name for name, rule in schema.families.items() if rule is not None and rule.by_age)
        owned = owned_by(frozenset(counters), placements)
        return cls(agreed, disputed, texts, tags, owned, placements, _aging(schema), aged)

    def placement(self, tag: Value) -> Placement:
        """Where the cells of an item with this tag stand."""
        return self.placements.get(tag, USUAL) if isinstance(tag, str) else USUAL

    def misread(self, row: Row) -> frozenset[str]:
        """The attributes of a row of the usual form whose cells their encodings cannot read, by stored name."""
        return misread(row) if self.encodes else NO_NAMES

    def is_strange(self, tag: Value) -> bool:
        """Whether an item with this tag belongs to another program."""
        return not isinstance(tag, str) or (self.tags is not None and tag not in self.tags)

    def other_tags(self, tag: str) -> Filter | None:
        """Returns the tag of an item of another entity of the table; None if there is no other."""
        homes: dict[str, list[str]] = {}
        for other in sorted(self.tags or ()):
            if other != tag:
                homes.setdefault(self.placement(other).home, []).append(other)
        tags = (
            chain(newest(home, TAG), interleave(*(ValueIs(write(tag)) for tag in them))) for home, them in homes.items()
        )
        return interleave(*tags) if homes else None

    def renewed(self, item: Item) -> Collection[str]:
        """The attributes that every write of an item writes again, also unchanged ones.

        Bigtable deletes cells by their age, each by itself. So in an item that is deleted by its age, all cells are as
        old as the last write: otherwise the tag would be deleted before the attributes that were written later.
        """
        tag = item.get(TAG)
        apart = self.aging.get(tag) if isinstance(tag, str) else None
        return () if apart is None else [name for name in item if name not in apart]

    def kind(self, name: str) -> Kind | None:
        """How an attribute is stored; None: in one plain cell."""
        return self.kinds.get(name)

    def read(self, name: str, cell: bytes) -> Value:
        """The value in the plain cell of an attribute; it raises what `cells.read` raises."""
        return self.readers.get(name, read)(cell)

    def write(self, name: str, value: Value) -> bytes:
        """The plain cell of an attribute.

        Raises:
            BadValue: the value cannot be stored, or is not text although the attribute is declared as text.
        """
        return write_text(value) if name in self.texts else write(value)


def _aging(schema: Schema) -> dict[str, frozenset[str]]:
    rules = {tag: schema.families.get(entity.family or "") for tag, entity in schema.entities.items()}
    aged = {tag for tag, rule in rules.items() if rule is not None and rule.by_age}
    apart = {tag: (*schema.entities[tag].families, *schema.entities[tag].cells) for tag in aged}
    return {tag: frozenset(names) for tag, names in apart.items()}


MAX_QUALIFIER = 16 * 1024
MAX_CELL = 100 * 1024 * 1024
MAX_CELLS = 99_990
"""The maximum bytes of a qualifier and of a cell, and cells of an item (google.bigtable.v2, data.proto). A request has
at most 100,000 mutations of a row, some of which are not cells of the item."""

SURELY_FITS = MAX_QUALIFIER // 4
"""A qualifier of this many characters fits, because UTF-8 has at most 4 bytes a character."""

_CELL: Final = partial(tuple.__new__, SetCell)
"""Makes a SetCell of a tuple, in less time than a call of the class."""

NO_MEMBERS: Final = frozenset[Any]()
"""An empty set, which is the same as a missing attribute."""

_REVISION, _LISTED = SideColumn(REVISION), SideColumn(LISTED)

UNREADABLE: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError)
"""The errors that reading a cell raises if odm did not write it."""


class Listed(Immutable):
    """An index entry in the list of the item's row: index, index key, and the qualifier of the entry's column."""

    index: str
    key: Key
    qualifier: str


class Stored(Immutable):
    """An item, with its revision and index entries.

    Attributes:
        item: the stored item.
        revision: the id of the attempt that wrote the item last; "" in a row that odm did not write.
        entries: the index entries that the item lists.
        row: the row itself.
    """

    item: Item
    revision: str
    entries: tuple[Listed, ...]
    row: Row


def stored(row: Row | None, form: Form) -> Stored | None:
    """The item of a row, with its revision and index entries; None if there is no row, or no item in it.

    If the list of entries in an item of another program cannot be read, it counts as empty.

    Raises:
        BackendError: a cell has a form that odm does not write.
    """
    item = None if row is None else decode(row, form)
    if item is None or row is None:
        return None
    cells = _cells_of(row)
    revision = cells.get(_REVISION, b"").decode(errors="backslashreplace")
    entries = entries_listed(row, form.is_strange(item.get(TAG))) if _LISTED in cells else ()
    return Stored(item, revision, entries, row)


def entries_listed(row: Row, strange: bool) -> tuple[Listed, ...]:
    """As `listed`; empty if the list in an item of another program cannot be read."""
    try:
        return listed(row)
    except BackendError:
        if not strange:
            raise
        return ()


def listed(row: Row) -> tuple[Listed, ...]:
    """The index entries that an item lists.

    Raises:
        BackendError: the list has a form that odm does not write.
    """
    try:
        return read_listing(_cells_of(row).get(SideColumn(LISTED), b"[]"))
    except UNREADABLE as fault:
        raise _foreign(row, f"{FAMILY}:{LISTED}", fault) from fault


def read_listing(text: bytes) -> tuple[Listed, ...]:
    """The index entries of a list, as `listing` writes it. Raises one of `UNREADABLE` if it did not write it."""
    return tuple(Listed(index, Key(*key), column) for index, *key, column in json.loads(text))


def listing(entries: Sequence[Listed]) -> bytes:
    """The list of index entries, as an item has it."""
    rows: list[list[Any]] = [[entry.index, *entry.key, entry.qualifier] for entry in entries]
    return json.dumps(rows, ensure_ascii=False).encode()


def entries_of(row: Row) -> dict[str, Key]:
    """The keys of an item in its indexes, by the name of the index; raises the same errors as `listed`."""
    return {entry.index: entry.key for entry in listed(row)}


def is_item(row: Row, form: Form) -> bool:
    """Whether the row holds an item, of odm or of another program."""
    return _is_item(_shape_of(row), row) or form.owned.is_strange(row)


def items_among(rows: Iterable[Row], form: Form) -> list[Row]:
    """The rows for which `is_item` holds; their columns are only looked up if they are not those of the row before."""
    items: list[Row] = []
    columns: tuple[Column, ...] | None = None
    tag: int | None = None
    for row in rows:
        if row.columns is not columns:
            columns, tag = row.columns, _shape_of(row).places.get(TAG)
        if (tag is not None and row.values[tag]) or form.owned.is_strange(row):
            items.append(row)
    return items


def decode(row: Row, form: Form) -> dict[str, Value] | None:
    """The item of a row, without empty sets; None if the row does not hold an item.

    A row of another program that cannot be read as an item is returned as its raw cells, by column.

    Raises:
        BackendError: a cell has a form that odm does not write.
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
    """An attribute with its members in columns, which take precedence over members in its plain cell.

    The caller ignores members without a plain cell: they remain from a removed attribute.

    Raises:
        ValueError, TypeError, LookupError or RecursionError: a member has a form that odm does not write.
    """
    if isinstance(whole, frozenset):
        return whole.union(map(read_member, members))
    return whole | {key: read(cell) for key, cell in members.items()} if isinstance(whole, dict) else whole


def _join_counters(item: dict[str, Value], row: Row) -> None:
    """Add counters to the numbers in plain cells. A plain cell that is not an integer stays, without the counter."""
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
    """The cells of an item, without its revision and list of index entries.

    Args:
        item: the stored item.
        form: the form of its table.
        row_key: the item's row key, for messages.
        now: the cells' timestamp, in microseconds.

    Raises:
        BadValue: an attribute's name or value cannot be stored.
        ItemTooLarge: there are too many cells, or a cell is too large.
    """
    if not item.get(TAG):
        raise BadValue(f"the item {row_key!r} has no tag: every item has the name of its entity as {TAG!r}")
    cells_: list[SetCell] = []
    for name, value in item.items():
        if name in form.kinds:
            cells_ += attribute_cells(name, value, form, row_key, now)
        else:
            cells_.append(_plain_cell(name, value, form, row_key, now))
    if len(cells_) > MAX_CELLS:
        raise ItemTooLarge(f"the item {row_key!r} has {len(cells_)} cells; odm can write at most {MAX_CELLS}")
    return tuple(cells_)


def attribute_cells(name: str, value: Value, form: Form, row_key: str, now: int) -> tuple[SetCell, ...]:
    """The cells of one attribute.

    Raises:
        BadValue: its name or value cannot be stored.
        ItemTooLarge: a cell is too large.
    """
    parts = tuple(_in_parts(name, value, form.kind(name), row_key, now))
    if not parts:
        return (_plain_cell(name, value, form, row_key, now),)
    for cell in parts:
        if len(cell.qualifier) > SURELY_FITS or len(cell.value) > MAX_CELL or name in SIDE_COLUMNS:
            check_cell(cell.qualifier, cell.value, name, row_key)
    return parts


def _in_parts(name: str, value: Value, kind: Kind | None, row_key: str, now: int) -> Iterator[SetCell]:
    """The cells of a Counter or of an attribute in Columns; empty for an attribute in one plain cell."""
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
        raise bad_attribute(error, name, row_key) from error


def _plain_cell(name: str, value: Value, form: Form, row_key: str, now: int) -> SetCell:
    try:
        cell = form.write(name, value)
    except BadValue as error:
        raise bad_attribute(error, name, row_key) from error
    column = qualifier(name)
    if len(column) > SURELY_FITS or len(cell) > MAX_CELL or name in SIDE_COLUMNS:
        check_cell(column, cell, name, row_key)
    return SetCell(column, cell, now)


def bad_attribute(error: BadValue, name: str, row_key: str) -> BadValue:
    """The error of a value that cannot be stored, with its attribute and item."""
    return BadValue(f"attribute {name!r} of the item {row_key!r}: {error}")


def check_cell(column: str, cell: bytes, name: str, row_key: str) -> None:
    """Refuse a name that is reserved, or a cell that Bigtable does not allow. Raises BadValue or ItemTooLarge."""
    if name in SIDE_COLUMNS:
        raise BadValue(f"the item {row_key!r} has an attribute {name!r}: that name is reserved")
    if (size := len(column.encode())) > MAX_QUALIFIER:
        raise BadValue(
            f"attribute {name[:40]!r} of the item {row_key!r} needs the column qualifier {column[:40]!r}… of {size} "
            f"bytes; Bigtable allows {MAX_QUALIFIER}"
        )
    if len(cell) > MAX_CELL:
        raise ItemTooLarge(
            f"attribute {name!r} of the item {row_key!r} has {len(cell)} bytes; Bigtable allows {MAX_CELL} in a cell"
        )


def attribute_gone(name: str, row: Row | None, form: Form) -> tuple[DeleteColumn, ...]:
    """The mutations that remove an attribute: they delete all columns that hold or may hold it.

    Without the row, these are only the columns that the form names. Columns of members then remain, and would be
    members again if the attribute were set again.
    """
    column = qualifier(name)
    gone = [DeleteColumn(column)]
    if form.kind(name) == "counter":  # an increment may have made it since the row was read
        gone.append(DeleteColumn(column, COUNTERS))
    whole, member = column.encode(), f"{column}#".encode()
    for cell in () if row is None else row.cells:
        if cell.family == COUNTERS and cell.qualifier == whole and form.kind(name) != "counter":
            gone.append(DeleteColumn(column, COUNTERS))
        elif cell.family == FAMILY and cell.qualifier.startswith(member):
            gone.append(DeleteColumn(cell.qualifier.decode()))
    return tuple(gone)


def bookkeeping(revision: str, entries: Sequence[Listed] | None, now: int) -> tuple[Mutation, ...]:
    """The mutations for ``~r`` and ``_ix``, which every write of an item's row makes.

    Args:
        revision: the id of the attempt.
        entries: the index entries of the item after the write; None: unchanged.
        now: the cells' timestamp, in microseconds.
    """
    attempt = (DeleteColumn(REVISION), SetCell(REVISION, revision.encode(), now))
    return attempt if entries is None else (*attempt, DeleteColumn(LISTED), *_listed(entries, now))


def replacement(
    item: Item, form: Form, row_key: str, revision: str, entries: Sequence[Listed], now: int
) -> tuple[Mutation, ...]:
    """The mutations that replace an item's families ``d`` and ``c``; see `cells` and `bookkeeping`."""
    if type(item) is Draft and item.most <= MAX_CELL:  # has its cells, which are neither too large nor too many
        mutations = tuple([_CELL((column, cell, now, FAMILY)) for column, cell in item.form])
    else:
        mutations = cells(item, form, row_key, now)
    return (*REMOVED, *mutations, SetCell(REVISION, revision.encode(), now), *_listed(entries, now))


def _listed(entries: Sequence[Listed], now: int) -> tuple[SetCell, ...]:
    """The cell with the list of index entries; no cell if there are no entries."""
    return (SetCell(LISTED, listing(entries), now),) if entries else ()


def _foreign(row: Row, column: str, fault: Exception) -> BackendError:
    return BackendError(
        f"odm did not write the row {row.text!r}: its cell {column} cannot be read ({fault}). Use the table only "
        "with odm, or delete the row or the cell"
    )


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
    "items_among",
    "joined",
    "listed",
    "replacement",
    "stored",
]
