"""``keep=``: after random puts, deletes and batches, exactly the newest n items of each partition are stored.

Also trimming that fails, and trimming by several writers at once.
"""

import logging
from collections.abc import Generator
from datetime import datetime
from threading import Barrier, Thread
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import TTL, AccessPattern, BackendError, Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory
from odm.procedures.context import Context
from odm.procedures.keep import trim_after
from odm.procedures.writing.write import put_request
from odm.protocol import requests as req
from odm.schema.entity import Key

table = Table("keeping")
visits = Table("visits")
KEEP = 3


class Entry(Entity, table=table, keep=KEEP):
    log: str
    number: Annotated[int, Field(ge=0, lt=100)]

    primary = PrimaryKey("LOG#{log}", "ENTRY#{number}")
    by_number = AccessPattern("ALL", "{number}#{log}")


class Visit(Entity, table=visits, keep=KEEP):
    """Expires, so a count has a filter."""

    log: str
    number: Annotated[int, Field(ge=0, lt=100)]
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("LOG#{log}", "{number}")


class Latest(Entity, table=table, keep=KEEP):
    log: str
    number: Annotated[int, Field(ge=0, lt=100)]

    primary = PrimaryKey("LOG#{log}", "{number:desc}")


ENTRIES = st.builds(
    lambda kind, log, number: kind(log=log, number=number),
    st.sampled_from([Entry, Latest]),
    st.sampled_from("ab"),
    st.integers(0, 9),
)
OPERATIONS = st.one_of(
    st.tuples(st.just("put"), ENTRIES),
    st.tuples(st.just("delete"), ENTRIES),
    st.tuples(st.just("batch"), st.lists(ENTRIES, max_size=6)),
)


def trimmed(model: set[tuple[type, str, int]]) -> set[tuple[type, str, int]]:
    """The newest entries of each kind in each log."""
    heaps = {(kind, log) for kind, log, _ in model}
    return {
        (kind, log, number)
        for kind, log in heaps
        for number in sorted((n for k, g, n in model if (k, g) == (kind, log)), reverse=True)[:KEEP]
    }


@given(st.lists(OPERATIONS, max_size=30))
@settings(deadline=None)
def test_the_newest_of_each_partition_are_kept(operations: list[tuple[str, Any]]) -> None:
    db, model = Store(table, Memory()), set[tuple[type, str, int]]()
    db.create()
    for name, what in operations:
        if name == "put":
            db.put(what)
            model.add((type(what), what.log, what.number))
        elif name == "delete":
            db.delete(what)
            model.discard((type(what), what.log, what.number))
        else:
            with db.batch() as batch:
                for one in what:
                    batch.put(one)
            model |= {(type(one), one.log, one.number) for one in what}
        model = trimmed(model)
        found: list[Any] = [*db.scan(Entry), *db.scan(Latest)]
        assert {(type(one), one.log, one.number) for one in found} == model
        indexed = {(Entry, one.log, one.number) for one in db.query(Entry.by_number())}
        assert indexed == {key for key in model if key[0] is Entry}


def test_writers_at_once_leave_no_more_than_are_kept() -> None:
    db, barrier = Store(table, Memory()), Barrier(4)
    db.create()

    def write(first: int) -> None:
        barrier.wait()
        for number in range(first, 100, 4):
            db.put(Entry(log="a", number=number))

    threads = [Thread(target=write, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [entry.number for entry in db.query(Entry.primary(log="a"))] == [97, 98, 99]


CONTEXT = Context(table.compile())
PUT = put_request(CONTEXT, Entry(log="a", number=1))[2]
VISIT = put_request(Context(visits.compile()), Visit(log="a", number=1))[2]


def test_a_count_that_comes_in_pieces_goes_on() -> None:
    trim: Generator[Any, Any, None] = trim_after(CONTEXT, [PUT])
    place = req.Position(Key("LOG#a", "ENTRY#05"))
    count = next(trim)
    assert (count.limit, count.count, count.reverse, count.filter is None) == (KEEP, True, True, True)
    rest = trim.send(req.Page(next=place, count=2))
    assert (rest.limit, rest.after) == (1, place)
    empty = trim.send(req.Page(next=place, count=0))
    assert (empty.limit, empty.after) == (1, place)
    behind = trim.send(req.Page(next=place, count=1))
    assert (behind.limit, behind.after, behind.count) == (None, place, False)
    gone = trim.send(req.Page(({},), (req.Position(Key("LOG#a", "ENTRY#01")),), next=place))
    assert gone == req.BatchWrite((req.Delete(Key("LOG#a", "ENTRY#01")),))
    assert trim.send(None).after == place
    with pytest.raises(StopIteration):
        trim.send(req.Page())


def test_a_count_with_a_filter_reads_as_many_items_as_it_needs() -> None:
    trim: Generator[Any, Any, None] = trim_after(Context(visits.compile()), [VISIT])
    place = req.Position(Key("LOG#a", "05"))
    count = next(trim)
    assert (count.limit, count.examine, count.filter is None) == (KEEP, KEEP, False)
    rest = trim.send(req.Page(next=place, count=0, examined=KEEP))
    assert (rest.limit, rest.examine) == (KEEP, 4 * KEEP)
    rest = trim.send(req.Page(next=place, count=2, examined=4 * KEEP))
    assert (rest.limit, rest.examine) == (1, 8)
    behind = trim.send(req.Page(next=place, count=1, examined=8))
    assert (behind.limit, behind.examine) == (None, None)
    trim.close()


def test_a_failure_is_logged_and_the_write_stands(caplog: pytest.LogCaptureFixture) -> None:
    trim = trim_after(CONTEXT, [PUT])
    next(trim)
    with caplog.at_level(logging.WARNING, "odm"), pytest.raises(StopIteration):
        trim.throw(BackendError("Query on table 'log', of 'secret': down"))
    assert "Entry: not trimmed to keep=; the next write does: BackendError" in caplog.text
    assert "secret" not in caplog.text
