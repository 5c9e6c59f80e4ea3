"""A server of HTTP on the loopback interface whose answers are any bytes; its clients are the real ones."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TypeAlias

WAIT = 20.0
"""The seconds after which a test that waits for something gives up."""


def http(body: bytes, head: bytes = b"HTTP/1.1 200 OK") -> bytes:
    """A complete response."""
    return b"%b\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: %d\r\n\r\n%b" % (head, len(body), body)


def item_of(sort: str) -> bytes:
    """The body of the response to a GetItem of the item with this sort key."""
    return json.dumps({"Item": {"pk": {"S": "p"}, "sk": {"S": sort}, "of": {"S": sort}}}).encode()


FOREIGN = http(item_of("foreign"))
"""A response to a request that nobody sent."""


class Talk:
    """One request, and the connection that it came on.

    Attributes:
        number: how many requests the server had with this one.
        sort: the sort key in the request.
        own: the response that belongs to it.
        connection: the number of its connection.
        closes: whether the connection is closed after the behaviour.
    """

    def __init__(self, server: "Hostile", opened: socket.socket, number: int, body: bytes) -> None:
        self._server, self._socket = server, opened
        self.number, self.closes = number, False
        key = json.loads(body).get("Key", {})
        self.sort = key.get("sk", {}).get("S", "")
        self.own = http(item_of(self.sort)) if key else http(b"{}")
        self.connection = opened.getpeername()

    def send(self, data: bytes) -> None:
        """Send bytes; they are in the client's buffer afterwards, if its connection is open."""
        with suppress(OSError):
            self._socket.sendall(data)

    def wait(self, event: threading.Event) -> None:
        """Wait for the test."""
        assert event.wait(WAIT)

    def drip(self, data: bytes) -> int:
        """Send bytes one by one until the client closes the connection; returns how many it took."""
        for sent in range(len(data)):
            try:
                self._socket.sendall(data[sent : sent + 1])
            except OSError:
                return sent
            if self._server.ended.wait(0.02):
                return sent
        return len(data)


Behaviour: TypeAlias = Callable[[Talk], object]


class Hostile:
    """Answers each request by a behaviour.

    Attributes:
        endpoint: its address.
        behaviour: answers a request.
        connections: how many were accepted.
        received: how many requests.
        early: called with each connection when the head of a request arrived, before its body is read; whether the
            request was answered by it.
        closed: set when a connection was closed by a behaviour.
        ended: set when the server stops.
    """

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.connections = self.received = 0
        self.early: Callable[[socket.socket], bool] = lambda _: False
        self.closed, self.ended = threading.Event(), threading.Event()
        self._lock = threading.Lock()
        self._listening = socket.create_server(("127.0.0.1", 0), backlog=200)
        self.endpoint = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._opened: list[socket.socket] = []
        self.failures: list[BaseException] = []

    def accept(self) -> None:
        """Accept connections until `close`."""
        while not self.ended.is_set():
            try:
                opened, _ = self._listening.accept()
            except OSError:
                return
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.connections += 1
            self._opened.append(opened)
            threading.Thread(target=self._serve, args=(opened,), daemon=True).start()

    def _serve(self, opened: socket.socket) -> None:
        with opened, suppress(ConnectionError), opened.makefile("rb") as reading:
            while head := reading.readline():
                length = 0
                while (line := reading.readline()) not in (b"\r\n", b""):
                    if line.lower().startswith(b"content-length:"):
                        length = int(line.partition(b":")[2])
                assert head.startswith(b"POST "), head
                answered = self.early(opened)
                body = reading.read(length)
                if answered:
                    continue
                with self._lock:
                    self.received += 1
                    number = self.received
                talk = Talk(self, opened, number, body)
                try:
                    self.behaviour(talk)
                except BaseException as failure:
                    self.failures.append(failure)
                    raise
                if talk.closes:
                    with suppress(OSError):
                        opened.shutdown(socket.SHUT_WR)
                    self.closed.set()
                    return

    def close(self) -> None:
        """Stop, and close all connections."""
        self.ended.set()
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for opened in self._opened:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)


@contextmanager
def hostile(behaviour: Behaviour = lambda talk: talk.send(talk.own)) -> Iterator[Hostile]:
    """Run such a server during the block."""
    server = Hostile(behaviour)
    accepting = threading.Thread(target=server.accept, daemon=True)
    accepting.start()
    try:
        yield server
    finally:
        server.close()
        accepting.join(WAIT)
    assert server.failures == []
