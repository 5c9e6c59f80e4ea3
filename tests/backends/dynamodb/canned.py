"""An HTTP service on the loopback interface with responses from a test; the clients that call it are the real ones."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple


class Answer(NamedTuple):
    """An HTTP response.

    Attributes:
        body: its body.
        status: its status.
        checksum: its x-amz-crc32, if it has one.
        lacks: the number of bytes that its Content-Length counts, and that are not sent.
        location: its Location, if it has one.
        raw: what is sent instead of an HTTP response, before the connection is closed.
        date: its Date; None: the time.
        close: close the connection after it, without saying so.
    """

    body: bytes
    status: int = 200
    checksum: int | None = None
    lacks: int = 0
    location: str | None = None
    raw: bytes | None = None
    date: str | None = None
    close: bool = False


class Canned(ThreadingHTTPServer):
    """Answers every request with the result of a function.

    Attributes:
        received: headers and body of each request until now.
        paths: their paths.
    """

    daemon_threads = True

    def __init__(self, answer: Callable[[], Answer]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answer = answer
        self.endpoint = f"http://127.0.0.1:{self.server_port}"
        self.received: list[tuple[dict[str, str], bytes]] = []
        self.paths: list[str] = []

    @property
    def asked(self) -> list[str]:
        """The operations until now."""
        return [headers["X-Amz-Target"].split(".")[1] for headers, _ in self.received]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True  # the body would wait 40 ms for the headers

    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Canned)
        server.received.append((dict(self.headers), self.rfile.read(int(self.headers.get("Content-Length", 0)))))
        server.paths.append(self.path)
        answer = server.answer()
        self.close_connection = bool(answer.lacks) or answer.raw is not None or answer.close
        if answer.raw is not None:
            self.wfile.write(answer.raw)
            return
        self.send_response_only(answer.status)
        self.send_header("Date", answer.date or self.date_time_string())
        self.send_header("Content-Type", "application/x-amz-json-1.0")
        self.send_header("Content-Length", str(len(answer.body) + answer.lacks))
        if answer.checksum is not None:
            self.send_header("x-amz-crc32", str(answer.checksum))
        if answer.location is not None:
            self.send_header("Location", answer.location)
        self.end_headers()
        self.wfile.write(answer.body)

    def do_GET(self) -> None:  # from a client that follows a redirect
        self.do_POST()

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
