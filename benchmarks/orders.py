"""The item that every candidate stores: an order of 13 fields, about 390 bytes of JSON, 100 of them a customer."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal

from pydantic import BaseModel, TypeAdapter

PER_CUSTOMER: Final = 100
"""So many orders share a partition; a query reads them all."""

_START: Final = datetime(2026, 1, 1, tzinfo=UTC)


class Order(BaseModel):
    """The order as a plain model, which the floors and the boto3 candidates take and give."""

    customer_id: str
    order_id: str
    product_id: str
    placed_at: datetime
    updated_at: datetime
    total: Decimal
    tax: Decimal
    quantity: int
    points: int
    gift: bool
    status: Literal["open", "paid", "shipped"]
    tags: list[str]
    address: dict[str, str]


ORDERS: Final = TypeAdapter(list[Order])


def customer_of(number: int) -> str:
    """The customer whose order this is."""
    return f"c{number // PER_CUSTOMER:07d}"


def order_of(number: int) -> str:
    """The id of an order, in the order of the numbers."""
    return f"o{number:09d}"


def fields(number: int, edition: int = 0) -> dict[str, Any]:
    """The fields of an order; another edition differs in what an index is made of, and in a number.

    Args:
        number: which order, from 0.
        edition: how often it was changed.
    """
    return {
        "customer_id": customer_of(number),
        "order_id": order_of(number),
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


def json_bytes(count: int = 1000) -> float:
    """The mean size of an order as plain JSON."""
    return sum(len(Order(**fields(number)).model_dump_json()) for number in range(count)) / count
