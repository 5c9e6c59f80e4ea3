"""Row keys ↔ keys of items, and the row range of a query.

Each item is one row. Its row key is the partition key, the table's separator and the sort key; in a table without sort
keys it is the partition key. `odm.backends.bigtable.schema` checks that no two keys have the same row key.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from odm.backends.bigtable.native import RowRange
from odm.errors import ItemTooLarge
from odm.immutable import Immutable
from odm.keys import can_be_key, next_prefix
from odm.protocol.requests import Position
from odm.schema.entity import EntitySchema, Key
from odm.schema.model import Schema
from odm.schema.row_keys import UNAMBIGUOUS

MAX_ROW_KEY = 4096
"""The maximum bytes of a row key (google.bigtable.v2, data.proto: Row.key)."""


_KEY: Final = partial(tuple.__new__, Key)
_POSITION: Final = partial(tuple.__new__, Position)
"""Make a Key and a Position of a tuple; a scan makes one of each per row, and calls of the classes take longer."""


class Layout(Immutable):
    """How the row keys of a table are built.

    Attributes:
        join: the separator between partition and sort.
        hash_only: the items have no sort key.
        binary: keys have a character for each byte; see `odm.keys.binary`.
    """

    join: str
    hash_only: bool
    binary: bool = False

    @classmethod
    def of(cls, schema: Schema) -> "Layout":
        """The layout of a table."""
        return cls(schema.row_key_separator, schema.hash_only, schema.binary_row_keys)

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

    def _checked(self, row_key: str) -> str:
        return row_key if self.binary and len(row_key) <= MAX_ROW_KEY else checked(row_key)


def is_wide(schema: Schema) -> bool:
    """Whether a partition is a row. In a table without sort keys, it is one in either layout."""
    return schema.wide and not schema.hash_only


def key_of(schema: Schema, row_key: str, tag: str) -> Key | None:
    """The key of an item, from its row key and tag; None if no model has the tag.

    The model defines how many components the partition has.
    """
    if schema.hash_only:
        return Key(row_key)
    if schema.verbatim_rows:
        return _verbatim_key(schema.entities.get(tag), row_key)
    if schema.row_key_join == UNAMBIGUOUS:
        partition, _, sort = row_key.partition(UNAMBIGUOUS)
        return Key(partition, sort)
    entity = schema.entities.get(tag)
    if entity is None:
        return None
    parts, count = row_key.split("#"), len(entity.primary.partition.components)
    return Key("#".join(parts[:count]), "#".join(parts[count:]))


def _verbatim_key(entity: EntitySchema | None, row_key: str) -> Key:
    """The key of a row of other programs; if the row key does not show where it ends, all of it, as of a scan."""
    values = None if entity is None or entity.row is None else entity.row.read(row_key)
    if entity is None or values is None or entity.primary.sort is None:
        return Key(row_key)
    partition, sort = entity.primary.partition, entity.primary.sort
    if not values.keys() >= {*partition.fields, *sort.fields}:
        return Key(row_key)
    return Key(partition.written(values), sort.written(values))


def key_in(schema: Schema, row_key: str) -> Key | None:
    """The key of an item that is gone, from its row key alone; None if no model makes such row keys.

    `odm.schema.row_keys` checks that all models that can make a row key divide it in the same way.
    """
    if schema.verbatim_rows:
        read = (
            tag for tag, one in schema.entities.items() if one.row is not None and one.row.read(row_key) is not None
        )
        return next((key_of(schema, row_key, tag) for tag in read), None)
    if schema.hash_only:
        return Key(row_key)
    if schema.row_key_join == UNAMBIGUOUS:
        return key_of(schema, row_key, "") if UNAMBIGUOUS in row_key else None
    components = row_key.split("#")
    made = (tag for tag, one in schema.entities.items() if can_be_key(one.primary.partition, components[:-1]))
    return next((key_of(schema, row_key, tag) for tag in made), None)


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
