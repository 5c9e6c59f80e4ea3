"""A table with indexes, and the native requests and answers of its writes; without I/O."""

from itertools import count
from typing import Annotated, Any

from odm import AccessPattern, Columns, Counter, Entity, PrimaryKey, Table
from odm.backends.bigtable.client.native import (
    Cell,
    CheckAndMutateRow,
    Concurrent,
    DeleteColumn,
    Entry,
    Mutated,
    Read,
    Row,
    SetCell,
    Status,
)
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.protocol.requests import Sleep
from odm.schema.entity import Key
from tests.backends.bigtable.playing import Clock

shop = Table("shop")


class Hat(Entity, table=shop):
    name: str
    colour: str | None = None
    maker: str | None = None
    price: int = 0
    worn: Annotated[int, Counter] = 0
    tags: Annotated[set[str], Columns] = set()

    primary = PrimaryKey("HAT#{name}")
    by_colour = AccessPattern("COLOUR#{colour}")
    by_maker = AccessPattern("MAKER#{maker}")


class Shelf(Entity, table=shop):
    """An entity without access patterns."""

    name: str
    uses: Annotated[int, Counter] = 0

    primary = PrimaryKey("SHELF#{name}", "SHELF")


HAT = Key("HAT#fez", "Hat")
ROW = "HAT#fez#Hat"
SHELF = Key("SHELF#a", "SHELF")
SHELF_ROW = "SHELF#a#SHELF"
RED, BLUE = Key("COLOUR#red", "Hat"), Key("COLOUR#blue", "Hat")
ANN = Key("MAKER#ann", "Hat")
COLOURS, MAKERS = "shop.by_colour", "shop.by_maker"


class Wall(Clock):
    """A monotonic clock and a wall clock, in seconds."""

    wall = 0.005

    def micros(self) -> int:
        return round(self.wall * 1_000_000)


def procedures(clock: Clock | None = None, wall: Wall | None = None) -> Procedures:
    """The procedures of the table, with the ids id1, id2, ..."""
    numbers = count(1)
    now = (wall or Wall()).micros
    return Procedures(
        shop.compile(), Retry(clock=clock or wall or Clock(), jitter=lambda: 1.0), now, lambda: f"id{next(numbers)}"
    )


def item(**attributes: Any) -> dict[str, Any]:
    return {"_t": "Hat", "name": "fez", **attributes}


def stored(revision: str = "r0", listed: str = "", **cells: bytes) -> Read:
    """The answer to a read of the hat: its plain cells, and with the prefix ``c_`` those of counters."""
    found = [Cell("d", b"_t", b"Hat"), Cell("d", b"name", b"fez"), Cell("d", b"~r", revision.encode())]
    found += [Cell("d", b"_ix", listed.encode())] if listed else []
    for name, value in cells.items():
        column = name.removeprefix("c_")
        found.append(Cell("c" if name != column else "d", column.encode(), value))
    return Read((Row(ROW.encode(), tuple(found)),))


NOTHING = Read()


def listed(**columns: str) -> str:
    """The list of index entries of a hat: qualifiers by colour or maker."""
    told = {"red": ("by_colour", RED), "blue": ("by_colour", BLUE), "ann": ("by_maker", ANN)}
    parts = [
        f'["{index}", "{key.partition}", "{key.sort}", "{columns[name]}"]'
        for name, (index, key) in told.items()
        if name in columns
    ]
    return f"[{', '.join(parts)}]"


def entry(index_key: Key, id: str, *, gone: bool = False) -> Entry:
    """The entry of the hat in an index row, set or deleted."""
    cell = DeleteColumn(id, "i") if gone else SetCell(id, ROW.encode(), -1, "i")
    return Entry(f"{index_key.partition}##{index_key.sort}##HAT#fez##Hat", (cell,))


def done(rows: int = 1) -> Mutated:
    """The answer to a write of rows: all succeeded."""
    return Mutated({index: Status(0) for index in range(rows)})


def calls(sent: list[Any]) -> int:
    """The number of calls."""
    return sum(len(one.calls) if isinstance(one, Concurrent) else 1 for one in sent if not isinstance(one, Sleep))


def commit_of(sent: list[Any]) -> CheckAndMutateRow:
    """The only commit among the requests."""
    (found,) = [one for one in sent if isinstance(one, CheckAndMutateRow)]
    return found
