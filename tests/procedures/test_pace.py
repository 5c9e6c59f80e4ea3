"""How many items requests with a filter read, and that pages of few requests together have every result."""

from collections.abc import Sequence
from math import log2
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm import BadCursor, Query, Store
from odm.backends.local import Memory
from odm.immutable import evolve
from odm.procedures.context import Context
from odm.procedures.pace import GROWTH, START, Pace, common
from odm.procedures.reading.cursor import encode_cursor
from odm.procedures.reading.read import Place, begin
from odm.protocol.requests import Page
from odm.testing.spreading import Job, spread
from odm.testing.suite.helpers import at, fill

SHARDS = 4


def requests(items: Sequence[bool], needed: int, page: int) -> list[int]:
    """The items that each request reads, until ``needed`` of them match or the items end; at most ``page`` at once."""
    pace, start, sent = START, 0, []
    while needed > 0 and start < len(items):
        read = items[start : start + min(pace.items(needed), page)]
        matched = min(sum(read), needed)
        start, needed = start + len(read), needed - matched
        pace = pace.after(Page(count=matched, examined=len(read)))
        sent.append(len(read))
    return sent


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 400)), max_size=12), st.integers(1, 60), st.integers(20, 500))
def test_requests_are_few_and_read_little_more_than_needed(
    runs: list[tuple[bool, int]], needed: int, page: int
) -> None:
    items = [match for match, length in runs for _ in range(length)]
    sent = requests(items, needed, page)
    enough = next((n for n in range(len(items) + 1) if sum(items[:n]) >= needed), len(items))
    assert sum(sent) <= max(needed, (GROWTH + 1) * enough)
    assert len(sent) <= len(items) / page + 3 * log2(len(items) + needed + 2) + 3


def test_the_first_request_reads_what_is_needed_and_the_next_what_the_last_one_suggests() -> None:
    assert START.items(26) == 26
    assert Pace(26, 26, 26).items(26) == 26
    assert Pace(26, 26, 13).items(13) == 30
    assert Pace(26, 26, 0).items(26) == 104
    assert Pace(26, 26, 1).items(25) == 104
    assert Pace(1000, 1000, 1).items(25) == 4000
    assert Pace(1000, 4, 0).items(3) == 16
    assert Pace(26, 26, 26).items(26, 4) == 7
    assert common([START, START]) == START
    assert common([Pace(9, 9, 3), START, Pace(10, 4, 1)]) == Pace(10, 13, 4)


JOBS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 3)), max_size=40)


@given(JOBS, st.integers(1, 6), st.integers(SHARDS, 9), st.sampled_from([1, 300, 1000, 1 << 20]), st.booleans())
def test_pages_of_few_requests_have_every_result_of_merged_shards_once(
    levels: list[tuple[int, int]], size: int, most: int, page_bytes: int, reverse: bool
) -> None:
    db = Store(spread, Memory(page_bytes=page_bytes))
    db.create()
    jobs = [Job(job_id=f"j{n:02}", due_at=at(1, minute), owner=owner) for n, (minute, owner) in enumerate(levels)]
    fill(db, jobs)
    query: Query[Job] = Job.by_due().where(Job.owner == 1)
    expected = sorted((job for job in jobs if job.owner == 1), key=lambda job: (job.due_at, job.job_id))
    if reverse:
        query, expected = query.reverse(), expected[::-1]
    assert list(db.query(query)) == expected
    assert list(db.query(query.limit(size))) == expected[:size]
    found: list[Job] = []
    cursor, previous, back = None, None, []
    for _ in range(200):
        with db.meter() as meter:
            page = db.page(query, size=size, after=cursor, max_requests=most)
        assert meter.calls <= most
        assert len(page.items) <= size
        found += page.items
        cursor, back, previous = page.cursor, list(page.items), page.previous
        if cursor is None:
            break
    assert (found, cursor) == (expected, None)
    while previous is not None:
        page = db.page(query, size=size, after=previous, max_requests=most)
        back[:0], previous = page.items, page.previous
    assert back == expected


@pytest.mark.parametrize("pace", [(0, 0, 0), (1, 2**40, 0), (-1, 1, 0), (1.5, 2, 0), ("1", 2, 0), (1, 2, True)])
def test_a_cursor_with_an_impossible_pace_is_refused(pace: Any) -> None:
    db = Store(spread, Memory())
    db.create()
    query = Job.by_due().where(Job.owner == 1)
    context = Context(spread.compile())
    reading = begin(context, query)
    assert reading is not None
    cursor = encode_cursor(context.schema, evolve(reading, place=Place("DUE", pace=Pace(*pace))), None)
    if pace == (0, 0, 0):
        assert list(db.page(query, after=cursor).items) == []
        return
    with pytest.raises(BadCursor):
        db.page(query, after=cursor)
