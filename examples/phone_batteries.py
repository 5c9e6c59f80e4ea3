"""Phone batteries: a key that begins with the time is hot. Two solutions: field promotion and salting.

`BATTERY#20150301124501001`, the time behind a fixed word, appends each row after the last one, so one node gets all
writes. `odm lint examples.phone_batteries:hot` reports it and shows the first solution. With the user before the time,
`BATTERY#Corrie#20150301124501001`, writes are spread over the users, and the readings of a user are one range: this
suits queries for a user. With a salt, `BATTERY#0` to `BATTERY#2`, writes are spread over three ranges, and one query
for a span of time reads and merges all three.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

from odm import Backend, Entity, PrimaryKey, Query, Shards, Store, Table
from odm.backends.local import LocalFile

hot, promoted, salted = Table("battery-by-time"), Table("battery-by-user"), Table("battery-salted")


class Reading(Entity):
    """What a phone reports of its battery; it has no table, and is the base of what is stored."""

    at: datetime
    user: str
    percent: int


class HotReading(Reading, table=hot):
    """As it should not be."""

    primary = PrimaryKey("BATTERY", "{at:%Y%m%d%H%M%S%3f}")


class PromotedReading(Reading, table=promoted):
    """The user was promoted into the key."""

    primary = PrimaryKey("BATTERY#{user}", "{at:%Y%m%d%H%M%S%3f}")


class SaltedReading(Reading, table=salted):
    """The timestamp gives one of three shards, so that neighbours in time lie in different ones."""

    primary = PrimaryKey("BATTERY", "{at}#{user}", shards=Shards(3, by="at"))


FIRST = datetime(2015, 3, 1, 12, 45, 1, 1000, tzinfo=UTC)
ROWS = [("Corrie", 98), ("Jo", 54), ("Jo", 96), ("Sam", 43), ("Sam", 38)]
E = TypeVar("E", bound=Reading)


def stored(db: Store, entity: type[E]) -> list[str]:
    """Store the readings, a millisecond each; their keys, as row keys of Bigtable."""
    db.create()
    readings = [
        entity(at=FIRST + timedelta(milliseconds=number), user=user, percent=percent)
        for number, (user, percent) in enumerate(ROWS)
    ]
    with db.batch() as batch:
        for reading in readings:
            batch.put(reading)
    return ["#".join(db.key_of(reading)) for reading in readings]


def main(backend: Backend) -> dict[str, list[str]]:
    """Store the readings in each way, and ask for those of a user and for those of a span of time."""
    assert "hot-partition" in {finding.rule for finding in hot.lint()}  # the linter warns about the first alone
    assert not [finding for table in (promoted, salted) for finding in table.lint(ignore=["missing-ttl"])]

    def found(db: Store, query: Query[E]) -> list[str]:
        return [f"{reading.user} {reading.percent}" for reading in db.query(query)]

    with Store(hot, backend) as db:
        assert stored(db, HotReading)[1:3] == ["BATTERY#20150301124501002", "BATTERY#20150301124501003"]
        of_sam = HotReading.primary().where(HotReading.user == "Sam")
        assert db.explain(of_sam).filter is not None  # the readings of all phones are read for one
        answers = {"Sam, by time": found(db, of_sam)}
    with Store(promoted, backend) as db:
        assert stored(db, PromotedReading)[0] == "BATTERY#Corrie#20150301124501001"
        answers["Sam, promoted"] = found(db, PromotedReading.primary(user="Sam"))
        answers["Jo's newest"] = found(db, PromotedReading.primary(user="Jo").reverse().limit(1))
    with Store(salted, backend) as db:
        assert {key[:9] for key in stored(db, SaltedReading)} == {"BATTERY#0", "BATTERY#1", "BATTERY#2"}
        since = SaltedReading.primary().where(SaltedReading.at >= FIRST + timedelta(milliseconds=2))
        assert len(db.explain(since).partitions) == 3
        answers["all since a time, salted"] = found(db, since)

    assert answers["Sam, by time"] == answers["Sam, promoted"] == ["Sam 43", "Sam 38"]
    assert answers["Jo's newest"] == ["Jo 96"]
    assert answers["all since a time, salted"] == ["Jo 96", "Sam 43", "Sam 38"]
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "battery.db"))).items():
            print(f"{question}: {', '.join(answer)}")
