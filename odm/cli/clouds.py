"""The cloud that the command line names, and its admin operations."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, Literal, cast
from urllib.parse import urlencode

from odm.backends.dynamodb import DynamoDB, Provisioned
from odm.backends.dynamodb.client.native import ON_DEMAND, Billing, Stream
from odm.cli.usage import BadUsage, checked
from odm.immutable import Immutable
from odm.protocol.admin import Admin
from odm.protocol.connection import Backend
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.backends.bigtable import Bigtable

BackendName = Literal["dynamodb", "bigtable"]

_OWN: Final[dict[BackendName, tuple[str, ...]]] = {
    "dynamodb": ("region", "profile", "endpoint_url", "billing"),
    "bigtable": (
        *("project", "instance", "app_profile", "endpoint"),
        *("deletion_protection", "automated_backups", "initial_split"),
    ),
}
"""The options of each cloud alone, which are attributes of `Cloud`."""


class Cloud(Immutable, kw_only=True):
    """Where a table is, from the command line; None: the option was not given."""

    backend: BackendName
    region: str | None = None
    profile: str | None = None
    endpoint_url: str | None = None
    billing: str | None = None
    stream: str | None = None
    project: str | None = None
    instance: str | None = None
    app_profile: str | None = None
    endpoint: str | None = None
    deletion_protection: bool | None = None
    automated_backups: float | None = None
    initial_split: Sequence[str] | None = None

    @classmethod
    def of_options(cls, options: Mapping[str, Any]) -> "Cloud":
        """The cloud that the options of a command name, by the names of these attributes."""
        attributes: dict[str, Any] = {name: options[name] for name in cls.__struct_fields__}
        # () too is an option that was not given
        attributes |= {name: None for name, value in attributes.items() if value == ()}
        return cls(**attributes)

    def admin(self, schema: Schema) -> Admin:
        """The admin operations on the table in this cloud.

        Raises:
            BadUsage: an option belongs to another cloud, is missing or is not valid.
            SchemaError: this cloud does not support the models.
        """
        self._check()
        if self.backend == "bigtable":
            from odm.backends.bigtable.admin.commands import Admin as BigtableAdmin

            return BigtableAdmin(self._bigtable(), schema)
        from odm.backends.dynamodb.admin import Admin as DynamoDBAdmin

        return DynamoDBAdmin(self._dynamodb(), schema)

    def settings(self) -> Backend:
        """The cloud as the backend of a store; raises as `admin`."""
        self._check()
        return self._bigtable() if self.backend == "bigtable" else self._dynamodb()

    def location(self, prefix: str) -> str:
        """Where the tables with a prefix are, in one word of a shell, as `odm.cli.locations` reads it."""
        where = self.region or "" if self.backend == "dynamodb" else f"{self.project}/{self.instance}"
        options = {"prefix": prefix, "profile": self.profile, "endpoint_url": self.endpoint_url}
        options |= {"app_profile": self.app_profile, "endpoint": self.endpoint}
        query = urlencode({name: value for name, value in options.items() if value}, safe=":/")
        return quote(f"{self.backend}:{where}{query and f'?{query}'}")

    def _bigtable(self) -> "Bigtable":
        from odm.backends.bigtable import Bigtable

        if self.project is None or self.instance is None:
            raise BadUsage("--backend bigtable needs --project and --instance, as in Bigtable(...)")
        with checked():
            return Bigtable(
                self.project,
                self.instance,
                app_profile=self.app_profile,
                endpoint=self.endpoint,
                deletion_protection=self.deletion_protection,
                stream=_days("--stream", self.stream),
                automated_backups=_days("--automated-backups", self.automated_backups),
                initial_splits=self.initial_split or (),
            )

    def _check(self) -> None:
        """Raise for options of other clouds."""
        for backend, names in _OWN.items():
            for name in names:
                if backend != self.backend and getattr(self, name) is not None:
                    raise BadUsage(f"--{name.replace('_', '-')} is an option of --backend {backend}: leave it out")

    def _dynamodb(self) -> DynamoDB:
        with checked():
            return DynamoDB(
                region=self.region,
                profile=self.profile,
                endpoint_url=self.endpoint_url,
                billing=_billing(self.billing),
                stream=cast("Stream | None", self.stream),  # DynamoDB checks it
            )


def _days(option: str, text: str | float | None) -> timedelta | None:
    try:
        return None if text is None else timedelta(days=float(text))
    except (ValueError, OverflowError):
        raise BadUsage(f"{option} {text}: on Bigtable, write a number of days") from None


def _billing(text: str | None) -> Billing | None:
    if text is None or text == ON_DEMAND:
        return None if text is None else ON_DEMAND
    read, comma, write = text.partition(",")
    if not (comma and read.isdecimal() and write.isdecimal()):
        raise BadUsage(f"--billing {text}: write on-demand, or read and write units per second, as in 5,5")
    return Provisioned(int(read), int(write))
