"""A service that does what it is asked and whose answer gets lost on the way: real sockets, in both colours."""

import http.client
import socket
import struct
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

import boto3
import pytest

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import OutcomeUnknown
from odm.expressions.nodes import Increment, Missing, Path
from odm.operations.ir import Delete, Get, Put, Request, Update
from odm.schema.model import Key, Schema
from tests.backends.dynamodb.conftest import Ask

KEY = Key("C#1", "O#1")
N = Path(("n",))


class Line(ThreadingHTTPServer):
    """The way to the service; ``lose`` names the operations whose next answer is not passed on."""

    daemon_threads = True

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Pass)
        self.service = urlsplit(service).netloc
        self.lose: list[str] = []
        self.reset = False
        self.passed: list[str] = []


class _Pass(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        line = self.server
        assert isinstance(line, Line)
        operation = self.headers["X-Amz-Target"].split(".")[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        service = http.client.HTTPConnection(line.service)
        service.request("POST", self.path, body, dict(self.headers))
        answer = service.getresponse()
        content = answer.read()
        service.close()
        line.passed.append(operation)
        if operation in line.lose:
            line.lose.remove(operation)
            if line.reset:  # closing without lingering resets the connection
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                self.rfile.close()
                self.connection.close()
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name in ("Content-Type", "x-amz-crc32"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture(params=["closed", "reset"])
def line(request: pytest.FixtureRequest, endpoint: str) -> Iterator[Line]:
    line = Line(endpoint)
    line.reset = request.param == "reset"
    thread = threading.Thread(target=line.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield line
    line.shutdown()
    thread.join()
    line.server_close()


@pytest.fixture
async def connection(line: Line, schema: Schema) -> AsyncIterator[DynamoDBConnection]:
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    connection = DynamoDB(session, endpoint_url=f"http://127.0.0.1:{line.server_port}").connect(schema)
    yield connection
    await connection.aclose()


@pytest.mark.parametrize(
    ("request_", "operation", "after"),
    [
        (Update(KEY, (Increment(N, 1),)), "UpdateItem", {"n": 2}),
        (Put(KEY, {"n": 5}, condition=Missing(Path(("m",)))), "PutItem", {"n": 5}),
        (Delete(KEY), "DeleteItem", None),
    ],
)
async def test_a_write_that_must_not_happen_twice_happens_once(
    ask: Ask, line: Line, request_: Request, operation: str, after: object
) -> None:
    await ask(Put(KEY, {"n": 1}))
    line.passed.clear()
    line.lose = [operation]
    with pytest.raises(OutcomeUnknown, match="read the item before you write again"):
        await ask(request_)
    assert line.passed == [operation]
    assert await ask(Get(KEY)) == after


async def test_what_can_be_repeated_is_repeated(ask: Ask, line: Line) -> None:
    line.lose = ["PutItem", "GetItem"]
    await ask(Put(KEY, {"n": 1}))
    assert await ask(Get(KEY)) == {"n": 1}
    assert line.passed[-4:] == ["PutItem", "PutItem", "GetItem", "GetItem"]
