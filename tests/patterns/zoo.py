"""A table with items of every kind, written by two deployments, to copy between backends.

It has several entities in a partition; indexes that are sparse, overloaded, conditional, sharded (by a field and at
random), local and lossy; TTL, Revision, Counter and Columns; values of every type; keys with ``#``, spaces, quotes and
letters of other scripts; and items of an older version, with attributes that the current model does not have.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import islice
from typing import Annotated, Any, Literal
from uuid import UUID

from pydantic import Field

from odm import TTL, AccessPattern, Columns, Counter, Entity, PrimaryKey, Revision, Shards, Store, Table, field, upgrade
from odm.testing.entities import Address, Everything, Hue, Rank

zoo_v1 = Table("zoo")
zoo = Table("zoo")

START = datetime(2026, 1, 1, tzinfo=UTC)
NEVER = datetime(2200, 1, 1, tzinfo=UTC)
NAMES = ['Ana "Zoë" #1', "søppel & co", "李小龙", "a#b$c", "plain", "  spaces  ", "\U0001f600\u0007"]


class Keeper(Entity, table=zoo):
    """Shares a partition and an index with animals."""

    keeper_id: str
    email: str
    name: str = ""

    primary = PrimaryKey("KEEPER#{keeper_id}", "PROFILE")
    by_email = AccessPattern("EMAIL#{email}", index="gsi1")


class Beast(Entity):
    """The common base of all versions of animals: indexes of every kind."""

    keeper_id: str
    animal_id: str
    grams: int = 0
    born: datetime
    status: Literal["shown", "resting"] = "shown"
    sick_since: datetime | None = None

    by_birth = AccessPattern("KEEPER#{keeper_id}", "BORN#{born}#{animal_id}", index="gsi1")
    sick = AccessPattern("SICK", "{sick_since}#{animal_id}", shards=Shards(4, by="animal_id"))
    shown = AccessPattern("SHOWN", "{grams}#{animal_id}", when=field("status") == "shown", shards=Shards(3))
    by_day = AccessPattern("DAY#{born:%Y%m%d}", "{animal_id}")
    by_weight = AccessPattern("KEEPER#{keeper_id}", "WEIGHT#{grams:desc}#{animal_id}", local=True)


class OldAnimal(Beast, table=zoo_v1, tag="Animal"):
    """Version 1."""

    title: str
    remark: str = ""

    primary = PrimaryKey("KEEPER#{keeper_id}", "ANIMAL#{animal_id}")


class Animal(Beast, table=zoo, version=2):
    """Version 2: has Counter and Columns fields; ``title`` is now ``name``, and there is no ``remark``."""

    name: str
    visits: Annotated[int, Counter] = 0
    marks: Annotated[set[str], Columns] = set()
    meals: Annotated[dict[str, Decimal], Columns] = {}
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("KEEPER#{keeper_id}", "ANIMAL#{animal_id}")

    @upgrade(from_=1)
    @staticmethod
    def rename(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 called it ``title``."""
        return {**item, "name": item.pop("title")}


class Ticket(Entity, table=zoo):
    """Has a TTL."""

    ticket_id: str
    day: Annotated[int, Field(ge=0, lt=10**6)]
    valid_until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("TICKETS#{day}", "{ticket_id}")


class Thing(Everything, table=zoo):
    """A value of every type."""

    primary = PrimaryKey("THING#{name}")


def fill(v1: Store, v2: Store, number: int) -> None:
    """Write so many items of all kinds, and a few that have expired.

    Args:
        v1, v2: stores of both tables on the same backend.
        number: the number of items that do not expire.
    """
    with v1.batch() as batch:
        for old in _olds(number // 10):
            batch.put(old)
    with v2.batch() as batch:
        for entity in islice(_others(), number // 2):
            batch.put(entity)
        for n in range(5):
            batch.put(Ticket(ticket_id=f"expired{n}", day=n, valid_until=START))
    animals = islice(_animals(), number - number // 10 - number // 2)
    while some := list(islice(animals, 100)):  # a batch does not accept entities with a Revision
        with v2.transaction() as tx:
            for animal in some:
                tx.insert(animal)


def _olds(number: int) -> Iterator[OldAnimal]:
    for n in range(number):
        name = NAMES[n % len(NAMES)]
        yield OldAnimal(
            keeper_id=f"k{n % 97}", animal_id=f"old{n}#{name}", title=name, grams=n % 50, remark="r", born=_born(n)
        )


def _animals() -> Iterator[Animal]:
    n = 0
    while True:
        name = NAMES[n % len(NAMES)]
        yield Animal(
            keeper_id=f"k{n % 97}",
            animal_id=f"a{n}",
            name=name,
            grams=n * 7 % 90_000,
            born=_born(n),
            status="shown" if n % 3 else "resting",
            sick_since=_born(n) if n % 5 == 0 else None,
            visits=n,
            marks={name, "#", "x y"} if n % 4 == 0 else set(),
            meals={name: Decimal(n) / 8, "fish#": Decimal(1)} if n % 6 == 0 else {},
            revision=n % 3,
        )
        n += 1


def _others() -> Iterator[Entity]:
    n = 0
    while True:
        name = NAMES[n % len(NAMES)]
        yield Keeper(keeper_id=f"k{n}", email=f"{name}{n}@zoo", name=name)
        yield Ticket(ticket_id=f"t{n}", day=n % 30, valid_until=NEVER if n % 2 else None)
        yield _thing(n, name)
        n += 1


def _thing(n: int, name: str) -> Thing:
    return Thing(
        name=f"{name}{n}",
        text=name * (n % 3),
        whole=(-1) ** n * 10 ** (n % 38),
        exact=Decimal((0, (1, 2, 5, n % 10), -(n % 30))),
        approximate=n / 7,
        truth=n % 2 == 0,
        blob=bytes([n % 256, 0, 255]),
        moment=_born(n),
        day=_born(n).date(),
        ident=UUID(int=n),
        hue=Hue.GREEN,
        rank=Rank.HIGH,
        choice=3,
        union=n if n % 2 else name,
        null=None if n % 2 else n,
        words={name, "w"},
        numbers=frozenset({n, -n, 0}),
        decimals={Decimal("0.1"), Decimal(n)},
        chunks={b"", bytes([n % 256])} - {b""},
        parts=[n, name, None],
        pair=(n, name),
        table_={name: [{"a": n}], "$n": [{"$b": 1}]},
        anything={"deep": [{"$s": [1, Decimal("2.50")]}, None, True, b"\x00", {"a#b"}]},
        address=Address(street=name, lines=["1", name], labels={"l"}, unit=n),
        addresses={name: Address(street="s")},
        renamed=name,
    )


def _born(n: int) -> datetime:
    return START + timedelta(hours=n % 5000, microseconds=n)
