"""What keeps the items, or pretends to: each library reaches a service in its own way."""

import socket
import subprocess
import time
from pathlib import Path
from shutil import which
from typing import Any, Final

import boto3
from attrs import frozen
from botocore.config import Config

from benchmarks.timing import Clock
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory

DYNALITE: Final = "4.0.0"
_CACHE: Final = Path(__file__).parent / ".cache" / f"dynalite-{DYNALITE}"
_PROGRAM: Final = _CACHE / "node_modules" / "dynalite" / "cli.js"
START_SECONDS: Final = 20


class Unavailable(Exception):
    """Something cannot run here; the message says why."""


class Service:
    """No service: what a floor needs.

    Attributes:
        clock: whose time counts.
        creates: whether tables are made before items.
        batches: whether items can be written many at a time.
    """

    clock: Clock = "cpu"
    creates: bool = True
    batches: bool = True

    def backend(self) -> Any:
        """Odm's backend on it."""
        raise NotImplementedError

    def close(self) -> None:
        """Stop it, and forget what it holds."""


class InMemory(Service):
    """This process."""

    def backend(self) -> Memory:
        return Memory()


@frozen
class InFile(Service):
    """A file."""

    path: Path

    def backend(self) -> LocalFile:
        return LocalFile(self.path)


class Speaking(Service):
    """What speaks DynamoDB.

    Attributes:
        connections: how many connections a library keeps open at most; those without the setting open what they need.
    """

    endpoint_url: str | None = None
    connections: int = 10  # botocore's default

    def backend(self) -> DynamoDB:
        config = Config(max_pool_connections=self.connections)
        return DynamoDB(self.session(), endpoint_url=self.endpoint_url, config=config)

    def session(self) -> boto3.Session:
        """A session with credentials that need not be looked for, whose clients reach it."""
        made = boto3.Session("benchmark", "benchmark", region_name="us-east-1")
        self.register(made.events)
        return made

    def register(self, events: Any) -> None:
        """Let requests of clients with these events (of a session, or of one client) arrive here."""


class Moto(Speaking):
    """moto in this process."""

    def __init__(self) -> None:
        from moto import mock_aws

        self._mock = mock_aws()
        self._mock.start()

    def close(self) -> None:
        self._mock.stop()


class Dynalite(Speaking):
    """dynalite, a server of its own, installed by npm into a folder next to this file.

    Raises:
        Unavailable: node or npm is missing, the package cannot be had, or it does not start.
    """

    clock = "wall"

    def __init__(self) -> None:
        program = _installed()
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        command = ["node", str(program), "--host", "127.0.0.1", "--port", str(port), "--createTableMs", "0"]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.endpoint_url = f"http://127.0.0.1:{port}"
        try:
            accepts(port, self._process, START_SECONDS)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._process.terminate()
        self._process.wait()

    @staticmethod
    def there() -> bool:
        """Whether it is installed already."""
        return _PROGRAM.exists()


def _installed() -> Path:
    if Dynalite.there():
        return _PROGRAM
    if which("npm") is None or which("node") is None:
        raise Unavailable("node and npm are not installed")
    _CACHE.mkdir(parents=True, exist_ok=True)
    quiet = ["--silent", "--no-audit", "--no-fund"]
    command = ["npm", "install", *quiet, "--prefix", str(_CACHE), f"dynalite@{DYNALITE}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0 or not Dynalite.there():
        raise Unavailable(f"npm cannot install dynalite: {done.stderr.strip()[-200:]}")
    return _PROGRAM


def accepts(port: int, process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Wait until a server accepts connections: on a busy machine that is later than it knows its port.

    Raises:
        Unavailable: it ends, or takes longer.
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise Unavailable(f"the server on port {port} does not accept connections") from error
            time.sleep(0.05)
        else:
            return
