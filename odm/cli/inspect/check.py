"""Check generated models: they compile, and every item that was sampled is read and would be written as it is."""

from collections.abc import Sequence
from random import Random

from odm.backends.dynamodb.attributes import from_attribute
from odm.backends.dynamodb.codec import put_values, read_item, read_key, to_attribute
from odm.backends.dynamodb.schema import layout_of
from odm.cli.inspect.declare import declared
from odm.cli.inspect.design import Design
from odm.cli.inspect.facts import Attributes
from odm.cli.inspect.source import table_name
from odm.errors import OdmError
from odm.protocol.requests import Put
from odm.schema.table import Table


def load(source: str, design: Design) -> Table:
    """The table that the source declares.

    Raises:
        BadValue: the source has something else in it.
        SchemaError: a declaration is not valid.
    """
    return declared(source, f"inspected_{table_name(design)}")


def faults(source: str, design: Design, items: Sequence[Attributes]) -> list[str]:
    """What is wrong with the models; nothing, if each item is equal after it was read and written."""
    try:
        schema = load(source, design).compile()
        layout = layout_of(schema)
    except OdmError as error:
        return [str(error)]
    found: list[str] = []
    for attributes in items:
        try:
            item, key = read_item(layout, attributes), read_key(layout, layout.keys, attributes)
            made = schema.decode(item, key)
            entity = schema.entity(type(made))
            encoded = entity.codec.encode(made)
            entries = entity.entries(vars(made), encoded, Random(0))
            values = put_values(layout, Put(key, encoded, entries))
        except (OdmError, KeyError) as error:
            found.append(str(error))
            continue
        # Each value again from its attribute: numbers and sets may be written in several ways.
        written = {name: from_attribute(to_attribute(value)) for name, value in values.items()}
        if written != {name: from_attribute(value) for name, value in attributes.items()}:
            found.append(f"the item {key} would be written otherwise")
    return found
