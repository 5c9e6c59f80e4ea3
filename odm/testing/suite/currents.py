"""Copies of the newest item: written with it, never by a late one, and repaired where a write was interrupted."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeAlias

import pytest
from pydantic import Field

from odm import (
    TTL,
    BadValue,
    Columns,
    ConditionFailed,
    Entity,
    ItemNotFound,
    PrimaryKey,
    Shards,
    Store,
    Table,
    set_,
)
from odm.patterns.bulk_load import bulk_load
from odm.patterns.current import Current
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import PAST, at

metrics, probes = Table("metrics"), Table("probes")


class Metric(Entity, table=metrics):
    """A metric of a host; the copies of all hosts are in one partition of two shards."""

    host: str
    at: datetime
    values: Annotated[dict[str, float], Columns] = Field(default_factory=dict)
    note: str | None = None
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("HOST#{host}", "AT#{at}")
    current = Current("CURRENT", "{host}", shards=Shards(2, by="host"))


class Reading(Entity, table=probes):
    """A reading of one of several probes, of which some read at the same time."""

    room: str
    probe: int
    at: datetime
    degrees: float = 0.0

    primary = PrimaryKey("ROOM#{room}", "{at}#{probe}")
    newest = Current("NEWEST#{room}", by="at")


Call: TypeAlias = Callable[[Store], object]

COSTS: Sequence[Call] = [
    lambda db: db.put(metric(5)),
    lambda db: db.put(metric(3)),
    lambda db: db.update(Metric.primary(host="h", at=at(5)), set_(Metric.note, "new")),
    lambda db: db.get(Metric.current(host="h")),
]
"""A put of the newest, of a late metric, an update of the newest, and a read."""


def metric(hour: int, host: str = "h", **other: Any) -> Metric:
    """A metric of a host."""
    return Metric(host=host, at=at(hour), values={"cpu": hour / 10}, **other)


def current(db: Store, host: str = "h") -> Metric | None:
    """The newest metric of a host."""
    return db.get(Metric.current(host=host))


def copies(db: Store) -> dict[str, datetime]:
    """The stored copies."""
    return {copy.host: copy.at for copy in db.query(Metric.current.all())}


@pytest.fixture
def measured(stores: Stores) -> Store:
    """A store of metrics."""
    return stores.open(metrics)


@needs("conditions")
class TestCurrent:
    def test_is_the_newest_item_whole(self, measured: Store) -> None:
        assert current(measured) is None
        newest = 0
        for hour in (3, 1, 3, 5, 4, 9):
            measured.put(metric(hour, note=f"at {hour}"))
            newest = max(newest, hour)
            assert current(measured) == metric(newest, note=f"at {newest}")
        assert measured.count(Metric.primary(host="h")) == 5

    def test_of_all_is_one_query(self, measured: Store, stores: Stores) -> None:
        for host in ("a", "b", "c"):
            for hour in (2, 7, 4):
                measured.put(metric(hour, host))
        assert copies(measured) == {host: at(7) for host in ("a", "b", "c")}
        hosts = [copy.host for copy in measured.query(Metric.current.all().where(Metric.current.entity.host > "a"))]
        assert hosts == ["b", "c"]
        stores.forget()
        copies(measured)
        assert {request.partition for request in stores.requests if isinstance(request, req.Query)} == {
            "CURRENT#0",
            "CURRENT#1",
        }
        assert {type(request) for request in stores.requests} == {req.Query}

    def test_follows_changes_of_its_item(self, measured: Store) -> None:
        measured.put(metric(5))
        measured.put(metric(4))
        measured.update(Metric.primary(host="h", at=at(5)), set_(Metric.note, "mended"))
        measured.update(Metric.primary(host="h", at=at(4)), set_(Metric.note, "late"))
        assert current(measured) == metric(5, note="mended")
        measured.put(metric(5, note="again"))
        assert current(measured) == metric(5, note="again")
        with pytest.raises(ConditionFailed):
            measured.put(metric(6), when=Metric.note == "x")
        assert copies(measured) == {"h": at(5)}

    def test_moves_in_transactions(self, measured: Store) -> None:
        with measured.transaction() as tx:
            tx.insert(metric(5))
        assert current(measured) == metric(5)

    def test_stays_after_a_delete_until_it_is_refreshed(self, measured: Store) -> None:
        for hour in (2, 5):
            measured.put(metric(hour))
        measured.delete(metric(5))
        assert copies(measured) == {"h": at(5)}
        assert measured.run(Metric.current.refresh(host="h")) == metric(2)
        assert current(measured) == metric(2)
        measured.delete(metric(2))
        assert measured.run(Metric.current.refresh(host="h")) is None
        assert current(measured) is None
        assert measured.run(Metric.current.refresh(host="h")) is None
        with pytest.raises(ItemNotFound):
            measured.one(Metric.current(host="h"))

    def test_does_not_expire(self, measured: Store) -> None:
        measured.put(metric(5, until=PAST))
        assert measured.get(Metric, host="h", at=at(5)) is None
        assert copies(measured) == {"h": at(5)}

    def test_of_two_items_of_one_time_the_first_stays(self, stores: Stores) -> None:
        db = stores.open(probes)
        first, second = (Reading(room="r", probe=probe, at=at(5), degrees=probe) for probe in (1, 2))
        db.put(first)
        db.put(second)
        assert db.get(Reading.newest(room="r")) == first
        db.update(Reading.primary(room="r", at=at(5), probe=2), set_(Reading.degrees, 9.0))
        assert db.get(Reading.newest(room="r")) == first
        db.update(Reading.primary(room="r", at=at(5), probe=1), set_(Reading.degrees, 8.0))
        assert db.get(Reading.newest(room="r")) == first.model_copy(update={"degrees": 8.0})

    def test_is_not_replaced_by_a_slower_writer(self, measured: Store, stores: Stores) -> None:
        measured.put(metric(1))
        faster = Metric.current.copy(metric(9))
        stores.rival_puts(faster, faster)
        measured.put(metric(5))
        assert copies(measured) == {"h": at(9)}
        assert measured.exists(Metric.primary(host="h", at=at(5)))

    def test_stopped_anywhere_is_right_when_it_is_read(self, measured: Store, stores: Stores) -> None:
        measured.put(metric(1))
        before, after = metric(1), 0
        while stores.stopped(partial(measured.put, metric(5)), after=after):
            stored = measured.get(Metric, host="h", at=at(5))
            assert current(measured) == (before if stored is None else metric(5))
            assert copies(measured) == {"h": at(1) if stored is None else at(5)}
            measured.delete(metric(5))
            measured.run(Metric.current.refresh(host="h"))
            assert copies(measured) == {"h": at(1)}
            after += 1
        assert after
        assert copies(measured) == {"h": at(5)}

    def test_stopped_in_an_update_is_right_when_it_is_read(self, measured: Store, stores: Stores) -> None:
        measured.put(metric(5))
        after, stopped = 0, True
        while stopped:
            change = set_(Metric.note, f"change {after}")
            stopped = stores.stopped(partial(measured.update, Metric.primary(host="h", at=at(5)), change), after=after)
            assert current(measured) == measured.get(Metric, host="h", at=at(5))
            [copy] = measured.query(Metric.current.all())
            assert copy.note == measured.one(Metric, host="h", at=at(5)).note
            after += 1
        assert after > 1

    def test_stopped_while_it_is_refreshed_is_right_the_next_time(self, measured: Store, stores: Stores) -> None:
        after, stopped = 0, True
        while stopped:
            for hour in (2, 5):
                measured.put(metric(hour))
            measured.delete(metric(5))
            stopped = stores.stopped(partial(measured.run, Metric.current.refresh(host="h")), after=after)
            assert measured.run(Metric.current.refresh(host="h")) == metric(2)
            assert copies(measured) == {"h": at(2)}
            after += 1
        assert after > 1

    def test_of_earlier_items_is_made_by_a_backfill(self, measured: Store) -> None:
        for host in ("a", "b"):
            for hour in (2, 7, 4):
                measured.put(metric(hour, host))
        measured.delete_all(Metric.current.all())
        assert measured.backfill(Metric.current).failed == 0
        assert copies(measured) == {host: at(7) for host in ("a", "b")}

    def test_of_loaded_items_is_made_by_the_load(self, measured: Store) -> None:
        measured.put(metric(6, "a"))
        measured.run(bulk_load([metric(hour, host) for hour in (2, 7, 4) for host in ("a", "b")], new=True))
        assert copies(measured) == {host: at(7) for host in ("a", "b")}

    def test_is_refused_by_batches(self, measured: Store) -> None:
        with pytest.raises(BadValue, match="current"), measured.batch() as batch:
            batch.put(metric(1))

    def test_takes_the_requests_and_units_that_it_says(self, measured: Store, capabilities: Capabilities) -> None:
        costs = []
        for call in COSTS:
            with measured.meter() as meter:
                call(measured)
            costs.append((meter.calls, meter.read_units, meter.write_units))
        calls = [cost[0] for cost in costs]
        if capabilities.transactions is not True:
            assert calls == ([4, 2, 5, 2] if capabilities.reads_first else [3, 3, 4, 2])
        elif not capabilities.locks:
            assert calls == [1, 2, 2, 1]
        assert [cost[1:] for cost in costs] == [(0, 4), (0, 1), (1, 4), (1, 0)] or not capabilities.units
