"""What reading orders cannot be faster than: bytes, pydantic's JSON parser, code written for this one class, Pydantic.

There is no botocore in it, and nothing is checked or looked up.
"""

from decimal import Decimal
from typing import Any

from pydantic_core import from_json

from benchmarks.contender import Contender
from benchmarks.libraries.ours import Odm
from benchmarks.order import Order

_validate = Order.__pydantic_validator__.validate_python


class ByHand(Contender):
    """The least that a mapper over a JSON parser does, on the items that odm stores."""

    def load(self) -> None:
        Odm(self.page, self.service).load()

    def query(self, _number: int) -> list[Order]:
        page = from_json(self.service.answers.answer("Query", b""), cache_strings="keys")
        return [_validate(_values(item)) for item in page["Items"]]


def _values(item: dict[str, Any]) -> dict[str, Any]:
    return {
        "customer_id": item["customer_id"]["S"],
        "order_id": item["order_id"]["S"],
        "product_id": item["product_id"]["S"],
        "placed_at": item["placed_at"]["S"],
        "updated_at": item["updated_at"]["S"],
        "total": Decimal(item["total"]["N"]),
        "tax": Decimal(item["tax"]["N"]),
        "quantity": int(item["quantity"]["N"]),
        "points": int(item["points"]["N"]),
        "gift": item["gift"]["BOOL"],
        "status": item["status"]["S"],
        "tags": [tag["S"] for tag in item["tags"]["L"]],
        "address": {name: part["S"] for name, part in item["address"]["M"].items()},
    }
