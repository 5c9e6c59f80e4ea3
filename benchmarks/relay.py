"""A server in front of another one that counts the bytes of their connections, in both directions."""

import socket
import socketserver
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Lock, Thread
from typing import Final
from urllib.parse import urlsplit

CHUNK: Final = 65_536
QUIET_SECONDS: Final = 0.02


class Relay(socketserver.ThreadingTCPServer):
    """Passes every connection on, unchanged.

    Args:
        address: of the other server, as "host:port" or a URL.
    """

    daemon_threads = True

    def __init__(self, address: str) -> None:
        self._url = urlsplit(address if "://" in address else f"//{address}")
        self._bytes = 0
        self._lock = Lock()
        super().__init__(("127.0.0.1", 0), _Connection)

    @property
    def target(self) -> tuple[str, int]:
        """The other server."""
        return self._url.hostname or "", self._url.port or 0

    @property
    def address(self) -> str:
        """How this server is reached, written as the other's address is."""
        return self._url._replace(netloc=f"127.0.0.1:{self.server_address[1]}").geturl().removeprefix("//")

    def add(self, number: int) -> None:
        """Count so many bytes."""
        with self._lock:
            self._bytes += number

    def counted(self) -> int:
        """The bytes so far, once no more arrive: a client may acknowledge an answer after its call has ended."""
        while True:
            before = self._bytes
            time.sleep(QUIET_SECONDS)
            if self._bytes == before:
                return before


class _Connection(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        relay = self.server
        assert isinstance(relay, Relay)
        with socket.create_connection(relay.target) as far:
            back = Thread(target=_pass, args=(far, self.request, relay), daemon=True)
            back.start()
            _pass(self.request, far, relay)
            back.join()


def _pass(source: socket.socket, sink: socket.socket, relay: Relay) -> None:
    with suppress(OSError):  # either end may close at any time
        while data := source.recv(CHUNK):
            relay.add(len(data))
            sink.sendall(data)
    with suppress(OSError):
        sink.shutdown(socket.SHUT_WR)


@contextmanager
def running(address: str) -> Iterator[Relay]:
    """Run one during the block."""
    with Relay(address) as relay:
        thread = Thread(target=relay.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield relay
        finally:
            relay.shutdown()
            thread.join()
