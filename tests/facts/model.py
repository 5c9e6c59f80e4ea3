"""The table of the facts: one, with entities of every kind, so that a server makes it once."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import Field

from odm import TTL, AccessPattern, Entity, PrimaryKey, Table, field

facts = Table("facts")


class Thing(Entity, table=facts):
    """A value of any kind under ``x``; an absent one is not stored."""

    id: str
    x: Any = None
    y: Any = None
    z: Any = None

    primary = PrimaryKey("THING#{id}", "-")


class Text(Entity, table=facts):
    """A partition that is sorted by text."""

    id: str
    sort: str
    pad: str = ""

    primary = PrimaryKey("TEXT#{id}", "{sort}")


class Number(Entity, table=facts):
    """A partition that is sorted by whole numbers without bounds."""

    id: str
    sort: int

    primary = PrimaryKey("NUMBER#{id}", "{sort}")


class Exact(Entity, table=facts):
    """A partition that is sorted by numbers with two decimal places."""

    id: str
    sort: Annotated[Decimal, Field(ge=-1000, le=1000, decimal_places=2)]

    primary = PrimaryKey("EXACT#{id}", "{sort}")


class Blob(Entity, table=facts):
    """A partition that is sorted by bytes."""

    id: str
    sort: bytes

    primary = PrimaryKey("BLOB#{id}", "{sort}")


class Passing(Entity, table=facts):
    """Has a time to live."""

    id: str
    sort: str = "-"
    until: Annotated[datetime | None, TTL] = None
    count: int = 0

    primary = PrimaryKey("PASSING#{id}", "{sort}")


class Member(Entity, table=facts):
    """In an index of its group, sparse; in one that holds keys alone; and in one that two entities share."""

    id: str
    sort: str
    group: str | None = None
    rank: int | None = None
    note: str = ""

    primary = PrimaryKey("MEMBER#{id}", "{sort}")
    by_group = AccessPattern("GROUP#{id}#{group}", "{rank}#{sort}")
    by_rank = AccessPattern("RANK#{id}", "{rank}", projection="keys")
    noted = AccessPattern("NOTED#{id}", "MEMBER#{sort}", index="shared", when=field("note") == "yes")


class Guest(Entity, table=facts):
    """Shares an index with the members."""

    id: str
    sort: str
    age: int = 0
    note: str = ""

    primary = PrimaryKey("GUEST#{id}", "{sort}")
    all_guests = AccessPattern("NOTED#{id}", "GUEST#{sort}", index="shared")
    by_age = AccessPattern("AGE#{id}", "{age}", projection=("age",))


class Ranked(Entity, table=facts):
    """In a local index, which holds whole items."""

    id: str
    sort: str
    rank: int | None = None
    note: str = ""

    primary = PrimaryKey("RANKED#{id}", "{sort}")
    by_rank = AccessPattern("RANKED#{id}", "{rank}", index="local_rank", local=True)


class Whole(Entity, table=facts):
    """In an index that holds whole items, with a map and a set."""

    id: str
    group: str
    data: dict[str, Any] = {}
    words: set[str] = set()

    primary = PrimaryKey("WHOLE#{id}", "-")
    by_group = AccessPattern("GROUP#{id}#{group}", "{id}", index="by_whole")
