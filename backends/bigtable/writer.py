"""What all writes of a table share: its schema, the layout of its rows, timestamps, and the ids of attempts."""

import secrets
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Final

from odm.backends.bigtable.client.filters import Filter
from odm.backends.bigtable.client.native import FAMILY, ITEM, Row, Steps
from odm.backends.bigtable.client.native_admin import ABORT_AFTER
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.foreign import ForeignRows
from odm.backends.bigtable.rows.items import ItemRows, PlacedRows
from odm.backends.bigtable.rows.keys import Layout, RowKeys, layout_of
from odm.backends.bigtable.rows.kinds import kinds_of
from odm.backends.bigtable.rows.locks import NO_LOCKS
from odm.backends.bigtable.rows.wide import WideRows
from odm.backends.bigtable.transactions.lock_cells import LockCells
from odm.backends.bigtable.transactions.resolve import Locks
from odm.backends.bigtable.transactions.wide_locks import WideLockCells
from odm.concurrency import Background
from odm.expressions.nodes import Value
from odm.immutable import Immutable, field
from odm.protocol.limits import Local
from odm.schema.entity import Key
from odm.schema.model import Schema


def _items(schema: Schema, form: Form, row_keys: RowKeys, abort_after: float) -> ItemRows:
    cells = LockCells(schema.name, form.owned, loads_rows=not form.placements)
    locks = Locks(schema.name, cells, abort_after) if schema.transactions else NO_LOCKS
    return (PlacedRows if form.placements else ItemRows)(schema.name, form, row_keys, locks=locks)


def _wide(schema: Schema, form: Form, row_keys: RowKeys, abort_after: float) -> WideRows:
    of_tag = {tag: entity.family for tag, entity in schema.entities.items() if entity.family is not None}
    families = (FAMILY, *sorted({*of_tag.values()}))
    places = WideRows(schema.name, form, row_keys, families, of_tag)
    if not schema.transactions:
        return places
    cells = WideLockCells(schema.name, form.owned, places=places)
    return WideRows(schema.name, form, row_keys, families, of_tag, locks=Locks(schema.name, cells, abort_after))


def _foreign(schema: Schema, form: Form, row_keys: RowKeys, _abort_after: float) -> ForeignRows:
    return ForeignRows(schema.name, form, row_keys, kinds_of(schema, form))


_LAYOUTS: Final[Mapping[Layout, Callable[[Schema, Form, RowKeys, float], ItemRows]]] = {
    "row_per_item": _items,
    "row_per_partition": _wide,
    "verbatim": _foreign,
}
"""The rows of a table, by their layout; the last argument is the ``abort_after`` of `Locks`."""


def now_micros() -> int:
    """The current time as a cell's timestamp: microseconds, rounded down to milliseconds as Bigtable requires."""
    return time.time_ns() // 1_000_000 * 1000


new_id: Final[Callable[[], str]] = partial(secrets.token_hex, 10)
"""Returns the id of an attempt to write: random, and therefore unique. With counted ids, two writers could use one, and
the one whose commit is refused would remove the index entries of the other."""


def versioned(id: str, version: Value) -> str:
    """The revision that an attempt writes: its id, then a dot and the item's version, unless that is the first version.

    An increment of a counter reads the item's version from the revision.
    """
    return f"{id}.{version}" if version else id


def version_in(revision: str) -> str:
    """The version in a revision; "" is the first version."""
    return revision.partition(".")[2]


class Writer(Immutable, dict=True):
    """Where and how the items of a table are written.

    Attributes:
        schema: the schema of the table.
        retry: how long to retry.
        now: returns the timestamp of written cells, in microseconds.
        ids: returns a new id for each attempt to write.
        background: the work after the answers.
        abort_after: the age in seconds from which the lock of a transaction may be resolved by every writer.
        row_keys: how row keys are built.
        form: how attributes are stored.
        places: where items stand in rows.
        table: the table's name.
        local: the local indexes, each with the attributes that it would project on DynamoDB.
    """

    schema: Schema
    retry: Retry = field(factory=Retry)
    now: Callable[[], int] = now_micros
    ids: Callable[[], str] = new_id
    background: Background = field(factory=Background, repr=False)
    abort_after: float = ABORT_AFTER

    @cached_property
    def row_keys(self) -> RowKeys:
        return RowKeys.of(self.schema)

    @cached_property
    def form(self) -> Form:
        return Form.of(self.schema)

    @cached_property
    def places(self) -> ItemRows:
        return _LAYOUTS[layout_of(self.schema)](self.schema, self.form, self.row_keys, self.abort_after)

    @cached_property
    def table(self) -> str:
        return self.schema.name

    @cached_property
    def local(self) -> Local:
        return {name: index.held for name, index in self.schema.indexes.items() if index.local}

    def id_of(self, version: Value) -> str:
        """A new revision for an item of this version; None is the first version."""
        return versioned(self.ids(), version)

    def row_key(self, key: Key) -> str:
        """The row key of an item.

        Raises:
            ItemTooLarge: the row key is longer than Bigtable allows.
        """
        return self.row_keys.row_key(key)

    def read(self, ids: tuple[str, ...], needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        """Read items for a write, as `ItemRows.read`; locks of transactions on their rows are resolved first.

        Raises:
            Throttled: other programs kept locking the rows until the time was up.
        """
        return self.places.locks.read_unlocked(self.places, ids, needed, self.retry, self.now)
