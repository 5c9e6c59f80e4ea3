"""The models of a table: the design that was found, or the plain one if that does not keep every item as it is."""

from collections.abc import Iterable, Iterator
from typing import Any

from attrs import frozen

from odm.backends.dynamodb.codec import read_item, read_key
from odm.backends.dynamodb.schema import layout_of
from odm.cli.inspect.check import faults, load
from odm.cli.inspect.facts import Attributes, TableFacts
from odm.cli.inspect.infer import infer, infer_plain
from odm.cli.inspect.source import source_of
from odm.errors import BadValue
from odm.schema.table import Table


@frozen
class Models:
    """Generated models.

    Attributes:
        source: their Python text.
        table: the table that it declares.
    """

    source: str
    table: Table

    def entities(self, items: Iterable[Attributes]) -> Iterator[Any]:
        """The entities of items."""
        schema = self.table.compile()
        layout = layout_of(schema)
        for attributes in items:
            yield schema.decode(read_item(layout, attributes), read_key(layout, layout.keys, attributes))


def models_of(facts: TableFacts) -> Models:
    """The models of a table.

    Raises:
        BadValue: no models keep every item of the sample as it is.
    """
    found: list[str] = []
    for make in (infer, infer_plain):
        design = make(facts)
        source = source_of(design)
        found = faults(source, design, facts.items)
        if not found:
            return Models(source, load(source, design))
    raise BadValue(f"the items of table {facts.name!r} cannot be described: {found[0]}")
