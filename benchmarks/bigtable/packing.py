"""A server in front of the emulator that packs rows as Google's do, many in a message.

``python -m benchmarks.bigtable.packing host:port`` prints its address, and ends when its standard input does. It
remembers its answers, so that they are not what takes the time.
"""

import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc

from tests.backends.bigtable.server import Answer, Server, packed

PACKED: Final = 250
"""Rows of a message."""

ROOT: Final = Path(__file__).parents[2]


class Packing(Server):
    """Passes calls on; answers of reads are packed, and given again until something is written."""

    def __init__(self, emulator: str) -> None:
        super().__init__(emulator)
        self._answers: dict[bytes, list[Any]] = {}

    def _answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Answer:
        passed = self._forward(method, request, {key: str(value) for key, value in context.invocation_metadata()})
        if method != "ReadRows":
            self._answers.clear()
            yield from passed
            return
        key = request.SerializeToString()
        if key not in self._answers:
            self._answers[key] = list(packed(PACKED)(passed))
        yield from self._answers[key]


@contextmanager
def running(emulator: str) -> Iterator[str]:
    """Run the server in a process of its own; gives its "host:port"."""
    command = [sys.executable, "-m", "benchmarks.bigtable.packing", emulator]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.communicate()


if __name__ == "__main__":
    with ThreadPoolExecutor(2) as threads:
        server = Packing(sys.argv[1])
        server.start(threads)
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        sys.stdin.read()
        server.close()
