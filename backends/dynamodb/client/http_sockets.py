"""HTTP over the sockets of the standard library.

urllib3 takes ten times as long, has no deadline for a request, and takes an interim response for the final one. HTTP
clients written in Rust cannot be used after a fork or interrupted.
"""

import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Final, TypeAlias
from weakref import finalize

from odm.backends.dynamodb.client.http_messages import (
    CHUNK,
    IDLE_SECONDS,
    Prepared,
    Unconnected,
    Untrusted,
    is_readable,
    target_of,
    unconnected,
    written,
)
from odm.backends.dynamodb.client.http_reader import Reader
from odm.backends.dynamodb.client.routes import Route

_RECORD: Final = 16 * 1024
"""The most bytes of a TLS record (RFC 8446, section 5.1)."""


class Sockets:
    """Sends requests. Thread-safe."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._process = os.getpid()
        self._tls: ssl.SSLContext | None = None
        # Deques of idle connections by server. There is no lock that another thread could hold during a fork.
        self._idle: _Idle = {}
        finalize(self, _close, self._idle)  # also when Python exits, so that it does not warn of open sockets

    def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once, and return the status, headers and body of the response.

        Args:
            request: the request.
            timeout: the seconds until the response has to be complete; None: the configured limits of each operation.
        """
        target = target_of(request.url)
        message = written(request, target.path)
        limit = _Limit(*self._route.timeouts) if timeout is None else _Deadline(timeout)
        connection = self._kept(target.server) or self._open(target.server, limit)
        try:
            response = connection.exchange(message, limit)
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
            with suppress(IndexError):  # another thread has taken it
                kept.popleft().close()

    def _open(self, server: tuple[str, str, int], limit: "_Limit") -> "_Connection":
        scheme, host, port = server
        if scheme == "https" and self._tls is None:
            try:
                self._tls = self._route.tls()
            except OSError as error:
                raise Untrusted(str(error)) from error
        try:
            plain = _connected(host, port, limit)
        except OSError as error:
            raise unconnected(error) from error
        except UnicodeError as error:  # a host name that cannot be looked up
            raise Unconnected(str(error)) from error
        try:
            # Otherwise a request in several parts may wait for the acknowledgement of the first, some 40 ms.
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self._route.keepalive:
                plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            if scheme == "https" and self._tls is not None:
                plain.settimeout(limit.connect())
                plain = self._tls.wrap_socket(plain, server_hostname=host)
        except OSError as error:
            plain.close()
            raise unconnected(error) from error
        except BaseException:  # also KeyboardInterrupt, during the TLS handshake
            plain.close()
            raise
        return _Connection(plain, Reader())


class _Limit:
    """How long each operation of a request may take: the timeouts of botocore."""

    __slots__ = ("_connect", "_read")

    total = False
    """Whether the limit is one of all operations together."""

    def __init__(self, connect: float | None, read: float | None) -> None:
        self._connect, self._read = connect, read

    def connect(self) -> float | None:
        """The seconds for connecting to an address, and for a TLS handshake."""
        return self._connect

    def read(self) -> float | None:
        """The seconds for sending, and for each part of the response."""
        return self._read


class _Deadline(_Limit):
    """How long all operations of a request may take together: the timeout of a store."""

    __slots__ = ("_end",)

    total = True

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def connect(self) -> float:
        left = self._end - time.monotonic()
        if left <= 0:
            raise TimeoutError("the timeout of the store has passed")
        return left

    read = connect


def _connected(host: str, port: int, limit: _Limit) -> socket.socket:
    """A socket that is connected to one of the addresses of the host."""
    if not limit.total:
        return socket.create_connection((host, port), limit.connect())
    failure = OSError(f"{host!r} has no address")
    # By itself, create_connection would give the whole time to each address.
    for *_, address in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        try:
            return socket.create_connection((str(address[0]), int(address[1])), limit.connect())
        except OSError as error:  # also after the deadline
            failure = error
    raise failure


class _Connection:
    """An open connection.

    Attributes:
        used: when it was last used, on the monotonic clock.
    """

    __slots__ = ("_reader", "_socket", "_timeout", "used")

    def __init__(self, opened: socket.socket, reader: Reader) -> None:
        self._socket = opened
        self._timeout = opened.gettimeout()
        self._reader = reader
        self.used = 0.0

    def exchange(self, message: bytes, limit: _Limit) -> Reader:
        """Send a request and read its response."""
        self._wait(limit.read())
        reader = self._reader
        reader.begin()
        with suppress(BrokenPipeError):  # the server refused it without reading all, and its response says why
            self._send(message, limit)
        while not reader.complete:
            if limit.total:
                self._wait(limit.read())
            if data := self._socket.recv(CHUNK):
                reader.feed(data)
            else:
                reader.end()
        return reader

    def _send(self, message: bytes, limit: _Limit) -> None:
        if not limit.total or len(message) <= _RECORD:
            self._socket.sendall(message)
            return
        rest = memoryview(message)
        while rest:  # the timeout of a TLS connection is one of each record
            self._wait(limit.read())
            self._socket.sendall(rest[:_RECORD])
            rest = rest[_RECORD:]

    def _wait(self, timeout: float | None) -> None:
        """Let operations take so long."""
        if self._timeout != timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout

    def is_usable(self) -> bool:
        """Whether a request can be sent on it: AWS closes idle connections. What can be read is the end, or foreign."""
        return time.monotonic() - self.used < IDLE_SECONDS and not is_readable(self._socket)

    def close(self) -> None:
        """Close it."""
        self._socket.close()


_Idle: TypeAlias = dict[tuple[str, str, int], deque[_Connection]]


def _close(idle: _Idle) -> None:
    for kept in list(idle.values()):
        while kept:
            with suppress(IndexError):  # another thread has taken it
                kept.pop().close()
