"""Which transport carries the calls of the data service, and what the lean one needs to know for it.

`route_of` reads the same environment as Google's client and gRPC. Where it finds a setting that the lean transport does
not support, it says so, and Google's client carries the calls.
"""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import FunctionType
from typing import Any, Final, Literal, TypeAlias

import grpc

from odm.backends.bigtable.client.errors import loading_credentials
from odm.errors import BackendError
from odm.immutable import Immutable

Transport: TypeAlias = Literal["lean", "vendor"]

Authorization: TypeAlias = tuple[tuple[str, str], ...]
"""The headers that identify the caller."""

HOST: Final = "bigtable.googleapis.com"

_PROXIES: Final = ("grpc_proxy", "https_proxy", "http_proxy", "all_proxy")

_ROOTS: Final = "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"


def _never() -> bool:
    return False


class Route(Immutable):
    """What the lean transport needs to know.

    Attributes:
        url: where calls go, without the path.
        roots: the certificates of the authorities that the server's certificate is checked with, in PEM format; None
            for an emulator.
        authorization: returns the headers for a URL; may refresh the credentials, which is I/O. None: calls have none.
        blocks: whether ``authorization`` would do I/O now.
    """

    url: str
    roots: bytes | None = None
    authorization: Callable[[str], Authorization] | None = None
    blocks: Callable[[], bool] = _never


def route_of(emulator: str | None, credentials: Any) -> Route | str:
    """The route of the lean transport, or the reason why Google's client has to be used.

    Args:
        emulator: "host:port" of an emulator; None for Google Cloud.
        credentials: for Google Cloud; None for the application default credentials.

    Raises:
        GoogleAuthError: there are no credentials.
    """
    reason = next(_obstacles(emulator), None)
    if reason is not None:
        return reason
    if emulator is not None:
        return Route(f"http://{emulator}")
    signer = _Authorizer(credentials)
    domain = signer.credentials.universe_domain
    if domain != "googleapis.com":
        return f"the credentials are of the universe domain {domain}"
    return Route(f"https://{HOST}", _roots(), signer.headers, signer.blocks)


def _obstacles(emulator: str | None) -> Iterator[str]:
    """The settings that the lean transport does not support."""
    if find_spec("pyqwest") is None:
        yield "pyqwest is not installed: pip install 'single-table-odm[fast]'"
    if emulator is not None and ("/" in emulator or emulator.count(":") != 1):
        yield f"the address {emulator!r} is not host:port"
    for name in _PROXIES:
        if os.environ.get(name) or os.environ.get(name.upper()):
            yield f"the environment variable {name} names a proxy"
    # Instrumentation replaces these functions by wrappers, and would not see calls of the lean transport.
    if any(type(made) is not FunctionType for made in (grpc.insecure_channel, grpc.secure_channel)):
        yield "a library instruments grpc"
    if emulator is None:
        yield from _of_cloud()


def _of_cloud() -> Iterator[str]:
    from google.auth.transport import mtls

    wanted: Any = getattr(mtls, "should_use_client_cert", None)
    if os.environ.get("GOOGLE_API_USE_CLIENT_CERTIFICATE") == "true" or (wanted is not None and wanted()):
        yield "calls need a client certificate (GOOGLE_API_USE_CLIENT_CERTIFICATE)"
    if os.environ.get("GOOGLE_API_USE_MTLS_ENDPOINT") == "always":
        yield "calls need a client certificate (GOOGLE_API_USE_MTLS_ENDPOINT)"
    if os.environ.get("GOOGLE_CLOUD_UNIVERSE_DOMAIN", "googleapis.com") != "googleapis.com":
        yield "the environment variable GOOGLE_CLOUD_UNIVERSE_DOMAIN names another universe"


def _roots() -> bytes:
    """The authorities that gRPC would use, or those of certifi, which google-auth has for its own calls."""
    named = os.environ.get(_ROOTS)
    if named is None:
        import certifi

        named = certifi.where()
    try:
        return Path(named).read_bytes()
    except OSError as error:
        raise BackendError(
            f"the certificates in {named} cannot be read ({error}): check the environment variable {_ROOTS}"
        ) from error


class _Authorizer:
    """Signs calls as Google's client does: with the scopes of the data service, and JWTs of service accounts."""

    def __init__(self, credentials: Any) -> None:
        import google.auth
        from google.auth.credentials import with_scopes_if_required
        from google.auth.transport.requests import Request
        from google.cloud.bigtable_v2.services.bigtable.transports import BigtableTransport
        from google.oauth2.service_account import Credentials

        scopes = BigtableTransport.AUTH_SCOPES
        with loading_credentials():
            if credentials is None:
                credentials, _ = google.auth.default(default_scopes=scopes)
            if isinstance(credentials, Credentials):
                credentials = credentials.with_always_use_jwt_access(True)  # type: ignore[no-untyped-call]
            self.credentials: Any = with_scopes_if_required(credentials, None, scopes)  # type: ignore[no-untyped-call]
        self._request = Request()

    def headers(self, url: str) -> Authorization:
        """The headers of a call; refreshes the credentials if that is due."""
        headers: dict[str, str] = {}
        with loading_credentials():
            self.credentials.before_request(self._request, "POST", url, headers)
        return tuple(headers.items())

    def blocks(self) -> bool:
        """Whether the credentials have to be refreshed."""
        return not self.credentials.valid
