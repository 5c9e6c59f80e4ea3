"""Entities of the suite that change, in the versions of three deployments, and entities with ``keep=``."""

# ruff: noqa: RUF012  # pydantic copies defaults

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BaseModel, Field

from odm import TTL, AccessPattern, Entity, PrimaryKey, Revision, Shards, Stored, Table, field, upgrade

people = Table("people")
people_v2 = Table("people")
people_v3 = Table("people")
parcels = Table("parcels")
parcels_v2 = Table("parcels")
memos = Table("memos")
memos_locked = Table("memos")
gadgets = Table("gadgets")
gadgets_grown = Table("gadgets")
bags = Table("bags")
bags_v2 = Table("bags")
dishes = Table("dishes")
dishes_now = Table("dishes")
kept = Table("kept")
kept_indexed = Table("kept_indexed")


class Person(Entity, table=people):
    """Version 1."""

    person_id: str
    name: str
    age: int | None = None
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("PEOPLE", "{person_id}")


class PersonV2(Entity, table=people_v2, tag="Person", version=2):
    """Version 2: has a first and a last name."""

    person_id: str
    first: str
    last: str = ""
    age: int | None = None
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("PEOPLE", "{person_id}")

    @upgrade(from_=1)
    @staticmethod
    def split_name(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 had one field for both names."""
        if item["name"] == "?":
            raise ValueError("nobody knows")
        first, _, last = item.pop("name").partition(" ")
        return {**item, "first": first, "last": last}


class PersonV3(Entity, table=people_v3, tag="Person", version=3):
    """Version 3: renames the last name."""

    person_id: str
    first: str
    family: Annotated[str, Field(max_length=20)]
    age: int | None = None
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("PEOPLE", "{person_id}")

    @staticmethod
    @upgrade(from_=2)
    def rename_last(item: dict[str, Any]) -> dict[str, Any]:
        """Version 2 called it ``last``; for one person this upgrade changes the key, a deliberate bug."""
        moved = {"person_id": "elsewhere"} if item["first"] == "Moved" else {}
        return {**item, "family": item.pop("last"), **moved}

    @upgrade(from_=1)
    @classmethod
    def split_name(cls, item: dict[str, Any]) -> dict[str, Any]:
        """As in version 2; an application would have removed that class."""
        return PersonV2.split_name(item)


class Parcel(Entity, table=parcels):
    """Indexed by its place."""

    parcel_id: str
    place: str
    weight: int = 0
    note: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("PARCEL#{parcel_id}")
    by_place = AccessPattern("PLACE#{place}", "{parcel_id}")


class ParcelV2(Entity, table=parcels_v2, tag="Parcel", version=2):
    """Adds the country, has the weight in grams, stores the revision as ``rev``, and has no ``note``."""

    parcel_id: str
    city: str
    country: str = "NO"
    grams: int = 0
    revision: Annotated[int, Revision, Stored("rev")] = 0

    primary = PrimaryKey("PARCEL#{parcel_id}")
    by_place = AccessPattern("PLACE#{country}#{city}", "{parcel_id}")
    heavy = AccessPattern("HEAVY", "{grams}#{parcel_id}", when=field("grams") >= 10_000)

    @upgrade(from_=1)
    @staticmethod
    def to_grams(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 had kilograms."""
        renamed = {"city": item.pop("place"), "rev": item.pop("revision")}
        return {**item, **renamed, "grams": item.pop("weight", 0) * 1000}


class Memo(Entity, table=memos):
    """Has no Revision."""

    memo_id: str
    text: str = ""

    primary = PrimaryKey("MEMO#{memo_id}")


class LockedMemo(Entity, table=memos_locked, tag="Memo"):
    """The same entity with a Revision."""

    memo_id: str
    text: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("MEMO#{memo_id}")


class Bag(Entity, table=bags):
    """Holds a value of any kind."""

    name: str
    contents: dict[str, Any] = {}
    words: set[str] = set()
    chunks: set[bytes] = set()
    exact: Decimal = Decimal(0)
    approximate: float = 0.5
    blob: bytes = b""
    null: int | None = 7

    primary = PrimaryKey("BAG#{name}")


class BagV2(Entity, table=bags_v2, tag="Bag", version=2):
    """Has one of these fields, and the size of ``contents``."""

    name: str
    words: set[str] = set()
    size: int = 0

    primary = PrimaryKey("BAG#{name}")

    @upgrade(from_=1)
    @staticmethod
    def count(item: dict[str, Any]) -> dict[str, Any]:
        """Version 1 had no size."""
        return {**item, "size": len(item["contents"])}


class Gadget(Entity, table=gadgets):
    """Before the fields of `GrownGadget` were added; of the same version."""

    gadget_id: str
    kind: str = "a"

    primary = PrimaryKey("GADGETS", "{gadget_id}")


class Made(BaseModel):
    """How a gadget is made."""

    size: str = "M"


class GrownGadget(Entity, table=gadgets_grown, tag="Gadget"):
    """Has more fields, which have defaults."""

    gadget_id: str
    kind: str = "a"
    n: int = 5
    top: int | None = 5
    words: list[str] = ["x"]
    build: Made = Made()

    primary = PrimaryKey("GADGETS", "{gadget_id}")


class Screw(Entity, table=gadgets_grown):
    """Shares its partition with gadgets, and has none of their fields."""

    gadget_id: str

    primary = PrimaryKey("GADGETS", "SCREW#{gadget_id}")


# --- entities whose templates change


class OldDish(Entity, table=dishes, tag="Dish"):
    """Each pattern has other templates in `Dish`, which are as wide, so that entries of both are in the same ranges."""

    dish_id: str
    menu: str = "m"
    cook: str = "m"
    name: str = "x"
    grams: int = 0
    score: int = 0
    bought: datetime | None = None
    sold: datetime | None = None

    primary = PrimaryKey("DISH#{dish_id}")
    by_score = AccessPattern("MENU#{menu}", "{grams}")
    by_name = AccessPattern("MENU#{menu}", "{grams}#{dish_id}")
    by_cook = AccessPattern("COOK#{menu}", "{dish_id}")
    by_day = AccessPattern("DAY#{bought:%Y%m%d}", "{dish_id}")
    spread = AccessPattern("MENU#{menu}", "{grams}#{dish_id}", shards=Shards(3, by="dish_id"))


class OldDrink(Entity, table=dishes, tag="Drink"):
    """Had its entries where those of dishes are now."""

    drink_id: str
    menu: str = "m"
    score: int = 0

    primary = PrimaryKey("DRINK#{drink_id}")
    by_score = AccessPattern("MENU#{menu}", "{score}", index="by_score")


class Dish(Entity, table=dishes_now):
    """After its templates were changed."""

    dish_id: str
    menu: str = "m"
    cook: str = "m"
    name: str = "x"
    grams: int = 0
    score: int = 0
    bought: datetime | None = None
    sold: datetime | None = None

    primary = PrimaryKey("DISH#{dish_id}")
    by_score = AccessPattern("MENU#{menu}", "{score}")
    by_name = AccessPattern("MENU#{menu}", "{name}#{dish_id}")
    by_cook = AccessPattern("COOK#{cook}", "{dish_id}")
    by_day = AccessPattern("DAY#{sold:%Y%m%d}", "{dish_id}")
    spread = AccessPattern("MENU#{menu}", "{score}#{dish_id}", shards=Shards(3, by="dish_id"))


class Drink(Entity, table=dishes_now):
    """Its entries moved to another partition of the same index."""

    drink_id: str
    menu: str = "m"
    score: int = 0

    primary = PrimaryKey("DRINK#{drink_id}")
    by_score = AccessPattern("DRINKS#{menu}", "{score}", index="by_score")


# --- entities of which the newest are kept


class Post(Entity, table=kept):
    """Shares its partition with its comments, and sorts between them."""

    post_id: str

    primary = PrimaryKey("POST#{post_id}", "M")


class Comment(Entity, table=kept, keep=3):
    """Ascending: the last in sort order is the newest."""

    post_id: str
    number: Annotated[int, Field(ge=0, lt=1000)]
    text: str = ""
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("POST#{post_id}", "{number}")


class Highscore(Entity, table=kept, keep=2):
    """Descending: the first in sort order is the newest."""

    game: str
    points: Annotated[int, Field(ge=0, lt=1000)]
    player: str = "p"

    primary = PrimaryKey("GAME#{game}", "SCORE#{points:desc}#{player}")


class Notice(Entity, table=kept_indexed, keep=2):
    """Has an index."""

    board: str
    number: Annotated[int, Field(ge=0, lt=1000)]
    topic: str = "t"

    primary = PrimaryKey("BOARD#{board}", "{number}")
    by_topic = AccessPattern("TOPIC#{topic}", "{number}")
