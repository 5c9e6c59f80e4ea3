"""Entities for the mistakes and the correct lines of test_keys.py; read by type checkers, and compiled by the test."""

from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, ClassVar, Final, Generic, Literal, NewType, TypeAlias, TypeVar
from uuid import UUID

from pydantic import Field, computed_field, field_validator

import odm
from odm import (
    AUTO,
    TTL,
    AccessPattern,
    CreatedAt,
    Entity,
    Id,
    Revision,
    Shards,
    Stored,
    Table,
    field,
)
from odm import PrimaryKey as Primary
from odm.patterns.adjacency_list import edge
from odm.patterns.pointer import Pointer
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned

shop = Table("shop")
Sku = NewType("Sku", str)
Cents: TypeAlias = Annotated[int, Field(ge=0, lt=10**8)]
T = TypeVar("T", str, int)
PREFIX = "DAY"
CUSTOMER: Final = "CUSTOMER#{customer_id}"


class Status(StrEnum):
    OPEN = "open"
    SHIPPED = "shipped"


def by_status(prefix: str) -> AccessPattern:
    """A pattern that a function makes."""
    return AccessPattern(prefix + "#{status}", "{created_at}", index="by_status")


class Owned(Entity):
    """A mixin that brings a key field and a pattern."""

    owner_id: str
    revision: Annotated[int, Revision] = 0
    by_owner = AccessPattern("OWNER#{owner_id}", "{created_at}")


class Order(Owned, table=shop, tag="o"):
    customer_id: str
    order_id: UUID
    status: Status = Status.OPEN
    kind: Literal["gift", "plain"] = "plain"
    created_at: datetime
    day: date
    total: Annotated[Decimal, Field(decimal_places=2, alias="sum")]
    cents: Cents = 0
    sku: Sku
    opened_at: datetime | None = None
    lines: list[str] = []
    note: Annotated[str, Stored("n")] = "-"
    expires_at: Annotated[datetime | None, TTL] = None
    version_label: ClassVar[str] = "v1"

    primary = Primary(CUSTOMER, "ORDER#{order_id}")
    by_date = AccessPattern(CUSTOMER + "", "PLACED#{created_at:%Y%m%d}#{status}#{kind}", index="gsi1")
    by_total = AccessPattern("TOTAL#{day}", "{total}#{cents}#{sku}")
    opened = odm.AccessPattern("OPEN", "{opened_at}#{order_id}", shards=Shards(8, by="order_id"))
    gifts: ClassVar = AccessPattern("GIFT#{kind}", when=field("kind") == "gift")
    some_status = by_status("S")
    unnamed = AccessPattern(f"{PREFIX}" + "#{day}")
    if PREFIX:
        by_sku = AccessPattern("SKU#{sku}", "{created_at:desc}", projection=("note",))
    else:
        by_kind = AccessPattern("KIND#{kind}")

    @AccessPattern("STATUS#{status}", "{created_at}#{day}")
    def by_created(*, status: Status, created_at: datetime = ..., day: date = ...) -> None: ...

    @AccessPattern("LABEL#{note}", "{day}")
    @staticmethod
    def by_note(*, note: str, day: date = ...) -> None: ...

    by_label = AccessPattern("LABELS", "{label}#{day}")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def label(self) -> str:
        return f"{self.order_id}"

    @field_validator("note")
    @classmethod
    def trim(cls, note: str) -> str:
        return note.strip()

    @classmethod
    def of(cls, owner_id: str) -> odm.Query["Order"]:
        return cls.by_owner(owner_id=owner_id)


class Customer(Entity, table=shop):
    customer_id: str
    email: str
    name: str
    version: Annotated[int, Revision] = 0

    primary = Primary("CUSTOMER#{customer_id}", "PROFILE")
    by_email = AccessPattern(sort="{name}", partition="EMAIL#{email}")
    unique_email = Unique("email")
    history = Versioned("CUSTOMER#{customer_id}", "v{version}")
    newest = Pointer("NEWEST", tracks="customer_id")

    def note_of(self, order: Order) -> str:
        return order.note


class Ticket(Entity, table=shop):
    ticket_id: Annotated[str, Id()] = AUTO
    made_at: Annotated[datetime, CreatedAt] = AUTO

    primary = Primary("TICKET#{ticket_id}")
    by_time = AccessPattern("TICKETS", "{made_at}")


class Keyed(Entity, Generic[T]):
    """A generic base with the primary key."""

    key: T
    primary = Primary("KEYED#{key}", "{later}")


class Named(Keyed[str], table=shop):
    later: "Later"


Later: TypeAlias = Literal["a", "b"]


class Express(Order, table=shop):
    """An entity that inherits from another and has a primary key of its own."""

    courier: str
    primary = Primary("EXPRESS#{courier}", "{order_id}")


class Optional(Entity):
    """A base with a field that may be None, which a subclass narrows."""

    code: str | None = None


class Coded(Optional, table=shop):
    code: str  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]
    primary = Primary("CODE#{code}")


class Knows(Entity, table=shop):
    one: str
    other: str

    primary, into = edge("P#{one}", "KNOWS", "P#{other}")
