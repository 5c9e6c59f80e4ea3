"""Limits of expressions and of tables, and the figures of rewrites and of pages."""

from collections.abc import Iterable
from functools import reduce
from operator import or_
from types import new_class
from typing import Any, Final

from odm import (
    AccessPattern,
    BadValue,
    Entity,
    ItemTooLarge,
    PrimaryKey,
    SchemaError,
    Table,
    is_in,
    set_,
    set_if_missing,
)
from tests.facts.conditions import holds
from tests.facts.fact import Case, dynoxide, fact
from tests.facts.model import Text, Thing, Whole

X: Final = Thing.x
QUOTAS, EXPRESSION, SURFACE = "D Constraints", "S limits/expressionSize", "S limits/itemSizeBySurface"
TYPES, LADDER = "D HowItWorks.NamingRulesDataTypes", "S putItem/indexConsumedCapacity"


def one_of(numbers: Iterable[int]) -> Any:
    """Comparisons joined by OR."""
    return reduce(or_, (number == X for number in numbers))


def _mapped(case: Case, length: int) -> int:
    """The bytes of the only key of a map, put and read."""
    case.db.put(case.thing({"k" * length: 1}))
    [key] = case.db.one(case.key).x
    return len(key)


def _mapped_update(case: Case, length: int) -> int:
    case.db.put(case.thing())
    case.db.update(case.key, set_(X, {"k" * length: 1}))
    [key] = case.db.one(case.key).x
    return len(key)


def _written_twice(case: Case) -> None:
    """An update that writes 500 KB, of which it stores half."""
    case.db.put(case.thing(1, "y"))
    case.db.update(case.key, set_(X, "x" * 250_000), set_if_missing(Thing.y, "y" * 250_000))


def _compiled(columns: int = 1, index: str = "by_x", table: str = "facts_limits") -> bool:
    """Compile a table with an index of this name that projects so many fields."""
    names = [f"field_{number}" for number in range(columns)]
    members: dict[str, Any] = {
        "__module__": __name__,
        "__annotations__": {"id": str, "group": str, **dict.fromkeys(names, str)},
        "primary": PrimaryKey("L#{id}"),
        "pattern": AccessPattern("G#{group}", "{id}", index=index, projection=tuple(names)),
    }
    made = Table(table)
    new_class("Limited", (Entity,), {"table": made}, lambda body: body.update(members))
    made.compile()
    return True


def _again(case: Case, turned: bool) -> tuple[float, float]:
    """The units of a table and its index for an equal item, its map and set in another order."""
    data: dict[str, Any] = {"a": 1, "b": {"c": 2, "d": 3}}
    words = [f"word{number}" for number in range(20)]
    case.db.put(Whole(id=case.id, group="g", data=data, words=set(words)))
    if turned:
        data = {"b": {"d": 3, "c": 2}, "a": 1}
        words.reverse()
    used = case.used(lambda: case.db.put(Whole(id=case.id, group="g", data=data, words=set(words)))).by_index
    return used[None].write_units, used["by_whole"].write_units if "by_whole" in used else 0


def _page(case: Case) -> tuple[int, float]:
    """The requests and units of a query of 30 items of 60,000 bytes."""
    bare = len("pk" + "TEXT#" + "sk" + "00" + "_t" + "Text" + "id" + "sort" + "00" + "pad") + 2 * len(case.id)
    with case.db.batch() as batch:
        for number in range(30):
            batch.put(Text(id=case.id, sort=f"{number:02}", pad="p" * (60_000 - bare)))
    used = case.used(lambda: list(case.db.query(Text.primary(id=case.id))))
    return used.calls, used.read_units


_BEFORE: Final = dynoxide("ends a page before the item that exceeds 1 MB, DynamoDB Local after it")

FACTS = [
    fact("140 comparisons joined by OR", True, QUOTAS, holds, 139, one_of(range(140))),
    fact("one of 100 choices", True, QUOTAS, holds, 99, is_in(X, range(100))),
    fact("one of 101 choices: odm sends two lists", True, QUOTAS, holds, 100, is_in(X, range(101))),
    fact("a map with a key of 65,535 bytes", 65_535, TYPES, _mapped, 65_535),
    fact("an update to a map with a key of 65,535 bytes", 65_535, TYPES, _mapped_update, 65_535),
    fact("an index that projects 18 fields, and `_t` and `_ttl`", True, QUOTAS, lambda _: _compiled(18)),
    fact("the name of an index of 3 characters", True, QUOTAS, lambda _: _compiled(index="abc")),
    fact("the name of an index of 2 characters", SchemaError, QUOTAS, lambda _: _compiled(index="ab")),
    fact(
        "the name of an index of 253 characters, whose key attributes have 2 more",
        True,
        QUOTAS,
        lambda _: _compiled(index="a" * 253),
    ),
    fact("the name of an index of 256 characters", SchemaError, QUOTAS, lambda _: _compiled(index="a" * 256)),
    fact("an equal item again", (1, 0), LADDER, _again, False),
    fact("30 items of 60,000 bytes: requests and units", (2, 440), "L", _page, wrong=_BEFORE),
    fact("302 comparisons joined by OR", BadValue, QUOTAS, holds, 1, one_of(range(302))),
    fact("one of 700 choices: odm sends seven lists", True, EXPRESSION, holds, 699, is_in(X, range(700))),
    fact("one of 900 choices: over 4 KB of expression", BadValue, EXPRESSION, holds, 1, is_in(X, range(900))),
    fact(
        "one of 80 choices of 30,000 bytes: over 2 MB of values",
        BadValue,
        QUOTAS,
        holds,
        1,
        is_in(X, [f"{number:030000}" for number in range(80)]),
    ),
    fact("a map with a key of 65,536 bytes", BadValue, TYPES, _mapped, 65_536),
    fact("an update to a map with a key of 65,536 bytes", BadValue, TYPES, _mapped_update, 65_536),
    fact("an update that writes 500 KB and would store 250 KB", ItemTooLarge, SURFACE, _written_twice),
    fact("an index that projects 19 fields, and `_t` and `_ttl`", SchemaError, QUOTAS, lambda _: _compiled(19)),
    fact("an equal item again, its map in another order", (1, 0), LADDER, _again, True),
]
