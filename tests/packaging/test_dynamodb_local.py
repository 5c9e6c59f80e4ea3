"""DynamoDB Local is found where people have it, runs, and never outlives who started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import boto3
import pytest

from tests import dynamodb_local
from tests.dynamodb_local import DynamoDBLocalMissing, find, running

ROOT = Path(__file__).parents[2]
HOLDER = """
import sys, time
from pathlib import Path
from tests.dynamodb_local import running
with running(Path(sys.argv[1])):
    print("running", flush=True)
    time.sleep(600)
"""


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which there is a Java."""
    program(tmp_path / "bin" / "java", "")
    return str(tmp_path / "bin")


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it would have been fetched to, so that one in this checkout does not answer for a test."""
    folder = tmp_path / "cache" / "dynamodb-local"
    monkeypatch.setattr(dynamodb_local, "FETCHED", folder)
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def installed(folder: Path, jar: str = "DynamoDBLocal.jar") -> Path:
    folder.mkdir(parents=True)
    (folder / jar).touch()
    return folder


def test_the_variable_wins(tmp_path: Path, path: str, fetched: Path) -> None:
    installed(fetched)
    named = installed(tmp_path / "named")
    assert find({"PATH": path, "ODM_DYNAMODB_LOCAL": str(named)}) == named


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path, path: str, fetched: Path) -> None:
    installed(fetched)
    with pytest.raises(DynamoDBLocalMissing, match="gone is not a folder with DynamoDBLocal"):
        find({"PATH": path, "ODM_DYNAMODB_LOCAL": str(tmp_path / "gone")})


def test_what_was_fetched_is_found(path: str, fetched: Path) -> None:
    installed(fetched, "DynamoDBLocal-2.6.1.jar")
    assert find({"PATH": path}) == fetched


def test_none_says_what_to_do(path: str, fetched: Path) -> None:
    with pytest.raises(DynamoDBLocalMissing, match=r"python -m tests\.dynamodb_local fetch"):
        find({"PATH": path})


def test_without_java_that_is_said(tmp_path: Path, fetched: Path) -> None:
    installed(fetched)
    with pytest.raises(DynamoDBLocalMissing, match="install Java 17"):
        find({"PATH": str(tmp_path)})


def test_what_ends_at_once_is_shown(tmp_path: Path, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path / "bin" / "java", "echo 'no such class'")
    monkeypatch.setenv("PATH", path)
    with pytest.raises(RuntimeError, match="it said: no such class"), running(tmp_path):
        pass


def test_it_answers(dynamodb_local: str) -> None:
    client = boto3.client("dynamodb", "eu-west-1", None, True, None, dynamodb_local, "probe", "secret")
    assert client.list_tables()["TableNames"] == []
    client.close()


@pytest.mark.skipif(sys.platform == "win32", reason="kill -9 and ps are of other systems")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_it_ends_with_who_started_it(dynamodb_local: str, end: signal.Signals) -> None:
    command = [sys.executable, "-c", HOLDER, str(find(os.environ))]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "running\n"
        [keeper] = children(holder.pid)
        [java] = children(keeper)
        holder.send_signal(end)
    until = time.monotonic() + 60
    while alive(keeper) or alive(java):
        assert time.monotonic() < until
        time.sleep(0.05)


def children(of: int) -> list[int]:
    listed = subprocess.run(["ps", "-A", "-o", "ppid=,pid="], capture_output=True, text=True, check=True)
    pairs = [line.split() for line in listed.stdout.splitlines()]
    return [int(child) for parent, child in pairs if int(parent) == of]


def alive(process: int) -> bool:
    listed = subprocess.run(["ps", "-o", "stat=", "-p", str(process)], capture_output=True, text=True, check=False)
    return listed.stdout.strip()[:1] not in ("", "Z")  # a zombie is dead, if nobody has looked yet


@pytest.mark.parametrize(("ci", "outcome"), [("true", "1 error"), ("", "1 skipped")])
def test_a_missing_one_fails_only_ci(tmp_path: Path, ci: str, outcome: str) -> None:
    environ = {**os.environ, "CI": ci, "ODM_DYNAMODB_LOCAL": str(tmp_path / "gone")}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"{__file__}::test_it_answers"]
    result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert outcome in result.stdout.splitlines()[-1]
