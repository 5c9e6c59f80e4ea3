"""Google's generated clients for one connection: made when first asked for, kept, closed.

Sync clients are shared by all threads. An async client belongs to the event loop that it was made in: there is one a
loop.
"""

import asyncio
from threading import Lock
from typing import Any, Final, Literal, NamedTuple

import grpc
import grpc.aio

Service = Literal["data", "admin"]

_UNLIMITED: Final = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
"""grpc's own cap is 4 MiB a message, less than one cell may hold. The channels to Google Cloud come without a cap."""


class Clients:
    """The clients of one connection.

    Args:
        emulator: "host:port" of an emulator; None for Google Cloud.
        credentials: for Google Cloud; None for those of the environment.
    """

    def __init__(self, emulator: str | None, credentials: Any) -> None:
        self._emulator = emulator
        self._credentials = credentials
        self._lock = Lock()
        self._sync: dict[Service, Any] = {}
        self._loops: dict[asyncio.AbstractEventLoop, dict[Service, Any]] = {}

    def sync(self, service: Service) -> Any:
        """The client for blocking calls."""
        with self._lock:
            if service not in self._sync:
                self._sync[service] = self._open(service)
            return self._sync[service]

    def of_loop(self, service: Service) -> Any:
        """The client for the running event loop."""
        loop = asyncio.get_running_loop()
        with self._lock:
            self._loops = {known: clients for known, clients in self._loops.items() if not known.is_closed()}
            clients = self._loops.setdefault(loop, {})
            if service not in clients:
                clients[service] = self._open_async(service)
            return clients[service]

    def close(self) -> None:
        """Close the clients for blocking calls."""
        with self._lock:
            closing, self._sync = self._sync, {}
        for client in closing.values():
            client.transport.close()

    async def aclose(self) -> None:
        """Close the clients of the running event loop."""
        with self._lock:
            closing = self._loops.pop(asyncio.get_running_loop(), {})
        for client in closing.values():
            await client.transport.close()

    def _open(self, service: Service) -> Any:
        vendor = _admin() if service == "admin" else _data()
        if self._emulator is None:
            return vendor.client(credentials=self._credentials)
        return vendor.client(transport=vendor.transport(channel=grpc.insecure_channel(self._emulator, _UNLIMITED)))

    def _open_async(self, service: Service) -> Any:
        vendor = _admin() if service == "admin" else _data()
        if self._emulator is None:
            return vendor.async_client(credentials=self._credentials)
        channel = grpc.aio.insecure_channel(self._emulator, _UNLIMITED)
        return vendor.async_client(transport=vendor.async_transport(channel=channel))


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
