"""Finds, fetches and runs DynamoDB Local, for the tests and for `.ci/run`: see `tests.servers`.

Where a table has a TTL, DynamoDB Local deletes an item within a second of its expiry by the real clock. Tried: one that
expired 10 seconds or 300 days ago is deleted, one that expired six years ago stays. So the clocks of tests that store
such items are set to 2100, and an item that must be expired at once has expired in 2001.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from tests import servers

VARIABLE = "ODM_DYNAMODB_LOCAL"
POM = Path(__file__).parents[1] / ".ci" / "dynamodb-local.xml"
FETCHED = servers.CACHE / "dynamodb-local"
IN_DOWNLOAD = "DynamoDBLocal_lib"  # the folder of libraries in the archive from AWS


def find(environ: Mapping[str, str]) -> Path:
    """The folder of DynamoDB Local: that in the environment variable, otherwise the fetched one.

    Raises:
        Missing: DynamoDB Local or Java was not found, or the variable names a folder without it.
    """
    if shutil.which("java", path=environ.get("PATH")) is None:
        raise servers.Missing("DynamoDB Local needs Java, and there is no `java` on PATH: install Java 17 or later")
    named = environ.get(VARIABLE)
    folder = Path(named) if named else FETCHED
    if any(folder.glob("DynamoDBLocal*.jar")):
        return folder
    if named:
        raise servers.Missing(f"{VARIABLE}={named} is not a folder with DynamoDBLocal.jar")
    raise servers.Missing(
        "no DynamoDB Local: run `python -m tests.dynamodb_local fetch` (with Maven), or unpack the archive that AWS "
        f"offers and set {VARIABLE} to its folder"
    )


@cache
def available() -> bool:
    """Whether DynamoDB Local can run here."""
    return servers.can_run(find)


def fetch() -> None:
    """Fetch DynamoDB Local with Maven. If this fails, no incomplete folder is left."""
    FETCHED.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=FETCHED.parent) as folder:
        output = Path(folder, "lib")
        command = ["mvn", "--quiet", "--batch-mode", "--file", str(POM), "dependency:copy-dependencies"]
        servers.fetched([*command, f"-DoutputDirectory={output}"])
        output.rename(FETCHED)


def running(folder: Path) -> AbstractContextManager[str]:
    """Run DynamoDB Local, empty and in memory, on a free port during the block; yields its endpoint."""
    return servers.running("DynamoDB Local", lambda port: _command(folder, port))


def _command(folder: Path, port: int) -> list[str]:
    folders = [folder, folder / IN_DOWNLOAD]
    return [
        "java",
        # Compile quickly, not well, and collect garbage on one core: half of the CPU time of a server that lives for
        # minutes.
        *("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
        f"-Djava.library.path={os.pathsep.join(map(str, folders))}",
        "-cp",
        os.pathsep.join(str(folder / "*") for folder in folders),
        "com.amazonaws.services.dynamodbv2.local.main.ServerRunner",
        *("-inMemory", "-disableTelemetry", "-port", str(port)),
    ]


if __name__ == "__main__":
    sys.exit(servers.main(find, fetch, sys.argv[1:]))
