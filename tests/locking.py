"""Bigtable with ``transactions=True``, for any table."""

from typing import Any

from attrs import evolve, frozen

from odm.backends.bigtable import Bigtable
from odm.protocol.connection import Connection
from odm.schema.model import Schema


@frozen
class LockingBigtable(Bigtable):
    """Every table has ``transactions=True``, except those whose rows have the form of other programs."""

    def connect(self, schema: Schema) -> Connection[Any]:
        return super().connect(evolve(schema, transactions=not schema.verbatim_rows))
