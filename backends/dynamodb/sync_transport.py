"""The lean transport, sync: urllib3, which boto3 uses too."""

import os
import socket
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)
from urllib3 import PoolManager, Timeout
from urllib3 import exceptions as urllib3_errors
from urllib3.connection import HTTPConnection

from odm.backends.dynamodb.lean import Exchange, Prepared
from odm.backends.dynamodb.routes import Route
from odm.backends.dynamodb.tls import tls_context


class SyncTransport:
    """Sends requests to one service. Thread-safe."""

    def __init__(self, route: Route) -> None:
        self._exchange = Exchange(route)
        self._route = route
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._manager = _pools(self._route)
        self._timeouts: dict[float | None, Timeout] = {}

    def call(self, operation: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        """Perform an operation; the arguments are those of `Exchange.prepare`.

        Raises:
            ClientError, BotoCoreError, DamagedAnswer: it failed; the same as botocore's client raises.
        """
        try:
            return self._call(operation, arguments, timeout)
        except ClientError as error:
            if not self._exchange.corrected(error):
                raise
        return self._call(operation, arguments, timeout)

    def _call(self, operation: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        exchange = self._exchange
        request, response = exchange.prepare(operation, arguments)
        if response is not None:
            return exchange.read(request, response.status_code, response.headers, response.content)
        response = self._send(request, timeout)
        return exchange.read(request, response.status, response.headers, response.data)

    def _send(self, request: Prepared, timeout: float | None) -> Any:
        if self._process != os.getpid():
            self._begin()  # after a fork: two processes that share a connection read each other's responses
        url, path = request.url, request.url.partition("://")[2].partition("/")[2]
        limits = self._timeouts.get(timeout) or self._timeouts.setdefault(timeout, _timeout(self._route, timeout))
        try:
            return self._manager.connection_from_url(url).urlopen(
                "POST", f"/{path}", request.body, request.sent, retries=False, redirect=False, timeout=limits
            )
        except urllib3_errors.SSLError as error:
            raise SSLError(endpoint_url=url, error=error) from error
        except (urllib3_errors.NewConnectionError, socket.gaierror) as error:
            raise EndpointConnectionError(endpoint_url=url, error=error) from error
        except urllib3_errors.ConnectTimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=url, error=error) from error
        except urllib3_errors.ReadTimeoutError as error:
            raise ReadTimeoutError(endpoint_url=url, error=error) from error
        except urllib3_errors.ProtocolError as error:
            raise ConnectionClosedError(endpoint_url=url, error=error) from error
        except Exception as error:
            raise HTTPClientError(error=error) from error

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._manager.clear()


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


def _timeout(route: Route, timeout: float | None) -> Timeout:
    connect, read = route.timeouts if timeout is None else (timeout, timeout)
    return Timeout(connect=connect, read=read)
