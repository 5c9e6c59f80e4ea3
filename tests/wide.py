"""Bigtable with one row for each partition, for any table."""

from typing import Any

from attrs import frozen

from odm.backends.bigtable import Bigtable
from odm.immutable import evolve
from odm.protocol.connection import Connection
from odm.schema.model import Schema


@frozen
class WideBigtable(Bigtable):
    """Every table has ``layout="row_per_partition"``, except those with fields that have a cell of their own."""

    def connect(self, schema: Schema) -> Connection[Any]:
        apart = any(entity.cells or entity.families for entity in schema.entities.values())
        return super().connect(evolve(schema, wide=not apart))
