"""Row keys: of items and of index entries, with binary parts, and as they are; and the row range of a query.

Each item is one row. Its row key is the partition key, the table's separator and the sort key; in a table without sort
keys it is the partition key. `odm.backends.bigtable.admin.schema` checks that no two keys have the same row key.

In a table with keys as they are, each part of a key is one escaped component. So no text of a key contains the
separators of row keys, and keys sort as before; see `odm.keys.text`.

Row keys may have binary parts, see `odm.keys.binary`. The procedures only see keys that are text, and sort as such.
Between them and the driver, `with_row_key_bytes` replaces the row keys of each native request by the text that the
driver sends as these bytes, and those of each response back.

An index is a separate table. The row key of an entry is index partition, index sort, item partition and item sort,
joined by ``##``; in a table without sort keys it ends with the item partition::

    OPEN  ##2024-01-01#o1##CUSTOMER#c1##ORDER#o1

No component of a key is empty, so no key contains ``##``, and a row key is unambiguous. Entries sort by index sort,
then by item key: a longer sort key continues with ``#`` and a component, or with another character, and both sort above
``##``. A space that pads a component sorts below ``##``; `check_entries` refuses indexes in which that would change
the order.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import permutations
from typing import Any, Final, Literal, TypeAlias, TypeVar, assert_never, cast

from odm.backends.bigtable.client.native import (
    ENTRIES,
    CheckAndMutateRow,
    Concurrent,
    Entry,
    MutateRow,
    MutateRows,
    Native,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    RowRange,
    Sample,
    Steps,
    Streamed,
)
from odm.backends.bigtable.client.native_admin import CreateTable, DropRows
from odm.errors import BackendError, ItemTooLarge, SchemaError
from odm.immutable import Immutable, evolve, field
from odm.keys import can_be_key, can_go_on_low, next_prefix
from odm.keys.text import escape, unescape
from odm.protocol import requests as req
from odm.protocol.changes import ChangePage
from odm.protocol.connection import Later
from odm.protocol.requests import Partitions, Position
from odm.schema.entity import EntitySchema, Key
from odm.schema.model import IndexSchema, Schema
from odm.schema.row_keys import UNAMBIGUOUS

MAX_ROW_KEY = 4096
"""The maximum bytes of a row key (google.bigtable.v2, data.proto: Row.key)."""


_KEY: Final = partial(tuple.__new__, Key)
_POSITION: Final = partial(tuple.__new__, Position)
"""Make a Key and a Position of a tuple; a scan makes one of each per row, and calls of the classes take longer."""


class RowKeys(Immutable):
    """How the row keys of a table are built.

    Attributes:
        join: the separator between partition and sort.
        hash_only: the items have no sort key.
        binary: keys have a character for each byte; see `odm.keys.binary`.
        entities: the entities of the models, by tag.
    """

    join: str
    hash_only: bool
    binary: bool = False
    entities: Mapping[str, EntitySchema] = field(factory=dict, eq=False, repr=False)

    @staticmethod
    def of(schema: Schema) -> "RowKeys":
        """Those of a table."""
        variant = VerbatimRowKeys if layout_of(schema) == "verbatim" else RowKeys
        return variant(schema.row_key_separator, schema.hash_only, schema.binary_row_keys, schema.entities)

    def row_key(self, key: Key) -> str:
        """The row key of an item.

        Raises:
            ItemTooLarge: the row key is longer than Bigtable allows.
        """
        return self._checked(key.partition if self.hash_only else f"{key.partition}{self.join}{key.sort}")

    def positions(self, partition: str) -> Callable[[str], Position]:
        """A function that returns the position of an item of a partition, from its row key."""
        if self.hash_only:
            return lambda _: Position(Key(partition))
        start = len(partition) + len(self.join)
        return lambda row_key: _POSITION((_KEY((partition, row_key[start:])), None))

    def range(self, partition: str, lo: str, hi: str | None) -> RowRange:
        """The rows of a partition whose sort key lies in ``[lo, hi)``; ``hi`` None is the partition's end.

        Raises:
            ItemTooLarge: a bound is longer than a row key may be.
        """
        if self.hash_only:
            return RowRange(partition, partition if lo else partition + "\0")
        head = partition + self.join
        return RowRange(self._checked(head + lo), next_prefix(head) if hi is None else self._checked(head + hi))

    def rows_of(self, tag: str | None, partitions: Partitions) -> tuple[str, str | None]:
        """The first row key of these partitions, and the one after the last; None: there is no end.

        Args:
            tag: the entity whose partitions they are; None: those of all.
            partitions: the range of partition keys.
        """
        lo, hi = partitions
        if self.hash_only:
            return lo, hi
        return _behind(lo), None if hi is None else _behind(hi)

    def start_of_partition(self, row_key: str) -> str:
        """The start of a part near a row key: a text without a whole partition and the separator after it.

        All rows of a partition begin with that partition and separator, so they are all before the start or all after
        it.
        """
        if self.hash_only:
            return row_key
        if self.join == UNAMBIGUOUS:
            return row_key.split(UNAMBIGUOUS, 1)[0]
        components = row_key.split("#")
        partitions = (entity.primary.partition for entity in self.entities.values())
        lengths = [len(partition.components) for partition in partitions if can_be_key(partition, components[:-1])]
        return "#".join(components[: min(lengths, default=len(components))])

    def key_of(self, row_key: str, tag: str) -> Key | None:
        """The key of an item, from its row key and tag; None if no model has the tag.

        The model defines how many components the partition has.
        """
        if self.hash_only:
            return Key(row_key)
        if self.join == UNAMBIGUOUS:
            partition, _, sort = row_key.partition(UNAMBIGUOUS)
            return Key(partition, sort)
        entity = self.entities.get(tag)
        if entity is None:
            return None
        parts, count = row_key.split("#"), len(entity.primary.partition.components)
        return Key("#".join(parts[:count]), "#".join(parts[count:]))

    def key_in(self, row_key: str) -> Key | None:
        """The key of an item that is gone, from its row key alone; None if no model makes such row keys.

        `odm.schema.row_keys` checks that all models that can make a row key divide it in the same way.
        """
        if self.hash_only:
            return Key(row_key)
        if self.join == UNAMBIGUOUS:
            return self.key_of(row_key, "") if UNAMBIGUOUS in row_key else None
        components = row_key.split("#")
        tags = (tag for tag, one in self.entities.items() if can_be_key(one.primary.partition, components[:-1]))
        return next((self.key_of(row_key, tag) for tag in tags), None)

    def _checked(self, row_key: str) -> str:
        return row_key if self.binary and len(row_key) <= MAX_ROW_KEY else checked(row_key)


class VerbatimRowKeys(RowKeys):
    """The row keys of other programs, which the models read by their templates."""

    def rows_of(self, tag: str | None, partitions: Partitions) -> tuple[str, str | None]:
        lo, hi = partitions
        return lo, hi if hi is None or self.hash_only else self._widened(tag, hi)

    def _widened(self, tag: str | None, hi: str) -> str | None:
        """The end of the rows of all partitions below a bound."""
        entity = self.entities.get(str(tag))
        if entity is None:
            return None
        read = entity.primary.partition.read
        heads = [hi[:size] for size in range(1, len(hi)) if read(hi[:size]) is not None]
        ends = [next_prefix(head + self.join) for head in heads]
        return None if None in ends else max([hi, *(end for end in ends if end is not None)])

    def start_of_partition(self, row_key: str) -> str:
        if self.hash_only:
            return row_key
        keys = (self.key_of(row_key, tag) for tag in self.entities)
        return min((key.partition for key in keys if key is not None), default=row_key)

    def key_of(self, row_key: str, tag: str) -> Key | None:
        """If the row key does not show where the key ends, it is all of it, as of a scan."""
        entity = None if self.hash_only else self.entities.get(tag)
        values = None if entity is None or entity.row is None else entity.row.read(row_key)
        if entity is None or values is None or entity.primary.sort is None:
            return Key(row_key)
        partition, sort = entity.primary.partition, entity.primary.sort
        if not values.keys() >= {*partition.fields, *sort.fields}:
            return Key(row_key)
        return Key(partition.written(values), sort.written(values))

    def key_in(self, row_key: str) -> Key | None:
        rows = ((tag, entity.row) for tag, entity in self.entities.items())
        tags = (tag for tag, row in rows if row is not None and row.read(row_key) is not None)
        return next((self.key_of(row_key, tag) for tag in tags), None)


def _behind(bound: str) -> str:
    """A bound of partition keys as one of row keys: behind a partition key is behind its rows."""
    return f"{bound[:-1]}$" if bound.endswith("\0") else bound


Layout: TypeAlias = Literal["row_per_item", "row_per_partition", "verbatim"]
"""The layouts of rows, by the options of a table: `layout=` and `row_style=`."""


def layout_of(schema: Schema) -> Layout:
    """The layout of the rows of a table."""
    if schema.verbatim_rows:
        return "verbatim"
    return "row_per_partition" if is_wide(schema) else "row_per_item"


def is_wide(schema: Schema) -> bool:
    """Whether a partition is a row. In a table without sort keys, it is one in either layout."""
    return schema.wide and not schema.hash_only


def checked(row_key: str) -> str:
    """The row key, unchanged.

    Raises:
        ItemTooLarge: the row key is longer than Bigtable allows.
    """
    size = len(row_key.encode("utf-8", "surrogateescape"))
    if size > MAX_ROW_KEY:
        raise ItemTooLarge(
            f"the row key {row_key[:40]!r}… has {size} bytes, and Bigtable allows {MAX_ROW_KEY}: shorten the values of "
            "its key fields"
        )
    return row_key


R = TypeVar("R", bound=req.Request | req.Check)


def with_row_keys(schema: Schema) -> Schema:
    """The schema with the separator that such keys need, and the ids of items in wide rows."""
    needed = schema.escapes_row_keys or is_wide(schema)
    return evolve(schema, row_key_join=UNAMBIGUOUS) if needed else schema


def steps_of(steps: Callable[[req.Request], Steps[Any]], request: req.Request) -> Steps[Any]:
    """The steps of a request with escaped keys; the keys of the response are as they are."""
    response = yield from steps(escaped(request))
    if isinstance(response, req.Page):
        return evolve(
            response,
            positions=[_position(position, unescape) for position in response.positions],
            next=response.next and _position(response.next, unescape),
            entries=[_entries(entries, unescape) for entries in response.entries],
        )
    if isinstance(response, ChangePage):
        return evolve(
            response,
            records=tuple(evolve(record, key=_changed_key(record.key, unescape)) for record in response.records),
        )
    return response


def row_key_of(schema: Schema, key: Key) -> str:
    """The row key of an item with this key, as the models make it; the opposite of `stored_key`.

    Raises:
        ItemTooLarge: the row key is longer than Bigtable allows.
    """
    return RowKeys.of(schema).row_key(_changed_key(key, escape) if schema.escapes_row_keys else key)


def stored_key(schema: Schema, key: Key) -> Key:
    """The key of a row, as the models make it."""
    return _changed_key(key, unescape) if schema.escapes_row_keys else key


def escaped(request: R) -> R:
    """The request with escaped keys."""
    return cast("R", _escaped(request))


def _changed_key(key: Key, change: Callable[[str], str]) -> Key:
    # The key of a scan is a whole row key.
    partition, _, sort = key.partition.partition(UNAMBIGUOUS) if change is unescape else (key.partition, "", "")
    return Key(change(partition), change(key.sort or sort))


def _position(position: req.Position, change: Callable[[str], str]) -> req.Position:
    index_key = position.index_key
    return req.Position(
        _changed_key(position.key, change), None if index_key is None else _changed_key(index_key, change)
    )


def _entries(entries: Any, change: Callable[[str], str]) -> dict[str, Any]:
    return {index: None if key is None else _changed_key(key, change) for index, key in entries.items()}


def _escaped(request: req.Request | req.Check) -> req.Request | req.Check:
    match request:
        case req.Get() | req.Merge() | req.Delete() | req.Check():
            return evolve(request, key=_changed_key(request.key, escape))
        case req.Put() | req.Update():
            return evolve(request, key=_changed_key(request.key, escape), entries=_entries(request.entries, escape))
        case req.BatchGet(keys):
            return evolve(request, keys=tuple(_changed_key(key, escape) for key in keys))
        case req.Transact(operations):
            return evolve(request, operations=tuple(map(escaped, operations)))
        case req.BatchWrite(operations):
            return evolve(request, operations=tuple(map(escaped, operations)))
        case req.BatchMerge(operations):
            return evolve(request, operations=tuple(map(escaped, operations)))
        case req.Query(partition, lo, hi):
            return evolve(
                request,
                partition=escape(partition),
                lo=escape(lo),
                hi=None if hi is None else escape(hi),
                after=request.after and _position(request.after, escape),
            )
        case req.Scan():
            return _escaped_scan(request)
        case req.Split() | req.ListShards() | req.ReadChanges():
            return request
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return request
        case req.IdentifyTable() | req.MeasureTable():
            return request
        case _:
            assert_never(request)


def _escaped_scan(request: req.Scan) -> req.Scan:
    if request.partitions is not None:
        lo, hi = request.partitions
        request = evolve(request, partitions=req.Partitions(escape(lo), None if hi is None else escape(hi)))
    if request.after is None:
        return request
    key = _changed_key(request.after.key, escape)
    row_key = f"{key.partition}{UNAMBIGUOUS}{key.sort}" if key.sort else key.partition
    return evolve(request, after=req.Position(Key(row_key)))


_R = TypeVar("_R")

_BEHIND_ALL: Final = b"\xff" * MAX_ROW_KEY


def with_row_key_bytes(schema: Schema, steps: Steps[_R]) -> Steps[_R]:
    """The same steps, whose native requests have the row keys that are sent."""
    return with_bytes(steps) if schema.binary_row_keys else steps


def with_bytes(steps: Steps[_R]) -> Steps[_R]:
    """The same for a table with binary row keys."""
    try:
        native = next(steps)
        while True:
            try:
                response = yield _sent(native)
            except Exception as failure:  # noqa: BLE001  # the steps decide about it
                native = steps.throw(failure)
            else:
                native = steps.send(_received(response))
    except StopIteration as end:
        result: _R = end.value
        return result


def key_text(schema: Schema, row_key: str) -> str:
    """A row key that a person wrote, as the procedures have it."""
    return row_key.encode("utf-8", "surrogateescape").decode("latin-1") if schema.binary_row_keys else row_key


def bytes_of(key: str) -> bytes | None:
    """The first row key that does not sort before a text; None: all do.

    A bound can have a character that is not a byte, such as the one behind all bytes.
    """
    try:
        return key.encode("latin-1")
    except UnicodeEncodeError as error:
        head = key[: error.start].encode("latin-1").rstrip(b"\xff")
        return head[:-1] + bytes([head[-1] + 1]) if head else None


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _sent_key(key: str) -> str:
    return _text(bytes_of(key) or _BEHIND_ALL)


def _range(span: RowRange) -> RowRange:
    end = None if span.end is None else bytes_of(span.end)
    start = bytes_of(span.start)
    # No row key is a start that has other characters than bytes: the one in its place is the first of the range.
    is_open = span.open and start is not None and start.decode("latin-1") == span.start
    start = _BEHIND_ALL if start is None else start
    return RowRange(_text(start), None if end is None else _text(end), is_open)


def _sent(native: Native) -> Native:
    match native:
        case ReadRows():
            return evolve(native, keys=tuple(map(_sent_key, native.keys)), range=_range(native.range))
        case MutateRow():
            return evolve(native, entry=_entry(native.entry))
        case MutateRows():
            return evolve(native, entries=tuple(map(_entry, native.entries)))
        case CheckAndMutateRow() | ReadModifyWriteRow():
            return evolve(native, key=_sent_key(native.key))
        case CreateTable():
            return evolve(native, splits=tuple(map(_sent_key, native.splits)))
        case DropRows():
            return native if native.prefix is None else evolve(native, prefix=_sent_key(native.prefix))
        case Concurrent(calls):
            return Concurrent(tuple(map(_sent, calls)))  # type: ignore[arg-type]  # a call stays one
        case Later():
            return evolve(native, steps=with_bytes(native.steps))
        case _:
            return native


def _entry(entry: Entry) -> Entry:
    return evolve(entry, key=_sent_key(entry.key))


def _received(response: Any) -> Any:
    match response:
        case Read():
            scanned = response.scanned
            if scanned is not None:
                scanned = scanned.encode("utf-8", "surrogateescape").decode("latin-1")
            return evolve(response, rows=tuple(map(_row, response.rows)), scanned=scanned)
        case Row():
            return _row(response)
        case Sample():
            return response._replace(key=_received_key(response.key))
        case Streamed():
            changes = [evolve(change, key=_received_key(change.key)) for change in response.changes]
            return evolve(response, changes=changes)
        case tuple() if type(response) is tuple:  # of samples, or of several calls
            return tuple(map(_received, response))
        case _:
            return response


def _row(row: Row) -> Row:
    return Row.parted(_received_key(row.key), row.columns, row.values, row.timestamps)


def _received_key(key: bytes) -> bytes:
    """The bytes of the text with a character for each byte of a row key."""
    return key.decode("latin-1").encode()


def index_table(table: str, index: str) -> str:
    """The table of an index."""
    return f"{table}.{index}"


def entry_row(index_key: Key, key: Key) -> str:
    """The row key of an item's entry.

    Args:
        index_key: the item's key in the index.
        key: the item's own key.

    Raises:
        ItemTooLarge: the row key is longer than Bigtable allows.
    """
    parts = (*index_key, *key) if key.sort else (*index_key, key.partition)
    return checked(UNAMBIGUOUS.join(parts))


def position(row_key: str) -> Position:
    """The index key and the item's key, from the row key of an entry.

    Raises:
        BackendError: the text is not the row key of an entry.
    """
    match row_key.split(UNAMBIGUOUS):
        case [partition, sort, *key] if 1 <= len(key) <= 2:
            return Position(Key(*key), Key(partition, sort))
    raise BackendError(
        f"an index table has the row {row_key!r}, which odm did not write: move it to another table, or delete it"
    )


def place_of(row_key: str, row_keys: RowKeys) -> Position | None:
    """As `position`; None if the text is not the row key of an entry in a table with these row keys."""
    try:
        found = position(row_key)
    except BackendError:
        return None
    return None if bool(found.key.sort) is row_keys.hash_only else found


def claims(row: Row, row_keys: RowKeys) -> tuple[str, ...]:
    """The qualifiers of odm's claims among the given cells of an index row.

    A claim is a cell in the family of entries whose value is the row key of the item that the index row's key names.
    All other cells of an index table belong to other programs.
    """
    place = place_of(row.text, row_keys)
    if place is None:
        return ()
    item = row_keys.row_key(place.key).encode("utf-8", "surrogateescape")
    mine = (cell.qualifier for cell in row.cells if cell.family == ENTRIES and cell.value == item)
    return tuple(name.decode() for name in mine if name and _is_text(name))


def is_odms(row: Row, row_keys: RowKeys) -> bool:
    """Whether all given cells of an index row are odm's claims."""
    return len(claims(row, row_keys)) == len(row.cells)


def _is_text(name: bytes) -> bool:
    return name.decode(errors="replace").encode() == name


def entry_range(partition: str, lo: str = "", hi: str | None = None) -> RowRange:
    """The entries of a partition whose sort key lies in ``[lo, hi)``; ``hi`` None is the partition's end.

    Raises:
        ItemTooLarge: a bound is longer than a row key may be.
    """
    head = partition + UNAMBIGUOUS
    return RowRange(checked(head + bound(lo)), checked(head + bound(hi)) if hi is not None else str(next_prefix(head)))


def bound(sort: str) -> str:
    """A bound of sort keys as a bound of row keys.

    If the bound extends a sort key (by ``#``, or by a zero byte to exclude it), the rows of that sort key are below the
    bound. These rows continue with ``##``. A longer sort key continues with ``#`` and ``$`` or a higher character, so
    ``#$`` separates the two.
    """
    key = sort.removesuffix("\0")
    if key.endswith("#"):
        return key + "$"
    return sort if key == sort else key + "#$"


def check_entries(table: str, index: IndexSchema) -> None:
    """Refuse an index whose entries would not sort like their keys.

    Raises:
        SchemaError: a sort key of one pattern can be a prefix of one of another pattern that continues with a space.
    """
    for one, other in permutations(index.patterns, 2):
        if one.sort is None or other.sort is None or not can_go_on_low(one.sort, other.sort):
            continue
        raise SchemaError(
            f"table {table!r}: index {index.name!r} is shared by {one.full_name} ({one.sort.text!r}) and "
            f"{other.full_name} ({other.sort.text!r}). A sort key of the first can be a prefix of one of the second "
            "that continues with a space or another character below '#', and they would not sort correctly in a "
            f"Bigtable index: give {other.full_name} its own index with index=..., or begin the two with different "
            "literals"
        )
