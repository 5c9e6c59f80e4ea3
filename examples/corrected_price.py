"""A corrected closing price: the current value, the previous values, and when each became known.

The prices of a symbol are one partition, sorted by day. The previous values of a day are in another partition, so a
range of days reads no corrections. The data are from the published case.

A `Quote` is the short way: its field keeps the previous values itself, the last five, with the time of each write.
"""

import tempfile
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated

from odm import Backend, CellVersions, Entity, PrimaryKey, Revision, Store, Table, set_
from odm.backends.local import LocalFile
from odm.patterns.versioned import Versioned

prices = Table("closing-prices")


class ClosingPrice(Entity, table=prices):
    """What a day's price is known to be, and since when."""

    symbol: str
    day: date
    price: Decimal
    known_since: datetime
    correction: Annotated[int, Revision] = 0

    primary = PrimaryKey("PRICE#{symbol}", "{day}")
    believed = Versioned("BELIEVED#{symbol}#{day}", "{correction}")


class Quote(Entity, table=prices):
    """The price of a day, which keeps what was believed before."""

    symbol: str
    day: date
    price: Annotated[Decimal, CellVersions(5)]

    primary = PrimaryKey("QUOTE#{symbol}", "{day}")


FIRST_WRITTEN = {
    date(2015, 3, 1): Decimal("559.40"),
    date(2015, 3, 2): Decimal("571.34"),
    date(2015, 3, 3): Decimal("573.64"),
    date(2015, 3, 4): Decimal("573.37"),
    date(2015, 3, 5): Decimal("575.33"),
}
DAY, RIGHT = date(2015, 3, 1), Decimal("558.40")


def believed_at(db: Store, day: date, moment: datetime) -> str:
    """The known price of a day at a given time."""
    known = ClosingPrice.believed.entity.known_since <= moment
    last = db.first(ClosingPrice.believed(symbol="ZXZZT", day=day).where(known).reverse())
    return "nothing" if last is None else f"{last.price:.2f}"


def main(backend: Backend) -> dict[str, str]:
    """Write the prices, correct one, and query what was known when."""
    with Store(prices, backend) as db:
        db.create()
        db.delete_all(ClosingPrice.primary(symbol="ZXZZT"))  # of an earlier run
        db.delete_all(Quote.primary(symbol="ZXZZT"))
        for day, price in FIRST_WRITTEN.items():
            evening = datetime(day.year, day.month, day.day, 21, tzinfo=UTC)
            db.insert(ClosingPrice(symbol="ZXZZT", day=day, price=price, known_since=evening))
        now = datetime(2015, 3, 6, 9, tzinfo=UTC)
        key = ClosingPrice.primary(symbol="ZXZZT", day=DAY)
        db.update(key, set_(ClosingPrice.price, RIGHT), set_(ClosingPrice.known_since, now))

        quote = db.put(Quote(symbol="ZXZZT", day=DAY, price=FIRST_WRITTEN[DAY]))
        db.put(quote.model_copy(update={"price": RIGHT}))
        kept = [version.value for version in reversed(db.cell_versions(quote, Quote.price))]

        was, became = db.run(ClosingPrice.believed.compare(1, 2, symbol="ZXZZT", day=DAY))["price"]
        answers = {
            "all prices": ", ".join(f"{one.price:.2f}" for one in db.query(ClosingPrice.primary(symbol="ZXZZT"))),
            "the first day": f"{db.one(key).price:.2f}",
            "before the correction": f"{was:.2f}, then {became:.2f}",
            "kept in the field": ", then ".join(f"{price:.2f}" for price in kept),
            "believed of it on March 4": believed_at(db, DAY, datetime(2015, 3, 4, tzinfo=UTC)),
            "believed of March 5 on March 4": believed_at(db, date(2015, 3, 5), datetime(2015, 3, 4, tzinfo=UTC)),
        }
    assert answers == {
        "all prices": "558.40, 571.34, 573.64, 573.37, 575.33",
        "the first day": "558.40",
        "before the correction": "559.40, then 558.40",
        "kept in the field": "559.40, then 558.40",
        "believed of it on March 4": "559.40",
        "believed of March 5 on March 4": "nothing",
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "prices.db"))).items():
            print(f"{question}: {answer}")
