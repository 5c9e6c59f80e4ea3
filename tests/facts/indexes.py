"""Which items an index holds, and what reads and writes cost in units."""

from collections.abc import Callable
from typing import Any, Final

from odm import Query, collection, increment, remove, set_, some
from tests.facts.fact import Case, fact, local
from tests.facts.model import Guest, Member, Ranked, Text, Thing

GSI, LSI, D_SPARSE = "S query/gsi", "S query/lsi", "D bp-indexes-general-sparse-indexes"
PROJECTION: Final = "S query/selectOnIndexes"
LADDER, READS, PAGES = "S putItem/indexConsumedCapacity", "S getItem/consumedCapacity", "S query/consumedCapacity"
D_UNITS, D_OVERLOADED = "D read-write-operations", "D bp-gsi-overloading"
FOUR_TIMES: Final = local("reports four times the units of an update in a transaction, DynamoDB twice")
NOTHING: Final = local("reports no units of a page without items")


def member(case: Case, sort: str = "a", group: str | None = "g", rank: int | None = 1, note: str = "") -> Member:
    return Member(id=case.id, sort=sort, group=group, rank=rank, note=note)


def fill(case: Case) -> None:
    with case.db.batch() as batch:
        batch.put(member(case, "a", "g", 3))
        batch.put(member(case, "b", "g", 1, "yes"))
        batch.put(member(case, "c", None, 2, "yes"))
        batch.put(member(case, "d", "g", None))
        batch.put(member(case, "e", "h", 10))
        for age in (9, 10):
            batch.put(Guest(id=case.id, sort=f"g{age}", age=age, note="guest"))
        for number, rank in enumerate((5, None, -5, 50)):
            batch.put(Ranked(id=case.id, sort=f"r{number}", rank=rank, note="n"))


def found(case: Case, ask: Callable[[str], Query[Any]]) -> list[str]:
    fill(case)
    query = ask(case.id)
    items = [item.sort for item in case.db.query(query)]
    assert case.db.count(query) == len(items)
    return items


# What is asked, the sort keys of the primary keys that it returns, the source.
_READS: list[tuple[str, Callable[[str], Query[Any]], list[str], str]] = [
    (
        "a group by rank; without group or rank an item is not in it",
        lambda i: Member.by_group(id=i, group="g"),
        ["b", "a"],
        GSI,
    ),
    ("another group", lambda i: Member.by_group(id=i, group="h"), ["e"], GSI),
    ("a group that nobody is in", lambda i: Member.by_group(id=i, group="z"), [], GSI),
    ("a group in reverse", lambda i: Member.by_group(id=i, group="g").reverse(), ["a", "b"], GSI),
    ("a rank of a group", lambda i: Member.by_group(id=i, group="g", rank=3), ["a"], GSI),
    ("ranks of a group", lambda i: Member.by_group(id=i, group="g").where(some(Member.rank) >= 2), ["a"], GSI),
    ("a group, the first one", lambda i: Member.by_group(id=i, group="g").limit(1), ["b"], GSI),
    ("a group with a filter", lambda i: Member.by_group(id=i, group="g").where(Member.note == "yes"), ["b"], GSI),
    ("an index of keys alone: whole items by rank", lambda i: Member.by_rank(id=i), ["b", "c", "a", "e"], PROJECTION),
    (
        "an index of keys alone with a filter",
        lambda i: Member.by_rank(id=i).where(Member.note == "yes"),
        ["b", "c"],
        PROJECTION,
    ),
    (
        "an index of keys alone, in reverse, two",
        lambda i: Member.by_rank(id=i).reverse().limit(2),
        ["e", "a"],
        PROJECTION,
    ),
    ("an index with one field", lambda i: Guest.by_age(id=i), ["g9", "g10"], PROJECTION),
    ("an index with one field, filtered by it", lambda i: Guest.by_age(id=i).where(Guest.age > 9), ["g10"], PROJECTION),
    (
        "an index with one field, filtered by another",
        lambda i: Guest.by_age(id=i).where(Guest.note == "guest"),
        ["g9", "g10"],
        PROJECTION,
    ),
    ("a sparse index by a condition", lambda i: Member.noted(id=i), ["b", "c"], D_SPARSE),
    ("an index that two entities share, one of them", lambda i: Guest.all_guests(id=i), ["g10", "g9"], D_OVERLOADED),
    (
        "an index that two entities share, both",
        lambda i: collection(Guest.all_guests(id=i)),
        ["g10", "g9", "b", "c"],
        D_OVERLOADED,
    ),
    ("a local index; without its key an item is not in it", lambda i: Ranked.by_rank(id=i), ["r2", "r0", "r3"], LSI),
    ("a local index by range", lambda i: Ranked.by_rank(id=i).where(some(Ranked.rank) > 0), ["r0", "r3"], LSI),
    ("a local index in reverse", lambda i: Ranked.by_rank(id=i).reverse(), ["r3", "r0", "r2"], LSI),
    ("the table keeps what a local index lacks", lambda i: Ranked.primary(id=i), ["r0", "r1", "r2", "r3"], LSI),
]


def moved(case: Case, *actions: Any) -> tuple[list[str], list[str], list[str]]:
    """Groups g and h and the noted ones, after an update of member b."""
    fill(case)
    case.db.update(Member.primary(id=case.id, sort="b"), *actions)
    groups = [[item.sort for item in case.db.query(Member.by_group(id=case.id, group=name))] for name in "gh"]
    return groups[0], groups[1], [item.sort for item in case.db.query(Member.noted(id=case.id))]


_MOVES: list[tuple[Any, tuple[list[str], list[str], list[str]]]] = [
    (set_(Member.group, "h"), (["a"], ["b", "e"], ["b", "c"])),
    (set_(Member.rank, 5), (["a", "b"], ["e"], ["b", "c"])),
    (increment(Member.rank, 9), (["a", "b"], ["e"], ["b", "c"])),
    (remove(Member.rank), (["a"], ["e"], ["b", "c"])),
    (remove(Member.group), (["a"], ["e"], ["b", "c"])),
    (set_(Member.note, "no"), (["b", "a"], ["e"], ["c"])),
]


def index_units(case: Case, index: str, *actions: Any) -> float:
    """The write units of an index for an update of a member."""
    case.db.put(member(case))
    used = case.used(lambda: case.db.update(Member.primary(id=case.id, sort="a"), *actions))
    return used.by_index[index].write_units if index in used.by_index else 0


def table_units(case: Case, size: int, write: str) -> float:
    """The write units of a call with an item of so many bytes."""
    bare = len("pk" + "TEXT#" + "sk" + "s" + "_t" + "Text" + "id" + "sort" + "s" + "pad") + 2 * len(case.id)
    item = Text(id=case.id, sort="s", pad="p" * (size - bare))
    calls: dict[str, Callable[[], object]] = {
        "put": lambda: case.db.put(item),
        "insert": lambda: case.db.insert(item),
        "delete": lambda: case.db.delete(item),
        "transaction": lambda: _transaction(case, item),
    }
    return case.used(calls[write]).write_units


def _put_twice(case: Case) -> tuple[float, dict[str | None, float]]:
    """The units of the same item again."""
    case.db.put(member(case))
    used = case.used(lambda: case.db.put(member(case)))
    return used.write_units, {name: one.write_units for name, one in used.by_index.items()}


def _deleted(case: Case, group: str | None) -> float:
    case.db.put(member(case, group=group))
    used = case.used(lambda: case.db.delete(Member.primary(id=case.id, sort="a")))
    return used.by_index["by_group"].write_units if "by_group" in used.by_index else 0


def _replaced(case: Case, old: int, new: int) -> float:
    table_units(case, old, "put")
    return table_units(case, new, "put")


def _transaction(case: Case, item: Text) -> None:
    with case.db.transaction() as tx:
        tx.put(item)
        tx.put(case.thing())


def _safely(case: Case) -> float:
    case.db.put(case.thing(1))
    return case.used(lambda: case.db.with_options(retry_safe=True).update(case.key, increment(Thing.x))).write_units


def read_units(case: Case, size: int, ask: Callable[[Case, Query[Text]], object], items: int = 1) -> float:
    """The read units of a call, of items of so many bytes."""
    for number in range(items):
        bare = len("pk" + "TEXT#" + "sk" + "s" + "_t" + "Text" + "id" + "sort" + "s" + "pad") + 2 * len(case.id)
        case.db.put(Text(id=case.id, sort=str(number), pad="p" * (size - bare)))
    return case.used(lambda: ask(case, Text.primary(id=case.id, sort="0"))).read_units


def _query(consistent: bool = True, **more: Any) -> Callable[[Case, Any], object]:
    def ask(case: Case, _: Any) -> object:
        query = Text.primary(id=case.id)
        return list(case.db.query(query.where(Text.pad == "none") if more else query, consistent=consistent))

    return ask


def _indexed(case: Case, _: Any) -> object:
    case.db.put(member(case))
    return list(case.db.query(Member.by_group(id=case.id, group="g")))


def _nothing(case: Case) -> float:
    return case.used(lambda: list(case.db.query(Text.primary(id=case.id)))).read_units


KB4: Final = 4 * 1024
_READ_UNITS: list[tuple[str, int, Callable[[Case, Any], object], int, float, str]] = [
    ("get of 4,096 bytes", KB4, lambda case, one: case.db.get(one), 1, 1, READS),
    ("get of 4,097 bytes", KB4 + 1, lambda case, one: case.db.get(one), 1, 2, D_UNITS),
    ("eventual get of 4,096 bytes", KB4, lambda case, one: case.db.get(one, consistent=False), 1, 0.5, READS),
    ("eventual get of 4,097 bytes", KB4 + 1, lambda case, one: case.db.get(one, consistent=False), 1, 1, D_UNITS),
    ("query of 4 items of 1,024 bytes", 1024, _query(), 4, 1, D_UNITS),
    ("query of 4 items of 1,025 bytes", 1025, _query(), 4, 2, D_UNITS),
    ("eventual query of 4 items of 1,024 bytes", 1024, _query(consistent=False), 4, 0.5, D_UNITS),
    ("query of 4 items of 1,025 bytes whose filter drops all", 1025, _query(filter=True), 4, 2, PAGES),
    ("count of 4 items of 1,025 bytes", 1025, lambda case, _: case.db.count(Text.primary(id=case.id)), 4, 2, D_UNITS),
    (
        "batch read of 2 items of 4,097 bytes",
        KB4 + 1,
        lambda case, one: case.db.get_many([one, Text.primary(id=case.id, sort="1")]),
        2,
        4,
        D_UNITS,
    ),
    ("atomic read of 4,096 bytes", KB4, lambda case, one: case.db.get_many([one], atomic=True), 1, 2, D_UNITS),
    ("get of what is absent", 100, lambda case, _: case.db.get(Text.primary(id=case.id, sort="z")), 1, 1, D_UNITS),
    ("query of an index", 100, _indexed, 1, 0.5, D_UNITS),
]

FACTS = [
    *(fact(name, outcome, source, found, ask) for name, ask, outcome, source in _READS),
    *(
        fact(f"`{action}` of member b: groups g and h, and those with a note", outcome, "D GSI", moved, action)
        for action, outcome in _MOVES
    ),
    # Write units of an index that holds all.
    fact("index units of an update of a field", 1, LADDER, index_units, "by_group", set_(Member.note, "n")),
    fact("index units of an update of the key", 2, LADDER, index_units, "by_group", set_(Member.group, "h")),
    fact("index units where the key is removed", 1, LADDER, index_units, "by_group", remove(Member.group)),
    fact("index units of an equal value", 0, LADDER, index_units, "by_group", set_(Member.note, "")),
    # Of one that holds keys alone.
    fact("key index units of an update of a field", 0, LADDER, index_units, "by_rank", set_(Member.note, "n")),
    fact("key index units of an update of the key", 2, LADDER, index_units, "by_rank", set_(Member.rank, 2)),
    fact("index units of a delete", 1, LADDER, _deleted, "g"),
    fact("index units of a delete of what is not in it", 0, LADDER, _deleted, None),
    fact("the same item again", (1, {None: 1}), LADDER, _put_twice),
    # Write units of the table.
    fact("put of 1,024 bytes", 1, "S putItem/consumedCapacity", table_units, 1024, "put"),
    fact("put of 1,025 bytes", 2, D_UNITS, table_units, 1025, "put"),
    fact("put of 100 bytes over 3,000", 3, D_UNITS, _replaced, 3000, 100),
    fact("put of 3,000 bytes over 100", 3, D_UNITS, _replaced, 100, 3000),
    fact("insert of 1,025 bytes", 2, D_UNITS, table_units, 1025, "insert"),
    fact("delete of what is absent", 1, D_UNITS, table_units, 100, "delete"),
    fact("transaction of two small puts", 4, "D transaction-apis", table_units, 100, "transaction"),
    fact("small update with retry_safe", 2, "D transaction-apis", _safely, wrong=FOUR_TIMES),
    *(fact(name, units, source, read_units, size, ask, items) for name, size, ask, items, units, source in _READ_UNITS),
    fact("query that finds nothing", 1, D_UNITS, _nothing, wrong=NOTHING),
]
