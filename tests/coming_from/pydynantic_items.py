"""Items with values that are easily lost, written and read by pydynantic, after the page on it."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any


def write(page: dict[str, Any]) -> None:
    """Write the items with the entities of the page."""
    customer, order, address = page["OldCustomer"], page["OldOrder"], page["OldAddress"]
    customer.put(customer(customer_id="Zoë #1", email="Zoë#x@example.com", name=""))
    customer.put(customer(customer_id="c2", email="b@example.com", name="B", address=address(street="", floor=-1)))
    kinds: list[dict[str, Any]] = [
        {"total": Decimal("0.10"), "tags": {"ü", "a b", "#"}},
        {"total": Decimal("-1E+20"), "status": "paid"},
        {"total": Decimal("1E-30"), "expires": datetime(2100, 1, 1, tzinfo=UTC)},
        {"total": Decimal("12345678901234567890.123456789012345678")},
    ]
    for number, values in enumerate(kinds):
        placed = datetime(2026, 1, 5, 12, number, 0, number, tzinfo=UTC)
        order.put(order(customer_id="c2", order_id=f"o#{number}", placed=placed, **values))


def update(page: dict[str, Any]) -> None:
    """Change some of the items."""
    placed = datetime(2026, 2, 1, tzinfo=UTC)
    page["OldOrder"].update(
        customer_id="c2", order_id="o#0", set={"status": "sent", "placed": placed}, add={"total": Decimal("0.90")}
    )
    page["OldCustomer"].update(customer_id="c2", set={"email": "c@example.com"}, remove=["address"])


def read(page: dict[str, Any]) -> str:
    """All items as pydynantic reads them, in an order of their own."""
    items = [item.model_dump(mode="json") for name in ("OldCustomer", "OldOrder") for item in page[name].scan().all()]
    for item in items:
        item.get("tags", []).sort()
    return "\n".join(sorted(map(str, items)))
