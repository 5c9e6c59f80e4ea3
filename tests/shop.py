"""The entities of tests that need some, and a backend that counts requests."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from odm import TTL, AccessPattern, Entity, PrimaryKey, Store, Table, field
from odm.backends.local import Memory
from odm.protocol.connection import Backend, Connection, ForwardingConnection
from odm.protocol.requests import Request
from odm.schema.model import Schema

shop = Table("shop")
notes = Table("notes")
sessions = Table("sessions")
leaves = Table("leaves")


def day(number: int, hour: int = 0) -> datetime:
    """A time in January 2026."""
    return datetime(2026, 1, number, hour, tzinfo=UTC)


class Customer(Entity, table=shop):
    customer_id: str
    email: str = "ann@example.org"

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
    by_email = AccessPattern("EMAIL#{email}", index="gsi1")


class Order(Entity, table=shop):
    customer_id: str
    order_id: str
    placed_at: datetime = day(1)
    status: Literal["open", "shipped"] = "open"
    region: str = "EU"
    total: Annotated[Decimal, Field(decimal_places=2)] = Decimal(0)
    weight: Decimal = Decimal(1)
    tags: list[str] = []
    opened_at: datetime | None = None

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}", index="gsi1")
    by_status = AccessPattern("STATUS#{status}", "{region}#{placed_at:desc}", index="gsi2")
    open_ones = AccessPattern("OPEN", "{opened_at}#{order_id}")
    in_europe = AccessPattern("EUROPE", "{placed_at}", when=field("region") == "EU")


class Item(Entity, table=shop):
    customer_id: str
    order_id: str
    number: Annotated[int, Field(ge=1, le=999)]
    sku: str = "pen"

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}#ITEM#{number}")


class Reading(Entity, table=shop):
    sensor: str
    at: datetime
    value: int = 0

    primary = PrimaryKey("SENSOR#{sensor}#{at:%Y%m%d}", "{at}")
    by_hour = AccessPattern("HOUR#{at:%Y%m%d%H}", "{sensor}")


class Note(Entity, table=notes):
    """Alone in its table, which has no sort key."""

    note_id: str
    text: str = ""
    parts: list[str] = []

    primary = PrimaryKey("NOTE#{note_id}")


class Session(Entity, table=sessions):
    """Expires."""

    user: str
    hits: int = 0
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("SESSIONS", "{user}")


class Leaf(Entity, table=leaves):
    """A local index holds its keys."""

    owner: str
    name: str
    text: str = ""

    primary = PrimaryKey("{owner}", "{name}")
    by_text = AccessPattern("{owner}", "N#{name}", local=True, projection="keys")


class Counting(Backend):
    """A `Memory` that records the class names of the requests that it performs."""

    name = "counting"

    def __init__(self) -> None:
        self.requests: list[str] = []
        self._memory = Memory()

    def connect(self, schema: Schema) -> Connection[Any]:
        return _Connection(self._memory.connect(schema), self.requests)


class _Connection(ForwardingConnection[Request]):
    requests: list[str]

    def call(self, native: Request) -> Any:
        self.requests.append(type(native).__name__)
        return self.inner.call(native)

    async def acall(self, native: Request) -> Any:
        return self.call(native)


def store(*items: Entity) -> Store:
    """A store in memory that contains these items."""
    db = Store(shop, Memory())
    db.create()
    for item in items:
        db.put(item)
    return db
