"""Counts of advertisements: views and clicks, and the range of the prices paid, added to without a read.

Every ad server adds what it has seen since the last time. No writer reads the numbers, and none waits for another: on
Bigtable each number is a cell of an aggregate column family, which the server computes from the added values.
"""

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, NamedTuple

from odm import Backend, Entity, Max, Min, PrimaryKey, Store, Sum, Table, add_value
from odm.backends.local import LocalFile

ads = Table("ads")


class AdDay(Entity, table=ads):
    """The numbers of one ad and one day."""

    ad: str
    day: str
    views: Annotated[int, Sum] = 0
    clicks: Annotated[int, Sum] = 0
    lowest_cents: Annotated[int | None, Min] = None
    highest_cents: Annotated[int | None, Max] = None

    primary = PrimaryKey("AD#{ad}", "{day}")


class Seen(NamedTuple):
    """What one server saw of an ad: the number of views and clicks, and the range of the prices of a click."""

    views: int
    clicks: int
    lowest_cents: int
    highest_cents: int


def add(db: Store, ad: str, day: str, seen: Iterable[Seen]) -> None:
    """Add what servers have seen; the first one creates the item."""
    for one in seen:
        db.merge(
            AdDay.primary(ad=ad, day=day),
            add_value(AdDay.views, one.views),
            add_value(AdDay.clicks, one.clicks),
            add_value(AdDay.lowest_cents, one.lowest_cents),
            add_value(AdDay.highest_cents, one.highest_cents),
        )


def main(backend: Backend) -> dict[str, str]:
    """Add what three servers saw, and read the numbers of an ad."""
    with Store(ads, backend) as db:
        db.drop()  # or a second run would count on
        db.create()
        add(db, "hats", "2026-05-01", [Seen(1200, 3, 27, 29), Seen(800, 4, 25, 25), Seen(900, 1, 22, 31)])
        add(db, "hats", "2026-05-02", [Seen(50, 1, 24, 24)])

        days = list(db.query(AdDay.primary(ad="hats")))
        answers = {
            "views by day": ", ".join(f"{one.day} {one.views}" for one in days),
            "clicks": str(sum(one.clicks for one in days)),
            "cents a click on May 1": f"{days[0].lowest_cents} to {days[0].highest_cents}",
        }
    assert answers == {
        "views by day": "2026-05-01 2900, 2026-05-02 50",
        "clicks": "9",
        "cents a click on May 1": "22 to 31",
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "ads.db"))).items():
            print(f"{question}: {answer}")
