"""A proxy to a service, over real sockets, that can cut the connection at the worst times."""

import http.client
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

Cut: TypeAlias = Literal["before", "closed", "reset", "half", "silent"]
"""What happens to a request: it does not arrive, or it is applied and its response is lost: the connection is closed
or reset, the response is cut in the middle, or it never arrives."""

CUTS: tuple[Cut, ...] = ("before", "closed", "reset", "half")
"""The cuts that the client notices without a timeout."""


class Line(ThreadingHTTPServer):
    """Forwards requests to the service, and responses to the client.

    Attributes:
        cuts: what happens to the next requests of an operation, such as ``{"PutItem": ["closed"]}``; None forwards it.
        meanwhile: called after a response was lost, before the client notices.
    """

    daemon_threads = True

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Pass)
        self.service = urlsplit(service).netloc
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.cuts: dict[str, list[Cut | None]] = {}
        self.waiting = 0
        self.answered = threading.Condition()
        self._passed: list[str] = []
        self.ended = threading.Event()
        self.meanwhile: Callable[[], object] = list

    @property
    def passed(self) -> list[str]:
        """The operations that arrived at the service; waits until it has answered, as the client may not have done."""
        with self.answered:
            assert self.answered.wait_for(lambda: self.waiting == 0, timeout=60)
            return self._passed

    def forward(self, operation: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[Any, bytes]:
        """Send a request to the service, and return its response with the content."""
        with self.answered:
            self.waiting += 1
        service = http.client.HTTPConnection(self.service)
        try:
            service.request("POST", path, body, headers)
            answer = service.getresponse()
            content = answer.read()
            self._passed.append(operation)
            return answer, content
        finally:
            service.close()
            with self.answered:
                self.waiting -= 1
                self.answered.notify_all()

    def next_cut(self, operation: str) -> Cut | None:
        """What happens to the next request of an operation."""
        cuts = self.cuts.get(operation)
        return cuts.pop(0) if cuts else None

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing: cut connections are intended."""


class _Pass(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        line = self.server
        assert isinstance(line, Line)
        operation = self.headers["X-Amz-Target"].split(".")[1]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        cut = line.next_cut(operation)
        if cut == "before":
            self._cut("reset")
            return
        answer, content = line.forward(operation, self.path, body, dict(self.headers))
        if cut:
            line.meanwhile()
        if cut == "silent":
            line.ended.wait()
        if cut in ("closed", "reset", "silent"):
            self._cut(cut)
            return
        self.send_response(answer.status)
        for name in ("Content-Type", "x-amz-crc32"):
            if name in answer.headers:
                self.send_header(name, answer.headers[name])
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self._cut("closed")

    def _cut(self, how: str) -> None:
        if how == "reset":  # closing without lingering resets the connection
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.rfile.close()
            self.connection.close()
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def line_to(service: str) -> Iterator[Line]:
    """Run a proxy to the service at this address during the block."""
    line = Line(service)
    thread = threading.Thread(target=line.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield line
    finally:
        line.ended.set()
        line.shutdown()
        thread.join()
        line.server_close()
