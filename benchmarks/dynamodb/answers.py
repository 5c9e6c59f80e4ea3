"""What DynamoDB answers, canned: made once, so that what is measured is the client's work.

In this process it answers botocore through its ``before-send`` event; ``python -m benchmarks.dynamodb.answers`` is a
server that does so over HTTP, for the loopback, and prints its port. The server is a process of its own, so that its
CPU time is nobody's.
"""

import asyncio
import json
import subprocess
import sys
import urllib.request
import zlib
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import Factory, define, frozen

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

ROOT: Final = Path(__file__).parents[2]
LOAD: Final = "Load"
"""The server's own operation: its body is a JSON list of items."""

Item = Mapping[str, Any]
"""Attribute values as JSON has them."""


@define
class Answers:
    """The answers of a table: a get finds its first item and a query all, whatever key they name.

    It holds the items that it is given, or that are put before the first read: a client that writes its own form of
    items reads that form.
    """

    items: list[Item] = Factory(list)
    _ready: dict[str, bytes] = Factory(dict)

    def answer(self, operation: str, body: bytes) -> bytes:
        """The body of the answer to an operation."""
        found = self._ready.get(operation)
        if found is None:
            found = self._first(operation, body)
        return found

    def _first(self, operation: str, body: bytes) -> bytes:
        if operation == "PutItem":
            self.items.append(json.loads(body)["Item"])
            return b"{}"
        if operation == LOAD:
            self.items[:] = json.loads(body)
            return b"{}"
        if operation not in ("GetItem", "Query"):
            raise LookupError(f"{operation} is not canned")
        self._ready |= {
            "PutItem": b"{}",
            "GetItem": _text({"Item": self.items[0]}),
            "Query": _text({"Items": self.items, "Count": len(self.items), "ScannedCount": len(self.items)}),
        }
        return self._ready[operation]


def _text(answer: Mapping[str, Any]) -> bytes:
    return json.dumps(answer, separators=(",", ":"), ensure_ascii=False).encode()


def headers(body: bytes) -> dict[str, str]:
    """The headers that come with an answer."""
    return {
        "Server": "Server",
        "Date": "Sun, 01 Mar 2026 12:00:00 GMT",
        "Content-Type": "application/x-amz-json-1.0",
        "Content-Length": str(len(body)),
        "Connection": "keep-alive",
        "x-amzn-RequestId": "4KBNVRGD25RG1KEO9UT4V3FQDJVV4KQNSO5AEMVJF66Q9ASUAAJG",
        "x-amz-crc32": str(zlib.crc32(body)),
    }


class _Raw(BytesIO):
    """A body as urllib3 would give it."""

    def stream(self, **_: Any) -> Any:
        """All of it at once."""
        yield self.read()


@frozen
class Canned:
    """Answers in this process: neither a socket nor urllib3 takes part."""

    answers: Answers = Factory(Answers)
    endpoint_url: str = "http://127.0.0.1:1"

    def load(self, items: Sequence[Item]) -> None:
        """Hold these items."""
        self.answers.items[:] = items

    def register(self, events: Any) -> None:
        """Answer the requests of clients with these events (of a session, or of one client)."""
        events.register("before-send.dynamodb", self._answer)

    def _answer(self, request: "AWSPreparedRequest", **_: Any) -> "AWSResponse":
        from botocore.awsrequest import AWSResponse

        target = request.headers["X-Amz-Target"]
        operation = (target if isinstance(target, str) else target.decode()).partition(".")[2]
        assert isinstance(request.body, bytes)
        body = self.answers.answer(operation, request.body)
        return AWSResponse(request.url, 200, headers(body), _Raw(body))  # type: ignore[arg-type]  # has what is used of it

    def close(self) -> None:
        """Nothing is open."""


@frozen
class Loopback:
    """Answers over HTTP, from a process of its own."""

    process: subprocess.Popen[str]
    endpoint_url: str

    @classmethod
    def start(cls) -> "Loopback":
        """Run the server."""
        command = [sys.executable, "-m", "benchmarks.dynamodb.answers"]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert process.stdout is not None
        return cls(process, f"http://127.0.0.1:{int(process.stdout.readline())}")

    def load(self, items: Sequence[Item]) -> None:
        """Hold these items."""
        name = {"X-Amz-Target": f"DynamoDB_20120810.{LOAD}"}
        urllib.request.urlopen(urllib.request.Request(self.endpoint_url, json.dumps(items).encode(), name)).close()

    def register(self, events: Any) -> None:
        """Requests find the server by its address."""

    def close(self) -> None:
        """End the server."""
        self.process.communicate()


Wire = Canned | Loopback


async def _serve() -> None:
    answers = Answers()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower().split("\r\n")
                fields = dict(line.split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(fields.get("content-length", 0)))
                writer.write(_response(answers, fields["x-amz-target"], body))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # It ends when the process that started it ends.
    await asyncio.to_thread(sys.stdin.read)


_OPERATIONS: Final = {name.lower(): name for name in ("GetItem", "PutItem", "Query", LOAD)}


def _response(answers: Answers, target: str, body: bytes) -> bytes:
    operation = target.partition(".")[2]
    try:
        status, text = "200 OK", answers.answer(_OPERATIONS.get(operation, operation), body)
    except LookupError as error:
        status, text = "400 Bad Request", _text({"__type": "ValidationException", "message": str(error)})
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers(text).items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + text


if __name__ == "__main__":
    asyncio.run(_serve())
