"""HTTP over the sockets of the standard library, with the parser of httptools.

urllib3 takes ten times as long, and HTTP clients written in Rust cannot be used after a fork or interrupted.
"""

import os
import select
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeAlias
from weakref import finalize

from odm.backends.dynamodb.http_messages import (
    CHUNK,
    FAILURES,
    Reader,
    Unconnected,
    Untrusted,
    target_of,
    unconnected,
    written,
)
from odm.backends.dynamodb.lean import IDLE_SECONDS, Failures, Prepared
from odm.backends.dynamodb.routes import Route


class Sockets:
    """Sends requests. Thread-safe."""

    failures: Final[Failures] = FAILURES

    def __init__(self, route: Route) -> None:
        self._route = route
        self._process = os.getpid()
        self._tls: ssl.SSLContext | None = None
        # Deques of idle connections by server. There is no lock that another thread could hold during a fork.
        self._idle: _Idle = {}
        finalize(self, _close, self._idle)  # also when Python exits, so that it does not warn of open sockets

    def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once, as `Urllib3.send` does."""
        target = target_of(request.url)
        message = written(request, target.path)
        connect, read = self._route.limits(timeout)
        connection = self._kept(target.server) or self._open(target.server, connect)
        try:
            response = connection.exchange(message, read)
        except BaseException:  # also KeyboardInterrupt: the rest of this response is not that of the next request
            connection.close()
            raise
        found = response.status, response.headers, response.body
        if response.reusable:
            self._keep(target.server, connection)  # another thread may read its next response now
        else:
            connection.close()
        return found

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        _close(self._idle)

    def _kept(self, server: tuple[str, str, int]) -> "_Connection | None":
        """An idle connection that the server has not closed."""
        if self._process != os.getpid():
            self.close()  # after a fork: two processes that share a connection read each other's responses
            self._process = os.getpid()  # last, because other threads of the child must not take one meanwhile
        kept = self._idle.get(server)
        while kept:
            try:
                connection = kept.pop()  # the last used one, so that the others become old and are closed
            except IndexError:  # another thread has taken it
                return None
            if connection.is_usable():
                return connection
            connection.close()
        return None

    def _keep(self, server: tuple[str, str, int], connection: "_Connection") -> None:
        kept = self._idle.get(server)
        if kept is None:
            kept = self._idle.setdefault(server, deque())
        connection.used = time.monotonic()
        kept.append(connection)
        if len(kept) > self._route.connections:
            with suppress(IndexError):
                kept.popleft().close()

    def _open(self, server: tuple[str, str, int], timeout: float | None) -> "_Connection":
        scheme, host, port = server
        if scheme == "https" and self._tls is None:
            try:
                self._tls = self._route.tls()
            except OSError as error:
                raise Untrusted(str(error)) from error
        try:
            plain = socket.create_connection((host, port), timeout)
        except OSError as error:
            raise unconnected(error) from error
        except UnicodeError as error:  # a host name that cannot be looked up
            raise Unconnected(str(error)) from error
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._route.keepalive:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if scheme == "https" and self._tls is not None:
                plain = self._tls.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            raise unconnected(error) from error
        except BaseException:
            plain.close()
            raise
        return _Connection(plain)


class _Connection:
    """An open connection.

    Attributes:
        used: when it was last used, on the monotonic clock.
    """

    __slots__ = ("_reader", "_socket", "_timeout", "used")

    def __init__(self, opened: socket.socket) -> None:
        self._socket = opened
        self._timeout = opened.gettimeout()
        self._reader = Reader()
        self.used = 0.0

    def exchange(self, message: bytes, timeout: float | None) -> Reader:
        """Send a request and read its response."""
        if self._timeout != timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout
        reader = self._reader
        reader.begin()
        with suppress(BrokenPipeError):  # the server refused it without reading all, and its response says why
            self._socket.sendall(message)
        while not reader.complete:
            if data := self._socket.recv(CHUNK):
                reader.feed(data)
            else:
                reader.end()
        return reader

    def is_usable(self) -> bool:
        """Whether a request can be sent on it: AWS closes idle connections. What can be read is the end, or foreign."""
        return time.monotonic() - self.used < IDLE_SECONDS and not _is_readable(self._socket)

    def close(self) -> None:
        """Close it."""
        self._socket.close()


def _is_readable(opened: socket.socket) -> bool:
    """Whether something can be read without waiting."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([opened], [], [], 0)[0])
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(0))


_Idle: TypeAlias = dict[tuple[str, str, int], deque[_Connection]]


def _close(idle: _Idle) -> None:
    for kept in list(idle.values()):
        while kept:
            with suppress(IndexError):  # another thread has taken it
                kept.pop().close()
