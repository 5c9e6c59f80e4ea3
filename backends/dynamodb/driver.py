"""The backend class and its connection. All I/O of the backend happens here."""

import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import copy
from typing import TYPE_CHECKING, Any, Literal

from odm.backends.dynamodb.client.clients import AsyncClients, Settings, SyncClient, session_of
from odm.backends.dynamodb.client.endpoints import is_url, other_host
from odm.backends.dynamodb.client.errors import MALFORMED, DamagedAnswer, is_of_credentials
from odm.backends.dynamodb.client.native import (
    STREAM_READS,
    Billing,
    Call,
    Native,
    Steps,
    Stream,
    TableClass,
    TableOptions,
)
from odm.backends.dynamodb.client.retry import attempts_of
from odm.backends.dynamodb.client.transports import Transports
from odm.backends.dynamodb.client.units import MeteredConnection
from odm.backends.dynamodb.items.codec import write_item
from odm.backends.dynamodb.items.layout import Layout, layout_of
from odm.backends.dynamodb.requests import NO_ORDER, steps_of
from odm.codec import EntityCodec
from odm.errors import BadValue, brief
from odm.expressions.nodes import AddValue, Item
from odm.hints import DYNAMODB_OPTIONS, options_of
from odm.immutable import evolve
from odm.protocol.connection import DEFAULT_POLICY, Backend, Connection, Rehearsal, RetryPolicy
from odm.protocol.limits import Limits
from odm.protocol.requests import Merge, Request, Sleep
from odm.schema.model import Schema

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


@contextmanager
def _as_damaged() -> Iterator[None]:
    """Reports a response that botocore's parser fails on, because it is not as its model says."""
    try:
        yield
    except MALFORMED as error:
        if is_of_credentials(error):
            raise
        raise DamagedAnswer(f"the response is not as that of DynamoDB Streams: {error}") from error


@options_of(DYNAMODB_OPTIONS)
class DynamoDB(Backend):
    """Tables on DynamoDB, or on a service with the same API (DynamoDB Local, moto, ScyllaDB Alternator).

    boto3 looks up credentials, region and other settings that are not given here: environment, profile, role.
    Async calls use the same settings, and the session's credentials, through aiobotocore.
    ``store.create()`` adds what an existing table lacks: indexes, TTL, a stream. An item that was written before its
    model had the access pattern enters the index when it is written again.

    Args:
        session: the boto3 session to use.
        region: the AWS region, such as "eu-west-1".
        endpoint_url: the address of a service other than AWS, such as "http://localhost:8000". If it is on this
            machine and no credentials or no region are configured, "local" and "us-east-1" are used. DynamoDB Local
            needs some, and separates the tables by them.
        profile: the profile in the AWS configuration; None: boto3's default.
        config: timeouts, retries, proxies and so on, for sync and async clients. odm retries requests in place of
            botocore, as often as configured here or for boto3; if no retries are configured, up to seven attempts in
            total. Writes that are not idempotent (updates, deletes, conditional puts) are retried only if they
            certainly had no effect. A store's own ``timeout`` and ``retries`` take precedence.
        billing: the capacity mode, "on-demand" or ``Provisioned(read=5, write=5)``. ``create()`` uses it for a new
            table; ``odm apply`` also changes that of an existing one. None: a new table is on-demand.
        stream: the StreamViewType of the table's stream: "new_and_old_images", "new_image", "old_image" or
            "keys_only". ``create()`` enables a stream if the table has none. None: the stream is not changed.
        table_class: "standard" or "standard_infrequent_access". ``create()`` uses it for a new table; ``odm apply``
            also changes that of an existing one. None: a new table is "standard".
        transport: "lean" sends requests without botocore's client, which takes most of the time of a call; "vendor"
            uses boto3 and aiobotocore. None: "lean" where it supports all settings, and no library instruments
            botocore's client; the log ``odm.dynamodb`` says what it does not support.

    Raises:
        BadValue: ``endpoint_url`` is not a URL, ``session`` or ``config`` has the wrong type, ``billing``, ``stream``,
            ``table_class`` or ``transport`` is not one of the values above, or both a session and a profile are given.
    """

    def __init__(  # noqa: PLR0913  # the settings of a backend
        self,
        session: "boto3.Session | None" = None,
        *,
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        config: "Config | None" = None,
        billing: Billing | None = None,
        stream: Stream | None = None,
        table_class: TableClass | None = None,
        transport: Literal["lean", "vendor"] | None = None,
    ) -> None:
        if transport not in ("lean", "vendor", None):
            raise BadValue(f"transport={brief(transport)} is not known: write 'lean' or 'vendor', or leave it out")
        if endpoint_url is not None and not is_url(endpoint_url):
            raise BadValue(f"endpoint_url={brief(endpoint_url)} is not a URL: write it like 'http://localhost:8000'")
        for name, text in (("region", region), ("profile", profile)):
            if text is not None and not isinstance(text, str):
                raise BadValue(f"{name}={brief(text)}: give its name, as text")
        if session is not None and not hasattr(session, "region_name"):  # checked without importing boto3
            raise BadValue(
                f"the session is a {type(session).__name__}, not a boto3.Session: write DynamoDB(endpoint_url=...) or "
                "DynamoDB(region=...) for an address or a region"
            )
        if session is not None and profile is not None:
            raise BadValue(
                f"profile={profile!r} cannot be combined with a session: pass boto3.Session(profile_name=...) alone"
            )
        if config is not None and not hasattr(config, "merge"):
            raise BadValue(f"the config is a {type(config).__name__}, not a botocore.config.Config")
        self._settings = Settings(session, region, endpoint_url, config, profile=profile, transport=transport)
        self._options = TableOptions(billing=billing, stream=stream, table_class=table_class)

    name = "dynamodb"
    # DynamoDB does not limit an index key and its item's key together; the other limits are the portable ones.
    limits = Limits(entry_bytes=None)

    def connect(self, schema: Schema) -> "DynamoDBConnection":
        """Open the table of a schema. Before the first call, nothing is sent and boto3 is not imported.

        Raises:
            SchemaError: DynamoDB does not allow a name in the schema.
            BadValue: ``billing`` sets the capacity of an index that does not exist.
        """
        layout = layout_of(schema, self._options, other_host(self._settings.endpoint_url))
        return DynamoDBConnection(layout, self._settings)

    def __repr__(self) -> str:
        given = {name: getattr(self._settings, name) for name in ("region", "profile", "endpoint_url")}
        return f"DynamoDB({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"


class DynamoDBConnection(Connection[Native]):
    """One table on DynamoDB. Thread-safe; each event loop has its own async clients."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        self.layout = layout
        self._client = SyncClient(settings)
        self._async_clients = AsyncClients(settings)
        self._transports = Transports(settings)
        self._settings = settings
        self._policy = DEFAULT_POLICY
        self._attempts: int | None = None

    @property
    def samples(self) -> bool:
        """False: a sample is of segments, which cost less than a scan that drops items."""
        return False

    @property
    def range_unsupported_reason(self) -> str | None:
        """Why a scan cannot read a range of partitions."""
        return NO_ORDER

    @property
    def adds_values(self) -> bool:
        """False: an update expression has no least or greatest of two numbers."""
        return False

    def with_retry_policy(self, policy: RetryPolicy) -> "DynamoDBConnection":
        """A connection with another retry policy. It shares the clients, so closing one closes both."""
        twin = copy(self)
        twin._policy, twin._attempts = policy, None
        return twin

    def attempts(self) -> int:
        """The most attempts at a request. The first call, after a failure, may read boto3's configuration."""
        if self._attempts is None:
            self._attempts = attempts_of(self._settings.config, session_of(self._settings), self._policy)
        return self._attempts

    def item_of(self, part: object) -> Item | None:
        """The item of attributes as DynamoDB sends them."""
        return self.layout.item(part) if type(part) is dict else None

    def encode(self, codec: EntityCodec, entity: Any) -> Item:
        """The item of an entity, as the JSON text that is sent."""
        return write_item(codec, entity)

    def steps(self, request: Request) -> Steps[Any]:
        """The native requests (`Call`, `Sleep`) that perform a request."""
        return steps_of(self.layout, request, self.attempts)

    def rehearse(self, request: Request) -> Rehearsal:
        """What a write would send.

        A merge of a member of a dict takes two requests more if the dict does not exist. One that adds to a `Min` or
        `Max` takes more requests if its value does not replace the stored one.
        """
        actions = request.actions if isinstance(request, Merge) else ()
        most: int | None = 3 if any(len(action.path.segments) > 1 for action in actions) else 1
        if any(isinstance(action, AddValue) for action in actions):
            most = None
        return Rehearsal((self.preview(request),), most)

    def preview(self, request: Request) -> Native | None:
        """The first native request, without the one that describes an index before its first query."""
        layout = evolve(self.layout)
        layout.held.update({name: layout.projections.get(name) for name in layout.indexes} | self.layout.held)
        steps = steps_of(layout, request, self.attempts)
        first = next(steps, None)
        steps.close()
        return first

    def metered(self) -> MeteredConnection:
        """A connection that also requests the consumed capacity (ReturnConsumedCapacity)."""
        return MeteredConnection(self)

    def call(self, native: Native) -> Any:
        """Perform one native request, blocking."""
        if isinstance(native, Sleep):
            time.sleep(native.seconds)
            return None
        if native.operation in STREAM_READS:
            client = self._client.get(self._policy.timeout, "dynamodbstreams")
            with _as_damaged():
                return getattr(client, native.operation)(**native.kwargs)
        transport = self._transports.sync()
        if transport is not None:
            return transport.call(native.operation, native.kwargs, self._policy.timeout)
        client = self._client.get(self._policy.timeout)
        return getattr(client, native.operation)(**self._client.bodies.arguments(native.kwargs))

    async def acall(self, native: Native) -> Any:
        """Perform one native request without blocking the event loop."""
        if isinstance(native, Sleep):
            import asyncio  # slow to import, and sync programs do without

            await asyncio.sleep(native.seconds)
            return None
        transport = None if native.operation in STREAM_READS else await self._transports.asynchronous()
        if transport is not None:
            return await transport.call(native.operation, native.kwargs, self._policy.timeout)
        return await self._of_vendor(native)

    async def _of_vendor(self, native: Call) -> Any:
        """Perform a native request with aiobotocore, which has no deadline for a request."""
        import asyncio

        timeout = self._policy.timeout
        streams = native.operation in STREAM_READS
        client = await self._async_clients.get(timeout, "dynamodbstreams" if streams else "dynamodb")
        kwargs = native.kwargs if streams else self._async_clients.bodies.arguments(native.kwargs)
        try:
            async with asyncio.timeout(timeout):
                with _as_damaged() if streams else nullcontext():
                    return await getattr(client, native.operation)(**kwargs)
        except TimeoutError as error:
            if is_of_credentials(error):
                raise
            from botocore.exceptions import ReadTimeoutError

            raise ReadTimeoutError(endpoint_url=client.meta.endpoint_url, error=error) from error

    def close(self) -> None:
        """Close the connections of sync calls; the next call opens new ones."""
        self._transports.close()
        self._client.close()

    async def aclose(self) -> None:
        """Close the connections of the running event loop, and of sync calls; the next call opens new ones."""
        await self._transports.aclose()
        await self._async_clients.aclose()
        self.close()
