"""Starting and stopping: nothing is left behind."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from odm import BackendError, BadValue, Unsupported
from odm.backends.bigtable.emulator import VARIABLE, Emulator, emulator
from tests.backends.bigtable.emulator.raw import Raw, set_cell

pytestmark = pytest.mark.slow


def listens(address: str) -> bool:
    host, port = address.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), 1).close()
    except OSError:
        return False
    return True


def test_no_thread_and_no_port_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """Although a change stream is read when it stops."""
    monkeypatch.delenv(VARIABLE, raising=False)
    before = {*threading.enumerate()}
    with emulator() as address:
        assert os.environ[VARIABLE] == address
        raw = Raw(address)
        table = raw.create("t", "d", change_stream_config={"retention_period": {"seconds": 86_400}})
        stream = raw.start("ReadChangeStream", table_name=table, partition={"row_range": {"start_key_closed": b""}})
        next(stream)
        raw.call("MutateRow", table_name=table, row_key=b"a", mutations=[set_cell("d", b"a", b"1")])
    assert not listens(address)
    assert VARIABLE not in os.environ
    raw.close()
    left = [one for one in threading.enumerate() if one not in before and "bigtable-emulator" in one.name]
    assert left == []


FORK = """
import os, sys
from odm import BackendError
from odm.backends.bigtable.emulator import Emulator

with Emulator(file=sys.argv[1]) as running:
    child = os.fork()
    if not child:
        running.stop()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    try:
        Emulator(file=sys.argv[1])
    except BackendError:
        print(running.address)
    else:
        print("the child let go of the file: 0")
    input()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_forked_process_leaves_the_block(tmp_path: Path) -> None:
    """Its parent keeps the port and the file."""
    command = [sys.executable, "-W", "ignore", "-c", FORK, str(tmp_path / "bigtable.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip()
        assert listens(address)
        program.communicate("\n", timeout=60)
    assert program.returncode == 0


def test_a_delayed_call_does_not_delay_the_end() -> None:
    running = Emulator()
    raw = Raw(running.address)
    table = raw.create("t", "d")
    running.faults.delay("ReadRows", 60)
    stream = raw.start("ReadRows", table_name=table)
    time.sleep(0.2)
    begun = time.monotonic()
    running.stop()
    assert time.monotonic() - begun < 20
    stream.cancel()
    raw.close()


def test_the_variable_is_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "elsewhere:1")
    with emulator():
        assert os.environ[VARIABLE] != "elsewhere:1"
    assert os.environ[VARIABLE] == "elsewhere:1"


def test_two_emulators_know_nothing_of_each_other() -> None:
    with Emulator() as one, Emulator() as other:
        first, second = Raw(one.address), Raw(other.address)
        table = first.create("t", "d")
        assert second.code("ReadRows", table_name=table) == "NOT_FOUND"
        first.close()
        second.close()


@pytest.mark.parametrize("port", [-1, 70_000])
def test_a_port_that_is_none(port: int) -> None:
    with pytest.raises(BadValue):
        Emulator(port=port)


def test_a_port_that_is_in_use() -> None:
    with Emulator() as one, pytest.raises(BackendError, match="cannot listen"):
        Emulator(port=int(one.address.rsplit(":", 1)[1]))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.usefixtures("interruptible")
def test_the_command(number: signal.Signals) -> None:
    command = [sys.executable, "-m", "odm.backends.bigtable.emulator", "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        address = program.stdout.readline().strip().rsplit("=", 1)[1]
        assert listens(address)
        program.send_signal(number)
        assert program.wait(20) == 0
    assert not listens(address)


def test_the_command_says_why_it_cannot_start() -> None:
    with Emulator() as one:
        port = one.address.rsplit(":", 1)[1]
        command = [sys.executable, "-m", "odm.backends.bigtable.emulator", "--port", port]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "cannot listen" in ended.stderr


def test_what_is_not_installed_is_named_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "odm.backends.bigtable.emulator.tables", raising=False)
    monkeypatch.setitem(sys.modules, "sortedcontainers", None)
    with pytest.raises(Unsupported, match=r"needs sortedcontainers: pip install 'single-table-odm\[emulator\]'"):
        Emulator()
