"""Bigtable with ``transactions=True``, for any table, in both layouts."""

from typing import Any

from attrs import frozen

from odm.backends.bigtable import Bigtable
from odm.immutable import evolve
from odm.protocol.connection import Connection
from odm.schema.model import Schema
from tests.wide import WideBigtable


@frozen
class LockingBigtable(Bigtable):
    """Every table has ``transactions=True``, except those whose rows have the form of other programs."""

    def connect(self, schema: Schema) -> Connection[Any]:
        return super().connect(evolve(schema, transactions=not schema.verbatim_rows))


@frozen
class WideLockingBigtable(WideBigtable):
    """The same with one row for each partition."""

    def connect(self, schema: Schema) -> Connection[Any]:
        return super().connect(evolve(schema, transactions=not schema.verbatim_rows))
