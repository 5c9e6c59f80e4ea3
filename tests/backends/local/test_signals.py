"""An exception out of a signal handler, such as Ctrl-C, can end a call of the engine anywhere: it is whole or absent.

A trace function raises it instead, at one point after the other, so that each run meets the same points.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType
from typing import Any, TypeAlias

import pytest

from odm.backends.local import LocalFile, Memory, ordered, requests
from odm.errors import BackendError
from odm.expressions.nodes import Increment
from odm.expressions.nodes import Path as Place
from odm.protocol.connection import Connection, perform
from odm.protocol.requests import (
    BatchWrite,
    CreateTables,
    Delete,
    Get,
    Key,
    Put,
    Query,
    ReadChanges,
    Request,
    Scan,
    Transact,
    Update,
)
from odm.testing import Clock
from tests.backends.local.support import schema_of
from tests.effort import full

pytestmark = [pytest.mark.one_of(2), pytest.mark.slow]

HERE = str(Path(requests.__file__).parent)

State: TypeAlias = Mapping[str, Any]
"""The items and index entries of a table, each as it is found by scan and by query."""


class Interrupted(BaseException):
    """As KeyboardInterrupt: no `except Exception` catches it."""


def _interrupt() -> None:
    raise Interrupted


def at_every_instruction(number: int, call: Callable[[], object], act: Callable[[], object] = _interrupt) -> bool:
    """Raise before the instruction of this number in the engine; return whether there is one."""
    left = number

    def trace(frame: FrameType, event: str, _: object) -> Any:
        nonlocal left
        if os.path.dirname(frame.f_code.co_filename) != HERE:  # noqa: PTH120  # called very often
            return None
        frame.f_trace_opcodes = True
        left -= 1
        if left == 0:
            act()
        return trace

    return _raised(sys.gettrace, sys.settrace, trace, call) or left <= 0


def at_every_call(number: int, call: Callable[[], object]) -> bool:
    """Raise where Python runs signal handlers: when a function begins, and when one in C has ended."""
    left = number

    def profile(frame: FrameType, event: str, _: object) -> None:
        nonlocal left
        if event != "c_call" and os.path.dirname(frame.f_code.co_filename) == HERE:  # noqa: PTH120
            left -= 1
            if left == 0:
                raise Interrupted

    return _raised(sys.getprofile, sys.setprofile, profile, call)


def _raised(get: Callable[[], Any], set_: Callable[[Any], object], function: Any, call: Callable[[], object]) -> bool:
    before = get()
    try:
        set_(function)
        call()
    except Interrupted:
        return True
    finally:
        set_(before)
    return False


Raise: TypeAlias = Callable[[int, Callable[[], object]], bool]


def points(raise_: Raise) -> Iterator[int]:
    """The points to try: every call, or a fourth of all instructions, and fewer without --full."""
    return count(1, 1 if raise_ is at_every_call else 4 if full() else 23)


KEYS = [Key("p", str(n)) for n in range(6)]


def put(n: int, **values: Any) -> Put:
    x = values.get("x", n % 2)
    return Put(KEYS[n], {"n": n, "count": 0, **values}, {"by_x": Key("X", str(x)), "by_y": Key(f"Y{x}", str(n))})


WRITES: dict[str, Request] = {
    "insert": put(5),
    "put": put(1, x=7),
    "put without entries": Put(KEYS[1], {"n": 1}),
    "update": Update(KEYS[2], (Increment(Place(("count",)), 1),)),
    "delete": Delete(KEYS[3]),
    "transaction": Transact((put(0, x=8), put(5), Delete(KEYS[2]), put(1))),
    "batch": BatchWrite((put(5), Delete(KEYS[0]), put(5, x=9), put(1, x=3), Delete(KEYS[1]), put(2), Delete(KEYS[4]))),
}


def filled(connection: Connection[Any]) -> None:
    for n in range(5):
        perform(connection, put(n))


def state(connection: Connection[Any]) -> State:
    """What is stored; every item is found by scan, by query and in each of its indexes, and nothing else is.

    The changes in the log make exactly these items.
    """
    page = perform(connection, Scan(entries=True))
    items = {item["n"]: dict(item) for item in page.items}
    assert [item["n"] for item in perform(connection, Query("p")).items] == sorted(items)
    entries = sorted(
        (index, *key, item["n"])
        for item, one in zip(page.items, page.entries, strict=True)
        for index, key in one.items()
    )
    partitions = {"by_x": ["X"], "by_y": [f"Y{x}" for x in range(10)]}
    found = [
        (index, *position.index_key, item["n"])
        for index, names in partitions.items()
        for name in names
        for item, position in _rows(perform(connection, Query(name, index=index)))
    ]
    assert sorted(found) == entries
    logged: dict[Key, Any] = {}
    records = perform(connection, ReadChanges("log", limit=10**6)).records
    for record in records:
        assert logged.get(record.key) == record.old
        logged[record.key] = record.new
    assert [record.sequence for record in records] == [str(n + 1) for n in range(len(records))]
    assert {item["n"]: item for item in logged.values() if item is not None} == items
    return {"items": items, "entries": entries}


def _rows(page: Any) -> Iterator[tuple[Any, Any]]:
    return zip(page.items, page.positions, strict=True)


def in_thread(call: Callable[[], object]) -> None:
    """Call a function in another thread, which a lock that was kept would stop."""
    with ThreadPoolExecutor(1) as pool:
        pool.submit(call).result(timeout=20)


def tables(lag: int = 0) -> Iterator[Connection[Any]]:
    while True:
        clock = Clock()
        connection = Memory(index_lag=lag, clock=clock, changes=True).connect(schema_of())
        perform(connection, CreateTables())
        filled(connection)
        clock.advance(lag)
        yield connection


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "FEW", 2)


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("raise_", [at_every_instruction, at_every_call])
@pytest.mark.parametrize("name", WRITES)
def test_a_write_in_memory_is_whole_or_absent(name: str, raise_: Raise) -> None:
    fresh = tables()
    connection = next(fresh)
    before = state(connection)
    perform(connection, WRITES[name])
    after = state(connection)
    seen = []
    for number in points(raise_):
        connection = next(fresh)
        if not raise_(number, partial(perform, connection, WRITES[name])):
            break
        if raise_ is at_every_call:  # the lock is free at once; elsewhere no signal handler runs
            in_thread(partial(perform, connection, Get(KEYS[0])))
        found = state(connection)
        assert found in (before, after)
        in_thread(partial(perform, connection, Get(KEYS[0])))
        perform(connection, WRITES[name])
        assert {**state(connection)["items"], 2: None} == {**after["items"], 2: None}  # of item 2, an update counts
        seen.append(found)
    assert seen[0] == before
    assert after in seen
    assert len(seen) > 5


@pytest.mark.parametrize("request_", [Get(KEYS[0]), Query("X", index="by_x"), Scan()], ids=["get", "query", "scan"])
@pytest.mark.parametrize("raise_", [at_every_instruction, at_every_call])
def test_a_read_in_memory_keeps_no_lock(request_: Request, raise_: Raise) -> None:
    connection = next(tables())
    for number in points(raise_):
        if not raise_(number, partial(perform, connection, request_)):
            break
        if raise_ is at_every_instruction:
            perform(connection, request_)
        in_thread(partial(perform, connection, request_))


def test_lagging_indexes_show_an_interrupted_write_once() -> None:
    def run(number: int) -> tuple[bool, State]:
        clock = Clock()
        connection = Memory(index_lag=10, clock=clock, changes=True).connect(schema_of())
        perform(connection, CreateTables())
        filled(connection)
        clock.advance(10)

        def call() -> None:
            perform(connection, WRITES["batch"])
            clock.advance(10)
            perform(connection, Query("X", index="by_x"))

        raised = at_every_instruction(number, call)
        perform(connection, WRITES["batch"])
        clock.advance(10)
        return raised, state(connection)

    _, expected = run(1_000_000)
    for number in points(at_every_instruction):
        raised, found = run(number)
        assert found == expected
        if not raised:
            break


def test_a_signal_handler_that_uses_the_table_is_refused() -> None:
    """The call that it interrupted goes on afterwards."""
    refused = 0
    for number, connection in zip(points(at_every_instruction), tables(), strict=False):

        def handle(connection: Connection[Any] = connection) -> None:
            nonlocal refused
            with suppress(BackendError):
                perform(connection, Delete(KEYS[1]))
                return
            refused += 1

        if not at_every_instruction(number, partial(perform, connection, put(1, x=5)), handle):
            break
        state(connection)
    assert refused > 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no /proc")
@pytest.mark.parametrize("raise_", [at_every_instruction, at_every_call])
@pytest.mark.parametrize("name", ["put", "transaction", "get"])
def test_a_call_on_a_file_is_whole_or_absent(name: str, raise_: Raise, tmp_path: Path) -> None:
    connection = LocalFile(tmp_path / "shop.db", timeout=10, changes=True).connect(schema_of())
    other = LocalFile(tmp_path / "shop.db", timeout=10, changes=True).connect(schema_of())  # as another process
    request = Get(KEYS[0]) if name == "get" else WRITES[name]
    perform(connection, CreateTables())
    reset = BatchWrite((*map(put, range(5)), Delete(KEYS[5])))
    perform(connection, reset)
    before = state(connection)
    perform(connection, request)
    after = state(connection)
    perform(connection, reset)
    perform(other, Put(Key("other"), {"n": -1}))
    perform(other, Delete(Key("other")))
    opened, number = descriptors(), 0
    for number in points(raise_):
        if not raise_(number, partial(perform, connection, request)):
            break
        if raise_ is at_every_call:
            in_thread(partial(perform, other, Delete(Key("other"))))
        assert state(connection) in (before, after)
        perform(connection, reset)
        perform(other, Delete(Key("other")))
    assert number > 5
    assert descriptors() <= opened
    connection.close()
    other.close()


def descriptors() -> int:
    """The number of open descriptors of the file and its side files."""
    links = [link.resolve().name for link in Path("/proc/self/fd").iterdir()]
    return sum(link.startswith("shop.db") for link in links)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no timer")
def test_real_signals(tmp_path: Path) -> None:
    """Timers of a few microseconds to milliseconds, for what the trace functions cannot show."""

    def handler(*_: object) -> None:
        raise Interrupted

    usual = signal.signal(signal.SIGALRM, handler)
    try:
        for connection in (
            next(tables()),
            LocalFile(tmp_path / "shop.db", timeout=10, changes=True).connect(schema_of()),
        ):
            perform(connection, CreateTables())
            for number in range(1, 40):
                try:
                    signal.setitimer(signal.ITIMER_REAL, number / 20_000)
                    while True:
                        perform(connection, WRITES["transaction"])
                        perform(connection, WRITES["batch"])
                except Interrupted:
                    state(connection)
                    in_thread(partial(perform, connection, Delete(KEYS[0])))
            connection.close()
    finally:
        signal.signal(signal.SIGALRM, usual)
