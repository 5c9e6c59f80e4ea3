"""HTTP over asyncio's connections.

aiohttp takes three times as long, and takes what arrives on an idle connection for the response to the next request.
"""

import asyncio
import os
import socket
import ssl
import sys
from collections import defaultdict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from odm.backends.dynamodb.client.http_messages import (
    CHUNK,
    IDLE_SECONDS,
    Broken,
    Prepared,
    Unconnected,
    UnconnectedInTime,
    Untrusted,
    is_readable,
    target_of,
    unconnected,
    written,
)
from odm.backends.dynamodb.client.http_reader import Reader
from odm.backends.dynamodb.client.routes import Route
from odm.protocol.connection import foreign_loop


class Asyncio:
    """Sends requests. Each event loop has connections of its own."""

    def __init__(self, route: Route) -> None:
        self._route = route
        self._tls: ssl.SSLContext | None = None
        self._pools: dict[asyncio.AbstractEventLoop, _Pool] = {}

    async def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]:  # noqa: ASYNC109
        """Send a request once; see `http_sockets.Sockets.send`."""
        target = target_of(request.url)
        message = written(request, target.path)
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop) or self._begin(loop)
        if pool.process != os.getpid():
            raise foreign_loop()  # two processes that share a connection read each other's responses
        end = None if timeout is None else loop.time() + timeout
        await pool.acquire(end)
        try:
            connection = pool.kept(target.server) or await self._open(pool, target.server, end)
            response = await connection.exchange(message, self._route.timeouts[1], end)
            found = response.status, response.headers, response.body
            if response.reusable:
                pool.keep(target.server, connection)
            else:
                connection.abort()
            return found
        finally:
            pool.free.release()

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        pool = self._pools.pop(asyncio.get_running_loop(), None)
        if pool is not None:
            await pool.aclose()

    def _begin(self, loop: asyncio.AbstractEventLoop) -> "_Pool":
        """The connections of the running loop; forgets those of loops that ended without `aclose`."""
        for left in [one for one in list(self._pools) if one.is_closed()]:
            pool = self._pools.pop(left, None)
            if pool is not None:
                pool.abandon()
        return self._pools.setdefault(loop, _Pool(loop, self._route.connections))

    async def _open(self, pool: "_Pool", server: tuple[str, str, int], end: float | None) -> "_Connection":
        scheme, host, port = server
        options: dict[str, Any] = {}
        if scheme == "https":
            options = {"ssl": await self._context(), "server_hostname": host}
        # uvloop does not have it, and Python before 3.12.8 and 3.13.1 fails with eager tasks.
        if isinstance(pool.loop, asyncio.BaseEventLoop) and pool.loop.get_task_factory() is None:
            options["happy_eyeballs_delay"] = 0.25  # seconds until the next address is tried as well (RFC 8305)
        connect, reader = self._route.timeouts[0], Reader()
        if end is None and connect is not None:
            end = pool.loop.time() + connect
        try:
            async with asyncio.timeout_at(end):
                _, connection = await pool.loop.create_connection(
                    lambda: _Connection(pool, reader), host, port, **options
                )
        except OSError as error:
            raise unconnected(error) from error
        except UnicodeError as error:  # a host name that cannot be looked up
            raise Unconnected(str(error)) from error
        if pool.closed:
            connection.abort()
            raise Unconnected("the connections were closed")
        if self._route.keepalive:
            connection.option(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        return connection

    async def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            try:
                # In a thread, because it reads the files of certificates.
                self._tls = await asyncio.to_thread(self._route.tls)
            except OSError as error:
                raise Untrusted(str(error)) from error
        return self._tls


class _Pool:
    """The connections of one event loop.

    Attributes:
        loop: the loop.
        process: the process that opened the connections.
        free: limits the number of connections.
        opened: the open connections.
        closed: whether `aclose` was called.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, connections: int) -> None:
        self.loop = loop
        self.process = os.getpid()
        self.free = asyncio.Semaphore(connections or sys.maxsize)
        self.opened: set[_Connection] = set()
        self.closed = False
        self._idle: defaultdict[tuple[str, str, int], list[_Connection]] = defaultdict(list)

    async def acquire(self, end: float | None) -> None:
        """Wait until another connection can be used, at most until a time of the loop."""
        if end is None or not self.free.locked():
            await self.free.acquire()
            return
        try:
            async with asyncio.timeout_at(end):
                await self.free.acquire()
        except TimeoutError as error:
            raise UnconnectedInTime("no connection was free in time") from error

    def kept(self, server: tuple[str, str, int]) -> "_Connection | None":
        """An idle connection that the server has not closed."""
        idle = self._idle[server]
        while idle:
            connection = idle.pop()  # the last used one, so that the others become old and are closed
            if connection.is_usable and self.loop.time() - connection.used < IDLE_SECONDS:
                return connection
            connection.abort()
        return None

    def keep(self, server: tuple[str, str, int], connection: "_Connection") -> None:
        """Keep a connection for the next request."""
        if self.closed:
            connection.abort()
            return
        connection.used = self.loop.time()
        self._idle[server].append(connection)

    async def aclose(self) -> None:
        """Close the connections, also those in use, whose requests fail."""
        self.closed = True
        self._idle.clear()
        for connection in list(self.opened):
            connection.abort()
        for _ in range(10):  # asyncio closes the sockets in the next steps of the loop
            if not self.opened:
                return
            await asyncio.sleep(0)

    def abandon(self) -> None:
        """Close the connections of a loop that is closed itself."""
        for connection in list(self.opened):
            with suppress(RuntimeError):  # asyncio wants to report it to the loop
                connection.abort()


class _Connection(asyncio.Protocol):
    """An open connection. asyncio calls the methods of `asyncio.Protocol`.

    Attributes:
        used: when it was last used, on the loop's clock.
    """

    def __init__(self, pool: _Pool, reader: Reader) -> None:
        self._pool = pool
        self._reader = reader
        self._transport: Any = None
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._paused: asyncio.Future[None] | None = None
        self._heard = 0.0
        self._ended = False
        self.used = 0.0

    @property
    def is_usable(self) -> bool:
        """Whether a request can be sent on it. What can be read, and the loop has not seen, is the end, or foreign."""
        if self._ended or self._transport.is_closing():
            return False
        return not is_readable(self._transport.get_extra_info("socket"))

    async def exchange(self, message: bytes, timeout: float | None, end: float | None) -> Reader:  # noqa: ASYNC109
        """Send a request and read its response; if that fails or is cancelled, the connection is closed.

        Args:
            message: the request.
            timeout: the seconds to wait for each part of the response; None: no limit.
            end: the time of the loop at which the response has to be complete, in place of the timeout; None: none.
        """
        loop = self._pool.loop
        self._reader.begin()
        waiter = self._waiter = loop.create_future()
        if end is not None:
            self._timer = loop.call_at(end, self._finish, TimeoutError("the response was not complete in time"))
        elif timeout is not None:
            self._heard = loop.time()
            self._timer = loop.call_later(timeout, self._check, timeout)
        try:
            written = await self._write(message, waiter)
            await waiter
        except BaseException:  # also a cancellation: the rest of this response is not that of the next request
            self.abort()
            raise
        finally:
            self._waiter = None
            if self._timer is not None:
                self._timer.cancel()
        if not written or self._transport.get_write_buffer_size():  # answered before all of it was sent
            self._reader.reusable = False
        return self._reader

    async def _write(self, message: bytes, waiter: "asyncio.Future[None]") -> bool:
        """Write a request in pieces, as fast as they are sent; stop if it is answered before, and return False."""
        for start in range(0, len(message), CHUNK):
            if self._paused is not None:
                await self._paused
            if waiter.done():
                return False
            self._transport.write(message[start : start + CHUNK])
        return True

    def abort(self) -> None:
        """Close it, without waiting for anything."""
        self._transport.abort()

    def option(self, level: int, name: int) -> None:
        """Set an option of the socket."""
        self._transport.get_extra_info("socket").setsockopt(level, name, 1)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self._pool.opened.add(self)

    def pause_writing(self) -> None:
        self._paused = self._pool.loop.create_future()

    def resume_writing(self) -> None:
        self._heard = self._pool.loop.time()
        self._release()

    def data_received(self, data: bytes) -> None:
        if self._waiter is None:  # nothing was asked
            self.abort()
            return
        try:
            complete = self._reader.feed(data)
        except Broken as error:
            self._finish(error)
            return
        if complete:
            self._finish(None)
        else:
            self._heard = self._pool.loop.time()

    def eof_received(self) -> None:
        self._ended = True
        try:
            self._reader.end()
        except Broken as error:
            self._finish(error)
        else:
            self._finish(None)

    def connection_lost(self, exc: Exception | None) -> None:
        self._ended = True
        self._pool.opened.discard(self)
        self._finish(exc or Broken("the connection was closed before the response was complete"))

    def _release(self) -> None:
        """Let a request that waits be written."""
        paused, self._paused = self._paused, None
        if paused is not None and not paused.done():
            paused.set_result(None)

    def _finish(self, error: Exception | None) -> None:
        self._release()
        if self._waiter is None or self._waiter.done():
            return
        if error is None:
            self._waiter.set_result(None)
        else:
            self._waiter.set_exception(error)

    def _check(self, timeout: float) -> None:
        """Fail if nothing was sent or received since the timeout began."""
        wait = self._heard + timeout - self._pool.loop.time()
        if wait <= 0:
            self._finish(TimeoutError("the response did not arrive in time"))
        else:
            self._timer = self._pool.loop.call_later(wait, self._check, timeout)
