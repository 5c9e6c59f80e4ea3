"""The servers of the tests run, never outlive who started them, and are missed only where they must be there."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest

from tests import dynamodb_local, dynoxide
from tests.servers import running

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from importlib import import_module
from pathlib import Path
with import_module(sys.argv[1]).running(Path(sys.argv[2])):
    print("running", flush=True)
    time.sleep(600)
"""
SERVERS = {"dynamodb_local": dynamodb_local, "dynoxide": dynoxide}


@pytest.mark.parametrize("server", SERVERS)
def test_it_answers(server: str, request: pytest.FixtureRequest) -> None:
    endpoint = request.getfixturevalue(server)
    client = boto3.client("dynamodb", "eu-west-1", None, True, None, endpoint, "probe", "secret")
    assert client.list_tables()["ResponseMetadata"]["HTTPStatusCode"] == 200
    client.close()


def test_what_ends_at_once_is_shown() -> None:
    command = [sys.executable, "-c", "print('no such class')"]
    with (
        pytest.raises(RuntimeError, match=r"Server did not start .* it said: no such class"),
        running("Server", lambda _: command),
    ):
        pass


def test_another_port_is_tried_if_the_first_is_taken() -> None:
    ports: list[int] = []

    def command(port: int) -> list[str]:
        ports.append(port)
        chosen = taken.getsockname()[1] if len(ports) == 1 else port
        return [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(chosen)]

    with socket.create_server(("127.0.0.1", 0)) as taken, running("Server", command) as endpoint:
        assert endpoint == f"http://127.0.0.1:{ports[1]}"


@pytest.mark.one_of(3)
@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 and ps are of other systems")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.usefixtures("interruptible")
def test_it_ends_with_who_started_it(server: str, end: signal.Signals, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(server)  # it can run here
    module = SERVERS[server]
    command = [sys.executable, "-c", HOLDER, module.__name__, str(module.find(os.environ))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "running\n"
        [keeper] = children(holder.pid)
        [program] = children(keeper)
        holder.send_signal(end)
    until = time.monotonic() + 60
    while alive(keeper) or alive(program):
        assert time.monotonic() < until
        time.sleep(0.05)


def children(of: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [int(child) for parent, child in pairs if int(parent) == of]


def alive(process: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1] not in ("", "Z")  # a zombie is dead, if nobody has looked yet


@pytest.mark.one_of(3)
@pytest.mark.parametrize("ci", ["true", ""])
@pytest.mark.parametrize(
    ("variable", "test", "outcome"),
    [
        ("ODM_DYNAMODB_LOCAL", "test_servers.py::test_it_answers[dynamodb_local]", "1 skipped"),
        ("ODM_DYNOXIDE", "test_servers.py::test_it_answers[dynoxide]", "1 skipped"),
        (
            "ODM_NODE_MODULES",
            "../coming_from/test_coming_from.py::test_javascript_and_odm_share_tables[dynoxide-onetable]",
            "1 skipped",
        ),
        ("ODM_BIGTABLE_EMULATOR", "test_emulator.py::test_it_runs_on_the_loopback", "1 passed"),  # on odm's own
    ],
)
def test_a_missing_one_fails_only_ci(tmp_path: Path, variable: str, test: str, outcome: str, ci: str) -> None:
    environ = {**os.environ, "CI": ci, variable: str(tmp_path / "gone")}
    environ.pop("ODM_OWN_EMULATOR", None)
    outcome = "1 (failed|error) " if ci else outcome
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"tests/packaging/{test}"]
    result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert re.search(outcome, result.stdout.splitlines()[-1])
