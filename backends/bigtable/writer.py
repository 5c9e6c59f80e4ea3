"""What all writes of a table go by."""

import secrets
import time
from collections.abc import Callable

from attrs import Factory, field, frozen

from odm.backends.bigtable.codec import TAG
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.layout import Layout
from odm.backends.bigtable.retry import Retry
from odm.expressions.nodes import Value
from odm.protocol.limits import Local
from odm.protocol.requests import Put
from odm.schema.entity import Key
from odm.schema.model import Schema


def now_micros() -> int:
    """The time for cells: microseconds, in whole milliseconds as Bigtable wants them."""
    return time.time_ns() // 1_000_000 * 1000


def new_id() -> str:
    """The id of an attempt to write: random, so that nobody else's is equal."""
    return secrets.token_hex(10)


def versioned(id: str, version: Value) -> str:
    """The revision that an attempt leaves: its id, and the version of the item behind a dot, but the first.

    It is told to increments of counters, which see nothing else of the item.
    """
    return f"{id}.{version}" if version else id


def version_in(revision: str) -> str:
    """The version that a revision tells; "" is the first."""
    return revision.partition(".")[2]


@frozen
class Writer:
    """Where and how the items of a table are written.

    Attributes:
        schema: the table.
        retry: how long to try.
        now: the timestamp of the cells that are written, in microseconds.
        ids: makes the id that each attempt to write leaves in the row.
        layout: where its items stand.
        form: how attributes are stored.
        local: the local indexes, with what each holds of an item on DynamoDB.
    """

    schema: Schema
    retry: Retry = Factory(Retry)
    now: Callable[[], int] = now_micros
    ids: Callable[[], str] = new_id
    layout: Layout = field(init=False, default=Factory(lambda self: Layout.of(self.schema), takes_self=True))
    form: Form = field(init=False, default=Factory(lambda self: Form.of(self.schema), takes_self=True))
    local: Local = field(
        init=False,
        default=Factory(
            lambda self: {name: index.held for name, index in self.schema.indexes.items() if index.local},
            takes_self=True,
        ),
    )

    def id_of(self, version: Value) -> str:
        """The revision of an attempt that leaves an item of this version; None is the first."""
        return versioned(self.ids(), version)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.schema.name

    def row_key(self, key: Key) -> str:
        """The row key of an item.

        Raises:
            ItemTooLarge: it has more bytes than a row key may have.
        """
        return self.layout.row_key(key)

    def unlisted(self, request: Put) -> bool:
        """Whether neither this item nor any other under its key has index entries."""
        if request.entries or not self.schema.indexes:
            return not request.entries
        entity = self.schema.entities.get(request.item[TAG])
        return entity is not None and not entity.patterns
