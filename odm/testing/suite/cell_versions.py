"""`CellVersions`: the former values of a field, kept with the item."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import pytest

from odm import (
    TTL,
    BadValue,
    CellVersions,
    ConditionFailed,
    Conflict,
    Entity,
    ItemExists,
    PrimaryKey,
    Revision,
    Store,
    Stored,
    Table,
    increment,
    remove,
    set_,
)
from odm.protocol import requests as req
from odm.results import CellVersion
from odm.testing.capabilities import needs
from odm.testing.clock import Clock
from odm.testing.stores import Stores

exchange = Table("exchange")

START = datetime(2015, 3, 5, 21, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MILLISECOND = timedelta(milliseconds=1)

PRICES = {
    date(2015, 3, 1): Decimal("558.40"),
    date(2015, 3, 2): Decimal("571.34"),
    date(2015, 3, 3): Decimal("573.64"),
    date(2015, 3, 4): Decimal("573.37"),
    date(2015, 3, 5): Decimal("575.33"),
}


class ClosingPrice(Entity, table=exchange):
    """The price of a security at the end of a day; a correction keeps what was believed before."""

    symbol: str
    day: date
    price: Annotated[Decimal, CellVersions(5)]
    currency: str = "USD"

    primary = PrimaryKey("TICKER#{symbol}", "{day}")


class Forecast(Entity, table=exchange):
    """Versions of fields that need not be stored, next to a TTL and a Revision."""

    name: str
    note: Annotated[str | None, CellVersions(3), Stored("n")] = None
    tags: Annotated[set[str], CellVersions(2)] = set()  # noqa: RUF012  # pydantic copies it
    runs: int = 0
    ends_at: Annotated[datetime | None, TTL] = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("FORECAST#{name}")


FIRST = date(2015, 3, 1)
KEY = ClosingPrice.primary(symbol="ZXZZT", day=FIRST)


def priced(price: str) -> ClosingPrice:
    """The price of the first day."""
    return ClosingPrice(symbol="ZXZZT", day=FIRST, price=Decimal(price))


@pytest.fixture
def exchange_clock() -> Clock:
    """The clock of the store, which stands still."""
    return Clock(START)


@pytest.fixture
def exchanged(stores: Stores, exchange_clock: Clock) -> Store:
    """A store of prices."""
    return stores.open(exchange, clock=exchange_clock)


def values(store: Store) -> list[str]:
    """The prices that were believed on the first day, newest first."""
    return [str(version.value) for version in store.cell_versions(KEY, ClosingPrice.price)]


@needs("updates")
class TestCellVersions:
    def test_keeps_what_was_believed_before_a_correction(self, exchanged: Store, exchange_clock: Clock) -> None:
        for day, price in PRICES.items():
            exchanged.put(ClosingPrice(symbol="ZXZZT", day=day, price=Decimal("559.40") if day == FIRST else price))
        exchange_clock.advance(SECOND)
        exchanged.put(priced("558.40"))
        assert exchanged.cell_versions(KEY, ClosingPrice.price) == [
            CellVersion(Decimal("558.40"), START + SECOND),
            CellVersion(Decimal("559.40"), START),
        ]
        prices = {closing.day: closing.price for closing in exchanged.query(ClosingPrice.primary(symbol="ZXZZT"))}
        assert prices == PRICES
        last = ClosingPrice.primary(symbol="ZXZZT", day=date(2015, 3, 5))
        assert exchanged.cell_versions(last, ClosingPrice.price) == [CellVersion(Decimal("575.33"), START)]

    def test_keeps_as_many_values_as_it_says(self, exchanged: Store, exchange_clock: Clock) -> None:
        for cents in range(7):
            exchanged.put(priced(f"1.{cents}5"))
            exchange_clock.advance(SECOND)
        assert values(exchanged) == ["1.65", "1.55", "1.45", "1.35", "1.25"]

    def test_puts_and_updates_keep_alike(self, exchanged: Store, exchange_clock: Clock) -> None:
        exchanged.insert(priced("1.15"))
        for price in ("2.15", "3.15"):
            exchange_clock.advance(SECOND)
            exchanged.update(KEY, set_(ClosingPrice.price, Decimal(price)))
        exchanged.update(KEY, increment(ClosingPrice.price, Decimal(1)), set_(ClosingPrice.currency, "EUR"))
        exchanged.put(priced("5.15"))
        assert values(exchanged) == ["5.15", "4.15", "3.15", "2.15", "1.15"]
        assert exchanged.get(KEY) == priced("5.15")

    def test_each_version_is_later_than_the_one_before(self, exchanged: Store, exchange_clock: Clock) -> None:
        exchanged.put(priced("1.15"))
        exchanged.put(priced("2.15"))
        exchange_clock.set(START - SECOND)
        exchanged.update(KEY, set_(ClosingPrice.price, Decimal("3.15")))
        versions = exchanged.cell_versions(KEY, ClosingPrice.price)
        assert [version.at - START for version in versions] == [2 * MILLISECOND, MILLISECOND, 0 * MILLISECOND]

    def test_a_write_of_the_same_value_adds_none(self, exchanged: Store, exchange_clock: Clock) -> None:
        exchanged.put(priced("1.15"))
        exchange_clock.advance(SECOND)
        exchanged.put(priced("1.150"))
        exchanged.update(KEY, set_(ClosingPrice.price, Decimal("1.15")))
        exchanged.update(KEY, set_(ClosingPrice.currency, "EUR"))
        assert exchanged.cell_versions(KEY, ClosingPrice.price) == [CellVersion(Decimal("1.15"), START)]
        assert exchanged.one(KEY).currency == "EUR"

    def test_a_returning_update(self, exchanged: Store) -> None:
        exchanged.put(priced("1.15"))
        change = set_(ClosingPrice.price, Decimal("2.15"))
        assert exchanged.update(KEY, change, returning="new") == priced("2.15")
        assert exchanged.update(KEY, set_(ClosingPrice.price, Decimal("3.15")), returning="old") == priced("2.15")
        assert values(exchanged) == ["3.15", "2.15", "1.15"]

    def test_an_upsert_starts(self, exchanged: Store) -> None:
        for price in ("1.15", "2.15"):
            exchanged.update(KEY, set_(ClosingPrice.price, Decimal(price)), upsert=True)
        assert values(exchanged) == ["2.15", "1.15"]

    def test_ends_with_the_item(self, exchanged: Store) -> None:
        assert values(exchanged) == []
        exchanged.put(priced("1.15"))
        exchanged.put(priced("2.15"))
        exchanged.delete(KEY)
        assert values(exchanged) == []
        exchanged.put(priced("3.15"))
        assert values(exchanged) == ["3.15"]

    def test_loses_no_value_to_a_rival(self, exchanged: Store, stores: Stores) -> None:
        exchanged.put(priced("1.15"))
        stores.rival_puts(priced("2.15"))
        exchanged.put(priced("3.15"))
        assert values(exchanged) == ["3.15", "2.15"]  # the rival's program does not know the marker
        assert exchanged.get(KEY) == priced("3.15")

    def test_a_refused_write_adds_none(self, exchanged: Store) -> None:
        exchanged.put(priced("1.15"))
        with pytest.raises(ItemExists):
            exchanged.insert(priced("2.15"))
        with pytest.raises(ConditionFailed):
            exchanged.put(priced("2.15"), when=ClosingPrice.currency == "EUR")
        with pytest.raises(ConditionFailed):
            exchanged.update(KEY, set_(ClosingPrice.price, Decimal(3)), when=ClosingPrice.price > 2)
        assert values(exchanged) == ["1.15"]

    def test_reads_no_more_than_the_item_and_writes_once(self, exchanged: Store, stores: Stores) -> None:
        exchanged.insert(priced("1.15"))
        stores.forget()
        exchanged.put(priced("2.15"))
        exchanged.update(KEY, set_(ClosingPrice.currency, "EUR"))
        assert [type(request) for request in stores.requests] == [req.Get, req.Put, req.Update]

    def test_a_transaction_keeps_them(self, exchanged: Store) -> None:
        for price in ("1.15", "2.15"):
            with exchanged.transaction() as tx:
                tx.put(priced(price))
        with exchanged.transaction() as tx:
            tx.update(KEY, set_(ClosingPrice.price, Decimal("3.15")))
        assert values(exchanged) == ["3.15", "2.15", "1.15"]

    def test_of_a_field_that_need_not_be_stored(self, exchanged: Store) -> None:
        forecast = exchanged.put(Forecast(name="f"))
        assert exchanged.cell_versions(forecast, Forecast.note) == []
        for note in ("a", "b", "c", "d"):
            exchanged.update(Forecast.primary(name="f"), set_(Forecast.note, note), set_(Forecast.tags, {note}))
        assert [version.value for version in exchanged.cell_versions(forecast, Forecast.note)] == ["d", "c", "b"]
        assert [version.value for version in exchanged.cell_versions(forecast, Forecast.tags)] == [{"d"}, {"c"}]
        exchanged.update(Forecast.primary(name="f"), remove(Forecast.note))
        assert exchanged.cell_versions(forecast, Forecast.note) == []
        exchanged.update(Forecast.primary(name="f"), set_(Forecast.note, "e"))
        assert [version.value for version in exchanged.cell_versions(forecast, Forecast.note)] == ["e"]
        assert exchanged.one(Forecast.primary(name="f")).tags == {"d"}

    def test_next_to_a_revision_and_a_ttl(self, exchanged: Store, exchange_clock: Clock) -> None:
        first = exchanged.put(Forecast(name="f", note="a", ends_at=START + SECOND))
        second = exchanged.put(first.model_copy(update={"note": "b"}))
        with pytest.raises(Conflict):
            exchanged.put(first.model_copy(update={"note": "c"}))
        assert [version.value for version in exchanged.cell_versions(second, Forecast.note)] == ["b", "a"]
        exchange_clock.advance(2 * SECOND)
        assert exchanged.cell_versions(second, Forecast.note) == []
        exchanged.put(Forecast(name="f", note="d"))
        assert [version.value for version in exchanged.cell_versions(second, Forecast.note)] == ["d"]

    def test_new_items_can_be_loaded_and_raw_items_copied(self, exchanged: Store) -> None:
        exchanged.run(lambda do: do.load_new([priced("1.15")]))
        exchanged.put(priced("2.15"))
        expected = exchanged.cell_versions(KEY, ClosingPrice.price)
        raw = exchanged.run(lambda do: do.scan_page()).items
        exchanged.delete(KEY)
        exchanged.run(lambda do: do.put_raw(raw))
        assert exchanged.cell_versions(KEY, ClosingPrice.price) == expected
        assert [version.value for version in expected] == [Decimal("2.15"), Decimal("1.15")]

    def test_what_cannot_be_asked_for(self, exchanged: Store) -> None:
        with pytest.raises(BadValue, match=r"ClosingPrice\.currency keeps no former values"):
            exchanged.cell_versions(KEY, ClosingPrice.currency)
        with pytest.raises(BadValue, match="of Forecast, not of ClosingPrice"):
            exchanged.cell_versions(KEY, Forecast.note)  # type: ignore[odm]
        with pytest.raises(BadValue, match="a batch does not read the value"), exchanged.batch() as batch:
            batch.put(priced("1.15"))
