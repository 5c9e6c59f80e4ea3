"""Bigtable: tables on Google Cloud, or on an emulator of it.

An operation becomes a native request (`native`) in a procedure without I/O (`requests`), which the `driver` sends
through the official generated clients. Nothing of Google's packages is imported before `Bigtable.connect`.

A table is stored one item a row: the row key is the item's partition, ``#`` and sort; each attribute is one cell.
An index is a table of its own (`entries`). `tables` makes them, by the `changes` between the models and what is there;
`admin` does that for the command line.
Writes change one row in one step (`writes`), and what they add to indexes before, and take away after it (`commit`).
"""

import os
from typing import TYPE_CHECKING, Any, Final

from attrs import field, frozen

from odm.backends.bigtable.codec import MAX_CELL
from odm.backends.bigtable.layout import MAX_ROW_KEY
from odm.backends.bigtable.schema import check
from odm.errors import BadValue, Unsupported
from odm.protocol.connection import Backend, Connection
from odm.protocol.limits import Limits
from odm.schema.model import Schema

if TYPE_CHECKING:
    from google.auth.credentials import Credentials

__all__ = ["Bigtable"]

EMULATOR = "BIGTABLE_EMULATOR_HOST"


_ROW_KEY: Final = MAX_ROW_KEY - 2
"""Of a row key, two bytes may join partition and sort, and six those of an index key and of the item's."""

NATIVE: Final = Limits(
    _ROW_KEY,
    _ROW_KEY,
    entry_bytes=MAX_ROW_KEY - 6,
    item_bytes=MAX_CELL,  # a row is to stay below what one cell may have
    actions=None,  # a transaction has one operation, which the connection checks
    transaction_bytes=None,
    key_bytes=_ROW_KEY,
    copies=False,
)
"""What Bigtable itself can hold."""


@frozen
class Bigtable(Backend):
    """Settings of a Bigtable instance; the connection is made at the first request.

    An attempt at a request has 20 seconds. One that may safely be sent again is, until 60 seconds (10, on an emulator)
    brought nothing. A store's own ``timeout`` (of an attempt, a stream of rows included) and ``retries`` go before
    these.

    Attributes:
        project: the Google Cloud project.
        instance: the Bigtable instance in it.
        app_profile: the app profile of every request; None for the instance's default. It must route to a single
            cluster and allow transactional writes. Conditional writes, updates and single deletes need that, and all
            writes of entities with access patterns. Without it, only batches of the other entities work, and in an
            ``exclusive`` table their plain puts.
        endpoint: "host:port" of an emulator, reached without encryption or credentials; by default the environment's
            ``BIGTABLE_EMULATOR_HOST``, and Google Cloud where that is not set.
        credentials: for Google Cloud; by default those that the environment offers.

    Raises:
        BadValue: project or instance is empty, or credentials were given for an emulator.
    """

    name = "bigtable"
    limits = NATIVE

    project: str
    instance: str
    app_profile: str | None = field(default=None, kw_only=True)
    endpoint: str | None = field(default=None, kw_only=True)
    credentials: "Credentials | None" = field(default=None, kw_only=True, repr=False)

    def __attrs_post_init__(self) -> None:
        for name, value in (("project", self.project), ("instance", self.instance)):
            if not value or "/" in value:
                raise BadValue(f"Bigtable({name}={value!r}): give the id alone, as in Bigtable('my-project', 'shop')")
        if self.endpoint is not None and self.credentials is not None:
            raise BadValue(
                f"Bigtable(endpoint={self.endpoint!r}): an endpoint is an emulator, which is reached unencrypted, so "
                "credentials are not sent there: leave out one of the two"
            )

    @property
    def emulator(self) -> str | None:
        """The address of the emulator to use, or None for Google Cloud."""
        return self.endpoint or os.environ.get(EMULATOR) or None

    def connect(self, schema: Schema) -> Connection[Any]:
        """Check what Bigtable cannot do for this schema, and prepare a connection; sends nothing.

        Raises:
            SchemaError: the name of the table or of an index is not one for Bigtable, row keys would be ambiguous, or
                the entries of an index not in order.
            BadValue: the address of the emulator is a URL.
            Unsupported: google-cloud-bigtable is not installed.
        """
        check(schema)
        _check_address(self.emulator)
        try:
            from odm.backends.bigtable.driver import BigtableConnection
        except ModuleNotFoundError as missing:
            raise _not_installed(missing) from missing
        return BigtableConnection(self, schema)


def _check_address(emulator: str | None) -> None:
    """A URL would be looked up as if it were a host, with an answer that names only that."""
    scheme, url, rest = (emulator or "").partition("://")
    if url and scheme in {"http", "https"}:
        raise BadValue(
            f"Bigtable(endpoint=...), or {EMULATOR} in the environment, is {emulator!r}: give the host and port alone, "
            f"as in {rest.rstrip('/')}"
        )


def _not_installed(missing: ModuleNotFoundError) -> Exception:
    if (missing.name or "").split(".")[0] in {"google", "grpc", "proto"}:
        return Unsupported("the Bigtable backend needs Google's client: pip install 'single-table-odm[bigtable]'")
    return missing
