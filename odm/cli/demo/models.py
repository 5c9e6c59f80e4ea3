"""The entities of the demo: a map of places and a small shop, together in one table.

Read this first. Each entity is a Pydantic model that says where its items are stored (`PrimaryKey`) and how else they
are found (`AccessPattern`). Keys are templates: the fields in braces are filled in from the item, at every write.
"""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from odm import AccessPattern, Entity, PrimaryKey, Table, field

Warehouse = Literal["Lyon", "Oslo", "Porto"]

demo = Table("odm-demo")


class Airport(Entity, table=demo):
    """A place. Its sort key goes from the large to the small, so one key answers for a state, a city or a name."""

    iata: str
    name: str
    city: str
    state: str
    country: str
    latitude: float
    longitude: float

    primary = PrimaryKey("COUNTRY#{country}", "{state}#{city}#{name}#{iata}")
    by_iata = AccessPattern("IATA#{iata}")


class Customer(Entity, table=demo):
    """A customer, stored in the same partition as their orders: one request can read both."""

    customer_id: str
    name: str
    country: str
    email: str

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
    by_name = AccessPattern("CUSTOMERS#{country}", "{name}#{customer_id}")


class Order(Entity, table=demo):
    """An order. While it is open it stands in the index of its warehouse; the write that ships it takes it out."""

    customer_id: str
    order_id: str
    placed_at: datetime
    total: Decimal
    warehouse: Warehouse
    status: Literal["open", "shipped"] = "open"

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("CUSTOMER#{customer_id}", "{placed_at}#{order_id}")
    open_orders = AccessPattern("OPEN#{warehouse}", "{placed_at}#{order_id}", when=field("status") == "open")
