"""Bigtable: tables on Google Cloud, or on an emulator of it.

A procedure without I/O (`requests`) turns an operation into native requests (`client.native`). The `driver` sends them
through the lean transport (`client.http2`) or Google's generated clients (`client.clients`); `client.routes` says
which, and why. `Bigtable.connect` is the first to import Google's packages.

Each item is one row: the row key is the item's partition key, ``#`` and its sort key; each attribute is one cell
(`rows`; there are other layouts). Each index is a separate table (`index`). `admin` creates, changes and compares
tables.

A write changes one row atomically (`writes`). Index rows are added before it and removed after it (`writes.commit`).
"""

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, Literal

from attrs import Factory, field, frozen

from odm.backends.bigtable.admin.schema import check, name_of
from odm.backends.bigtable.client.native_admin import ABORT_AFTER, Options, checked_options
from odm.backends.bigtable.rows.codec import MAX_CELL
from odm.backends.bigtable.rows.keys import MAX_ROW_KEY, with_row_keys
from odm.errors import BadValue, Unsupported, brief
from odm.expressions.collection import GCRule
from odm.hints import BIGTABLE_OPTIONS, options_of
from odm.immutable import evolve
from odm.protocol.connection import Backend, Connection
from odm.protocol.limits import Limits
from odm.schema.model import Schema

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

__all__ = ["Bigtable", "GCRule"]

EMULATOR = "BIGTABLE_EMULATOR_HOST"


_ROW_KEY: Final = MAX_ROW_KEY - 2
"""Up to two bytes of a row key join partition and sort. In an index row key, six bytes join its four parts."""

NATIVE: Final = Limits(
    _ROW_KEY,
    _ROW_KEY,
    entry_bytes=MAX_ROW_KEY - 6,
    item_bytes=MAX_CELL,  # Google recommends that a row is not larger than this
    actions=None,  # the connection checks that a transaction has one operation
    transaction_bytes=None,
    key_bytes=_ROW_KEY,
    copies=False,
    map_key_bytes=None,
    expressions=False,
)
"""Bigtable's own limits."""


@options_of(BIGTABLE_OPTIONS)
@frozen
class Bigtable(Backend):
    """Settings of a Bigtable instance; odm connects at the first request.

    Each attempt at a request times out after 20 seconds. Idempotent requests are retried until there is no progress
    for 60 seconds (10 on an emulator). A store's ``timeout`` (for one attempt, including a whole stream of rows) and
    ``retries`` take precedence over these values.

    Attributes:
        project: the Google Cloud project.
        instance: the Bigtable instance in it.
        app_profile: the app profile of requests; None for the instance's default. It must use single-cluster
            routing and allow single-row transactions, which conditional writes, updates, single deletes and all writes
            of entities with access patterns need. Without such a profile, only entities without access patterns can be
            written: in batches, and in an ``exclusive`` table with plain puts.
        read_app_profile: the app profile of reads of items with ``consistent=False``, which may route to any cluster,
            such as the nearest. All other reads use ``app_profile``: consistent ones, those of indexes, and those that
            writes need. None: ``app_profile``.
        endpoint: "host:port" of an emulator, which odm calls without encryption or credentials. Defaults to the
            environment variable ``BIGTABLE_EMULATOR_HOST``; if that is not set, odm connects to Google Cloud.
        credentials: for Google Cloud; defaults to the application default credentials.
        transport: "lean" sends requests for data through pyqwest (the extra ``fast``), which takes less time than
            grpcio; "vendor" uses Google's client. None: "lean" where pyqwest is installed and supports all settings;
            the log ``odm.bigtable`` says what it does not support.
        layout: "row_per_item" or "row_per_partition", to open a table whose rows have another layout than its models
            say, such as the source or the target of a copy. None: as `odm.Table` says.
        transactions: True or False, to open a table that has transactions if its models do not say so, or the other way
            round, such as the source or the target of a copy. ``create()`` then makes it also next to the other. None:
            as `odm.Table` says.
        deletion_protection: whether the tables, including those of the indexes, cannot be deleted. ``create()`` turns
            it on, ``odm apply`` also off. None: it is not changed.
        stream: how long the change stream of the items' table is retained, 1 to 7 days. ``create()`` adds one if the
            table has none. None: it is not changed.
        automated_backups: how long daily backups of the items' table are retained, 3 to 90 days. ``create()`` turns
            them on. None: they are not changed.
        abort_after: in a table with ``transactions=True``, the age in seconds from which a transaction that is not
            committed may be aborted by a writer that needs one of its items, because its program may have stopped.
        initial_splits: row keys, or beginnings of row keys, at which ``create()`` divides a new table of items, so that
            several nodes share the first load.

    Raises:
        BadValue: project or instance is empty or contains a slash, credentials were given with an endpoint, or
            ``transport`` or an option of the table is not one of the values above.
    """

    name = "bigtable"
    limits = NATIVE

    project: str
    instance: str
    app_profile: str | None = field(default=None, kw_only=True)
    read_app_profile: str | None = field(default=None, kw_only=True)
    endpoint: str | None = field(default=None, kw_only=True)
    credentials: "Credentials | None" = field(default=None, kw_only=True, repr=False)
    transport: Literal["lean", "vendor"] | None = field(default=None, kw_only=True)
    layout: Literal["row_per_item", "row_per_partition"] | None = field(default=None, kw_only=True)
    transactions: bool | None = field(default=None, kw_only=True)
    deletion_protection: bool | None = field(default=None, kw_only=True)
    stream: timedelta | None = field(default=None, kw_only=True)
    automated_backups: timedelta | None = field(default=None, kw_only=True)
    initial_splits: Sequence[str] = field(default=(), kw_only=True)
    abort_after: float = field(default=ABORT_AFTER, kw_only=True)
    options: Options = field(
        init=False,
        repr=False,
        default=Factory(
            lambda self: evolve(
                checked_options(self.deletion_protection, self.stream, self.automated_backups, self.initial_splits),
                next_to_other=self.transactions is not None,
            ),
            takes_self=True,
        ),
    )

    def __attrs_post_init__(self) -> None:
        for name, value in (("project", self.project), ("instance", self.instance)):
            if not isinstance(value, str) or not value or "/" in value or not is_utf8(value):
                raise BadValue(
                    f"Bigtable({name}={brief(value)}): pass only the id, as in Bigtable('my-project', 'shop')"
                )
        for name, text in (
            ("endpoint", self.endpoint),
            ("app_profile", self.app_profile),
            ("read_app_profile", self.read_app_profile),
        ):
            if text is not None and not (isinstance(text, str) and is_utf8(text)):
                raise BadValue(f"Bigtable({name}={brief(text)}): give text")
        if self.endpoint is not None and self.credentials is not None:
            raise BadValue(
                f"Bigtable(endpoint={brief(self.endpoint)}): an endpoint is an emulator. Connections to it are not "
                "encrypted, so odm does not send credentials there: remove endpoint= or credentials="
            )
        if not isinstance(self.abort_after, int | float) or not self.abort_after > 0:
            raise BadValue(f"abort_after={brief(self.abort_after)}: give a number of seconds above 0, such as 3.0")
        if self.layout not in ("row_per_item", "row_per_partition", None):
            raise BadValue(
                f"layout={brief(self.layout)} is not known: write 'row_per_item' or 'row_per_partition', or "
                "leave it out"
            )
        if self.transactions is not None and not isinstance(self.transactions, bool):
            raise BadValue(
                f"transactions={brief(self.transactions)} is not known: write True or False, or leave it out"
            )
        if self.transport not in ("lean", "vendor", None):
            raise BadValue(f"transport={brief(self.transport)} is not known: write 'lean' or 'vendor', or leave it out")

    @property
    def emulator(self) -> str | None:
        """The address of the emulator to use, or None for Google Cloud."""
        return self.endpoint or os.environ.get(EMULATOR) or None

    def laid_out(self, schema: Schema) -> Schema:
        """The schema with the layout of the rows, the separator of row keys that it needs, and its name on Bigtable."""
        wide = schema.wide if self.layout is None else self.layout == "row_per_partition"
        locks = schema.transactions if self.transactions is None else self.transactions
        schema = evolve(schema, wide=wide, transactions=locks)
        return with_row_keys(evolve(schema, name=name_of(schema)))

    def connect(self, schema: Schema) -> Connection[Any]:
        """Check that Bigtable can store this schema, and prepare a connection; sends no request.

        Raises:
            SchemaError: the name of the table or of an index is not valid on Bigtable, row keys would be ambiguous, or
                the entries of an index would not sort correctly.
            BadValue: the address of the emulator is a URL.
            Unsupported: google-cloud-bigtable is not installed.
        """
        schema = self.laid_out(schema)
        check(schema)
        _check_address(self.emulator)
        try:
            from odm.backends.bigtable.driver import BigtableConnection
        except ModuleNotFoundError as missing:
            raise not_installed(missing) from missing
        return BigtableConnection(self, schema)


def is_utf8(text: str) -> bool:
    """Whether a text can be sent: it has no lone surrogate."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _check_address(emulator: str | None) -> None:
    """Refuse a URL and a wrong port: gRPC would look it up as a name, and its error would not say what is wrong."""
    scheme, url, rest = (emulator or "").partition("://")
    if url and scheme in {"http", "https"}:
        raise BadValue(
            f"Bigtable(endpoint=...), or the environment variable {EMULATOR}, is {brief(emulator)}: pass only host and "
            f"port, as in {rest.rstrip('/')}"
        )
    host, colon, port = (emulator or "").rpartition(":")
    number = int(port) if port.isascii() and port.isdecimal() and len(port) < 6 else 0
    if colon and "/" not in port and (not host or not 0 < number < 65_536) and not port.endswith("]"):
        raise BadValue(
            f"Bigtable(endpoint=...), or the environment variable {EMULATOR}, is {brief(emulator)}: the port is a "
            "number from 1 to 65535, as in localhost:8086"
        )


def not_installed(missing: ModuleNotFoundError) -> Exception:
    """The error that names the extra, if the module that is missing is of Google's client; otherwise that error."""
    if (missing.name or "").split(".")[0] in {"google", "grpc", "proto"}:
        return Unsupported("the Bigtable backend needs Google's client: pip install 'single-table-odm[bigtable]'")
    return missing
