"""Events by status: a sharded index, because most events have the same status and would be written to one partition.

The shard is computed from the event's id, or random. Either way one query reads a range of time from all shards and
merges them in order. With a computed shard, a single event is read from one shard. If 4 shards are no longer enough,
the model says 16, with `was=4` until the entries have moved; queries are right at any time.
"""

import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from odm import AccessPattern, Backend, Entity, PrimaryKey, Query, Shards, Store, Table
from odm.backends.local import LocalFile

events = Table("events")
grown = Table("events")
START = datetime(2026, 5, 4, 12, tzinfo=UTC)


class Event(Entity, table=events):
    """A task."""

    event_id: str
    status: Literal["new", "done"] = "new"
    at: datetime

    primary = PrimaryKey("EVENT#{event_id}")
    by_status = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(4, by="event_id"))
    drawn = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(4))


class GrownEvent(Entity, table=grown, tag="Event"):
    """The same class with more shards: in an application, a later release of it."""

    event_id: str
    status: Literal["new", "done"] = "new"
    at: datetime

    primary = PrimaryKey("EVENT#{event_id}")
    by_status = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(16, by="event_id", was=4))
    drawn = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(16, was=4))


def main(backend: Backend) -> dict[str, list[str]]:
    """Store 60 events, one per minute, query ten minutes of them and a single one; then go from 4 shards to 16."""
    with Store(events, backend) as db, Store(grown, backend) as later:
        db.create()
        with db.batch() as batch:
            for minute in range(60):
                status: Literal["new", "done"] = "done" if minute % 12 == 0 else "new"
                batch.put(Event(event_id=f"e{minute:02}", status=status, at=START + timedelta(minutes=minute)))

        times = START + timedelta(minutes=20), START + timedelta(minutes=30)
        computed, drawn = (
            pattern(status="new").where(Event.at >= times[0], Event.at < times[1])
            for pattern in (Event.by_status, Event.drawn)
        )
        one = computed.where(Event.event_id == "e25")
        assert [len(db.explain(query).partitions) for query in (computed, drawn, one)] == [4, 4, 1]
        answers = {"new, of ten minutes": ids(db, computed), "of a random shard": ids(db, drawn), "one": ids(db, one)}

        of_new = GrownEvent.by_status(status="new")
        assert ids(later, of_new) == ids(db, Event.by_status(status="new"))  # found where they were
        for query in (of_new, GrownEvent.by_status(status="done"), GrownEvent.drawn(status="new")):
            before = ids(later, query)
            assert (later.reshard(query), later.reshard(query)) == (len(before), 0)  # all moved; no more to move
            assert ids(later, query) == before

    expected = ["e20", "e21", "e22", "e23", "e25", "e26", "e27", "e28", "e29"]
    assert answers == {"new, of ten minutes": expected, "of a random shard": expected, "one": ["e25"]}
    return answers


def ids(db: Store, query: Query[Event | GrownEvent]) -> list[str]:
    """What a query finds."""
    return [event.event_id for event in db.query(query)]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "events.db"))).items():
            print(f"{question}: {', '.join(answer)}")
