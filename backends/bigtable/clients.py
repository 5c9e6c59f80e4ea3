"""Google's generated clients for one connection: created at the first use, and cached.

Admin requests call the clients' methods. Data requests use only the clients' channels, because the methods take more
time than the requests themselves. All threads share the sync clients; an async client belongs to the event loop that
created it.
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

import grpc
import grpc.aio
from grpc.experimental import ChannelOptions

from odm.backends.bigtable.messages import RESPONSES, STREAMS

Service = Literal["data", "admin"]

_UNLIMITED: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""gRPC limits messages to 4 MiB by default, but a cell may be larger. Channels to Google Cloud have no limit."""

_IN_PLACE: Final = ((ChannelOptions.SingleThreadedUnaryStream, 1),)
"""The calling thread reads a stream. Otherwise gRPC starts a thread for each stream."""


class Client:
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

    def close(self) -> Any:
        """Close the client's channel; returns an awaitable if the client is async."""
        self.closed = True
        return self.vendor.transport.close()


class Clients:
    """The clients of one connection.

    Args:
        emulator: "host:port" of an emulator; None for Google Cloud.
        credentials: for Google Cloud; None for the application default credentials.
    """

    def __init__(self, emulator: str | None, credentials: Any) -> None:
        self._emulator = emulator
        self._credentials = credentials
        self._lock = Lock()
        self._sync: dict[Service, Client] = {}
        self._loops: dict[asyncio.AbstractEventLoop, dict[Service, Client]] = {}

    def sync(self, service: Service) -> Client:
        """The client for sync calls."""
        with self._lock:
            if service not in self._sync:
                self._sync[service] = self._open(service)
            return self._sync[service]

    def of_loop(self, service: Service) -> Client:
        """The client for the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            clients = self._loops.get(loop)
            if clients is None:
                self._loops = {known: clients for known, clients in self._loops.items() if not known.is_closed()}
                clients = self._loops[loop] = {}
            if service not in clients:
                clients[service] = self._open_async(service)
            return clients[service]

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

    def _open(self, service: Service) -> Client:
        vendor = _admin() if service == "admin" else _data()
        if self._emulator is None:
            transport = partial(vendor.transport, channel=partial(_channel, vendor.transport.create_channel))
            return Client(vendor.client(credentials=self._credentials, transport=transport))
        channel = grpc.insecure_channel(self._emulator, (*_UNLIMITED, *_IN_PLACE))
        return Client(vendor.client(transport=vendor.transport(channel=channel)))

    def _open_async(self, service: Service) -> Client:
        vendor = _admin() if service == "admin" else _data()
        if self._emulator is None:
            return Client(vendor.async_client(credentials=self._credentials))
        channel = grpc.aio.insecure_channel(self._emulator, _UNLIMITED)
        return Client(vendor.async_client(transport=vendor.async_transport(channel=channel)))


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
