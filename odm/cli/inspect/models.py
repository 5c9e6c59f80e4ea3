"""The models of a table: the design that was found, or the plain one if that does not keep every item as it is."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from odm import BadValue, Table
from odm.backends.dynamodb.items.codec import read_item, read_key
from odm.backends.dynamodb.items.layout import layout_of
from odm.cli.inspect.check import Fault, faults, load
from odm.cli.inspect.design import Design
from odm.cli.inspect.facts import Attributes, TableFacts
from odm.cli.inspect.grouping import ItemGroup, Keys, group_items, halves, matched, merged
from odm.cli.inspect.infer import design_of, infer_plain
from odm.cli.inspect.source import source_of
from odm.results import RawItem


class Models(Struct, frozen=True):
    """Generated models.

    Attributes:
        source: their Python text.
        table: the table that it declares.
    """

    source: str
    table: Table

    def entities(self, items: Iterable[Attributes]) -> Iterator[Any]:
        """The entities of items."""
        return (item.entity for item in self.raw_items(items))

    def raw_items(self, items: Iterable[Attributes]) -> Iterator[RawItem]:
        """The entities of items, with all attributes of each."""
        schema = self.table.compile()
        layout = layout_of(schema)
        for attributes in items:
            item, key = read_item(layout, attributes), read_key(layout, layout.keys, attributes)
            yield RawItem(schema.decode(item, key), item, *key)


def models_of(facts: TableFacts) -> Models:
    """The models of a table.

    Types of items whose keys cannot be distinguished become one. An attribute that no field keeps as it is has none.

    Raises:
        BadValue: no models keep every item of the sample as it is.
    """
    keys = Keys(facts)
    tag, groups = group_items(keys)
    if tag is None and (models := _by_attributes(keys, groups)) is not None:
        return models
    problems: list[Fault] = []
    for _ in range(len(groups)):
        design = design_of(keys, tag, groups)
        problems, source = _repaired(design, facts)
        if not problems:
            return Models(source, load(source, design))
        pair = next(((fault.entity, fault.other) for fault in problems if fault.other), None)
        if pair is None or len(groups) == 1:
            break
        groups = merged(keys, groups, [design.entities.index(design.entity(name)) for name in pair])
    design = infer_plain(facts)
    problems, source = _repaired(design, facts)
    if not problems:
        return Models(source, load(source, design))
    raise BadValue(f"the items of table {facts.name!r} cannot be described: {problems[0].text}")


def _by_attributes(keys: Keys, groups: Sequence[ItemGroup]) -> Models | None:
    """The models with types that only their attributes distinguish; None if there are none, or they do not fit."""
    facts = keys.facts
    parts = [half for group in groups for half in halves(facts, group)]
    for _ in groups:
        design = design_of(keys, None, parts)
        problems, source = _repaired(design, facts)
        if not problems:
            return Models(source, load(source, design)) if any(part.match for part in parts) else None
        pair = next(((fault.entity, fault.other) for fault in problems if fault.other), None)
        if pair is None:
            return None
        which = [design.entities.index(design.entity(name)) for name in pair]
        two = [] if any(parts[at].match for at in which) else matched(facts, *(parts[at] for at in which))
        if not two:
            return None
        parts = [part for at, part in enumerate(parts) if at not in which] + two
    return None


def _repaired(design: Design, facts: TableFacts) -> tuple[list[Fault], str]:
    """What is wrong with a design, and its source, after attributes that do not fit were left out."""
    while True:
        source = source_of(design)
        problems = faults(source, design, facts.items)
        unfit = {(fault.entity, fault.attribute) for fault in problems if fault.attribute}
        left_out = [design.entity(name).leave_out(attribute, _why(facts, attribute)) for name, attribute in unfit]
        if not any(left_out):
            return problems, source


def _why(facts: TableFacts, attribute: str) -> str:
    kinds = {next(iter(item[attribute])) for item in facts.items if attribute in item}
    if "NULL" in kinds and any(attribute not in item for item in facts.items):
        return "it is null in some items, absent in others"
    return f"a field would write its values ({', '.join(sorted(kinds))}) otherwise"
