"""The order as a plain model, apart from odm: a process that measures how another library starts must not load it."""

from datetime import datetime
from decimal import Decimal
from typing import Literal

from pydantic import BaseModel


class Order(BaseModel):
    """The order as a plain model."""

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
