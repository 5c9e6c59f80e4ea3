"""The tables and entities of the suite, which together use every feature.

``plain`` has no secondary index, ``indexed`` has several, ``hashes`` has no sort key. ``plain_v2``, ``plain_v3`` and
``indexed_v2`` are the same tables with later versions of the entities, as after a deployment of an application. Tables
with other kinds of indexes are in `odm.testing.spreading`.
"""
# ruff: noqa: RUF012  # pydantic copies defaults

from datetime import date, datetime
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID

from pydantic import BaseModel, Field

from odm import TTL, AccessPattern, Counter, Entity, PrimaryKey, Revision, Stored, Table, field

plain = Table("plain")
plain_v2 = Table("plain")
plain_v3 = Table("plain")
indexed = Table("indexed")
indexed_v2 = Table("indexed")
hashes = Table("hashes")

V = TypeVar("V")


class Hue(StrEnum):
    """An Enum of text."""

    RED = "red"
    GREEN = "green"


class Rank(IntEnum):
    """An Enum of numbers."""

    NEGATIVE = -3
    LOW = 1
    HIGH = 2
    MOST = 20


class Address(BaseModel):
    """A nested model, with a field that is stored under another name."""

    street: str
    city: Annotated[str, Stored("c")] = "Oslo"
    lines: list[str] = []
    labels: set[str] = set()
    unit: int | None = None


class Line(BaseModel):
    """An element of a list of models."""

    sku: str
    quantity: int = 1


# --- table "plain"


class Customer(Entity, table=plain):
    """Shares its partition with its orders."""

    customer_id: str
    name: str
    vip: bool = False

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")


class Order(Entity, table=plain):
    """An entity without special features."""

    customer_id: str
    order_id: str
    status: Literal["open", "shipped"] = "open"
    total: Decimal = Decimal(0)
    note: str | None = None

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")


class OrderLine(Entity, table=plain):
    """Its key begins with the key of its order."""

    customer_id: str
    order_id: str
    number: Annotated[int, Field(ge=0, lt=100)]
    sku: str

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}#LINE#{number}")


class Sheet(Entity, table=plain):
    """An attribute of every kind, for conditions and actions."""

    book: str = "b"
    sheet_id: str
    count: int = 0
    level: Annotated[int, Field(ge=0, lt=10)] = 0
    price: Decimal | None = None
    weight: float | None = None
    title: str | None = None
    short: Annotated[str | None, Stored("s")] = None
    blob: bytes | None = None
    flag: bool | None = None
    moment: datetime | None = None
    nothing: str | None = "something"
    words: set[str] = set()
    numbers: set[int] = set()
    chunks: set[bytes] = set()
    parts: list[str] = []
    lines: list[Line] = []
    grid: list[list[int]] = []
    meta: dict[str, Any] = {}
    prices: dict[str, Decimal] = {}
    address: Address | None = None

    primary = PrimaryKey("SHEETS#{book}", "{sheet_id}")


class Event(Entity, table=plain):
    """Three sort components of different types."""

    log: str
    level: Annotated[int, Field(ge=0, lt=1000)]
    at: datetime
    name: str
    text: str = ""

    primary = PrimaryKey("LOG#{log}", "{level}#{at}#{name}")


class Score(Entity, table=plain):
    """Sorted by points, highest first."""

    game: str
    points: Annotated[int, Field(ge=0, lt=10**6)]
    player: str

    primary = PrimaryKey("GAME#{game}", "{points:desc}#{player}")


class Visit(Entity, table=plain):
    """A sort component that stores whole seconds only."""

    page: str
    at: datetime
    visitor: str

    primary = PrimaryKey("VISITS#{page}", "{at:s}#{visitor}")


class Sample(Entity, table=plain):
    """One partition per day."""

    station: str
    at: datetime
    value: float = 0.0

    primary = PrimaryKey("SAMPLES#{station}#{at:%Y%m%d}", "{at}")


class Session(Entity, table=plain):
    """Has a TTL."""

    user: str
    session_id: str
    data: str = ""
    hits: int = 0
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("SESSIONS#{user}", "{session_id}")


class Document(Entity, table=plain):
    """Has an optimistic lock."""

    document_id: str
    text: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("DOCUMENT#{document_id}")


class Tally(Entity, table=plain):
    """Has counters."""

    name: str
    label: str = ""
    hits: Annotated[int, Counter] = 0
    misses: Annotated[int, Counter] = 0

    primary = PrimaryKey("TALLY#{name}")


class Account(Entity, table=plain):
    """Its balance cannot be negative."""

    name: str
    balance: Annotated[int, Field(ge=0)] = 0

    primary = PrimaryKey("ACCOUNT#{name}")


class Everything(Entity, table=plain):
    """A field of every type whose values read back equal."""

    name: str
    text: str = ""
    whole: int = 0
    exact: Decimal = Decimal(0)
    approximate: float = 0.0
    truth: bool = False
    blob: bytes = b""
    moment: datetime | None = None
    day: date | None = None
    ident: UUID | None = None
    hue: Hue = Hue.RED
    rank: Rank = Rank.LOW
    choice: Literal["a", "b", 3] = "a"
    union: int | str | None = None
    null: int | None = 7
    words: set[str] = set()
    numbers: frozenset[int] = frozenset()
    decimals: set[Decimal] = set()
    chunks: set[bytes] = set()
    parts: list[int | str | None] = []
    pair: tuple[int, str] = (0, "")
    table_: dict[str, list[dict[str, int]]] = {}
    anything: Any = None
    address: Address | None = None
    addresses: dict[str, Address] = {}
    renamed: Annotated[str, Stored("r")] = ""

    primary = PrimaryKey("EVERYTHING#{name}")


class Keyed(Entity, table=plain):
    """Every type of key in one key."""

    text: str
    choice: Literal["x", "y"]
    hue: Hue
    bounded: Annotated[int, Field(ge=-100, lt=100)]
    free: int
    amount: Annotated[Decimal, Field(decimal_places=2)]
    at: datetime
    day: date
    ident: UUID
    truth: bool
    blob: bytes
    ratio: float
    padded: str
    value: str = ""

    primary = PrimaryKey(
        "KEYED#{text}#{choice}#{hue}",
        "{bounded}#{free}#{amount}#{at}#{day}#{ident}#{truth}#{blob}#{ratio}#{padded:<6}",
    )


class ByValue(Entity, Generic[V]):
    """The base class of the entities below, one for each key type; not an entity itself."""

    owner: str = "o"
    value: V


class ByText(ByValue[str], table=plain):
    """Sorted by text."""

    primary = PrimaryKey("TEXT#{owner}", "{value}")


class ByBounded(ByValue[Annotated[int, Field(ge=-1000, le=1000)]], table=plain):
    """Sorted by an int with bounds."""

    primary = PrimaryKey("BOUNDED#{owner}", "{value}")


class ByInt(ByValue[int], table=plain):
    """Sorted by an int without bounds."""

    primary = PrimaryKey("INT#{owner}", "{value}")


class ByRank(ByValue[Rank], table=plain):
    """Sorted by an Enum of numbers."""

    primary = PrimaryKey("RANK#{owner}", "{value}")


class ByIntDesc(ByValue[int], table=plain):
    """Sorted by an int without bounds, greatest first."""

    primary = PrimaryKey("INTDESC#{owner}", "{value:desc}")


class ByDecimal(ByValue[Annotated[Decimal, Field(decimal_places=2)]], table=plain):
    """Sorted by a Decimal."""

    primary = PrimaryKey("DECIMAL#{owner}", "{value}")


class ByMoment(ByValue[datetime], table=plain):
    """Sorted by a timestamp."""

    primary = PrimaryKey("MOMENT#{owner}", "{value}")


class ByDay(ByValue[date], table=plain):
    """Sorted by a day, newest first."""

    primary = PrimaryKey("DAY#{owner}", "{value:desc}")


class ByUuid(ByValue[UUID], table=plain):
    """Sorted by a UUID."""

    primary = PrimaryKey("UUID#{owner}", "{value}")


class ByBytes(ByValue[bytes], table=plain):
    """Sorted by bytes."""

    primary = PrimaryKey("BYTES#{owner}", "{value}")


class ByFloat(ByValue[float], table=plain):
    """Sorted by a float."""

    primary = PrimaryKey("FLOAT#{owner}", "{value}")


class ByBool(ByValue[bool], table=plain):
    """Sorted by a bool."""

    primary = PrimaryKey("BOOL#{owner}", "{value}")


# --- table "plain" after a deployment


class OrderV2(Entity, table=plain_v2, tag="Order"):
    """Does not know ``status`` and ``note``, and has a new field."""

    customer_id: str
    order_id: str
    total: Decimal = Decimal(0)
    priority: int = 1

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")


class SheetV2(Entity, table=plain_v2, tag="Sheet"):
    """Declares ``title`` as a number, while stored titles are text."""

    book: str = "b"
    sheet_id: str
    title: int | None = None

    primary = PrimaryKey("SHEETS#{book}", "{sheet_id}")


# --- table "plain" after another deployment


class Client(Entity, table=plain_v3):
    """Has the keys of a Customer with another tag."""

    customer_id: str
    name: str = ""

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")


# --- table "indexed"


class Member(Entity, table=indexed):
    """Shares the index ``gsi1`` with `Ticket`."""

    member_id: str
    email: str
    name: str = ""

    primary = PrimaryKey("MEMBER#{member_id}", "PROFILE")
    by_email = AccessPattern("EMAIL#{email}", index="gsi1")


class Ticket(Entity, table=indexed):
    """Indexes of every kind: overloaded, of several fields, sparse, with a predicate, lossy."""

    member_id: str
    ticket_id: str
    status: Literal["open", "closed"] = "open"
    level: Annotated[int, Field(ge=0, lt=1000)] = 0
    filed_at: datetime
    due_at: datetime | None = None
    assignee: str | None = None
    note: str = ""
    seen: Annotated[int, Counter] = 0

    primary = PrimaryKey("MEMBER#{member_id}", "TICKET#{ticket_id}")
    by_date = AccessPattern("MEMBER#{member_id}", "FILED#{filed_at}#{ticket_id}", index="gsi1")
    by_due = AccessPattern("DUE", "{due_at}#{ticket_id}")
    by_assignee = AccessPattern("ASSIGNEE#{assignee}", "{level}#{ticket_id}", when=field("status") == "open")
    by_level = AccessPattern("STATUS#{status}", "{level:desc}#{ticket_id}")
    by_day = AccessPattern("DAY#{filed_at:%Y%m%d}", "{ticket_id}")


class Contract(Entity, table=indexed):
    """A Revision, a TTL and an index."""

    contract_id: str
    party: str
    revision: Annotated[int, Revision] = 0
    ends_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("CONTRACT#{contract_id}")
    by_party = AccessPattern("PARTY#{party}", "{contract_id}")


class TicketV2(Entity, table=indexed_v2, tag="Ticket"):
    """Does not know ``note``, and has fewer patterns."""

    member_id: str
    ticket_id: str
    filed_at: datetime

    primary = PrimaryKey("MEMBER#{member_id}", "TICKET#{ticket_id}")
    by_date = AccessPattern("MEMBER#{member_id}", "FILED#{filed_at}#{ticket_id}", index="gsi1")


# --- table "hashes"


class Setting(Entity, table=hashes):
    """One item per partition."""

    name: str
    value: str = ""

    primary = PrimaryKey("SETTING#{name}")
