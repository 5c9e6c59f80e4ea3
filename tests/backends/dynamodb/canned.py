"""An HTTP service on the loopback interface with responses from a test; the clients that call it are the real ones."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """An HTTP response."""

    body: bytes
    status: int = 200
    checksum: int | None = None


class Canned(ThreadingHTTPServer):
    """Answers every request with the result of a function.

    Attributes:
        received: headers and body of each request until now.
    """

    daemon_threads = True

    def __init__(self, answer: Callable[[], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.received: list[tuple[dict[str, str], bytes]] = []

    @property
    def asked(self) -> list[str]:
        """The operations until now."""
        return [headers["X-Amz-Target"].split(".")[1] for headers, _ in self.received]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Canned)
        server.received.append((dict(self.headers), self.rfile.read(int(self.headers["Content-Length"]))))
        body, status, checksum = server.answer()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(body)))
        if checksum is not None:
            self.send_header("x-amz-crc32", str(checksum))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        pass


@contextmanager
def serving(answer: Callable[[], Answer]) -> Iterator[Canned]:
    """Run such a service during the block."""
    with Canned(answer) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()
