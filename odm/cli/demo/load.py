"""The demo's data: airports from the data set, a shop made up by chance with a fixed seed, and how they are loaded.

The last item written says that the data is complete. A load that was cut short has left no such item, so the next run
begins again from an empty table.
"""

import csv
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from random import Random
from typing import Literal, get_args

from odm import Entity, PrimaryKey, Store, Unsupported
from odm.cli.demo.models import Airport, Customer, Order, Warehouse, demo

VERSION = 1
"""Of the models and the data; a file that another version loaded is loaded again."""

SEED = 2026
CUSTOMERS = 240
ORDERS = 4_000
OPENING = datetime(2025, 1, 1, 8, tzinfo=UTC)
"""The shop's first day. The data has fixed dates, so that every run has the same answers."""

FIRST_NAMES = ("Ana", "Björn", "Chloé", "Eoin", "Fátima", "Gül", "Håkon", "Inés", "José María", "Søren", "Zoë")
LAST_NAMES = ("Almeida", "Brontë", "Çelik", "D'Angelo", "García López", "Müller", "Nørgaard", "O'Brien", "Weiß")
TRADES = ("Bakery", "Café", "Gallery", "Print Shop", "Studio")
COUNTRIES = ("DE", "ES", "FR", "NO", "PT")

Track = Callable[[Sequence[Entity], str], Iterable[Entity]]
"""Passes items on and shows how far it has come; the text names them."""


class Loaded(Entity, table=demo):
    """Says that a version of the data is complete, and how much of it there is."""

    version: int
    airports: int
    customers: int
    orders: int

    primary = PrimaryKey("LOADED#{version}")


def loaded(db: Store) -> Loaded | None:
    """What an earlier run has loaded completely, or None."""
    return db.get(Loaded, version=VERSION)


def load(db: Store, track: Track) -> Loaded:
    """Empty the table and load everything.

    Args:
        db: the demo's store.
        track: shows the progress.

    Raises:
        Unsupported: the airports are not installed; nothing was changed.
    """
    airports = read_airports()
    customers, orders = make_shop()
    db.drop()
    db.create()
    parts: tuple[tuple[str, Sequence[Entity]], ...] = (
        ("airports", airports),
        ("customers", customers),
        ("orders", orders),
    )
    for name, items in parts:
        with db.batch() as batch:
            for item in track(items, name):
                batch.put(item)
    return db.put(Loaded(version=VERSION, airports=len(airports), customers=len(customers), orders=len(orders)))


def read_airports() -> list[Airport]:
    """The airports of the `vega_datasets` package, read without importing it, which would import pandas.

    Raises:
        Unsupported: the package is not installed.
    """
    spec = find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise Unsupported(
            "the demo's airports come with vega_datasets, which is not installed: pip install 'single-table-odm[cli]'"
        )
    file = Path(spec.origin).with_name("_data") / "airports.csv"
    with file.open(encoding="utf-8", newline="") as lines:
        return [Airport.model_validate(row) for row in csv.DictReader(lines)]


def make_shop() -> tuple[list[Customer], list[Order]]:
    """The customers, and their orders in the order in which they were placed; the same at every call."""
    chance = Random(SEED)
    customers = [_customer(chance, number) for number in range(1, CUSTOMERS + 1)]
    moments = sorted(chance.randrange(540 * 24 * 3600) for _ in range(ORDERS))
    orders = [_order(chance, number, second) for number, second in enumerate(moments, start=1)]
    return customers, orders


def _customer(chance: Random, number: int) -> Customer:
    first, last = chance.choice(FIRST_NAMES), chance.choice(LAST_NAMES)
    trade = chance.choice(TRADES)
    name = chance.choice((f"{first} {last}", f'{last}\'s "{first}" {trade}', f"{trade} #{number}"))
    country = chance.choice(COUNTRIES)
    email = f"hello@customer-{number:03}.example"
    return Customer(customer_id=f"C{number:03}", name=name, country=country, email=email)


def _order(chance: Random, number: int, second: int) -> Order:
    """An order; low customer numbers order more often, and one in twelve orders is still open."""
    status: Literal["open", "shipped"] = "open" if chance.random() < 1 / 12 else "shipped"
    return Order(
        customer_id=f"C{1 + int(CUSTOMERS * chance.random() ** 2):03}",
        order_id=f"{number:05}",
        placed_at=OPENING + timedelta(seconds=second),
        total=Decimal(chance.randrange(500, 60_000)) / 100,
        warehouse=chance.choice(get_args(Warehouse)),
        status=status,
    )
