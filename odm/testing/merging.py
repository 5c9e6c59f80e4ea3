"""Entities of the suite's merges: a day of a meter, one with required fields, and fields that cannot be merged."""

from datetime import date, datetime
from typing import Annotated, Any

from pydantic import Field

from odm import Columns, Entity, PrimaryKey, Stored, Table, upgrade

days = Table("merge-days")
their_days = Table("merge-days")
clashing = Table("merge-clashes")
existing = Table("merge-existing", keys=("PK", "SK"), key_style="verbatim", tag=None)


class Day(Entity, table=days):
    """A day of a meter."""

    meter: str
    day: date
    readings: Annotated[dict[str, float], Columns, Stored("r")] = Field(default_factory=dict)
    flags: Annotated[set[str], Columns] = Field(default_factory=set)
    numbers: Annotated[set[int], Columns] = Field(default_factory=set)
    extra: Annotated[dict[str, Any] | None, Columns] = None
    note: str | None = None
    version_of_meter: Annotated[int, Stored("v")] = 1
    parts: list[int] = Field(default_factory=list)
    words: set[str] = Field(default_factory=set)
    place: dict[str, str] = Field(default_factory=dict)

    primary = PrimaryKey("METER#{meter}", "{day:%Y%m%d}")


class Report(Entity, table=days):
    """Has required fields, and a key that does not hold the whole time."""

    meter: str
    at: datetime
    title: str
    values: Annotated[dict[str, int], Columns]

    primary = PrimaryKey("REPORT#{meter}", "{at:%Y%m%d}")


class TheirDay(Entity, table=their_days):
    """The item of another program under the key of a day."""

    meter: str
    day: date
    text: str = ""

    primary = PrimaryKey("METER#{meter}", "{day:%Y%m%d}")


class Starting(Entity, table=clashing):
    """Its fields in Columns may show members that are not stored."""

    name: str
    filled: Annotated[dict[str, int], Columns] = Field(default_factory=lambda: {"a": 1})
    nothing: Annotated[dict[str, int] | None, Columns] = Field(default_factory=dict)
    shared: Annotated[dict[str, int], Columns] = Field(default_factory=dict)

    primary = PrimaryKey("STARTING#{name}")


class Plain(Entity, table=clashing):
    """Stores one of the attributes in another form."""

    name: str
    shared: dict[str, int] = Field(default_factory=dict)

    primary = PrimaryKey("PLAIN#{name}")


class Newer(Entity, table=clashing, version=2):
    """Its stored items may be of an older version."""

    name: str
    text: str = ""

    primary = PrimaryKey("NEWER#{name}")

    @upgrade(from_=1)
    @staticmethod
    def same(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 had the same fields."""
        return item


class Post(Entity, table=existing):
    """Its key fields are not attributes, and it has no tag."""

    user: str
    number: int
    text: str
    likes: Annotated[dict[str, int], Columns] = Field(default_factory=dict)

    primary = PrimaryKey("User:{user}", "Post:{number}")
