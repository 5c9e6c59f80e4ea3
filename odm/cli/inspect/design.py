"""The design of a table, as models can say it."""

import keyword
import re
from collections.abc import Iterable, Mapping

from attrs import Factory, define, field

from odm import Entity
from odm.cli.inspect.grammar import RESERVED
from odm.schema.model import KeyNames


@define
class FieldDesign:
    """A field.

    Attributes:
        name: in Python.
        type: the annotation.
        stored: the attribute; None: the field stands in keys only.
        options: further arguments of ``Stored``, such as ``epoch="s"``.
        cell: the arguments of ``Cell``: family and qualifier, and the encoding; None: it has none.
        default: the source of its default; None: it is required.
        ttl: it is the TTL field.
        why: a comment.
        entries: it is a dict with a cell for each entry; ``cell`` is what their names begin with.
    """

    name: str
    type: str
    stored: str | None = None
    options: str = ""
    default: str | None = None
    ttl: bool = False
    why: str = ""
    cell: tuple[str, str] | None = None
    entries: bool = False

    @property
    def columns(self) -> str | None:
        """The column of its cell, or those of its entries with a ``*`` for the key; None: it has none."""
        return None if self.cell is None else self.cell[0] + "*" * self.entries


@define
class PatternDesign:
    """A key: templates by name of the index; the name None is the primary key."""

    index: str | None
    templates: tuple[str, ...]
    local: bool = False
    projection: str = ""


@define
class EntityDesign:
    """An entity.

    Attributes:
        name: the class.
        tag: what names it in items.
        match: the field that only its items have, if nothing else distinguishes them; "": there is none.
        fields: its fields.
        patterns: its keys.
        items: how many of the sampled items it has.
        notes: comments at the end of the class.
        kept: attributes without a field, which a put leaves as they are.
    """

    name: str
    tag: str | None
    fields: list[FieldDesign] = Factory(list)
    patterns: list[PatternDesign] = Factory(list)
    items: int = 0
    notes: list[str] = Factory(list)
    kept: dict[str, str] = Factory(dict)
    match: str = ""

    def leave_out(self, attribute: str, why: str) -> bool:
        """Remove the field of an attribute; False if a key needs it."""
        dropped = next((field for field in self.fields if field.stored == attribute), None)
        in_key = re.compile(rf"{{{re.escape(dropped.name)}[:}}]") if dropped is not None else None
        if dropped is not None and dropped.name == self.match:
            return False
        used = in_key and any(in_key.search(text) for pattern in self.patterns for text in pattern.templates)
        if attribute in self.kept or used:
            return False
        self.fields = [field for field in self.fields if field.stored != attribute]
        self.kept[attribute] = why
        return True


@define
class Design:
    """A table.

    Attributes:
        keys: the names of its key attributes on DynamoDB; empty: it is a table of Bigtable.
        join: the separator of partition and sort key on Bigtable.
    """

    name: str
    keys: tuple[str, ...]
    indexes: Mapping[str, KeyNames]
    tag: str | None
    ttl: str | None
    entities: list[EntityDesign]
    sampled: int
    notes: list[str] = field(factory=list)
    join: str = "#"

    def entity(self, name: str) -> EntityDesign:
        """The entity with this class name."""
        return next(entity for entity in self.entities if entity.name == name)

    @property
    def keeps(self) -> bool:
        """Whether puts keep attributes that have no field."""
        return any(entity.kept for entity in self.entities)


TAKEN = frozenset({*dir(Entity), *RESERVED, "primary"})
"""Names that would hide another one in the source."""


def python_name(text: str, taken: Iterable[str]) -> str:
    """A name for a field that is like the text of an attribute or key."""
    apart = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text)
    name = re.sub(r"[^0-9a-zA-Z]+", "_", apart).strip("_").lower() or "value"
    if name[0].isdigit() or name.startswith("model_"):
        name = f"f_{name}"
    if keyword.iskeyword(name) or name in TAKEN:
        name += "_"
    used, number, unique_name = {*taken}, 2, name
    while unique_name in used:
        unique_name, number = f"{name}_{number}" if not name.endswith("_") else f"{name}{number}", number + 1
    return unique_name


def class_name(text: str, taken: Iterable[str]) -> str:
    """A name for a class."""
    words = re.findall(r"[A-Za-z0-9]+", text) or ["Item"]
    name = "".join(word.capitalize() if word.isupper() else word[0].upper() + word[1:] for word in words)
    if name[0].isdigit() or keyword.iskeyword(name) or name in RESERVED:
        name = f"Item{name}"
    used, number, unique_name = {*taken}, 2, name
    while unique_name in used:
        unique_name, number = f"{name}{number}", number + 1
    return unique_name
