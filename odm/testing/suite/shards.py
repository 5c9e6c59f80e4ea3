"""Write sharding: reads merge the shards, and writes keep one entry per item."""
# ruff: noqa: D101  # a test's name says what it shows; its data is never changed

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import pytest

from odm import BadCursor, BadValue, Query, Store, collection, increment, remove, select, set_, some
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.spreading import Job, Pause, RespreadJob, respread, spread
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill, walk

JOBS = [Job(job_id=f"j#{n}", owner=n % 7, level=n // 4, due_at=at(n % 5, day=1 + n % 3)) for n in range(24)]
DUE = sorted(JOBS, key=lambda job: (job.due_at, job.job_id))


def shard(text: str, count: int) -> int:
    """The shard number, as documented."""
    return crc32(text.encode()) % count


def partitions(stores: Stores) -> set[str]:
    """The partitions that were queried since the last `Stores.forget`."""
    return {request.partition for request in stores.requests if isinstance(request, req.Query)}


def place(job: Job) -> tuple[int, int]:
    """The sort order of a job in its queue by level; the service orders jobs for which this is equal."""
    return job.level, shard(f"{job.owner:03}", 12)


def by_level(queue: str = "q") -> Query[Job]:
    """A query of the pattern that has many equal sort keys."""
    return Job.by_level(queue=queue)


@needs("indexes")
class TestShardedReads:
    def test_are_in_order_in_both_directions(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        assert list(sharded.query(Job.by_due())) == DUE
        assert list(sharded.query(Job.by_due().reverse())) == DUE[::-1]
        assert list(sharded.query(Job.at_random(queue="q"))) == sorted(JOBS, key=lambda job: (job.level, job.job_id))
        assert list(sharded.query(Job.by_due().where(some(Job.due_at) >= at(1), some(Job.due_at) < at(3)))) == [
            job for job in DUE if job.due_at is not None and at(1) <= job.due_at < at(3)
        ]

    def test_read_every_shard(self, sharded: Store, stores: Stores) -> None:
        fill(sharded, JOBS)
        stores.forget()
        list(sharded.query(Job.by_due()))
        assert partitions(stores) == {"DUE#0", "DUE#1", "DUE#2", "DUE#3"}
        stores.forget()
        list(sharded.query(by_level()))
        assert partitions(stores) == {f"QUEUE#q#{n:02}" for n in range(12)}

    def test_read_one_shard_where_the_query_knows_it(self, sharded: Store, stores: Stores) -> None:
        fill(sharded, JOBS)
        job = JOBS[9]
        for query, partition in (
            (Job.by_due().where(Job.job_id == job.job_id), f"DUE#{shard(job.job_id, 4)}"),
            (Job.by_due(due_at=job.due_at, job_id=job.job_id), f"DUE#{shard(job.job_id, 4)}"),
            (by_level().where(Job.owner == 2, Job.level == 2), f"QUEUE#q#{shard('002', 12):02}"),
            (by_level().where(Job.job_id == job.job_id, Job.owner == 2), f"QUEUE#q#{shard('002', 12):02}"),
        ):
            stores.forget()
            assert list(sharded.query(query)) == [job], query
            assert partitions(stores) == {partition}
            assert sharded.count(query) == 1
            assert walk(sharded, query, 1) == [[job]]

    def test_of_nothing(self, sharded: Store) -> None:
        assert list(sharded.query(Job.by_due())) == []
        assert sharded.first(Job.by_due()) is None
        assert sharded.count(Job.by_due()) == 0
        assert walk(sharded, Job.by_due(), 3) == [[]]

    def test_go_on_where_shards_have_several_pages_each(self, sharded: Store) -> None:
        jobs = fill(sharded, [Job(job_id=f"j{n:02}", level=n // 2, note="x" * 300_000) for n in range(18)])
        query = Job.at_random(queue="q")  # three shards of together 5.4 MB, and a page has at most 1 MB
        assert list(sharded.query(query)) == jobs
        assert list(sharded.query(query.reverse())) == jobs[::-1]
        assert sharded.count(query) == 18
        assert walk(sharded, query, 7) == [jobs[:7], jobs[7:14], jobs[14:]]

    def test_count_first_and_limit(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        assert sharded.count(Job.by_due()) == 24
        assert sharded.first(Job.by_due()) == DUE[0]
        assert sharded.first(Job.by_due().reverse()) == DUE[-1]
        for most in (1, 3, 23, 24, 25):
            assert list(sharded.query(Job.by_due().limit(most))) == DUE[:most]
            assert sharded.count(Job.by_due().limit(most)) == min(most, 24)

    def test_filters(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        query = Job.by_due().where(Job.owner == 2)
        assert list(sharded.query(query)) == [job for job in DUE if job.owner == 2]
        assert sharded.count(query.limit(2)) == 2
        assert list(sharded.query(Job.by_due().where(Job.owner == 9))) == []

    def test_leave_out_what_is_sparse_or_of_another_entity(self, sharded: Store) -> None:
        fill(sharded, [*JOBS[:3], Job(job_id="none")])
        sharded.put(Pause(due_at=at(1)))
        assert len(list(sharded.query(Job.by_due()))) == 3
        assert list(sharded.query(Pause.by_due())) == [Pause(due_at=at(1))]
        assert len(list(sharded.query(collection(Job.by_due())))) == 4

    def test_of_a_lossy_partition_go_day_by_day(self, sharded: Store, stores: Stores) -> None:
        fill(sharded, JOBS)
        query = select(Job).where(some(Job.due_at) >= at(0), some(Job.due_at) < at(0, day=3), Job.level == 2)
        days = [sorted(job.job_id for job in JOBS[n::3] if job.level == 2) for n in range(2)]
        stores.forget()
        assert [job.job_id for job in sharded.query(Job.by_day(due_at=at(9, day=2), level=2))] == days[1]
        assert partitions(stores) == {"DAY#20240102#0", "DAY#20240102#1"}
        for directed, expected in ((query, [*days[0], *days[1]]), (query.reverse(), [*days[1][::-1], *days[0][::-1]])):
            assert [job.job_id for job in sharded.query(directed)] == expected
            assert [job.job_id for page in walk(sharded, directed, 1) for job in page] == expected
            assert sharded.count(directed) == len(expected)
        stores.forget()
        list(sharded.query(query.where(Job.job_id == "j#1")))
        assert partitions(stores) == {f"DAY#2024010{day}#{shard('j#1', 2)}" for day in (1, 2)}

    def test_delete_all(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        assert sharded.delete_all(Job.by_due().limit(5)) == 5
        assert list(sharded.query(Job.by_due())) == DUE[5:]
        assert sharded.delete_all(Job.by_due()) == 19
        assert list(sharded.scan()) == []


@needs("indexes")
class TestShardedPages:
    def test_of_every_size_in_both_directions(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        for query, expected in ((Job.by_due(), DUE), (Job.by_due().reverse(), DUE[::-1])):
            for size in (1, 2, 5, 23, 24, 25):
                expected_pages = [expected[start : start + size] for start in range(0, 24, size)]
                assert walk(sharded, query, size) == expected_pages, (query, size)

    def test_of_equal_sort_keys_are_in_the_order_of_shards(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        for query in (by_level(), by_level().reverse()):
            jobs = list(sharded.query(query))
            assert sorted(jobs, key=lambda job: int(job.job_id[2:])) == JOBS
            assert jobs == sorted(jobs, key=place, reverse=query.descending)
            for size in (1, 2, 3, 7):
                assert [job for page in walk(sharded, query, size) for job in page] == jobs, (query, size)

    def test_are_full_where_a_filter_drops_items_and_carry_the_limit(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        query = Job.by_due().where(Job.owner < 3).limit(7)
        expected = [job for job in DUE if job.owner < 3][:7]
        assert walk(sharded, query, 3) == [expected[:3], expected[3:6], expected[6:]]

    def test_of_few_requests_together_have_every_result(self, sharded: Store, stores: Stores) -> None:
        jobs = fill(sharded, [Job(job_id=f"j{n:03}", due_at=at(1, n // 3), owner=n % 20) for n in range(150)])
        query = Job.by_due().where(Job.owner == 7)
        expected = [job for job in jobs if job.owner == 7]
        for directed, results in ((query, expected), (query.reverse(), expected[::-1])):
            for size, most in ((1, 4), (3, 4), (3, 9), (25, 4), (25, 40)):
                listed: list[Job] = []
                cursor: str | None = None
                for _ in range(200):
                    stores.forget()
                    page = sharded.page(directed, size=size, after=cursor, max_requests=most)
                    assert len(stores.requests) <= most
                    listed += page.items
                    cursor = page.cursor
                    if cursor is None:
                        break
                assert listed == results, (directed, size, most)

    def test_of_fewer_requests_than_shards_are_refused(self, sharded: Store, stores: Stores) -> None:
        stores.forget()
        with pytest.raises(BadValue, match=r"4 shards.*give 4 or more"):
            sharded.page(Job.by_due(), max_requests=3)
        assert list(stores.requests) == []
        assert list(sharded.page(Job.by_due().where(Job.job_id == "j"), max_requests=1).items) == []

    def test_show_what_was_written_between_them(self, sharded: Store) -> None:
        fill(sharded, DUE[::2])
        first = sharded.page(Job.by_due(), size=3)
        sharded.put(DUE[5])
        sharded.delete(first.items[-1])
        assert list(sharded.page(Job.by_due(), after=first.cursor).items) == sorted(
            [DUE[5], *DUE[6::2]], key=lambda job: (job.due_at, job.job_id)
        )

    def test_of_another_number_of_shards_do_not_go_on(self, sharded: Store, stores: Stores) -> None:
        fill(sharded, JOBS)
        cursor = sharded.page(Job.by_due(), size=3).cursor
        other = stores.open(respread)
        assert cursor is not None
        with pytest.raises(BadCursor):
            other.page(RespreadJob.by_due(), after=cursor)

    def test_of_all_shards_do_not_go_on_in_another_one(self, sharded: Store) -> None:
        fill(sharded, JOBS)
        page = sharded.page(Job.by_due(due_at=DUE[3].due_at), size=1)
        assert page.cursor is not None
        elsewhere = next(job for job in JOBS if shard(job.job_id, 4) != shard(page.items[0].job_id, 4))
        with pytest.raises(BadCursor):
            sharded.page(Job.by_due(due_at=DUE[3].due_at, job_id=elsewhere.job_id), after=page.cursor)


@needs("indexes", "updates")
class TestShardedWrites:
    KEY = Job.primary(job_id="j")

    def counts(self, db: Store) -> Sequence[Any]:
        """The number of results of each pattern, for one item."""
        queries = (Job.by_due(), by_level(), by_level("r"), Job.at_random(queue="q"), Job.at_random(queue="r"))
        return [len(list(db.query(query))) for query in queries]

    def test_keep_one_entry_an_item(self, sharded: Store) -> None:
        for level in range(12):
            sharded.put(Job(job_id="j", level=level, owner=level, due_at=at(1)))
            assert self.counts(sharded) == [1, 1, 0, 1, 0]
        for owner in range(12):
            sharded.update(self.KEY, set_(Job.owner, owner))
            assert self.counts(sharded) == [1, 1, 0, 1, 0]
            assert list(sharded.query(by_level().where(Job.owner == owner))) == [sharded.one(self.KEY)]
            assert list(sharded.query(by_level().where(Job.owner == owner + 1))) == []
        for level in range(12):
            sharded.update(self.KEY, increment(Job.level))
            assert self.counts(sharded) == [1, 1, 0, 1, 0], level
        sharded.update(self.KEY, set_(Job.queue, "r"), remove(Job.due_at))
        assert self.counts(sharded) == [0, 0, 1, 0, 1]
        sharded.delete(self.KEY)
        assert self.counts(sharded) == [0, 0, 0, 0, 0]

    def test_of_other_fields_leave_the_shard_alone(self, sharded: Store, stores: Stores) -> None:
        sharded.put(Job(job_id="j"))
        stores.forget()
        sharded.update(self.KEY, set_(Job.note, "n"))
        [update] = stores.requests
        assert isinstance(update, req.Update)
        assert update.entries == {}

    def test_guard_the_field_that_determines_the_shard(self, sharded: Store, stores: Stores) -> None:
        job = sharded.put(Job(job_id="j", owner=1))
        stores.rival_puts(Job(job_id="j", owner=2))
        sharded.update(job, set_(Job.level, 5))
        assert sharded.one(self.KEY) == Job(job_id="j", owner=2, level=5)
        assert list(sharded.query(by_level().where(Job.owner == 2))) == [Job(job_id="j", owner=2, level=5)]
        assert list(sharded.query(by_level().where(Job.owner == 1))) == []

    def test_refuse_more_partitions_than_a_query_may_touch(self, stores: Stores) -> None:
        store = stores.open(spread)
        query = select(Job).where(some(Job.due_at) >= at(0), some(Job.due_at) < at(0).replace(year=2026))
        query = query.where(Job.level == 2)
        with pytest.raises(BadValue, match="2 shards"):
            list(store.query(query))
