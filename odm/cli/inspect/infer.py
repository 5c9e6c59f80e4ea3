"""The facts of a table → its design: entities by tag or by the form of their keys, templates and fields."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Final

from attrs import define, field

from odm.cli.inspect.design import Design, EntityDesign, FieldDesign, PatternDesign, class_name, python_name
from odm.cli.inspect.facts import Attributes, IndexFacts, TableFacts
from odm.cli.inspect.texts import Words, common_form, form_of, values_in, words_of
from odm.cli.inspect.types import typed

_TAGS: Final = frozenset(
    {
        *("entitytype", "entity", "type", "itemtype", "kind", "typename", "t", "et", "model", "recordtype"),
        *("objecttype", "edbe", "clsname", "cls"),
    }
)
_MOST_KINDS: Final = 50


def infer(facts: TableFacts) -> Design:
    """The design that the items of a table show."""
    tag = _tag(facts)
    groups = _by_tag(facts, tag) if tag is not None else _by_form(facts)
    return _design(facts, tag, groups)


def infer_plain(facts: TableFacts) -> Design:
    """The design that always fits: one entity, whose fields are the attributes."""
    design = _design(facts, None, {facts.name: list(facts.items)}, plain=True)
    design.notes.append("The items could not be divided into entities: the fields are the attributes of all of them.")
    return design


def _design(
    facts: TableFacts, tag: str | None, groups: Mapping[str, list[Attributes]], *, plain: bool = False
) -> Design:
    entities: list[EntityDesign] = []
    for name, items in sorted(groups.items()):
        entity = EntityDesign(class_name(name, (e.name for e in entities)), name if tag is not None else None)
        _Group(facts, tag, items, entity, plain=plain).fill()
        entities.append(entity)
    used = {pattern.index for entity in entities for pattern in entity.patterns}
    indexes = {name: index.keys for name, index in facts.indexes.items() if name in used}
    design = Design(facts.name, facts.keys, indexes, tag, facts.ttl, entities, len(facts.items))
    design.notes += [
        f"Index {name}: no item of the sample is in it, so no model uses it."
        for name in facts.indexes
        if name not in used
    ]
    design.notes += facts.notes
    if not facts.items:
        design.notes.append("The table has no items, so its fields are not known.")
    return design


def _tag(facts: TableFacts) -> str | None:
    """The attribute that names the type of each item."""
    keys = {*facts.keys, *(key for index in facts.indexes.values() for key in index.keys)}
    everywhere = set.intersection(*(set(item) for item in facts.items)) - keys if facts.items else set()
    for name in sorted(everywhere):
        if "".join(filter(str.isalpha, name)).lower() not in _TAGS:
            continue
        values = [item[name].get("S") for item in facts.items]
        if all(values) and len({*values}) <= min(_MOST_KINDS, max(1, len(values) - 1)):
            return name
    return None


def _by_tag(facts: TableFacts, tag: str) -> dict[str, list[Attributes]]:
    groups: dict[str, list[Attributes]] = defaultdict(list)
    for item in facts.items:
        groups[item[tag]["S"]].append(item)
    return groups


def _by_form(facts: TableFacts) -> dict[str, list[Attributes]]:
    """The items by the form of their keys."""
    under: dict[tuple[str, str], set[str]] = defaultdict(set)
    for item in facts.items:
        for name in facts.keys:
            under[name, item[name].get("S", "")].add(str(item[facts.keys[0]]))
    groups: dict[tuple[Words, ...], list[Attributes]] = defaultdict(list)
    for item in facts.items:
        forms = tuple(
            form_of(item[name]["S"], repeated=len(under[name, item[name]["S"]]) > 1, known=_texts(item, name))
            if "S" in item[name]
            else ("{}",)
            for name in facts.keys
        )
        groups[forms].append(item)
    if len(groups) == 1:
        return {facts.name: list(facts.items)}
    named: dict[str, list[Attributes]] = {}
    for forms, items in groups.items():
        words = [word for form in reversed(forms) for word in form[::2] if word not in ("{}", "")]
        longest = [word for word in words if len(word) > 2] or words
        first = forms[0][0] if forms[0][0] not in ("{}", "") else ""
        name = longest[0] if longest else facts.name
        if first and len(forms[0]) > 1 and name != first and len(first) > 2 and len(forms[0]) < 5:
            name = first if len(words) == 1 else f"{first} {name}"
        while name in named:
            name += " Item"
        named[name] = items
    return named


def _texts(item: Attributes, key: str) -> set[str]:
    """The texts of an item's other attributes."""
    return {value["S"] for name, value in item.items() if name != key and "S" in value}


_KEY_NAME: Final = re.compile(r"(pk|sk)$|gsi|lsi", re.IGNORECASE)
"""Names of attributes that hold only keys."""


@define
class _Group:
    """The items of one entity.

    Attributes:
        values: by field name, its value in each item, as the text in keys; None where it is absent.
        before: by field name, the word in front of it in keys, for a field that stands in keys only.
        made: key attributes that templates make.
    """

    facts: TableFacts
    tag: str | None
    items: list[Attributes]
    entity: EntityDesign
    plain: bool = False
    values: dict[str, tuple[str | None, ...]] = field(factory=dict)
    before: dict[str, str] = field(factory=dict)
    templates: dict[str, str] = field(factory=dict)
    made: set[str] = field(factory=set)

    def fill(self) -> None:
        """Find the fields and patterns."""
        self.entity.items = len(self.items)
        names = {*(name for item in self.items for name in item), *self.facts.keys} - {self.tag}
        for name in sorted(names):
            if self._is_plain(name):
                self._add_attribute(name)
        primary = tuple(self._template(name, primary=True) for name in self.facts.keys)
        self.entity.patterns.append(PatternDesign(None, primary))
        for name, index in self.facts.indexes.items():
            self._index(name, index)
        for name in sorted(names - self.made - {f.stored for f in self.entity.fields}):
            self._add_attribute(name)

    def _is_plain(self, name: str) -> bool:
        """Whether an attribute holds a value, and not a key that is made of other fields."""
        keys = {key for index in self.facts.indexes.values() for key in index.keys}
        if name in self.facts.keys or name not in keys:
            return name not in self.facts.keys
        texts = [item[name].get("S", "") for item in self.items if name in item]
        return _KEY_NAME.search(name) is None and all(len(words_of(text)) == 1 for text in texts)

    def _index(self, name: str, index: IndexFacts) -> None:
        there = [all(key in item for key in index.keys) for item in self.items]
        if not any(there):
            return
        templates = tuple(self._template(key, primary=False, native=not all(there)) for key in index.keys)
        held = "" if index.held is None else '"keys"' if not index.held else self._projection(index.held)
        self.entity.patterns.append(PatternDesign(name, templates, index.local, held))

    def _projection(self, held: Iterable[str]) -> str:
        names = [field.name for field in self.entity.fields if field.stored in {*held}]
        return f"({', '.join(repr(name).replace(chr(39), chr(34)) for name in names)},)" if names else '"keys"'

    def _template(self, attribute: str, *, primary: bool, native: bool = False) -> str:
        """The template of a key attribute; its fields are added."""
        if attribute in self.templates:
            return self.templates[attribute]
        texts = [item[attribute].get("S") for item in self.items if attribute in item]
        form = None
        if texts and all(text is not None for text in texts) and not native and not self.plain:
            whole = [str(text) for text in texts]
            known = [_texts(item, attribute) for item in self.items if attribute in item]
            repeated = attribute != self.facts.keys[0] and len({*whole}) < len(whole)
            forms = [form_of(text, repeated=repeated, known=its) for text, its in zip(whole, known, strict=True)]
            form = common_form(whole, forms)
        made = None if form is None else self._fields_of(attribute, form, primary=primary)
        if made is None:
            made = f"{{{self._add_attribute(attribute)}}}"
        else:
            self.made.add(attribute)
        self.templates[attribute] = made
        return made

    def _fields_of(self, attribute: str, form: Words, *, primary: bool) -> str | None:
        """The template with the fields of its values; None if the attribute is better a field itself."""
        slots = [at for at, word in enumerate(form) if word == "{}"]
        columns = self._columns(attribute, form)
        known = [self._like(column, _before(form, at)) for column, at in zip(columns, slots, strict=True)]
        if len(form) == 1 and slots and (known[0] is None or not primary):
            # The whole attribute is one value: a field of its own, unless it repeats another one.
            return None if known[0] is None else f"{{{known[0]}}}"
        if not primary and None in known and len(slots) > 1:
            return None
        if "{}" not in form and not primary and not self._is_constant(attribute):
            return None
        words = list(form)
        for at, column, name in zip(slots, columns, known, strict=True):
            words[at] = f"{{{name or self._add_part(attribute, form, at, column)}}}"
        return "".join(words)

    def _is_constant(self, attribute: str) -> bool:
        return len(self.items) > 1 or attribute in self.facts.keys

    def _columns(self, attribute: str, form: Words) -> list[tuple[str | None, ...]]:
        rows = [values_in(form, item[attribute]["S"]) if attribute in item else None for item in self.items]
        count = sum(word == "{}" for word in form)
        return [tuple(None if row is None else row[at] for row in rows) for at in range(count)]

    def _like(self, column: tuple[str | None, ...], before: str) -> str | None:
        """The field with these values in every item, and in keys behind the same word: others are equal by chance."""
        for name, values in self.values.items():
            if values == column and self.before.get(name, before) == before:
                return name
        return None

    def _add_part(self, attribute: str, form: Words, at: int, column: tuple[str | None, ...]) -> str:
        before = _before(form, at)
        taken = {*(f.name for f in self.entity.fields), *(name for item in self.items for name in item)}
        name = python_name(before or attribute, taken)
        self.entity.fields.append(FieldDesign(name, "str"))
        self.values[name] = column
        self.before[name] = before
        return name

    def _add_attribute(self, attribute: str) -> str:
        """Add the field of an attribute; the field that is there already, if there is one."""
        for known in self.entity.fields:
            if known.stored == attribute:
                return known.name
        found = [item.get(attribute) for item in self.items]
        made = typed(attribute, found, ttl=attribute == self.facts.ttl, kind=self.facts.types.get(attribute))
        made.name = python_name(attribute, (f.name for f in self.entity.fields))
        self.entity.fields.append(made)
        texts = tuple(None if one is None else one.get("S") for one in found)
        if all(texts):
            self.values[made.name] = texts
        return made.name


def _before(form: Words, at: int) -> str:
    """The last fixed word in front of a value; "" if there is none."""
    return next((word for word in reversed(form[:at:2]) if word not in ("{}", "")), "")
