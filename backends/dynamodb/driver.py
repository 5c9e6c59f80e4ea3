"""The backend's face to the core, and the only place where I/O happens."""

import asyncio
import time
from copy import copy
from typing import TYPE_CHECKING, Any

from odm.backends.dynamodb.clients import AsyncClients, Settings, SyncClient
from odm.backends.dynamodb.codec import write_item
from odm.backends.dynamodb.native import Native, Steps
from odm.backends.dynamodb.options import Billing, Stream, checked_options
from odm.backends.dynamodb.requests import steps_of
from odm.backends.dynamodb.retry import attempts_of
from odm.backends.dynamodb.schema import Layout, layout_of
from odm.backends.dynamodb.units import MeteredConnection
from odm.codec import EntityCodec
from odm.errors import BadValue
from odm.expressions.nodes import Item
from odm.protocol.connection import DEFAULT_POLICY, Backend, Connection, RetryPolicy
from odm.protocol.limits import Limits
from odm.protocol.requests import Request, Sleep
from odm.schema.model import Schema

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


class DynamoDB(Backend):
    """Tables on DynamoDB, or on what speaks its protocol (DynamoDB Local, moto, ScyllaDB Alternator).

    Credentials, region and all else that is not given come from where boto3 looks for them: environment, profile, role.
    An async client uses the same settings and the session's credentials through aiobotocore.
    ``store.create()`` adds to an existing table what it lacks: indexes, expiry, a stream. An item that was written
    before its model had the access pattern enters the index when it is written again.

    Args:
        session: the boto3 session to use.
        region: the AWS region, such as "eu-west-1".
        endpoint_url: the address of another service than AWS, such as "http://localhost:8000". Where it is on this
            machine and no credentials or no region are found, "local" and "us-east-1" stand in: DynamoDB Local needs
            some, and keeps the tables of each apart.
        profile: the profile in the AWS configuration; None: as the environment says.
        config: timeouts, retries, proxies and so on, for sync and async clients. Its retries are not for writes
            that must not happen twice (updates, deletes, conditional puts): these are sent again only when they
            certainly did nothing, up to seven times in all. Where no retries are configured, here or for boto3, it is
            seven times for all requests. A store's own ``timeout`` and ``retries`` go before all of these.
        billing: how the table is paid for, "on-demand" or ``Provisioned(read=5, write=5)``. ``create()`` makes a new
            table so, and leaves that of one that exists to ``odm apply``. None: a new table is on-demand.
        stream: what the records of the table's stream have of an item: "new_and_old_images", "new_image", "old_image"
            or "keys_only". ``create()`` switches a stream on where there is none; None: leaves it alone.

    Raises:
        BadValue: the endpoint is no URL, the session or config another thing, billing or stream none of these, or there
            are both a session and a profile.
    """

    def __init__(
        self,
        session: "boto3.Session | None" = None,
        *,
        region: str | None = None,
        profile: str | None = None,
        endpoint_url: str | None = None,
        config: "Config | None" = None,
        billing: Billing | None = None,
        stream: Stream | None = None,
    ) -> None:
        if endpoint_url is not None and not endpoint_url.startswith(("http://", "https://")):
            raise BadValue(f"endpoint_url={endpoint_url!r} is no URL: write it like 'http://localhost:8000'")
        if session is not None and not hasattr(session, "region_name"):  # boto3 is not imported to look
            raise BadValue(
                f"the session is a {type(session).__name__}, not a boto3.Session: write DynamoDB(endpoint_url=...) or "
                "DynamoDB(region=...) for an address or a region"
            )
        if session is not None and profile is not None:
            raise BadValue(f"profile={profile!r} goes with no session: give boto3.Session(profile_name=...) alone")
        if config is not None and not hasattr(config, "merge"):
            raise BadValue(f"the config is a {type(config).__name__}, not a botocore.config.Config")
        self._settings = Settings(session, region, endpoint_url, config, profile=profile)
        self._options = checked_options(billing, stream)

    name = "dynamodb"
    # Nothing bounds an index key and its item's key together; all else is what is portable.
    limits = Limits(entry_bytes=None)

    def connect(self, schema: Schema) -> "DynamoDBConnection":
        """Open the table of a schema; nothing is sent and boto3 is not imported before the first call.

        Raises:
            SchemaError: DynamoDB does not allow a name in the schema.
            BadValue: ``billing`` has capacity for an index that is not there.
        """
        return DynamoDBConnection(layout_of(schema, self._options), self._settings)

    def __repr__(self) -> str:
        given = {name: getattr(self._settings, name) for name in ("region", "profile", "endpoint_url")}
        return f"DynamoDB({', '.join(f'{name}={value!r}' for name, value in given.items() if value is not None)})"


class DynamoDBConnection(Connection[Native]):
    """One table on DynamoDB. Thread-safe; the async clients are an event loop's own."""

    def __init__(self, layout: Layout, settings: Settings) -> None:
        self.layout = layout
        self._client = SyncClient(settings)
        self._async_clients = AsyncClients(settings)
        self._retry_policy = DEFAULT_POLICY
        self._attempts = attempts_of(DEFAULT_POLICY)

    def with_retry_policy(self, policy: RetryPolicy) -> "DynamoDBConnection":
        """A twin with another policy, that shares the clients; closing one closes both."""
        twin = copy(self)
        twin._retry_policy = policy
        twin._attempts = attempts_of(policy)
        return twin

    def encode(self, codec: EntityCodec, entity: Any) -> Item:
        """The item of an entity, as the JSON that is sent."""
        return write_item(codec, entity)

    def steps(self, request: Request) -> Steps[Any]:
        """The native requests (`Call`, `Sleep`) that answer a request."""
        return steps_of(self.layout, request, self._attempts)

    def metered(self) -> MeteredConnection:
        """The twin whose requests ask for the capacity that they consume."""
        return MeteredConnection(self)

    def call(self, native: Native) -> Any:
        """Perform one native request, blocking."""
        if isinstance(native, Sleep):
            time.sleep(native.seconds)
            return None
        client = self._client.get(native.once, self._retry_policy)
        return getattr(client, native.operation)(**self._client.bodies.arguments(native.kwargs))

    async def acall(self, native: Native) -> Any:
        """Perform one native request without blocking the event loop."""
        if isinstance(native, Sleep):
            await asyncio.sleep(native.seconds)
            return None
        client = await self._async_clients.get(native.once, self._retry_policy)
        return await getattr(client, native.operation)(**self._async_clients.bodies.arguments(native.kwargs))

    def close(self) -> None:
        """Close the connections of the sync clients; the next call opens new ones."""
        self._client.close()

    async def aclose(self) -> None:
        """Close the clients of the running event loop, and the sync ones; the next call opens new ones."""
        await self._async_clients.aclose()
        self.close()
