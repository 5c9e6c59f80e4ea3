"""What is stored and read: orders of 13 fields, about 390 bytes of JSON, or anything else as a `Page`.

A page is plain models and their fields; every library makes of the models what it wants.
"""

import types
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

from attrs import field, frozen
from pydantic import BaseModel

from benchmarks.order import Order
from odm import AccessPattern, Entity, PrimaryKey, Table

PER_CUSTOMER: Final = 100
CUSTOMER: Final = "c0000001"
"""Whose orders a page of one partition has."""

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


@frozen(slots=False)
class Page:
    """What a contender is loaded with.

    Attributes:
        name: as the tables show it.
        models: plain models, by their tags; items of several are in turns.
        fields: the fields of the item of a number but its key, in an edition.
        size: how many items.
        keys: partition and sort key of the item of a number.
        names: the names of these two fields.
        partition: how many items share a partition; None: all.
        batch: how many items are written at once; None: all.
        each: whether the time of a query is that of an item.
        indexed: whether the entities have a secondary pattern, by a field that each edition changes.
        exclusive: whether no other program writes to the table of our entities.
        entities: our entities, by their tags; made with the table.
    """

    name: str
    models: Mapping[str, type[BaseModel]]
    fields: Callable[[int, int], dict[str, Any]] = field(repr=False)
    size: int
    keys: Callable[[int], tuple[Any, Any]] = lambda number: (CUSTOMER, order_of(number))
    names: tuple[str, str] = ("customer_id", "order_id")
    partition: int | None = None
    batch: int | None = 100
    each: bool = True
    indexed: bool = False
    exclusive: bool = False
    entities: dict[str, type[Any]] = field(init=False, factory=dict)

    @cached_property
    def table(self) -> Table:
        """The table of our entities."""
        name = "".join(letter if letter.isalnum() else "-" for letter in self.name)
        table = Table(name, exclusive=self.exclusive)
        self.entities.update((tag, self._entity(table, tag, model)) for tag, model in self.models.items())
        return table

    def _entity(self, table: Table, tag: str, model: type[BaseModel]) -> type[Any]:
        first, second = self.names
        partition = f"{first.removesuffix('_id').upper()}#{{{first}}}"
        body: dict[str, Any] = {"__module__": __name__, "primary": PrimaryKey(partition, f"{tag.upper()}#{{{second}}}")}
        if self.indexed:
            body["by_date"] = AccessPattern(partition, "PLACED#{placed_at}#{order_id}", index="dates")
        return types.new_class(tag, (Entity, model), {"table": table}, lambda namespace: namespace.update(body))

    def tag(self, number: int) -> str:
        """The tag of an item."""
        return list(self.models)[number % len(self.models)]

    def row(self, number: int, edition: int = 0) -> dict[str, Any]:
        """The fields of an item, its key included."""
        values = self.fields(number, edition) | dict(zip(self.names, self.keys(number), strict=True))
        return {name: values[name] for name in self.models[self.tag(number)].model_fields}

    def model(self, number: int, edition: int = 0) -> BaseModel:
        """An item as a plain model."""
        return self.models[self.tag(number)](**self.row(number, edition))

    def entity(self, number: int, edition: int = 0) -> Any:
        """An item as our entity."""
        return self.entities[self.tag(number)](**self.row(number, edition))

    def partition_of(self, number: int) -> range:
        """The numbers of the items that share a partition with one."""
        of = self.partition or self.size
        return range(number - number % of, min(number - number % of + of, self.size))


def customer_of(number: int) -> str:
    """The customer whose order this is, where many have orders."""
    return f"c{number // PER_CUSTOMER:07d}"


def order_of(number: int) -> str:
    """The id of an order, in the order of the numbers."""
    return f"o{number:09d}"


def order_fields(number: int, edition: int = 0) -> dict[str, Any]:
    """The fields of an order; another edition differs in what an index is made of, and in a number."""
    return {
        "product_id": f"p{number * 7919 % 100_003:06d}",
        "placed_at": _START + timedelta(seconds=number % 1_000_000 + edition, microseconds=number % 997),
        "updated_at": _START + timedelta(seconds=2 * number % 1_000_000, microseconds=edition % 1000),
        "total": Decimal(1999 + number % 90_000).scaleb(-2),
        "tax": Decimal(319 + number % 9_000).scaleb(-2),
        "quantity": 1 + number % 9,
        "points": number % 1000 + edition,
        "gift": number % 2 == 0,
        "status": ("open", "paid", "shipped")[number % 3],
        "tags": ["garden", f"season-{number % 4}", "outdoor furniture"],
        "address": {
            "street": f"{number % 200} Long Meadow Lane",
            "city": "Stockton-on-Tees",
            "postcode": f"TS{number % 30} 4QX",
            "country": "GB",
        },
    }


def orders(size: int) -> Page:
    """Orders of one customer."""
    return Page(f"{size:,} orders", {"Order": Order}, order_fields, size)


def many_customers(size: int, *, indexed: bool = False) -> Page:
    """Orders, 100 of them a customer; a query counts as one."""

    def keys(number: int) -> tuple[str, str]:
        return customer_of(number), order_of(number)

    name = "indexed" if indexed else "plain"
    models = {"Order": Order}
    return Page(name, models, order_fields, size, keys, partition=PER_CUSTOMER, each=False, indexed=indexed)


class Reading(BaseModel):
    """A reading of a meter: with what odm stores next to the fields, eight cells a row."""

    meter_id: str
    at: datetime
    kwh: Decimal
    volts: int
    estimated: bool
    note: str


def readings(size: int) -> Page:
    """Readings of one meter, written all at once."""

    def fields(number: int, edition: int) -> dict[str, Any]:
        kwh, note = Decimal(1001 + 2 * number + edition).scaleb(-2), f"read by radio from van {number % 100:03d}"
        return {"kwh": kwh, "volts": 228 + number % 5, "estimated": number % 4 == 0, "note": note}

    def keys(number: int) -> tuple[str, datetime]:
        return "m0000001", _START + timedelta(minutes=15 * number)

    return Page("readings", {"Reading": Reading}, fields, size, keys, ("meter_id", "at"), batch=None)
