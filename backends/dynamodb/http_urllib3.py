"""HTTP by urllib3, which boto3 uses too."""

import os
import socket
from collections.abc import Mapping
from typing import Final

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)
from urllib3 import HTTPConnectionPool, PoolManager, Timeout
from urllib3 import exceptions as urllib3_errors
from urllib3.connection import HTTPConnection

from odm.backends.dynamodb.lean import Failures, Prepared
from odm.backends.dynamodb.routes import Route
from odm.backends.dynamodb.tls import tls_context


class Urllib3:
    """Sends requests. Thread-safe."""

    failures: Final[Failures] = (
        (urllib3_errors.SSLError, SSLError),
        (urllib3_errors.NewConnectionError, EndpointConnectionError),
        (socket.gaierror, EndpointConnectionError),
        (urllib3_errors.ConnectTimeoutError, ConnectTimeoutError),
        (urllib3_errors.ReadTimeoutError, ReadTimeoutError),
        (urllib3_errors.ProtocolError, ConnectionClosedError),
    )

    def __init__(self, route: Route) -> None:
        self._route = route
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._manager = _pools(self._route)
        self._timeouts: dict[float | None, Timeout] = {}
        self._last: tuple[str, HTTPConnectionPool, str] | None = None

    def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once, and return the status, headers and body of the response.

        Args:
            request: the request.
            timeout: the seconds to wait for a connection, and for each part of the response; None: as configured.
        """
        if self._process != os.getpid():
            self._begin()  # after a fork: two processes that share a connection read each other's responses
        limits = self._timeouts.get(timeout) or self._timeouts.setdefault(timeout, self._limits(timeout))
        url = request.url
        last = self._last
        if last is None or last[0] != url:  # urllib3 parses the address each time, which takes a tenth of a request
            path = url.partition("://")[2].partition("/")[2]
            last = self._last = url, self._manager.connection_from_url(url), f"/{path}"
        response = last[1].urlopen(
            "POST", last[2], request.body, request.sent, retries=False, redirect=False, timeout=limits
        )
        return response.status, response.headers, response.data

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._last = None
        self._manager.clear()

    def _limits(self, timeout: float | None) -> Timeout:
        connect, read = self._route.limits(timeout)
        return Timeout(connect=connect, read=read)


def _pools(route: Route) -> PoolManager:
    options = list(HTTPConnection.default_socket_options)
    if route.keepalive:
        options.append((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1))
    cert = (route.client_cert, None) if isinstance(route.client_cert, str) else route.client_cert or (None, None)
    return PoolManager(
        maxsize=route.connections,
        socket_options=options,
        ssl_context=tls_context(),
        cert_reqs="CERT_REQUIRED",
        ca_certs=route.ca_bundle,
        cert_file=cert[0],
        key_file=cert[1],
    )
