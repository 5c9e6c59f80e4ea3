"""Entities for reads of parts: of some fields, of a range of partitions, and of a sample."""

from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, Field, ValidationInfo, field_validator, model_validator

from odm import (
    TTL,
    AccessPattern,
    Cell,
    CellVersions,
    Columns,
    Counter,
    Entity,
    Max,
    PrimaryKey,
    Shards,
    Stored,
    Sum,
    Table,
    upgrade,
)

metering = Table("metering")
sums = Table("metering-sums")
indexed_reads = Table("metering-indexed")


class Site(BaseModel):
    """A nested model."""

    street: str
    city: Annotated[str, Stored("c")] = "Oslo"


class Meter(Entity, table=metering):
    """The attributes of every kind, for reads of some of them."""

    meter: str
    number: Annotated[int, Field(ge=0, lt=1000)] = 0
    readings: Annotated[dict[str, float], Columns, Stored("r")] = Field(default_factory=dict)
    flags: Annotated[set[str], Columns] = Field(default_factory=set)
    plain: dict[str, Decimal] = Field(default_factory=dict)
    deep: dict[str, dict[str, int]] = Field(default_factory=dict)
    full: dict[str, int] = Field(default_factory=lambda: {"a": 1})
    words: list[str] = Field(default_factory=list)
    site: Site | None = None
    price: Decimal = Decimal("1.50")
    day: Annotated[date | None, Stored("d")] = None
    seen: datetime | None = None
    hits: Annotated[int, Counter] = 0
    note: str | None = None
    ends: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("METER#{meter}", "{number}")


class Owner(Entity, table=metering):
    """Another entity of the table, in the same partitions."""

    meter: str
    name: str = ""
    readings: Annotated[dict[str, float], Columns, Stored("r")] = Field(default_factory=dict)

    primary = PrimaryKey("METER#{meter}", "OWNER")


class Judged(Entity, table=metering):
    """Its fields depend on each other, so parts of it are taken out of whole items."""

    name: str
    low: int = 0
    high: int = 0

    primary = PrimaryKey("JUDGED#{name}")

    @model_validator(mode="after")
    def ordered(self) -> "Judged":
        """Swap the bounds if they are in the wrong order."""
        if self.low > self.high:
            object.__setattr__(self, "low", self.high)
        return self


class Seen(Entity, table=metering):
    """The validation of one field sees another."""

    name: str
    base: int = 0
    over: int = 0

    primary = PrimaryKey("SEEN#{name}")

    @field_validator("over")
    @classmethod
    def above(cls, value: int, info: ValidationInfo) -> int:
        """At least the base."""
        base: int = info.data.get("base", 0)
        return max(value, base)


class Grown(Entity, table=metering, version=2):
    """Its older items are upgraded."""

    name: str
    text: str = ""
    length: int = 0

    primary = PrimaryKey("GROWN#{name}")

    @upgrade(from_=1)
    @staticmethod
    def with_length(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 did not store it."""
        return {**item, "length": len(item.get("text", ""))}


class Total(Entity, table=sums):
    """Fields with an aggregate, and with former values."""

    name: str
    views: Annotated[int, Sum] = 0
    best: Annotated[int | None, Max] = None
    price: Annotated[Decimal, CellVersions(3)] = Decimal(0)
    note: str = ""

    primary = PrimaryKey("TOTAL#{name}")


class Reading(Entity, table=indexed_reads):
    """In indexes, with all attributes and with one."""

    meter: str
    at: int
    kind: str = "k"
    value: float = 0.0
    text: str = ""

    primary = PrimaryKey("METER#{meter}", "{at}")
    by_kind = AccessPattern("KIND#{kind}", "{at}")
    by_text = AccessPattern("TEXT#{text}", "{at}", projection=("value",))


class Region(Entity, table=metering):
    """A partition of several fields."""

    region: str
    station: Annotated[int, Field(ge=0, lt=1000)]
    text: str = "t"

    primary = PrimaryKey("REGION#{region}#STATION#{station}", "{text}")


class Log(Entity, table=metering):
    """A partition a day."""

    station: str
    at: datetime

    primary = PrimaryKey("LOG#{station}#{at:%Y%m%d}", "{at}")


class Newest(Entity, table=metering):
    """The partitions in descending order."""

    number: Annotated[int, Field(ge=0, lt=1000)]

    primary = PrimaryKey("NEWEST#{number:desc}", "N")


class Spread(Entity, table=metering):
    """A sharded partition."""

    topic: str
    name: str

    primary = PrimaryKey("SPREAD#{topic}", "{name}", shards=Shards(4, by="name"))


fewer = Table("metering")


class Lone(Entity, table=fewer, tag="Meter"):
    """The meter in a program that does not know the other entities of the table."""

    meter: str
    number: Annotated[int, Field(ge=0, lt=1000)] = 0
    note: str | None = None

    primary = PrimaryKey("METER#{meter}", "{number}")


moving = Table("metering")


class Moved(Entity, table=moving, tag="Meter"):
    """Writes meters under keys that are not those of their fields."""

    place: str
    meter: str
    number: Annotated[int, Field(ge=0, lt=1000)] = 0

    primary = PrimaryKey("METER#{place}", "{number}")


folders = Table("folders", row_style="verbatim")


class Leaf(Entity, table=folders):
    """A partition that is text as it is, which may sort below the separator of row keys."""

    path: str
    name: str
    size: Annotated[int, Cell("f:size", "int64be")] = 0

    primary = PrimaryKey("{path}", "{name}")
