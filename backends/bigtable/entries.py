"""Where the entries of a secondary index stand: row keys from index keys and back, and the row range of a query.

An index is a table of its own. The row key of an entry is index partition, index sort, item partition, item sort,
joined by ``##``; items of a table without sort keys end with their partition::

    OPEN  ##2024-01-01#o1##CUSTOMER#c1##ORDER#o1

No component of a key is empty, so no key holds ``##``, and a row key is read in one way. Entries sort by index sort,
then by item key, because the next component, and every other character of it, sorts above ``##``. A space of padding
does not; `check_entries` refuses the indexes in which that would show.
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
        index_key: the key of the item in the index.
        key: the item's own.

    Raises:
        ItemTooLarge: it has more bytes than a row key may have.
    """
    parts = (*index_key, *key) if key.sort else (*index_key, key.partition)
    return checked(UNAMBIGUOUS.join(parts))


def position(row_key: str) -> Position:
    """The index key and the key of the item that an entry stands for.

    Raises:
        BackendError: it is no row key of an entry.
    """
    match row_key.split(UNAMBIGUOUS):
        case [partition, sort, *key] if 1 <= len(key) <= 2:
            return Position(Key(*key), Key(partition, sort))
    raise BackendError(
        f"an index table holds the row {row_key!r}, which odm did not write: move it to another table, or delete it"
    )


def place_of(row_key: str, layout: Layout) -> Position | None:
    """As `position`; None where no item of a table with this layout has an entry with the row key."""
    try:
        found = position(row_key)
    except BackendError:
        return None
    return None if bool(found.key.sort) is layout.hash_only else found


def claims(row: Row, layout: Layout) -> tuple[str, ...]:
    """The qualifiers of the columns that writers of odm have set in an index row, as far as its cells were read.

    Those are columns of the family of entries whose cell is the row key of the item that the row stands for. All else
    in an index table belongs to other programs.
    """
    place = place_of(row.text, layout)
    if place is None:
        return ()
    item = layout.row_key(place.key).encode("utf-8", "surrogateescape")
    mine = (cell.qualifier for cell in row.cells if cell.family == ENTRIES and cell.value == item)
    return tuple(name.decode() for name in mine if name and _is_text(name))


def is_odms(row: Row, layout: Layout) -> bool:
    """Whether all cells that were read of an index row are claims of odm."""
    return len(claims(row, layout)) == len(row.cells)


def _is_text(name: bytes) -> bool:
    return name.decode(errors="replace").encode() == name


def entry_range(partition: str, lo: str = "", hi: str | None = None) -> RowRange:
    """The entries of a partition whose sort key lies in ``[lo, hi)``; ``hi`` None is the partition's end.

    Raises:
        ItemTooLarge: a bound has more bytes than a row key may have.
    """
    head = partition + UNAMBIGUOUS
    return RowRange(
        checked(head + _bound(lo)), checked(head + _bound(hi)) if hi is not None else str(next_prefix(head))
    )


def _bound(sort: str) -> str:
    """What parts the rows of the sort keys below a bound from those of the others.

    The rows of a sort key that the bound begins with go on with ``##``: they belong below it. A component begins with
    ``$`` or higher, so that is where what is stored under the same components begins.
    """
    key = sort.removesuffix("\0")
    if key.endswith("#"):
        return key + "$"
    return sort if key == sort else key + "#$"


def check_entries(table: str, index: IndexSchema) -> None:
    """Refuse an index whose entries would not sort as their keys do.

    Raises:
        SchemaError: a sort key of one pattern can be what another one pads with spaces.
    """
    for one, other in permutations(index.patterns, 2):
        if one.sort is None or other.sort is None or not can_go_on_low(one.sort, other.sort):
            continue
        raise SchemaError(
            f"table {table!r}: index {index.name!r} is shared by {one.full_name} ({one.sort.text!r}) and "
            f"{other.full_name} ({other.sort.text!r}), and a sort key of the first can be the beginning of one of the "
            "second that goes on with a space or another character below '#'; in a Bigtable index they would not be in "
            f"order: give {other.full_name} an index of its own with index=..., or begin the two with different "
            "literals"
        )
