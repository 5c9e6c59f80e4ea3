"""A server that answers ReadRows as Google's do, many rows in a message: ``python -m benchmarks.bigtable.server``.

It holds the rows that it is given by MutateRow and MutateRows, and answers from messages that it made before, so that
it is not what takes the time. It prints its port, and ends when the process that started it ends.
"""

import socket
import subprocess
import sys
import time
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import grpc
from google.cloud.bigtable_v2 import types

PACKED: Final = 250
"""Rows of a message."""

START_SECONDS: Final = 30
"""How long the server may take until it accepts connections."""

ROOT: Final = Path(__file__).parents[2]


class Rows:
    """The rows of one table, and answers of them."""

    def __init__(self) -> None:
        self._rows: dict[bytes, Any] = {}

    def write(self, entry: Any) -> None:
        """Hold a row."""
        self._rows[entry.row_key] = [m.set_cell for m in entry.mutations if m.WhichOneof("mutation") == "set_cell"]
        self.read.cache_clear()

    @cache  # noqa: B019  # it lives as long as the process
    def read(self, start: bytes, end: bytes, limit: int, *, open_start: bool) -> list[bytes]:
        """The messages of an answer."""
        keys = sorted(self._rows)
        first = (bisect_right if open_start else bisect_left)(keys, start)
        last = bisect_left(keys, end) if end else len(keys)
        keys = keys[first:last][: limit or None]
        return [self._message(keys[at : at + PACKED]) for at in range(0, len(keys), PACKED)]

    def lookup(self, keys: Iterable[bytes]) -> Iterator[bytes]:
        """The message with these rows, those that are there."""
        found = sorted(key for key in keys if key in self._rows)
        if found:
            yield self._message(found)

    def _message(self, keys: list[bytes]) -> bytes:
        message = types.ReadRowsResponse.pb()()
        for key in keys:
            family = ""
            for cell in self._rows[key]:
                chunk = message.chunks.add(timestamp_micros=cell.timestamp_micros, value=cell.value)
                chunk.qualifier.value = cell.column_qualifier
                if cell.family_name != family:
                    chunk.family_name.value = family = cell.family_name
                if cell is self._rows[key][0]:
                    chunk.row_key = key
            message.chunks[-1].commit_row = True
        return bytes(message.SerializeToString())


def _handlers(rows: Rows) -> "grpc.GenericRpcHandler[Any, Any]":
    def read(request: Any, _: Any) -> Iterator[bytes]:
        if request.rows.row_keys:
            yield from rows.lookup(request.rows.row_keys)
            return
        span = request.rows.row_ranges[0]
        start = span.start_key_open or span.start_key_closed
        yield from rows.read(start, span.end_key_open, request.rows_limit, open_start=bool(span.start_key_open))

    def write_one(request: Any, _: Any) -> bytes:
        rows.write(request)
        return b""

    def write(request: Any, _: Any) -> Iterator[bytes]:
        answer = types.MutateRowsResponse.pb()()
        for index, entry in enumerate(request.entries):
            rows.write(entry)
            answer.entries.add(index=index).status.code = 0
        yield answer.SerializeToString()

    stream, once = grpc.unary_stream_rpc_method_handler, grpc.unary_unary_rpc_method_handler
    methods = {
        "ReadRows": stream(read, types.ReadRowsRequest.pb().FromString),
        "MutateRow": once(write_one, types.MutateRowRequest.pb().FromString),
        "MutateRows": stream(write, types.MutateRowsRequest.pb().FromString),
        "PingAndWarm": once(lambda request, _: b""),
    }
    return grpc.method_handlers_generic_handler("google.bigtable.v2.Bigtable", methods)


@contextmanager
def running() -> Iterator[str]:
    """Run the server in a process of its own; gives its "host:port"."""
    command = [sys.executable, "-m", "benchmarks.bigtable.server"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        _await(port, process)
        yield f"127.0.0.1:{port}"
        process.communicate()


def _await(port: int, process: subprocess.Popen[str]) -> None:
    """Wait until the server accepts connections: on a busy machine that is later than it knows its port."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError as error:
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server on port {port} does not accept connections") from error
            time.sleep(0.05)
        else:
            return


def main() -> None:
    """Serve until the standard input ends."""
    # Without SO_REUSEPORT no other server can be given the same port.
    server = grpc.server(ThreadPoolExecutor(2), options=(("grpc.so_reuseport", 0),))
    server.add_generic_rpc_handlers((_handlers(Rows()),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    sys.stdin.read()
    server.stop(None).wait()


if __name__ == "__main__":
    main()
