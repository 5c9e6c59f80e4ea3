"""What is stored and read: pages of one partition, each of one shape or of several classes.

A page is plain models and their fields; every contender makes of the models what its library wants.
"""

import types
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal

from attrs import field, frozen
from pydantic import (
    BaseModel,
    ModelWrapValidatorHandler,
    RootModel,
    ValidatorFunctionWrapHandler,
    field_validator,
    model_validator,
)

from benchmarks.orders import Order, fields, order_of
from odm import Entity, PrimaryKey, Table

CUSTOMER: Final = "c0000001"
"""Whose partition a page is."""


@frozen(slots=False)
class Page:
    """A page.

    Attributes:
        name: as the tables show it.
        models: plain models, by their tags; items of several are in turns.
        make: fields of the item of a number, keys of the partition included.
        size: how many items.
    """

    name: str
    models: Mapping[str, type[BaseModel]]
    make: Callable[[int], dict[str, Any]] = field(repr=False)
    size: int

    @cached_property
    def table(self) -> Table:
        """The table of our entities."""
        return Table(self.name.replace(" ", "-").replace(",", ""))

    @cached_property
    def entities(self) -> Mapping[str, type[Any]]:
        """Our entities, by their tags."""
        return {tag: _entity(tag, model, self.table) for tag, model in self.models.items()}

    @cached_property
    def rows(self) -> Sequence[tuple[str, dict[str, Any]]]:
        """Tag and fields of every item."""
        tags = list(self.models)
        return [(tags[number % len(tags)], self._row(number)) for number in range(self.size)]

    def _row(self, number: int) -> dict[str, Any]:
        values = self.make(number)
        tag = list(self.models)[number % len(self.models)]
        known = self.models[tag].model_fields
        return {name: value for name, value in values.items() if name in known}

    @property
    def expected(self) -> list[dict[str, Any]]:
        """What everybody must give back."""
        return [self.models[tag](**values).model_dump() for tag, values in self.rows]


def _entity(tag: str, model: type[BaseModel], table: Table) -> type[Any]:
    body = {
        "__module__": __name__,
        "primary": PrimaryKey("CUSTOMER#{customer_id}", f"{tag.upper()}" + "#{order_id}"),
    }
    return types.new_class(tag, (Entity, model), {"table": table}, lambda namespace: namespace.update(body))


def order_fields(number: int) -> dict[str, Any]:
    """The fields of an order, all of one customer."""
    return fields(number) | {"customer_id": CUSTOMER}


def orders(size: int) -> Page:
    """Orders alone."""
    return Page(f"{size:,} orders", {"Order": Order}, order_fields, size)


class Keyed(BaseModel):
    """What every model here is stored under."""

    customer_id: str
    order_id: str


class Shipment(Keyed):
    """A parcel of an order."""

    product_id: str
    placed_at: datetime
    quantity: int
    status: Literal["open", "paid", "shipped"]
    tags: list[str]
    address: dict[str, str]


class Invoice(Keyed):
    """The bill of an order."""

    updated_at: datetime
    total: Decimal
    tax: Decimal
    points: int
    gift: bool
    address: dict[str, str]


def three_classes(size: int) -> Page:
    """Orders, shipments and invoices in one partition."""
    models: dict[str, type[BaseModel]] = {"Order": Order, "Shipment": Shipment, "Invoice": Invoice}
    return Page(f"{size:,} items of 3 classes", models, order_fields, size)


class FieldValidators(Order):
    """An order whose fields have validators around pydantic's own."""

    @field_validator("product_id", mode="before")
    @classmethod
    def _before(cls, value: Any) -> Any:
        return value

    @field_validator("quantity", mode="wrap")
    @classmethod
    def _wrap(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
        return handler(value)


class ModelValidators(Order):
    """An order with validators around the whole."""

    @model_validator(mode="before")
    @classmethod
    def _before(cls, values: Any) -> Any:
        return values

    @model_validator(mode="wrap")
    @classmethod
    def _wrap(cls, values: Any, handler: ModelWrapValidatorHandler["ModelValidators"]) -> "ModelValidators":
        return handler(values)


class CustomInit(Order):
    """An order with an ``__init__`` of its own."""

    def __init__(self, **values: Any) -> None:
        super().__init__(**values)


class Tags(RootModel[list[str]]):
    """A list as a model."""


class RootModels(Order):
    """An order with a model in the place of a list."""

    tags: Tags  # type: ignore[assignment]


class Unions(Order):
    """An order with fields that may be of several types."""

    product_id: str | int  # type: ignore[assignment]
    quantity: int | str  # type: ignore[assignment]
    address: dict[str, str] | str  # type: ignore[assignment]


def validating(size: int) -> list[Page]:
    """Orders whose classes take part in their validation."""
    classes: dict[str, type[BaseModel]] = {
        "before and wrap validators of fields": FieldValidators,
        "before and wrap validators of the model": ModelValidators,
        "custom __init__": CustomInit,
        "RootModel": RootModels,
        "unions": Unions,
    }
    return [Page(name, {cls.__name__: cls}, order_fields, size) for name, cls in classes.items()]


class Flat(Keyed):
    """Scalars alone."""

    name: str
    count: int
    price: Decimal
    open: bool
    at: datetime


class Line(BaseModel):
    """A line of a bill."""

    product: str
    quantity: int
    price: Decimal


class Bill(Keyed):
    """A list of models."""

    lines: list[Line]


class Counters(Keyed):
    """A map of numbers."""

    counts: dict[str, int]


class Sets(Keyed):
    """Sets of strings and of numbers."""

    words: set[str]
    numbers: set[int]


class Texts(Keyed):
    """A list of strings."""

    texts: list[str]


class Numbers(Keyed):
    """A list of numbers."""

    numbers: list[int]


class Document(Keyed):
    """Anything."""

    data: Any


_SHAPES: Final[Mapping[str, tuple[type[BaseModel], Callable[[int], dict[str, Any]]]]] = {
    "5 scalars": (
        Flat,
        lambda n: (
            {"name": f"name {n}", "count": n, "price": Decimal(n + 1).scaleb(-2), "open": n % 2 == 0}
            | {"at": fields(n)["placed_at"]}
        ),
    ),
    "20 line items": (
        Bill,
        lambda n: {
            "lines": [
                {"product": f"p{n + i:06d}", "quantity": 1 + i % 9, "price": Decimal(101 + i).scaleb(-2)}
                for i in range(20)
            ]
        },
    ),
    "dict of 20 int": (Counters, lambda n: {"counts": {f"key{i}": n + i for i in range(20)}}),
    "set of 20 str and of 20 int": (
        Sets,
        lambda n: {"words": {f"word{n + i}" for i in range(20)}, "numbers": {n + i for i in range(20)}},
    ),
    "list of 20 str": (Texts, lambda n: {"texts": [f"text {n + i}" for i in range(20)]}),
    "list of 20 int": (Numbers, lambda n: {"numbers": [n + i for i in range(20)]}),
    "Any": (
        Document,
        lambda n: {
            "data": {
                "title": f"document {n}",
                "size": n,
                "flags": [True, False, None],
                "parts": [{"at": i, "text": f"part {i}"} for i in range(5)],
            }
        },
    ),
}


def shapes(size: int) -> list[Page]:
    """Items that are not like orders."""
    return [
        Page(name, {cls.__name__: cls}, lambda n, make=make: _keyed(n) | make(n), size)  # type: ignore[misc]
        for name, (cls, make) in _SHAPES.items()
    ]


def _keyed(number: int) -> dict[str, Any]:
    return {"customer_id": CUSTOMER, "order_id": order_of(number)}
