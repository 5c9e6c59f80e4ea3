"""Sparse indexes under concurrent writers: the final item decides which entries they have."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import combinations
from pathlib import Path
from threading import Barrier
from typing import Any
from uuid import uuid4

import boto3
import pytest

from odm import Backend, Conflict, ItemNotFound, Store, remove, set_
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.results import RequestInfo
from odm.testing.suite.helpers import at
from odm.testing.suite.sparse_indexes import BOTH, KEY, Errand, desk, entries

UPDATES: list[list[Any]] = [
    [set_(Errand.status, "done"), remove(Errand.due_at)],
    [set_(Errand.status, "open"), set_(Errand.due_at, at(2))],
    [set_(Errand.urgent, False)],
    [set_(Errand.urgent, True)],
    [set_(Errand.note, "n")],
]


@pytest.fixture(autouse=True)
def hurry() -> Iterator[None]:
    """Switch threads as often as possible, also between a read and its write."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def race(backend: Backend, rounds: int) -> None:
    """Run each pair of writes concurrently on each of two items, then check the indexes."""
    barrier = Barrier(2, timeout=60)

    def start(write: Callable[[], object]) -> None:
        barrier.wait()
        with suppress(ItemNotFound, Conflict):  # the other writer was faster
            write()

    with Store(desk, backend, prefix=f"race-{uuid4().hex[:8]}-") as db, ThreadPoolExecutor(2) as pool:
        db.create()
        writes = [partial(db.update, KEY, *actions) for actions in UPDATES]
        for one, other in list(combinations([*writes, partial(db.delete, KEY)], 2)) * rounds:
            for before in (BOTH, Errand(errand_id="e", status="done")):
                db.put(before)
                list(pool.map(start, (one, other)))
                after = db.get(KEY)
                due = after is not None and after.due_at is not None
                urgent = after is not None and after.urgent and after.status == "open"
                assert entries(db) == (["e"] * due, ["e"] * urgent), (before, one, other, after)
        db.drop()


def test_in_memory() -> None:
    race(Memory(), 40)


def test_in_a_file(tmp_path: Path) -> None:
    race(LocalFile(tmp_path / "desk.db"), 5)


def test_on_dynamodb_local(dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id="race", aws_secret_access_key="secret", region_name="eu-west-1")
    race(DynamoDB(session, endpoint_url=dynamodb_local), 1)


def test_on_bigtable(bigtable_emulator: str) -> None:
    race(Bigtable("race", "instance", endpoint=bigtable_emulator), 3)


def test_calls_on_bigtable_are_those_on_the_page(bigtable_emulator: str) -> None:
    sent: list[RequestInfo] = []
    neither = Errand(errand_id="e")
    backend = Bigtable("calls", "instance", endpoint=bigtable_emulator)
    with Store(desk, backend, prefix=f"calls-{uuid4().hex[:8]}-", on_request=sent.append) as db:
        db.create()
        steps: list[tuple[Callable[[], object], int]] = [
            (partial(db.put, neither), 2),
            (partial(db.put, neither), 2),
            (partial(db.update, KEY, set_(Errand.note, "n")), 1),
            (partial(db.update, KEY, set_(Errand.urgent, False)), 2),
            (partial(db.update, KEY, set_(Errand.due_at, at(1))), 3),
            (partial(db.update, KEY, set_(Errand.note, "m")), 1),
            (partial(db.update, KEY, set_(Errand.due_at, at(2))), 4),
            (lambda: list(db.query(Errand.by_due())), 2),
            (partial(db.update, KEY, remove(Errand.due_at)), 3),
            (partial(db.put, BOTH), 4),
            (partial(db.delete, KEY), 4),
        ]
        calls = []
        for step, _ in steps:
            del sent[:]
            step()
            calls.append(len(sent))
        assert calls == [told for _, told in steps]
        db.drop()
