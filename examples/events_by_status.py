"""Events by status: an index spread over shards, since most events are in one status and all are written there.

The shard is computed from the event's id, or drawn at random. Both answer a range of time by one query, which reads
all shards together and merges them in order. Computed, a single event is looked up in one shard. When 4 shards no
longer do, the model says 16, and `was=4` until the entries have moved; every query is right at any time.
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
    """Something that is to be done once."""

    event_id: str
    status: Literal["new", "done"] = "new"
    at: datetime

    primary = PrimaryKey("EVENT#{event_id}")
    by_status = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(4, by="event_id"))
    drawn = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(4))


class GrownEvent(Entity, table=grown, tag="Event"):
    """The same with more shards: in an application, the same class a release later."""

    event_id: str
    status: Literal["new", "done"] = "new"
    at: datetime

    primary = PrimaryKey("EVENT#{event_id}")
    by_status = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(16, by="event_id", was=4))
    drawn = AccessPattern("STATUS#{status}", "{at:ms}#{event_id}", shards=Shards(16, was=4))


def main(backend: Backend) -> dict[str, list[str]]:
    """Store 60 events, a minute each, ask for ten minutes of them and for one; then go from 4 shards to 16."""
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
