"""Row keys of index entries ↔ index keys, and the row range of a query.

An index is a separate table. The row key of an entry is index partition, index sort, item partition and item sort,
joined by ``##``; in a table without sort keys it ends with the item partition::

    OPEN  ##2024-01-01#o1##CUSTOMER#c1##ORDER#o1

No component of a key is empty, so no key contains ``##``, and a row key is unambiguous. Entries sort by index sort,
then by item key: a longer sort key continues with ``#`` and a component, or with another character, and both sort above
``##``. A space that pads a component sorts below ``##``; `check_entries` refuses indexes in which that would change
the order.
"""

from itertools import permutations

from odm.backends.bigtable.layout import Layout, checked
from odm.backends.bigtable.native import ENTRIES, Row, RowRange
from odm.errors import BackendError, SchemaError
from odm.keys import can_go_on_low, next_prefix
from odm.protocol.requests import Position
from odm.schema.entity import Key
from odm.schema.model import IndexSchema
from odm.schema.row_keys import UNAMBIGUOUS


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


def place_of(row_key: str, layout: Layout) -> Position | None:
    """As `position`; None if the text is not the row key of an entry in a table with this layout."""
    try:
        found = position(row_key)
    except BackendError:
        return None
    return None if bool(found.key.sort) is layout.hash_only else found


def claims(row: Row, layout: Layout) -> tuple[str, ...]:
    """The qualifiers of odm's claims among the given cells of an index row.

    A claim is a cell in the family of entries whose value is the row key of the item that the index row's key names.
    All other cells of an index table belong to other programs.
    """
    place = place_of(row.text, layout)
    if place is None:
        return ()
    item = layout.row_key(place.key).encode("utf-8", "surrogateescape")
    mine = (cell.qualifier for cell in row.cells if cell.family == ENTRIES and cell.value == item)
    return tuple(name.decode() for name in mine if name and _is_text(name))


def is_odms(row: Row, layout: Layout) -> bool:
    """Whether all given cells of an index row are odm's claims."""
    return len(claims(row, layout)) == len(row.cells)


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
