"""Check generated models: they compile, and every item that was sampled is read and would be written as it is."""

import re
from collections.abc import Sequence
from random import Random
from typing import Final

from msgspec import Struct

from odm import OdmError, Table
from odm.backends.dynamodb.items.attributes import from_attribute
from odm.backends.dynamodb.items.codec import put_values, read_item, read_key, to_attribute
from odm.backends.dynamodb.items.layout import layout_of
from odm.cli.inspect.declare import declared
from odm.cli.inspect.design import Design
from odm.cli.inspect.facts import Attributes
from odm.cli.inspect.source import table_name
from odm.protocol.requests import Put


def load(source: str, design: Design) -> Table:
    """The table that the source declares.

    Raises:
        BadValue: the source has something else in it.
        SchemaError: a declaration is not valid.
    """
    return declared(source, f"inspected_{table_name(design)}")


class Fault(Struct, frozen=True):
    """What is wrong with models.

    Attributes:
        text: what is wrong.
        entity: the name of the class.
        attribute: the attribute of it that an item has in another form than its field.
        other: the name of a class whose items can have the same keys.
    """

    text: str
    entity: str = ""
    attribute: str = ""
    other: str = ""


_ALIKE: Final = re.compile(r"an item of (\w+) and one of (\w+) can have the same key")
_UNFIT: Final = re.compile(r"a stored (\w+) under .* does not fit the model: (\w+)", re.DOTALL)


def faults(source: str, design: Design, items: Sequence[Attributes]) -> list[Fault]:
    """What is wrong with the models; nothing, if each item is equal after it was read and written."""
    try:
        schema = load(source, design).compile()
        layout = layout_of(schema)
    except OdmError as error:
        pair = _ALIKE.search(str(error))
        return [Fault(str(error), pair[1], other=pair[2]) if pair else Fault(str(error))]
    problems: list[Fault] = []
    for attributes in items:
        try:
            item, key = read_item(layout, attributes), read_key(layout, layout.keys, attributes)
            entity_item = schema.decode(item, key)
            entity = schema.entity(type(entity_item))
            encoded = entity.codec.encode(entity_item)
            entries = entity.entries(vars(entity_item), encoded, Random(0))
            values = put_values(layout, Put(key, encoded, entries))
        except (OdmError, KeyError) as error:
            problems.append(_unfit(design, str(error)))
            continue
        # Each value again from its attribute: numbers and sets may be written in several ways.
        written = {name: from_attribute(to_attribute(value)) for name, value in values.items()}
        before = {name: from_attribute(value) for name, value in attributes.items()}
        own = entity.key(vars(entity_item))
        if own != key:
            problems.append(Fault(f"the item {key} would be written under {own}", entity.name))
        kept = design.entity(entity.name).kept
        problems += [
            Fault(f"{name!r} of the item {key} would be written otherwise", entity.name, name)
            for name in sorted((before.keys() | written.keys()) - kept.keys())
            if name not in before or name not in written or before[name] != written[name]
        ]
    return problems


def _unfit(design: Design, text: str) -> Fault:
    names = _UNFIT.match(text)
    if names is None:
        return Fault(text)
    stored = (field.stored for field in design.entity(names[1]).fields if field.name == names[2])
    return Fault(text, names[1], next(stored, None) or "")
