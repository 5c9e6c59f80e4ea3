"""One file used by threads, processes and forks, and by a process that holds the lock and stops."""

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest

from odm.backends.local import LocalFile
from odm.backends.local.file import FileStorage
from odm.backends.local.lock import WriterLock
from odm.errors import BackendError, BadValue, Throttled
from odm.expressions.nodes import Increment
from odm.expressions.nodes import Path as Place
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Delete, Get, Key, Put, Query, Scan, Update
from tests.backends.local import waits as waiting
from tests.backends.local.support import line_of, opened, output_of, started, writing

pytestmark = pytest.mark.slow

KEY = Key("p", "s")
ADD = (Increment(Place(("n",)), 1),)

posix = pytest.mark.skipif(sys.platform == "win32", reason="there is neither fork nor SIGSTOP")

HOLDER = """
import sys
from pathlib import Path
from odm.backends.local.lock import WriterLock

with WriterLock(Path(sys.argv[1]), 60.0):
    print("held", flush=True)
    sys.stdin.readline()
"""


@posix
def test_a_stopped_process_that_holds_the_lock_is_named_after_the_timeout(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = opened(path, timeout=0.1)
    perform(connection, Put(KEY, {"n": 1}))
    holder = started(HOLDER, path)
    assert line_of(holder) == "held\n"
    holder.send_signal(signal.SIGSTOP)
    calls: list[Callable[[], object]] = [LocalFile(path, timeout=0.1).compact]
    calls += [partial(perform, connection, request) for request in (Put(KEY, {}), CreateTables())]
    for call in calls:
        with pytest.raises(Throttled, match=rf"shop\.db: process {holder.pid} has held .* for more than 0\.1 seconds"):
            call()
    assert perform(connection, Get(KEY)) == {"n": 1}
    LocalFile(path).copy(tmp_path / "copy.db")
    holder.kill()
    holder.communicate()
    perform(connection, Put(KEY, {"n": 2}))
    assert perform(connection, Get(KEY)) == {"n": 2}
    connection.close()


def test_a_thread_that_holds_the_lock_is_named_after_the_timeout(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "shop.db", 0.05)
    entered, leave = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            entered.set()
            leave.wait()

    with ThreadPoolExecutor(1) as pool:
        held = pool.submit(hold)
        entered.wait()
        with pytest.raises(Throttled, match="another thread of this process has held the writer lock"), lock:
            pass
        leave.set()
        held.result()
        with lock:
            pass
    lock.close()


def test_a_timeout_is_seconds(tmp_path: Path) -> None:
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(BadValue, match=r"LocalFile\(timeout="):
            LocalFile(tmp_path / "shop.db", timeout=wrong)


def test_an_error_releases_the_lock(tmp_path: Path) -> None:
    lock, other = WriterLock(tmp_path / "shop.db", 0.05), WriterLock(tmp_path / "shop.db", 0.05)
    with pytest.raises(KeyError), lock:
        raise KeyError
    with other, pytest.raises(Throttled), lock:
        pass
    with lock, pytest.raises(Throttled, match=f"process {os.getpid()} "), other:
        pass
    lock.close()
    other.close()


def test_a_writer_that_has_just_written_does_not_overtake_waiting_ones(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    turns: list[int] = []
    start = threading.Barrier(4)

    def write(writer: int) -> None:
        lock = WriterLock(path, 60.0)  # each has file descriptors of its own, like four processes
        start.wait()
        for _ in range(100):
            with lock:
                turns.append(writer)
                time.sleep(0.0005)
        lock.close()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))
    all_write = min(len(turns) - turns[::-1].index(writer) for writer in range(4))  # while all four still write
    again = sum(one == next_one for one, next_one in pairwise(turns[:all_write]))
    assert len(turns) == 400
    assert again < all_write / 4  # without turns, nearly every write


@posix
@pytest.mark.parametrize("store", ["its parent's", "its own"])
def test_parent_and_child_of_a_fork_both_work(store: str, tmp_path: Path) -> None:
    """With SQLite alone, the child's writes are lost when the parent closes its connection, even on the child's own."""
    assert output_of(FORKER, tmp_path / "shop.db", store) == "the child sees [1, 2, 3, 4]\n[1, 2, 3, 4, 5]\n"


FORKER = """
import os, sys
from pathlib import Path
from odm.protocol.connection import perform
from odm.protocol.requests import Key, Put, Query
from tests.backends.local.support import opened

def numbers(connection):
    return [item["n"] for item in perform(connection, Query("p")).items]

def put(n):
    perform(connection, Put(Key("p", str(n)), {"n": n}, {"by_x": Key("X", str(n))}))

connection = opened(Path(sys.argv[1]))
put(1)
to_child, to_parent = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    if sys.argv[2] == "its own":
        inherited, connection = connection, opened(Path(sys.argv[1]), create=False)
    put(2)
    os.write(to_parent[1], b"2")
    os.read(to_child[0], 1)
    put(4)
    print("the child sees", numbers(connection), flush=True)
    os._exit(0)
os.read(to_parent[0], 1)
put(3)
connection.close()
os.write(to_child[1], b"3")
assert os.waitpid(child, 0)[1] == 0
connection = opened(Path(sys.argv[1]), create=False)
put(5)
print(numbers(connection))
connection.close()
"""


@posix
def test_a_fork_while_the_lock_is_held(tmp_path: Path) -> None:
    """The parent keeps the lock, and the child waits for it like any other process."""
    assert output_of(LOCKED_FORK, tmp_path / "shop.db") == "the parent holds it\nthe child writes\n[1, 2, 3]\n"


LOCKED_FORK = """
import os, sys
from pathlib import Path
from odm.backends.local.lock import WriterLock
from odm.errors import Throttled
from odm.protocol.connection import perform
from odm.protocol.requests import Key, Put, Query
from tests.backends.local.support import opened

def put(n):
    perform(connection, Put(Key("p", str(n)), {"n": n}))

connection = opened(Path(sys.argv[1]), timeout=0.1)
put(1)
to_child, to_parent = os.pipe(), os.pipe()
with connection.engine.storage._connections.lock:
    child = os.fork()
    os.close(to_child[child == 0])  # the end of the other process, so that its failure ends this one
    os.close(to_parent[child != 0])
    if child == 0:
        try:
            put(2)
        except Throttled as error:
            assert f"process {os.getppid()} has held the writer lock" in str(error), error
            print("the parent holds it", flush=True)
        os.write(to_parent[1], b"1")
        assert os.read(to_child[0], 1)
        put(2)
        print("the child writes", flush=True)
        os._exit(0)
    assert os.read(to_parent[0], 1)
    try:
        with WriterLock(Path(sys.argv[1]), 0.05):
            raise AssertionError("the child has released the lock of its parent")
    except Throttled:
        pass
os.write(to_child[1], b"2")
assert os.waitpid(child, 0)[1] == 0
put(3)
print([item["n"] for item in perform(connection, Query("p")).items])
connection.close()
"""


@posix
def test_forks_while_threads_write(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    assert output_of(FORKING_THREADS, path) == "ok\n"
    connection = opened(path, create=False)
    assert perform(connection, Get(KEY)) == {"n": 4 * 50 + 8 * 5}
    connection.close()


FORKING_THREADS = """
import os, sys, threading, warnings
from pathlib import Path
from odm.expressions.nodes import Increment, Path as Place
from odm.protocol.connection import perform
from odm.protocol.requests import Get, Key, Put, Update
from tests.backends.local.support import opened

warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn about a fork while threads run

def add(times):
    for _ in range(times):
        perform(connection, Update(Key("p", "s"), (Increment(Place(("n",)), 1),)))
        perform(connection, Get(Key("p", "s")))

connection = opened(Path(sys.argv[1]))
perform(connection, Put(Key("p", "s"), {"n": 0}))
threads = [threading.Thread(target=add, args=(50,)) for _ in range(4)]
for thread in threads:
    thread.start()
children = []
for _ in range(8):
    child = os.fork()
    if child == 0:
        add(5)
        connection.close()
        os._exit(0)
    children.append(child)
for thread in threads:
    thread.join()
assert [os.waitpid(child, 0)[1] for child in children] == [0] * 8
connection.close()
print("ok")
"""


@posix
def test_after_a_fork_during_a_block_the_child_cannot_use_the_file(tmp_path: Path) -> None:
    assert "this process was forked while another thread used the file" in output_of(STRANDED, tmp_path / "shop.db")


STRANDED = """
import os, sys, threading, warnings
from pathlib import Path
from odm.backends.local import clients
from odm.errors import BackendError
from odm.protocol.connection import perform
from odm.protocol.requests import Get, Key, Put
from tests.backends.local.support import opened

warnings.simplefilter("ignore", DeprecationWarning)
clients.FORK_SECONDS = 0.05
connection = opened(Path(sys.argv[1]))
block = connection._engine.storage.reading()
block.__enter__()
child = os.fork()
if child == 0:
    try:
        perform(connection, Get(Key("p")))
    except BackendError as error:
        print(error, flush=True)
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
block.__exit__(None)
perform(connection, Put(Key("p"), {"n": 1}))
assert perform(connection, Get(Key("p"))) == {"n": 1}
connection.close()
"""


def test_four_processes_write_together(tmp_path: Path) -> None:
    waits = waiting.run(tmp_path / "shop.db", processes=4, writes=100)
    assert [len(waited.each) for waited in waits] == [100] * 4
    connection = opened(tmp_path / "shop.db", create=False)
    assert perform(connection, Query("X", index="by_x", count=True)).count == 400
    connection.close()


def test_many_threads_on_many_stores(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connections = [opened(path) for _ in range(4)]
    perform(connections[0], Put(KEY, {"n": 0}))

    def work(thread: int) -> None:
        connection = connections[thread % 4]
        for n in range(10):
            perform(connection, Update(KEY, ADD))
            key = Key(f"t{thread}", str(n))
            perform(connection, Put(key, {"n": n}, {"by_x": Key("X", f"{thread} {n}")}))
            perform(connection, Query("X", index="by_x"))
            if n % 2:
                perform(connection, Delete(key))

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(16)))
    assert perform(connections[1], Get(KEY)) == {"n": 160}
    assert len(perform(connections[2], Scan()).items) == 81
    assert perform(connections[3], Query("X", index="by_x", count=True)).count == 80
    for connection in connections:
        connection.close()


def test_a_hundred_stores_on_one_path(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connections = [opened(path) for _ in range(100)]
    for n, connection in enumerate(connections):
        perform(connection, Put(Key("p", f"{n:03}"), {"n": n}))
    assert [item["n"] for item in perform(connections[0], Query("p")).items] == list(range(100))
    for connection in connections:
        connection.close()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["shop.db", "shop.db-lock", "shop.db-turn"]


def test_close_while_other_threads_are_in_calls(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = opened(path)
    done: list[int] = []
    begun = threading.Barrier(5)

    def put_on(thread: int) -> None:
        for n in range(1_000_000):
            perform(connection, Put(Key(str(thread), str(n)), {"n": n}))
            done.append(1)

    def work(thread: int) -> None:
        begun.wait()
        with pytest.raises(BackendError, match="was closed"):
            put_on(thread)

    with ThreadPoolExecutor(4) as pool:
        futures = [pool.submit(work, thread) for thread in range(4)]
        begun.wait()
        while len(done) < 20:
            time.sleep(0.001)
        connection.close()
        for future in futures:
            future.result()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["shop.db", "shop.db-lock", "shop.db-turn"]
    again = opened(path, create=False)
    assert len(perform(again, Scan()).items) == len(done)
    again.close()


def test_a_block_that_outlives_its_store_returns_its_connection(tmp_path: Path) -> None:
    storage = FileStorage(tmp_path / "shop.db", "shop", 60.0)
    storage.create([])
    with writing(storage) as view:
        storage.close()
        assert view.get(KEY) is None
    assert sorted(file.name for file in tmp_path.iterdir()) == ["shop.db", "shop.db-lock", "shop.db-turn"]


@posix
def test_too_many_open_files(tmp_path: Path) -> None:
    assert output_of(FEW_FILES, tmp_path / "shop.db") == "ok\n"


FEW_FILES = """
import resource, sys
from pathlib import Path
from odm.errors import BackendError
from odm.protocol.connection import perform
from odm.protocol.requests import Get, Key, Put
from tests.backends.local.support import opened

path = Path(sys.argv[1])
first = opened(path)
perform(first, Put(Key("p"), {"n": 1}))
resource.setrlimit(resource.RLIMIT_NOFILE, (40, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
others = []
try:
    while len(others) < 40:
        others.append(opened(path))
except BackendError as error:
    assert str(path) in str(error), error
else:
    raise AssertionError("there were enough")
for other in others:
    other.close()
perform(first, Put(Key("p"), {"n": 2}))
assert perform(first, Get(Key("p"))) == {"n": 2}
first.close()
print("ok")
"""
