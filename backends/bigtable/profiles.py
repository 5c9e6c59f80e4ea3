"""Which reads use `Bigtable(read_app_profile=...)`, whose clusters may lag behind the one that is written to.

Only reads of items that ask for ``consistent=False``. All other reads use the profile of writes: consistent reads, and
those that a write, a batch, a scrub or a plan makes to decide what to write. A page of an index uses it too: its
entries and the items that they name are rows of two tables, which another cluster may have in states of different
times, so that an item that changes its place in the index could be in neither.
"""

from typing import Any, assert_never

from odm.backends.bigtable.client.native import Concurrent, Native, ReadRows, Steps
from odm.immutable import evolve
from odm.protocol import requests as req


def may_lag(request: req.Request) -> bool:
    """Whether a request may be answered by a cluster that lags behind."""
    match request:
        case req.Get() | req.Scan():
            return not request.consistent
        case req.BatchGet():
            return not request.consistent and not request.tags  # a batch of writes asks for tags
        case req.Query():
            return not request.consistent and request.index is None
        case (
            req.Put() | req.Update() | req.Delete() | req.Transact() | req.BatchWrite() | req.Merge() | req.BatchMerge()
        ):
            return False
        case req.Split() | req.ListShards() | req.ReadChanges():
            return False
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return False
        case req.IdentifyTable() | req.MeasureTable():
            return False
        case _:
            assert_never(request)


def reading_from(profile: str, steps: Steps[Any]) -> Steps[Any]:
    """The same steps, with reads that use an app profile."""
    try:
        native = next(steps)
        while True:
            try:
                response = yield _of_profile(native, profile)
            except Exception as failure:  # noqa: BLE001  # the steps decide about it
                native = steps.throw(failure)
            else:
                native = steps.send(response)
    except StopIteration as end:
        return end.value


def _of_profile(native: Native, profile: str) -> Native:
    match native:
        case ReadRows():
            return evolve(native, profile=profile)
        case Concurrent(calls):
            reads = (evolve(call, profile=profile) if isinstance(call, ReadRows) else call for call in calls)
            return Concurrent(tuple(reads))
        case _:
            return native
