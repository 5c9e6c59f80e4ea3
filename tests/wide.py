"""Bigtable with one row for each partition, for any table."""

from typing import Any

from attrs import evolve, frozen

from odm.backends.bigtable import Bigtable
from odm.protocol.connection import Connection
from odm.schema.model import Schema


@frozen
class WideBigtable(Bigtable):
    """Every table has ``layout="row_per_partition"``."""

    def connect(self, schema: Schema) -> Connection[Any]:
        return super().connect(evolve(schema, wide=True))
