"""The clients of one connection: created at the first use, and cached.

Admin requests call the methods of Google's generated clients. Data requests use the lean transport (`http2`) where
`routes` allows it, otherwise only the channels of Google's clients, because their methods take more time than the
requests themselves. All threads share the sync clients; an async client belongs to the event loop that created it.
"""

import asyncio
import logging
import os
import time
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias
from weakref import WeakSet

import grpc
import grpc.aio
from grpc.experimental import ChannelOptions

from odm.backends.bigtable.client.errors import Closed, at_deadline, loading_credentials
from odm.backends.bigtable.client.routes import Route, Transport, route_of
from odm.backends.bigtable.client.wire import RESPONSES, STREAMS, Received, Service
from odm.errors import Unsupported
from odm.protocol.connection import foreign_loop

if TYPE_CHECKING:
    from odm.backends.bigtable.client import http2
    from odm.backends.bigtable.client.wire import Message


_LOG = logging.getLogger("odm.bigtable")

Kind = Literal["lean", "data", "admin"]
"""The lean transport, or Google's client for a service."""

Feed = Callable[[Received], bool | None]
"""Takes a message of an answer; True: no more are needed."""

_UNLIMITED: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""gRPC limits messages to 4 MiB by default, but a cell may be larger. Channels to Google Cloud have no limit."""

_IN_PLACE: Final = ((ChannelOptions.SingleThreadedUnaryStream, 1),)
"""The calling thread reads a stream. Otherwise gRPC starts a thread for each stream."""


class _Client:
    """One of Google's clients.

    Attributes:
        vendor: Google's client.
        closed: whether it was closed; calls that were in progress then failed.
    """

    def __init__(self, vendor: Any) -> None:
        self.vendor = vendor
        self.closed = False

    @cached_property
    def methods(self) -> Mapping[str, Any]:
        """The data service's methods, from bytes to bytes, as gRPC callables on the client's channel."""
        channel = self.vendor.transport.grpc_channel
        return {
            name: (channel.unary_stream if name in STREAMS else channel.unary_unary)(
                f"/google.bigtable.v2.Bigtable/{name}"
            )
            for name in RESPONSES
        }

    def failed(self, failure: grpc.RpcError) -> Exception:
        """The failure of a call."""
        return Closed() if self.closed else failure


class SyncClient(_Client):
    """One of Google's sync clients. Thread-safe."""

    def call(self, message: "Message", feed: Feed) -> Exception | None:
        """Call the data service, and feed the messages of the answer; returns the failure that ended it."""
        method = self.methods[message.method]
        answer: Any = None
        began = time.monotonic()
        try:
            answer = method(message.request, timeout=message.timeout, metadata=message.metadata)
            for received in answer if message.method in STREAMS else (answer,):
                if feed(received):
                    answer.cancel()
                    break
        except grpc.RpcError as failure:
            return at_deadline(self.failed(failure), began, message.timeout)
        except BaseException:
            if message.method in STREAMS and answer is not None:
                answer.cancel()
            raise
        return None

    def close(self) -> None:
        """Close the client's channel."""
        self.closed = True
        self.vendor.transport.close()


class AsyncClient(_Client):
    """One of Google's async clients.

    Attributes:
        process: the process that opened it.
    """

    def __init__(self, vendor: Any) -> None:
        super().__init__(vendor)
        self.process = os.getpid()
        _OPEN.add(self)

    async def call(self, message: "Message", feed: Feed) -> Exception | None:
        """Call the data service, as `SyncClient.call` does."""
        began = time.monotonic()
        answer = self.methods[message.method](message.request, timeout=message.timeout, metadata=message.metadata)
        try:
            if message.method in STREAMS:
                async for received in answer:
                    if feed(received):
                        answer.cancel()
                        break
            else:
                feed(await answer)
        except grpc.RpcError as failure:
            return at_deadline(self.failed(failure), began, message.timeout)
        except BaseException:
            answer.cancel()
            raise
        return None

    async def close(self) -> None:
        """Close the client's channel."""
        self.closed = True
        await self.vendor.transport.close()
        _OPEN.discard(self)


_SyncClients: TypeAlias = "dict[Kind, SyncClient | http2.SyncClient]"

_AsyncClients: TypeAlias = "dict[asyncio.AbstractEventLoop, dict[Kind, AsyncClient | http2.AsyncClient]]"

_OPEN: Final[WeakSet[AsyncClient]] = WeakSet()
"""The async clients that are not closed. One thread of gRPC serves them all, and a forked process does not have it."""


class Clients:
    """The clients of one connection.

    Args:
        emulator: "host:port" of an emulator; None for Google Cloud.
        credentials: for Google Cloud; None for the application default credentials.
        transport: the transport that the user asks for; None: the lean one where it can be used.
    """

    def __init__(self, emulator: str | None, credentials: Any, transport: Transport | None = None) -> None:
        self._emulator = emulator
        self._credentials = credentials
        self._transport = transport
        self._route: Route | str | None = None
        self._sync: _SyncClients = {}
        self._loops: _AsyncClients = {}
        self._of_parents: list[tuple[_SyncClients, _AsyncClients]] = []
        self._begin()

    def _begin(self) -> None:
        """Begin in this process. After a fork, the clients of the parent are neither used, nor closed, nor freed."""
        self._process = os.getpid()
        self._usual: Kind | None = None  # of calls for data, decided at the first one
        self._lock = Lock()  # another thread of the parent may have had it
        if self._sync or self._loops:
            self._of_parents.append((self._sync, self._loops))
            self._sync, self._loops = {}, {}

    def sync(self, service: Service, *, streamed: bool = False) -> "SyncClient | http2.SyncClient":
        """The client for sync calls.

        Args:
            service: the service to call.
            streamed: whether the messages of an answer that is cut off are needed.
        """
        if self._process != os.getpid():
            self._begin()  # two processes that share a connection read each other's responses
        with self._lock:
            kind = service if streamed or service == "admin" else self._usual or self._decided()
            client = self._sync.get(kind)
            if client is None:
                client = self._sync[kind] = self._open(kind)
            return client

    def of_loop(self, service: Service, *, streamed: bool = False) -> "AsyncClient | http2.AsyncClient":
        """The client for the running event loop; the arguments are those of `sync`."""
        loop = asyncio.get_running_loop()
        if self._process != os.getpid():
            self._begin()
        if self._of_parents and any(loop in loops for _, loops in self._of_parents):
            raise foreign_loop()
        with self._lock:
            clients = self._loops.get(loop)
            if clients is None:
                # The clients of loops that ended without `aclose` would add up.
                self._loops = {known: clients for known, clients in self._loops.items() if not known.is_closed()}
                clients = self._loops[loop] = {}
            kind = service if streamed or service == "admin" else self._usual or self._decided()
            client = clients.get(kind)
            if client is None:
                client = clients[kind] = self._open_async(kind)
            return client

    def close(self) -> None:
        """Close the sync clients."""
        with self._lock:
            closing, self._sync = self._sync, {}
        for client in closing.values():
            client.close()

    async def aclose(self) -> None:
        """Close the clients of the running event loop."""
        with self._lock:
            closing = self._loops.pop(asyncio.get_running_loop(), {})
        for client in closing.values():
            await client.close()

    def _decided(self) -> Kind:
        """The kind of calls for data in this process: pyqwest does not work after a fork."""
        if self._route is None:
            self._route = self._choose()
        self._usual = "data"
        if isinstance(self._route, Route):
            from odm.backends.bigtable.client import http2

            self._usual = "lean" if http2.usable() else "data"
        return self._usual

    def _choose(self) -> Route | str:
        if self._transport == "vendor":
            return "transport='vendor'"
        route = route_of(self._emulator, self._credentials)
        if isinstance(route, str):
            if self._transport == "lean":
                raise Unsupported(f"transport='lean' cannot be used: {route}: use transport='vendor', or leave it out")
            _LOG.info("requests to Bigtable go through Google's client, not the lean transport: %s", route)
        return route

    def _open(self, kind: Kind) -> "SyncClient | http2.SyncClient":
        if kind == "lean":
            from odm.backends.bigtable.client import http2

            assert isinstance(self._route, Route)
            return http2.SyncClient(self._route)
        vendor = _admin() if kind == "admin" else _data()
        if self._emulator is None:
            transport = partial(vendor.transport, channel=partial(_channel, vendor.transport.create_channel))
            with loading_credentials():
                return SyncClient(vendor.client(credentials=self._credentials, transport=transport))
        channel = grpc.insecure_channel(self._emulator, (*_UNLIMITED, *_IN_PLACE))
        return SyncClient(vendor.client(transport=vendor.transport(channel=channel)))

    def _open_async(self, kind: Kind) -> "AsyncClient | http2.AsyncClient":
        if kind == "lean":
            from odm.backends.bigtable.client import http2

            assert isinstance(self._route, Route)
            return http2.AsyncClient(self._route)
        if any(client.process != os.getpid() for client in _OPEN):
            raise Unsupported(
                "Google's client cannot make async calls in a process that was forked while an AsyncStore on Bigtable "
                "was open: close it before the fork (await db.aclose()), start processes with "
                "multiprocessing.set_start_method('spawn'), or use Store in the child"
            )
        vendor = _admin() if kind == "admin" else _data()
        if self._emulator is None:
            with loading_credentials():
                return AsyncClient(vendor.async_client(credentials=self._credentials))
        channel = grpc.aio.insecure_channel(self._emulator, _UNLIMITED)
        return AsyncClient(vendor.async_client(transport=vendor.async_transport(channel=channel)))


def _channel(create: Callable[..., grpc.Channel], host: str, *, options: Any = (), **given: Any) -> grpc.Channel:
    """The transport's own channel, with streams read by the calling thread."""
    return create(host, options=[*options, *_IN_PLACE], **given)


class _Vendor(NamedTuple):
    """The classes of one service."""

    client: Any
    transport: Any
    async_client: Any
    async_transport: Any


def _data() -> _Vendor:
    # Imported at the first use: together with grpcio, Google's client takes about a fifth of a second.
    from google.cloud.bigtable_v2 import BigtableAsyncClient, BigtableClient
    from google.cloud.bigtable_v2.services.bigtable import transports

    return _Vendor(
        BigtableClient,
        transports.BigtableGrpcTransport,
        BigtableAsyncClient,
        transports.BigtableGrpcAsyncIOTransport,
    )


def _admin() -> _Vendor:
    from google.cloud.bigtable_admin_v2 import BigtableTableAdminAsyncClient, BigtableTableAdminClient
    from google.cloud.bigtable_admin_v2.services.bigtable_table_admin import transports

    return _Vendor(
        BigtableTableAdminClient,
        transports.BigtableTableAdminGrpcTransport,
        BigtableTableAdminAsyncClient,
        transports.BigtableTableAdminGrpcAsyncIOTransport,
    )
