"""What DynamoDB answers, canned: made once, so that what is measured is the client's work.

In this process it answers botocore through its ``before-send`` event; ``python -m benchmarks.dynamodb.answers`` is a
server that does so over HTTP, for the loopback, and prints its port. The server is a process of its own, so that its
CPU time is nobody's.
"""

import asyncio
import json
import re
import subprocess
import sys
import zlib
from collections.abc import Mapping
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from attrs import Factory, define

from benchmarks.services import Speaking

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest, AWSResponse

_ORDER: Final = re.compile(rb"\bo\d{9}\b")

ROOT: Final = Path(__file__).parents[2]


@define
class Answers:
    """The answers of a table: a get finds the item of the order that it names, and a query all.

    It holds the items that were put before the first read, as the client wrote them.
    """

    items: list[Mapping[str, Any]] = Factory(list)
    _ready: dict[str, bytes] = Factory(dict)
    _gets: dict[bytes, bytes] = Factory(dict)

    def answer(self, operation: str, body: bytes) -> bytes:
        """The body of the answer to an operation."""
        found = self._gets.get(_order(body)) if operation == "GetItem" else self._ready.get(operation)
        return self._first(operation, body) if found is None else found

    def _first(self, operation: str, body: bytes) -> bytes:
        if operation == "PutItem":
            self.items.append(json.loads(body)["Item"])
            return b"{}"
        if operation not in ("GetItem", "Query"):
            raise LookupError(f"{operation} is not canned")
        self._ready |= {
            "PutItem": b"{}",
            "UpdateItem": b"{}",
            "Query": _text({"Items": self.items, "Count": len(self.items), "ScannedCount": len(self.items)}),
        }
        answers = [_text({"Item": item}) for item in self.items]
        self._gets |= {_order(answer): answer for answer in answers}
        return self._gets[_order(body)] if operation == "GetItem" else self._ready[operation]


def _order(text: bytes) -> bytes:
    """The id of the first order in a text; b"" if there is none."""
    found = _ORDER.search(text)
    return b"" if found is None else found[0]


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


class Canned(Speaking):
    """Answers in this process: neither a socket nor urllib3 takes part."""

    creates = batches = False
    endpoint_url = "http://127.0.0.1:1"

    def __init__(self) -> None:
        self.answers = Answers()

    def register(self, events: Any) -> None:
        events.register("before-send.dynamodb", self._answer)

    def _answer(self, request: "AWSPreparedRequest", **_: Any) -> "AWSResponse":
        from botocore.awsrequest import AWSResponse

        target = request.headers["X-Amz-Target"]
        operation = (target if isinstance(target, str) else target.decode()).partition(".")[2]
        assert isinstance(request.body, bytes)
        body = self.answers.answer(operation, request.body)
        return AWSResponse(request.url, 200, headers(body), _Raw(body))  # type: ignore[arg-type]  # has what is used of it


class Loopback(Speaking):
    """Answers over HTTP, from a process of its own."""

    creates = batches = False

    def __init__(self, connections: int = Speaking.connections) -> None:
        self.connections = connections
        command = [sys.executable, "-m", "benchmarks.dynamodb.answers"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        assert self._process.stdout is not None
        self.endpoint_url = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def close(self) -> None:
        self._process.communicate()


class _Talk(asyncio.Protocol):
    """One connection. It is not made of streams, so that 500 of them get their answers in little time."""

    transport: asyncio.Transport

    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._received = b""

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        received = self._received + data
        end = received.find(_END)
        while end >= 0:
            head, start = received[:end].lower(), end + len(_END)
            length = int(_field(head, b"content-length") or 0)
            if len(received) < start + length:
                break
            operation = _field(head, b"x-amz-target").partition(b".")[2]
            self.transport.write(_response(self._answers, operation, received[start : start + length]))
            received = received[start + length :]
            end = received.find(_END)
        self._received = received


_END: Final = b"\r\n\r\n"


def _field(head: bytes, name: bytes) -> bytes:
    """A header; b"" if there is none. Names and values are in lower case."""
    return head.partition(b"\r\n" + name + b":")[2].partition(b"\r\n")[0].strip()


_OPERATIONS: Final = {name.lower().encode(): name for name in ("GetItem", "PutItem", "Query", "UpdateItem")}


def _response(answers: Answers, operation: bytes, body: bytes) -> bytes:
    try:
        return _ok(answers.answer(_OPERATIONS.get(operation, operation.decode()), body))
    except LookupError as error:
        return _written("400 Bad Request", _text({"__type": "ValidationException", "message": str(error)}))


@cache  # of the answers that there are
def _ok(text: bytes) -> bytes:
    return _written("200 OK", text)


def _written(status: str, text: bytes) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers(text).items())
    return f"HTTP/1.1 {status}\r\n{lines}\r\n".encode() + text


async def _serve() -> None:
    answers = Answers()
    loop = asyncio.get_running_loop()
    # Without a long queue, connections that are opened at once wait for a second to be tried again.
    server = await loop.create_server(lambda: _Talk(answers), "127.0.0.1", 0, backlog=1024)
    sys.stdout.write(f"{server.sockets[0].getsockname()[1]}\n")
    sys.stdout.flush()
    # It ends when the process that started it ends.
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(_serve())
