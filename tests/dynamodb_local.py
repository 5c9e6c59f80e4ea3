"""Finds, fetches and runs DynamoDB Local, for the tests and for `.ci/run`.

`python -m tests.dynamodb_local` prints its folder, and exits with 1 if it cannot run here. With the argument `fetch`,
it first fetches what is missing.

Where a table has a TTL, DynamoDB Local deletes an item within a second of its expiry by the real clock. Tried: one that
expired 10 seconds or 300 days ago is deleted, one that expired six years ago stays. So the clocks of tests that store
such items are set to 2100, and an item that must be expired at once has expired in 2001.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from typing import IO

VARIABLE = "ODM_DYNAMODB_LOCAL"
POM = Path(__file__).parents[1] / ".ci" / "dynamodb-local.xml"
FETCHED = POM.parent / "cache" / "dynamodb-local"
IN_DOWNLOAD = "DynamoDBLocal_lib"  # the folder of libraries in the archive from AWS
START_SECONDS = 60

# Runs a program and kills it when standard input ends, which is when the tests end, even if they are killed. It runs in
# a session of its own, so that Ctrl-C does not reach it: the tests still need their server while they clean up.
_KEEPER = """
import subprocess, sys, threading
program = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
threading.Thread(target=lambda: (sys.stdin.read(), program.kill()), daemon=True).start()
program.wait()
"""


class DynamoDBLocalMissing(Exception):
    """DynamoDB Local cannot run here; the message says what to do."""


def find(environ: Mapping[str, str]) -> Path:
    """The folder of DynamoDB Local: that in the environment variable, otherwise the fetched one.

    Raises:
        DynamoDBLocalMissing: DynamoDB Local or Java was not found, or the variable names a folder without it.
    """
    if shutil.which("java", path=environ.get("PATH")) is None:
        raise DynamoDBLocalMissing(
            "DynamoDB Local needs Java, and there is no `java` on PATH: install Java 17 or later"
        )
    named = environ.get(VARIABLE)
    folder = Path(named) if named else FETCHED
    if any(folder.glob("DynamoDBLocal*.jar")):
        return folder
    if named:
        raise DynamoDBLocalMissing(f"{VARIABLE}={named} is not a folder with DynamoDBLocal.jar")
    raise DynamoDBLocalMissing(
        "no DynamoDB Local: run `python -m tests.dynamodb_local fetch` (with Maven), or unpack the archive that AWS "
        f"offers and set {VARIABLE} to its folder"
    )


@cache
def available() -> bool:
    """Whether DynamoDB Local can run here."""
    try:
        find(os.environ)
    except DynamoDBLocalMissing:
        return False
    return True


def fetch() -> None:
    """Fetch DynamoDB Local with Maven. If this fails, no incomplete folder is left."""
    with tempfile.TemporaryDirectory(dir=_made(FETCHED.parent)) as folder:
        output = Path(folder, "lib")
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(POM), "dependency:copy-dependencies"]
        subprocess.run([*command, f"-DoutputDirectory={output}"], check=True, stdout=sys.stderr)
        output.rename(FETCHED)


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@contextmanager
def running(folder: Path) -> Iterator[str]:
    """Run DynamoDB Local, empty and in memory, on a free port during the block; yields its endpoint."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-c", _KEEPER, *_command(folder, port)]
    with (
        tempfile.TemporaryFile("w+") as log,
        subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        ) as keeper,
    ):
        assert keeper.stdin is not None
        with keeper.stdin:
            _wait(port, keeper, log)
            yield f"http://127.0.0.1:{port}"


def _command(folder: Path, port: int) -> list[str]:
    folders = [folder, folder / IN_DOWNLOAD]
    return [
        "java",
        f"-Djava.library.path={os.pathsep.join(map(str, folders))}",
        "-cp",
        os.pathsep.join(str(folder / "*") for folder in folders),
        "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
        *("-inMemory", "-disableTelemetry", "-port", str(port)),
    ]


def _wait(port: int, keeper: subprocess.Popen[bytes], log: IO[str]) -> None:
    """Wait until it responds, with any status."""
    end = time.monotonic() + START_SECONDS
    while keeper.poll() is None and time.monotonic() < end:
        with suppress(OSError):
            connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
            connection.request("GET", "/")
            connection.getresponse().read()
            connection.close()
            return
        time.sleep(0.05)
    log.seek(0)
    raise RuntimeError(f"DynamoDB Local did not start to answer within {START_SECONDS} seconds; it said: {log.read()}")


def main(arguments: list[str]) -> int:
    """Print the folder; returns the exit code, 1 if it cannot run."""
    try:
        if "fetch" in arguments and not FETCHED.exists():
            fetch()
        print(find(os.environ))  # noqa: T201 - output for a shell
    except (DynamoDBLocalMissing, OSError, subprocess.CalledProcessError) as failure:
        print(failure, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
