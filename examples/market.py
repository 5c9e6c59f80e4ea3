"""Stock quotes and trades: fixed-width row keys, so that a range is a stock's day or its newest trade.

The row keys are exactly ``NASDAQ#ZXZZT#1426535612156``: the exchange padded to six, the symbol padded to five (those
two fill their width), and the time in milliseconds, of thirteen digits. On Bigtable the fields are columns of the
family ``MD``, in text that other programs read; on other backends `Cell` has no effect.
"""

import csv
import tempfile
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

from odm import Backend, Cell, Entity, PrimaryKey, Query, Store, Stored, Table, Unsupported
from odm.backends.bigtable import Bigtable
from odm.backends.local import LocalFile

quotes = Table("quotes")
trades = Table("trades")


class Quote(Entity, table=quotes):
    """What is bid and asked for a stock at one time."""

    exchange: Annotated[str, Cell("MD:EXCHANGE", "text")]
    symbol: Annotated[str, Cell("MD:SYMBOL", "text")]
    quote_time: Annotated[datetime, Stored(epoch="ms"), Cell("MD:QUOTETIME", "text")]
    bid: Annotated[Decimal, Cell("MD:BID", "text")]
    ask: Annotated[Decimal, Cell("MD:ASK", "text")]
    bid_size: Annotated[int, Cell("MD:BIDSIZE", "text")]
    ask_size: Annotated[int, Cell("MD:ASKSIZE", "text")]

    primary = PrimaryKey("{exchange:<6}#{symbol:<5}", "{quote_time:ms}")  # odm: ignore[missing-ttl]  kept forever


class Trade(Entity, table=trades):
    """A sale; `volume` is that of the day so far."""

    exchange: Annotated[str, Cell("MD:EXCHANGE", "text")]
    symbol: Annotated[str, Cell("MD:SYMBOL", "text")]
    trade_time: Annotated[datetime, Stored(epoch="ms"), Cell("MD:TRADETIME", "text")]
    price: Annotated[Decimal, Cell("MD:LASTSALE", "text")]
    size: Annotated[int | None, Cell("MD:LASTSIZE", "text")] = None
    volume: Annotated[int | None, Cell("MD:VOLUME", "text")] = None

    primary = PrimaryKey("{exchange:<6}#{symbol:<5}", "{trade_time:ms}")  # odm: ignore[missing-ttl]  kept forever


MESSAGE: dict[str, str | int] = {
    "symbol": "ZXZZT",
    "bid": "600.55",
    "ask": "600.60",
    "bid_size": 500,
    "ask_size": 1500,
    "last_sale": "600.58",
    "last_size": 300,
    "quote_time_ms": 1426535612156,
    "trade_time_ms": 1426535612045,
    "exchange": "NASDAQ",
    "volume": 89000,
}
EXCHANGES = {"IBM": "NYSE"}
"""Of the stocks of the data set, whose others are at the NASDAQ."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def parts(message: dict[str, str | int]) -> tuple[Quote, Trade]:
    """What a message of an exchange holds: the quote, and the last trade."""
    shared = {"exchange": message["exchange"], "symbol": message["symbol"]}
    quote = {name: message[name] for name in ("bid", "ask", "bid_size", "ask_size")}
    trade = {"price": message["last_sale"], "size": message["last_size"], "volume": message["volume"]}
    return (
        Quote.model_validate({**shared, **quote, "quote_time": at(message["quote_time_ms"])}),
        Trade.model_validate({**shared, **trade, "trade_time": at(message["trade_time_ms"])}),
    )


def at(milliseconds: str | int) -> datetime:
    """A timestamp, exactly."""
    return EPOCH + timedelta(milliseconds=int(milliseconds))


def read_prices() -> list[Trade]:
    """Monthly prices of five stocks, read from the file of the package `vega_datasets`: importing it imports pandas."""
    spec = find_spec("vega_datasets")
    if spec is None or spec.origin is None:
        raise SystemExit("this example needs its data: pip install 'single-table-odm[cli]'")
    with Path(spec.origin).with_name("_data").joinpath("stocks.csv").open(encoding="utf-8", newline="") as lines:
        return [
            Trade(
                exchange=EXCHANGES.get(row["symbol"], "NASDAQ"),
                symbol=row["symbol"],
                trade_time=datetime.strptime(row["date"], "%b %d %Y").replace(tzinfo=UTC),
                price=Decimal(row["price"]),
            )
            for row in csv.DictReader(lines)
        ]


def prices_of(db: Store, query: Query[Trade]) -> list[str]:
    """Days and prices."""
    return [f"{trade.trade_time:%Y-%m-%d} {trade.price}" for trade in db.query(query)]


def main(backend: Backend) -> dict[str, list[str]]:
    """Store a message and some years of prices, and ask for ranges of time, and for the newest."""
    quote, trade = parts(MESSAGE)
    with Store(quotes, backend) as db:
        db.create()
        db.put(quote)
        quoted = list(db.query(Quote.primary(exchange="NASDAQ", symbol="ZXZZT")))
    with Store(trades, backend) as db:
        db.create()
        with db.batch() as batch:
            for each in [trade, *read_prices()]:
                batch.put(each)

        amazon = Trade.primary(exchange="NASDAQ", symbol="AMZN")
        ibm = Trade.primary(exchange="NYSE", symbol="IBM")
        crash = datetime(2008, 9, 1, tzinfo=UTC), datetime(2009, 1, 1, tzinfo=UTC)
        return {
            "the quote": [f"{found.symbol} {found.bid} {found.ask} at {found.quote_time}" for found in quoted],
            "the trade": prices_of(db, Trade.primary(exchange="NASDAQ", symbol="ZXZZT")),
            "AMZN, the newest three": prices_of(db, amazon.reverse().limit(3)),
            "IBM, at the end of 2008": prices_of(
                db, ibm.where(Trade.trade_time >= crash[0], Trade.trade_time < crash[1])
            ),
            "IBM, the newest before September 2008": prices_of(
                db, ibm.where(Trade.trade_time < crash[0]).reverse().limit(1)
            ),
        }


def rows() -> list[str]:
    """The rows of the message on Bigtable, as ``cbt read`` prints them; this sends nothing."""
    shown: list[str] = []
    for table, item in zip((quotes, trades), parts(MESSAGE), strict=True):
        with Store(table, Bigtable("my-project", "my-instance")) as db:
            shown += [line for line in db.explain(item).stored.splitlines()[2:] if line]
    return shown


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "market.db"))).items():
            print(f"{question}: {', '.join(answer)}")
    with suppress(Unsupported):  # Google's client is not installed
        print(*rows(), sep="\n")
