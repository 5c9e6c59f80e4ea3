"""Which transport carries a store's requests, and what the lean one needs to know for it.

`route_of` reads the same session and config as botocore's client. Where it finds a setting that the lean transport does
not support, it says so, and the vendor's client carries the requests.

TLS as botocore configures it, without importing botocore's HTTP client. Tests compare both.
"""

import os
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec
from itertools import chain, product
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from odm.backends.dynamodb.client.clients import Settings, botocore_session, stand_ins, user_agent
from odm.backends.dynamodb.client.endpoints import Endpoint, aws_endpoint, configured_endpoint
from odm.backends.dynamodb.client.settings import Environment, Keys, configuration_of, environment_of
from odm.backends.dynamodb.client.wire import WRITTEN
from odm.immutable import Immutable

if TYPE_CHECKING:
    import ssl

    from botocore.hooks import BaseEventHooks
    from botocore.session import Session


def tls_context() -> ssl.SSLContext:
    """A context that verifies the certificate of the service, but has no authorities yet, and leaves its host name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False  # urllib3 does so
    context.verify_mode = ssl.CERT_REQUIRED
    context.options |= ssl.OP_NO_COMPRESSION | ssl.OP_NO_TICKET
    context.post_handshake_auth = True
    keys = os.environ.get("SSLKEYLOGFILE")
    if keys and not sys.flags.ignore_environment:
        context.keylog_filename = keys
    return context


def authorities() -> str:
    """The path of the certificates of authorities: those of certifi if it is installed, otherwise botocore's."""
    try:
        from certifi import where
    except ImportError:
        import botocore

        return str(Path(botocore.__file__).with_name("cacert.pem"))
    return where()


_SUPPORTED: Final = frozenset(
    {
        "account_id_endpoint_mode",
        "client_cert",
        "connect_timeout",
        "ignore_configured_endpoint_urls",
        "max_pool_connections",
        "parameter_validation",
        "read_timeout",
        "region_name",
        "retries",
        "tcp_keepalive",
        "use_dualstack_endpoint",
        "use_fips_endpoint",
        "user_agent",
        "user_agent_appid",
        "user_agent_extra",
        # These are of other services, or of features that DynamoDB does not have.
        "client_context_params",
        "disable_request_compression",
        "inject_host_prefix",
        "request_checksum_calculation",
        "request_min_compression_size_bytes",
        "response_checksum_validation",
        "s3",
        "s3_disable_express_session_auth",
    }
)
"""The options of botocore's Config that the lean transport follows. Another one needs the vendor's client."""

_EVENTS: Final = (
    "provide-client-params",
    "before-parameter-build",
    "before-endpoint-resolution",
    "before-call",
    "request-created",
    "choose-signer",
    "before-sign",
    "response-received",
    "before-parse",
    "needs-retry",
    "after-call",
    "after-call-error",
)
"""botocore's events of a request that the lean transport does not emit."""


class Route(Immutable):
    """What the lean transport needs to know.

    Attributes:
        endpoint: where requests go.
        region: the region for signatures.
        credentials: returns botocore's credentials; the first call may be I/O.
        events: the events of the session: handlers of ``before-send`` see each request, and may answer it. None: there
            are no handlers.
        user_agent: the User-Agent header.
        timeouts: the seconds to wait for a connection, and for each response; None: no limit.
        connections: the most connections that are kept open.
        ca_bundle: the path of the certificates of authorities.
        client_cert: the path of the client's certificate, or that and the path of its key.
        keepalive: whether idle connections send TCP keep-alive packets.
    """

    endpoint: Endpoint
    region: str
    credentials: Callable[[], Any]
    events: "BaseEventHooks | None"
    user_agent: str
    timeouts: tuple[float | None, float | None]
    connections: int
    ca_bundle: str
    client_cert: str | tuple[str, str] | None
    keepalive: bool

    def tls(self) -> "ssl.SSLContext":
        """Botocore's context for TLS; reads files.

        Raises:
            OSError: a certificate cannot be read.
        """
        context = tls_context()
        context.check_hostname = True
        context.load_verify_locations(self.ca_bundle)
        if self.client_cert is not None:
            context.load_cert_chain(*([self.client_cert] if isinstance(self.client_cert, str) else self.client_cert))
        return context


class _Defaults(Immutable, dict=True):
    """The defaults of botocore's Config, which takes long to import. Tests compare them."""

    client_cert: Any = None
    connect_timeout: float = 60
    max_pool_connections: int = 10
    read_timeout: float = 60
    retries: Any = None
    tcp_keepalive: Any = None
    user_agent: str | None = None
    user_agent_extra: str | None = None


_DEFAULTS: Final = _Defaults()


def route_of(settings: Settings) -> Route | str:
    """The route of the lean transport, or the reason why the vendor's client has to be used."""
    session: Any
    configuration: Session | Environment
    reasons: Iterator[str] = iter(())
    if settings.session is not None:
        session, configuration = settings.session, configuration_of(settings.session)
        events, reasons = session.events, _unknown_handlers(session.events, configuration)
    elif (environment := environment_of(settings.profile)) is not None:
        session = configuration = environment
        events = None
    else:
        session = configuration = botocore_session(settings)
        events = session.get_component("event_emitter")
    config: Any = settings.config or _DEFAULTS
    region, keys = stand_ins(settings, session, _region(session))
    endpoint = _endpoint(settings, configuration, config, region)
    if isinstance(endpoint, str):
        return endpoint
    reason = next(chain(_obstacles(configuration, config, endpoint), reasons), None)
    if reason is not None:
        return reason
    bundle: Any = configuration.get_config_variable("ca_bundle") or os.environ.get("REQUESTS_CA_BUNDLE")
    agent = user_agent(settings.config, configuration) if config.user_agent is None else config.user_agent
    return Route(
        endpoint,
        str(region),
        (lambda: Keys(*keys.values())) if keys else session.get_credentials,
        events,
        f"{agent} {config.user_agent_extra}" if config.user_agent_extra else agent,
        (config.connect_timeout, config.read_timeout),
        config.max_pool_connections,
        str(bundle or authorities()),
        config.client_cert,
        bool(_option(config, configuration.get_scoped_config(), "tcp_keepalive")),
    )


def _region(session: Any) -> str | None:
    """The region of a boto3 or botocore session."""
    region: str | None = getattr(session, "region_name", None) or (
        session.get_config_variable("region") if hasattr(session, "get_config_variable") else None
    )
    return region


def _option(config: Any, profile: Mapping[str, Any], name: str) -> Any:
    """An option of the config or, as text, of the profile."""
    given = getattr(config, name)
    return str(profile.get(name, "")).lower() == "true" if given is None else given


def _endpoint(
    settings: Settings, configuration: "Session | Environment", config: Any, region: str | None
) -> Endpoint | str:
    def variable(name: str) -> Any:
        given = getattr(config, name, None)
        return configuration.get_config_variable(name) if given is None else given

    if region is None:
        return "no region is configured"
    fips, dual_stack = bool(variable("use_fips_endpoint")), bool(variable("use_dualstack_endpoint"))
    url = settings.endpoint_url
    if url is None and not variable("ignore_configured_endpoint_urls"):
        try:
            url = configured_endpoint(configuration)
        except LookupError as error:
            return str(error)
    if url is None:
        accounts = variable("account_id_endpoint_mode") or "preferred"
        if accounts == "required":
            return "account_id_endpoint_mode is 'required'"
        found = aws_endpoint(region, fips=fips, dual_stack=dual_stack, accounts=accounts == "preferred")
        return found or f"the host name of DynamoDB in region {region!r} is not known here"
    if fips or dual_stack:
        return "an endpoint_url is configured as well as a FIPS or dual-stack endpoint"
    endpoint = Endpoint(url.rstrip("/"))
    if not set(endpoint.host).isdisjoint("/?#@") or not endpoint.host:
        return f"the endpoint {url!r} has more than a scheme and a host"
    return endpoint


def _obstacles(configuration: "Session | Environment", config: Any, endpoint: Endpoint) -> Iterator[str]:
    """The settings that the lean transport does not support."""
    if find_spec("httptools") is None:
        yield "httptools is not installed: pip install 'single-table-odm[dynamodb]'"
    plain = vars(type(config)())
    for name, value in vars(config).items():
        if not name.startswith("_") and name not in _SUPPORTED and value != plain.get(name):
            yield f"the config sets {name}"
    profile = configuration.get_scoped_config()
    mode = (config.retries or {}).get("mode") or configuration.get_config_variable("retry_mode")
    if mode == "adaptive":
        yield "the retry mode is 'adaptive', which limits the rate of requests"
    for name in ("auth_scheme_preference", "sigv4a_signing_region_set", "csm_enabled"):
        if configuration.get_config_variable(name):
            yield f"{name} is configured"
    if (configuration.get_config_variable("defaults_mode") or "legacy") != "legacy":
        yield "defaults_mode is configured"
    if "signature_version" in profile.get("dynamodb", {}):
        yield "the profile sets a signature_version"
    if _has_proxy(endpoint):
        yield "a proxy is configured in the environment"


def _has_proxy(endpoint: Endpoint) -> bool:
    has_settings = sys.platform in {"darwin", "win32"}  # elsewhere, proxies are in the environment alone
    if not has_settings and not any(name.lower().endswith("_proxy") for name in os.environ):
        return False
    from urllib.request import getproxies, proxy_bypass  # slow to import

    return endpoint.url.partition(":")[0] in getproxies() and not proxy_bypass(endpoint.host)


def _unknown_handlers(events: "BaseEventHooks", configuration: "Session") -> Iterator[str]:
    """The events of requests for which the user's session has handlers that a new session does not have.

    botocore has no public way to list handlers. This reads them, and takes a structure that it does not know for an
    obstacle: then the vendor's client calls them.
    """
    mine, plain = _search(events), _search(configuration.get_component("event_emitter"))
    for event, operation in product(_EVENTS, WRITTEN):
        name = f"{event}.dynamodb.{operation}"
        if mine is None or plain is None or not all(handler in plain(name) for handler in mine(name)):
            yield f"the session has handlers of the event {event}"


def _search(events: Any) -> Callable[[str], Any] | None:
    handlers = getattr(getattr(events, "_emitter", events), "_handlers", None)
    found: Callable[[str], Any] | None = getattr(handlers, "prefix_search", None)
    return found
