"""Pages that are not orders alone: several classes, orders whose classes take part in validation, other shapes."""

from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

from pydantic import (
    BaseModel,
    ModelWrapValidatorHandler,
    RootModel,
    ValidatorFunctionWrapHandler,
    create_model,
    field_validator,
    model_validator,
)

from benchmarks.order import Order
from benchmarks.pages import Page, order_fields

Keyed: Final = create_model("Keyed", customer_id=str, order_id=str)
"""What every model here is stored under."""


def _of(name: str, /, **fields: Any) -> type[BaseModel]:
    return create_model(name, __base__=Keyed, **fields)


def _parts_of_orders(name: str, /, *fields: str) -> type[BaseModel]:
    return _of(name, **{field: Order.model_fields[field].annotation for field in fields})


Shipment: Final = _parts_of_orders("Shipment", "product_id", "placed_at", "quantity", "status", "tags", "address")
Invoice: Final = _parts_of_orders("Invoice", "updated_at", "total", "tax", "points", "gift", "address")


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


_VALIDATING: Final[Mapping[str, type[BaseModel]]] = {
    "before and wrap validators of fields": FieldValidators,
    "before and wrap validators of the model": ModelValidators,
    "custom __init__": CustomInit,
    "RootModel": RootModels,
    "unions": Unions,
}


def validating(size: int) -> list[Page]:
    """Orders whose classes take part in their validation."""
    return [Page(name, {cls.__name__: cls}, order_fields, size) for name, cls in _VALIDATING.items()]


Line: Final[Any] = create_model("Line", product=str, quantity=int, price=Decimal)


def _flat(n: int) -> dict[str, Any]:
    at = order_fields(n)["placed_at"]
    return {"name": f"name {n}", "count": n, "price": Decimal(n + 1).scaleb(-2), "open": n % 2 == 0, "at": at}


def _line(n: int, i: int) -> dict[str, Any]:
    return {"product": f"p{n + i:06d}", "quantity": 1 + i % 9, "price": Decimal(101 + i).scaleb(-2)}


def _document(n: int) -> dict[str, Any]:
    parts = [{"at": i, "text": f"part {i}"} for i in range(5)]
    return {"data": {"title": f"document {n}", "size": n, "flags": [True, False, None], "parts": parts}}


_SHAPES: Final[Mapping[str, tuple[type[BaseModel], Callable[[int], dict[str, Any]]]]] = {
    "5 scalars": (_of("Flat", name=str, count=int, price=Decimal, open=bool, at=datetime), _flat),
    "20 line items": (_of("Bill", lines=list[Line]), lambda n: {"lines": [_line(n, i) for i in range(20)]}),
    "dict of 20 int": (
        _of("Counters", counts=dict[str, int]),
        lambda n: {"counts": {f"key{i}": n + i for i in range(20)}},
    ),
    "set of 20 str and of 20 int": (
        _of("Sets", words=set[str], numbers=set[int]),
        lambda n: {"words": {f"word{n + i}" for i in range(20)}, "numbers": {n + i for i in range(20)}},
    ),
    "list of 20 str": (_of("Texts", texts=list[str]), lambda n: {"texts": [f"text {n + i}" for i in range(20)]}),
    "list of 20 int": (_of("Numbers", numbers=list[int]), lambda n: {"numbers": [n + i for i in range(20)]}),
    "Any": (_of("Document", data=Any), _document),
}


def shapes(size: int) -> list[Page]:
    """Items that are not like orders."""
    return [
        Page(name, {cls.__name__: cls}, lambda n, _, make=make: make(n), size)  # type: ignore[misc]
        for name, (cls, make) in _SHAPES.items()
    ]
