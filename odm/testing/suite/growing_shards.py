"""Changing the number of shards of a table in use: every entry is found once, before and after it moves."""
# ruff: noqa: D101  # a test's name says what it shows; its data is never changed

from datetime import date
from zlib import crc32

import pytest

from odm import BadValue, Query, Store, Unsupported, collection, set_
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.spreading import FewTask, GrownTask, Sale, Task, enough, few, more, salted
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill, walk

NAMES = [f"t{number:02}" for number in range(12)]
TASKS = [Task(task_id=name, rank=number // 3) for number, name in enumerate(NAMES)]
MOVING = [task for task in TASKS if crc32(task.task_id.encode()) % 4 > 1]
"""The tasks whose shard of ``by_rank`` changes; in the other patterns, that of every task does."""
QUERIES: tuple[Query[Task], ...] = (Task.by_rank(), Task.drawn(), Task.fresh())


def partitions(stores: Stores) -> set[str]:
    """The partitions that were queried since the last `Stores.forget`."""
    return {request.partition for request in stores.requests if isinstance(request, req.Query)}


@needs("indexes", "updates", "conditions")
class TestGrowingShards:
    @pytest.fixture
    def tasks(self, stores: Stores) -> Store:
        """A store with more shards than when the tasks were put."""
        fill(stores.open(few), [FewTask(**task.model_dump()) for task in TASKS])
        db = stores.open(more)
        stores.forget()
        return db

    @pytest.mark.parametrize("query", QUERIES, ids=lambda query: str(query.pattern))
    def test_old_and_new_entries_are_read_as_one(self, tasks: Store, query: Query[Task]) -> None:
        for moved in (0, 5, 12):
            fill(tasks, TASKS[:moved])
            assert list(tasks.query(query)) == TASKS
            assert list(tasks.query(query.reverse())) == TASKS[::-1]
            assert walk(tasks, query, 5) == [TASKS[:5], TASKS[5:10], TASKS[10:]]
            assert tasks.count(query) == 12
            assert list(tasks.query(query.where(Task.rank >= 1).limit(4))) == TASKS[3:7]
            assert list(tasks.query(collection(query))) == TASKS

    def test_a_page_of_few_requests_is_refused(self, tasks: Store, stores: Stores) -> None:
        with pytest.raises(Unsupported, match=r"leave max_requests= out until reshard\(\)"):
            tasks.page(Task.by_rank(), max_requests=99)
        assert list(stores.requests) == []

    def test_two_shards_are_read_where_the_field_is_known(self, tasks: Store, stores: Stores) -> None:
        task = MOVING[0]
        query = Task.by_rank(rank=task.rank, task_id=task.task_id)
        code = crc32(task.task_id.encode())
        for _ in range(2):
            stores.forget()
            assert list(tasks.query(query)) == [task]
            assert partitions(stores) == {f"ALL#{code % 2}", f"ALL#{code % 4}"}
            tasks.put(task)
        stores.forget()
        assert list(tasks.query(Task.fresh().where(Task.task_id == task.task_id))) == [task]
        assert partitions(stores) == {"FRESH", f"FRESH#{code % 3}"}

    def test_a_write_of_the_entry_moves_it_and_others_leave_it(self, tasks: Store, stores: Stores) -> None:
        first, second, third = TASKS[:3]
        tasks.update(first, set_(Task.note, "n"))
        tasks.update(second, set_(Task.rank, 9))
        tasks.put(third)
        later = stores.open(enough)
        assert [task.task_id for task in later.query(GrownTask.fresh())] == [third.task_id, second.task_id]
        now = [first.model_copy(update={"note": "n"}), *TASKS[2:], second.model_copy(update={"rank": 9})]
        for query in QUERIES:
            assert list(tasks.query(query)) == now
        assert tasks.delete(first)
        assert tasks.count(Task.fresh()) == 11

    def test_reshard_moves_the_rest(self, tasks: Store, stores: Stores) -> None:
        tasks.put(TASKS[0])
        tasks_by_query = ([task for task in MOVING if task != TASKS[0]], TASKS[1:], TASKS[1:])
        for query, moving in zip(QUERIES, tasks_by_query, strict=True):
            first = sum(task.rank == 3 for task in moving)
            assert tasks.reshard(query.where(Task.rank == 3)) == first
            assert tasks.reshard(query) == len(moving) - first
            stores.forget()
            assert tasks.reshard(query) == 0
            assert not [request for request in stores.requests if not isinstance(request, req.Query)]
            assert list(tasks.query(query)) == TASKS
        later = stores.open(enough)
        for task in MOVING:
            assert later.count(GrownTask.by_rank(rank=task.rank, task_id=task.task_id)) == 1
        for grown in (GrownTask.by_rank(), GrownTask.drawn(), GrownTask.fresh()):
            assert [task.task_id for task in later.query(grown)] == NAMES

    def test_reshard_may_stop_between_any_two_requests(self, tasks: Store, stores: Stores) -> None:
        for after in range(100):
            stopped = stores.stopped(lambda: tasks.reshard(Task.fresh()), after=after)
            assert list(tasks.query(Task.fresh())) == TASKS
            if not stopped:
                break
        assert tasks.reshard(Task.fresh()) == 0
        assert stores.open(enough).count(GrownTask.fresh()) == 12

    def test_reshard_next_to_other_writers(self, tasks: Store, stores: Stores) -> None:
        tasks.delete_all(Task.by_rank().where(Task.rank > 0))
        changed = Task(task_id="t00", rank=7, note="of the rival")
        stores.rival_puts(changed)
        assert tasks.reshard(Task.fresh()) == 3
        assert tasks.one(Task, task_id="t00") == changed
        assert list(tasks.query(Task.fresh())) == [TASKS[1], TASKS[2], changed]
        fill(stores.open(few), [FewTask(task_id="t01")])
        stores.rival_deletes(TASKS[1])
        assert tasks.reshard(Task.fresh()) == 0
        assert list(tasks.query(Task.fresh())) == [TASKS[2], changed]

    def test_reshard_needs_the_shards_that_were(self, stores: Stores) -> None:
        db = stores.offline(salted)
        for query, why in ((Sale.everywhere(), "was="), (Sale.primary(day=date(2014, 7, 9)), "was=")):
            with pytest.raises(BadValue, match=why):
                db.reshard(query)
        with pytest.raises(BadValue, match="of one entity"):
            stores.offline(more).reshard(collection(Task.by_rank()))
