"""Orders by day: the partition of a day has 200 shards, 2014-07-09#000 to 2014-07-09#199.

The suffix is computed from the order's id, so one get reads an order; or it is random and a field of the key. Then a
reader that knows the suffix gets the order, and otherwise a query by id reads all 200 shards. In either case a query of
a day merges all shards in order.
"""

import tempfile
from datetime import date
from pathlib import Path
from random import randrange
from typing import Annotated

from pydantic import Field

from odm import Backend, Entity, PrimaryKey, Query, Shards, Store, Table, between
from odm.backends.local import LocalFile

shop = Table("orders-by-day")
SHARDS = 200
DAY = date(2014, 7, 9)


class Order(Entity, table=shop):
    """Computed suffix."""

    day: date
    order_id: str
    total: int

    primary = PrimaryKey("{day}", "ORDER#{order_id}", shards=Shards(SHARDS, by="order_id"))


class DrawnOrder(Entity, table=shop):
    """Random suffix."""

    day: date
    order_id: str
    salt: Annotated[int, Field(ge=0, lt=SHARDS)] = Field(default_factory=lambda: randrange(SHARDS))
    total: int

    primary = PrimaryKey("{day}", "DRAWN#{order_id}#{salt}", shards=Shards(SHARDS, by="salt"))


def main(backend: Backend) -> dict[str, list[str]]:
    """Store 300 orders of a day in both ways, and query one, a range and the last ones."""
    with Store(shop, backend) as db:
        db.create()
        orders = [Order(day=DAY, order_id=f"o{number:03}", total=number) for number in range(300)]
        drawn = [DrawnOrder(**order.model_dump()) for order in orders]
        with db.batch() as batch:
            for old in db.scan(DrawnOrder):  # of an earlier run: chance gives the same order another key
                batch.delete(old)
        with db.batch() as batch:
            for order in (*orders, *drawn):
                batch.put(order)

        assert db.key_of(orders[7]) == ("2014-07-09#141", "ORDER#o007")  # the id gives the suffix
        assert len({db.key_of(order)[0] for order in orders}) > 100
        with db.meter() as meter:
            assert db.one(Order, day=DAY, order_id="o007") == orders[7]
            assert db.one(DrawnOrder, day=DAY, order_id="o007", salt=drawn[7].salt) == drawn[7]
        assert meter.calls == 2
        assert len(db.explain(DrawnOrder.primary(day=DAY, order_id="o007")).partitions) == SHARDS

        answers = {
            f"from o100, {how}": ids(db, entity.primary(day=DAY).where(between(entity.order_id, "o100", "o102")))
            for how, entity in (("computed", Order), ("random", DrawnOrder))
        }
        answers["the last two"] = ids(db, Order.primary(day=DAY).reverse().limit(2))

    assert answers == {
        "from o100, computed": ["o100", "o101", "o102"],
        "from o100, random": ["o100", "o101", "o102"],
        "the last two": ["o299", "o298"],
    }
    return answers


def ids(db: Store, query: Query[Order | DrawnOrder]) -> list[str]:
    """What a query finds."""
    return [order.order_id for order in db.query(query)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "orders.db"))).items():
            print(f"{question}: {', '.join(answer)}")
