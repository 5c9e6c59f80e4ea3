"""What queries with a filter cost, by the units that DynamoDB Local reports: the table in docs/query.md."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest

from odm import AccessPattern, Entity, Page, PrimaryKey, Query, Shards, Store, Table
from odm.backends.dynamodb import DynamoDB
from odm.testing.suite.helpers import fill

PAGE = Path(__file__).parents[3] / "docs" / "query.md"
ORDERS = 3000

table = Table("costs")


class Order(Entity, table=table):
    """About 700 bytes in an index."""

    order_id: str
    number: int
    half: int
    tenth: int
    thousandth: int
    queue: str = "q"
    note: str = "n" * 560

    primary = PrimaryKey("ORDER#{order_id}")
    in_queue = AccessPattern("QUEUE#{queue}", "{order_id}")
    spread = AccessPattern("SPREAD#{queue}", "{order_id}", shards=Shards(4, by="number"))


def order(number: int) -> Order:
    groups = {"half": number % 2, "tenth": number % 10, "thousandth": number % 1000}
    return Order.model_validate({"order_id": f"{number:04}", "number": number, **groups})


ALL, SPREAD = Order.in_queue(queue="q"), Order.spread(queue="q")
PAGES: dict[str, tuple[Query[Order], int | None]] = {
    "a page of 25, all match": (ALL.where(Order.number >= 0), None),
    "a page of 25, 1 in 2 matches": (ALL.where(Order.half == 1), None),
    "a page of 25, 1 in 10 matches": (ALL.where(Order.tenth == 9), None),
    "a page of 25 from 4 shards, 1 in 10 matches": (SPREAD.where(Order.tenth == 9), None),
    "a page of 25, 1 in 1000 matches": (ALL.where(Order.thousandth == 999), None),
    "the same with `max_requests=3`": (ALL.where(Order.thousandth == 999), 3),
}
FIRSTS: dict[str, Query[Order]] = {
    "`first()`, the first item matches": ALL.where(Order.number >= 0),
    "`first()`, the 10th item matches": ALL.where(Order.tenth == 9),
    "`first()`, no item matches": ALL.where(Order.number < 0),
}


@pytest.fixture(scope="module")
def db(dynamodb_local: str) -> Iterator[Store]:
    session = boto3.Session(aws_access_key_id=uuid4().hex, aws_secret_access_key="x", region_name="eu-west-1")
    with Store(table, DynamoDB(session, endpoint_url=dynamodb_local)) as store:
        store.create()
        fill(store, map(order, range(ORDERS)))
        yield store


def used(db: Store, call: Callable[[], Any]) -> tuple[str, Any]:
    """The requests and units of a call, as the table shows them, and its result."""
    with db.meter() as meter:
        found = call()
    return f"{meter.calls} · {meter.read_units:g}", found


def rows() -> dict[str, list[str]]:
    """The rows of the table: shape to its columns."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ") and " · " in line]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: columns for name, *columns in cells}


@pytest.mark.full
@pytest.mark.parametrize("shape", PAGES)
def test_pages(db: Store, shape: str) -> None:
    query, most = PAGES[shape]
    page: Page[Order]
    first, page = used(db, lambda: db.page(query, max_requests=most))
    following = ""
    if page.cursor is not None:
        following, _ = used(db, lambda: db.page(query, after=page.cursor, max_requests=most))
    assert rows()[shape][1:] == [first, following]


@pytest.mark.full
@pytest.mark.parametrize("shape", FIRSTS)
def test_firsts(db: Store, shape: str) -> None:
    first, _ = used(db, lambda: db.first(FIRSTS[shape]))
    assert rows()[shape][1:] == [first, ""]


def test_every_row_is_measured() -> None:
    assert rows().keys() == {*PAGES, *FIRSTS}
