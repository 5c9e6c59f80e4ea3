"""The facts of a table → its design: templates and fields of each type of items."""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from attrs import define, field

from odm.cli.inspect.design import Design, EntityDesign, FieldDesign, PatternDesign, class_name, python_name
from odm.cli.inspect.facts import Attributes, IndexFacts, TableFacts
from odm.cli.inspect.grouping import ItemGroup, Keys, group_items, texts_of
from odm.cli.inspect.origins import Place, doubt, nearest, words_in
from odm.cli.inspect.texts import Words, form_of, positions_alike, values_in, words_of
from odm.cli.inspect.types import form_of_times, typed

_DIGITS: Final = re.compile(r"[0-9]{2,18}", re.ASCII)
_WHOLE: Final = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_CLOCK: Final = "T"
"""In the text of a time that has a time of day."""

_KEY_NAME: Final = re.compile(r"(pk|sk)$|gsi|lsi|^(hash|range|sort|partition)[_-]?key$", re.IGNORECASE)
"""Names of attributes that hold only keys."""

_MATCHED: Final = (
    "match: only the attributes distinguish these items from those of another class with keys of this form. An item "
    "that has the attributes of both, or of none, belongs to no class."
)

Column = tuple[str | None, ...]
"""A part of a key, or an attribute, in each item; None where it is absent."""


def infer(facts: TableFacts) -> Design:
    """The design that the items of a table show."""
    keys = Keys(facts)
    tag, groups = group_items(keys)
    return design_of(keys, tag, groups)


def infer_plain(facts: TableFacts) -> Design:
    """The design that always fits: one entity, whose fields are the attributes."""
    groups = [ItemGroup(facts.name, None, tuple(range(len(facts.items))))]
    design = design_of(Keys(facts), None, groups, plain=True)
    design.notes.append("The items could not be divided into entities: the fields are the attributes of all of them.")
    return design


def design_of(keys: Keys, tag: str | None, groups: Sequence[ItemGroup], *, plain: bool = False) -> Design:
    """The design with an entity for each group of items.

    Args:
        keys: the key attributes of the sample.
        tag: the attribute that names the type of each item.
        groups: the items of each type.
        plain: the key attributes are fields as they are.
    """
    facts = keys.facts
    entities: list[EntityDesign] = []
    for group in groups:
        entity = EntityDesign(class_name(group.name, (e.name for e in entities)), group.tag)
        _Group(keys, tag, group, entity, plain=plain).fill()
        if group.match:
            entity.match = next(field.name for field in entity.fields if field.stored == group.match)
            entity.notes.append(_MATCHED)
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


@define
class _Group:
    """The items of one entity.

    Attributes:
        values: by field name, the text of its value in each item, as a key has it.
        word: by the name of a field that stands in keys, the word in front of it there.
        templates: by key attribute, its template.
        templated: key attributes that templates make.
    """

    keys: Keys
    tag: str | None
    group: ItemGroup
    entity: EntityDesign
    plain: bool = False
    values: dict[str, Column] = field(factory=dict)
    word: dict[str, str] = field(factory=dict)
    templates: dict[str, str] = field(factory=dict)
    templated: set[str] = field(factory=set)

    @property
    def facts(self) -> TableFacts:
        return self.keys.facts

    @property
    def items(self) -> list[Attributes]:
        return [self.facts.items[at] for at in self.group.items]

    def fill(self) -> None:
        """Find the fields and patterns."""
        self.entity.items = len(self.group.items)
        items = self.items
        names = {*(name for item in items for name in item), *self.facts.keys} - {self.tag}
        for name in sorted(names):
            if self._is_plain(name):
                self._add_attribute(name)
        primary = tuple(self._template(name, primary=True) for name in self.facts.keys)
        self.entity.patterns.append(PatternDesign(None, primary))
        for name, index in self.facts.indexes.items():
            self._index(name, index)
        for name in sorted(names - self.templated - {f.stored for f in self.entity.fields}):
            self._add_attribute(name)

    def _is_plain(self, name: str) -> bool:
        """Whether an attribute holds a value, and not a key that is made of other fields."""
        keys = {key for index in self.facts.indexes.values() for key in index.names}
        if name in self.facts.keys or name not in keys:
            return name not in self.facts.keys
        several = {
            part for i in self.facts.indexes.values() for key in i.keys if isinstance(key, tuple) for part in key
        }
        texts = [item[name].get("S", "") for item in self.items if name in item]
        return name in several or (_KEY_NAME.search(name) is None and all(len(words_of(text)) == 1 for text in texts))

    def _index(self, name: str, index: IndexFacts) -> None:
        there = [all(key in item for key in index.names) for item in self.items]
        if not any(there):
            return
        native = not all(there)
        templates = tuple(
            "#".join(f"{{{self._add_attribute(attribute)}}}" for attribute in key)
            if isinstance(key, tuple)
            else self._template(key, primary=False, native=native)
            for key in index.keys
        )
        held = "" if index.held is None else '"keys"' if not index.held else self._projection(index.held)
        self.entity.patterns.append(PatternDesign(name, templates, index.local, held))

    def _projection(self, held: Iterable[str]) -> str:
        names = [field.name for field in self.entity.fields if field.stored in {*held}]
        return f"({', '.join(repr(name).replace(chr(39), chr(34)) for name in names)},)" if names else '"keys"'

    def _template(self, attribute: str, *, primary: bool, native: bool = False) -> str:
        """The template of a key attribute; its fields are added."""
        if attribute in self.templates:
            return self.templates[attribute]
        template = None
        if not native and not self.plain and (form := self._form(attribute)) is not None:
            template = self._fields_of(attribute, form, primary=primary)
        if template is None:
            template = f"{{{self._add_attribute(attribute)}}}"
        else:
            self.templated.add(attribute)
        self.templates[attribute] = template
        return template

    def _words(self, attribute: str) -> list[Words | None]:
        return [self.keys.words(at, attribute) for at in self.group.items]

    def _form(self, attribute: str) -> Words | None:
        """The form of a key attribute; None: its texts have no form in common, or it is not text."""
        there = [(item, its) for item, its in zip(self.items, self._words(attribute), strict=True) if attribute in item]
        keys = [its for _, its in there if its is not None]
        if not keys or len(keys) < len(there) or (same := positions_alike(keys)) is None:
            return None
        known = set.intersection(*(texts_of(item, attribute) for item, _ in there))
        if attribute == self.facts.keys[0]:
            repeated = False
        else:
            partitions = {str(item[self.facts.keys[0]]) for item, _ in there}
            repeated = len(there) > 1 and (attribute not in self.facts.keys or len(partitions) > 1)
        return form_of(keys[0], same, repeated=repeated, known=known)

    def _fields_of(self, attribute: str, form: Words, *, primary: bool) -> str | None:
        """The template with the fields of its values; None if the attribute is better a field itself."""
        slots = [at for at, word in enumerate(form) if word == "{}"]
        named = _KEY_NAME.search(attribute) is None
        if named and slots and {*form[1::2]} <= {"/"}:
            return None  # an attribute such as user_id is the field of its name, whatever else has its values
        if "{}" not in form and not primary and len(self.items) < 2:
            return None
        columns = self._columns(attribute, form)
        origins = [
            self._origin(attribute, form, at, column, primary=primary)
            for at, column in zip(slots, columns, strict=True)
        ]
        whole = len(form) == 1
        if (whole and slots and origins[0] is None) or (not primary and None in origins and len(slots) > 1):
            return None
        words = list(form)
        for at, column, origin in zip(slots, columns, origins, strict=True):
            width = _padded(column)
            name = origin or self._add_part(attribute, form, at, column)
            padded = width and (origin is None or self._type(name) == "int")
            words[at] = f"{{{name}{f':0{width}' if padded else ':empty' if '' in column else ''}}}"
            self.word.setdefault(name, _before(form, at))
        return "".join(words)

    def _columns(self, attribute: str, form: Words) -> list[Column]:
        rows = [None if words is None else values_in(form, words) for words in self._words(attribute)]
        count = sum(word == "{}" for word in form)
        return [tuple(None if row is None else row[at] for row in rows) for at in range(count)]

    def _type(self, name: str) -> str:
        return next(field.type for field in self.entity.fields if field.name == name)

    def _origin(self, attribute: str, form: Words, at: int, column: Column, *, primary: bool) -> str | None:
        """The field that a part of a key is made of; None: it is a part of its own. Comments say what is not sure."""
        before = _before(form, at)
        fits = [name for name, values in self.values.items() if _same(values, column)]
        for name in fits:
            # A part of another key behind the same word is the same part.
            if name in self.word and self.word[name] == before and (before or len({*column}) > 1):
                return name
        stored = {field.name: field.stored for field in self.entity.fields}
        candidates = {str(stored[name]): name for name in fits if stored[name] is not None and name not in self.word}
        candidates |= {str(stored[name]): name for name in fits if stored[name] is not None and primary}
        place = self._place(attribute, form, at, column)
        taken = nearest([*candidates], place)
        if taken is None and not primary and len(fits) == 1 and len(form) == 1 and _is_clock(column):
            # Two times of one item are equal to the second by more than chance.
            taken = next((stored_name for stored_name, name in candidates.items() if name == fits[0]), None)
        others = [candidate for candidate in candidates if candidate != taken]
        if others:
            where = f"{attribute}, behind {before!r}" if before else attribute
            self.entity.notes.append(doubt(where, taken, others, len(self.items), "item"))
        return None if taken is None else candidates[taken]

    def _place(self, attribute: str, form: Words, at: int, column: Column) -> Place:
        return Place(
            word=_before(form, at),
            own=self._is_own(attribute, form, at),
            key="" if _KEY_NAME.search(attribute) else attribute,
            around={*words_in(self.entity.name), *words_in(self.facts.name), *words_in(self.entity.tag or "")},
            timed=_is_timed(column),
        )

    def _is_own(self, attribute: str, form: Words, at: int) -> bool:
        """Whether a part distinguishes the items of the entity: the last one of the primary key, behind its word."""
        if "{}" in form[at + 1 :] or (at > 1 and form[at - 2] == "{}"):
            return False
        partition, *sorts = self.facts.keys
        if attribute != partition:
            return attribute in sorts
        forms = {sort: self._form(sort) for sort in sorts}
        return all(
            (form is not None and "{}" not in form) or all(item[partition] == item[sort] for item in self.items)
            for sort, form in forms.items()
        )

    def _add_part(self, attribute: str, form: Words, at: int, column: Column) -> str:
        before, texts = _before(form, at), [text for text in column if text is not None]
        taken = {*(f.name for f in self.entity.fields), *(name for item in self.items for name in item)}
        times = form_of_times(texts)
        follows = at > 1 and form[at - 2] == "{}"
        name = python_name("at" if times and follows else before or attribute, taken)
        design = FieldDesign(name, "int" if _padded(column) else "str")
        if times is not None:
            design.type, design.options = "datetime", f'format="{times}"'
        self.entity.fields.append(design)
        self.values[name] = column
        return name

    def _add_attribute(self, attribute: str) -> str:
        """Add the field of an attribute; the field that is there already, if there is one."""
        for known in self.entity.fields:
            if known.stored == attribute:
                return known.name
        attribute_values = [item.get(attribute) for item in self.items]
        design = typed(
            attribute, attribute_values, ttl=attribute == self.facts.ttl, kind=self.facts.types.get(attribute)
        )
        design.name = python_name(attribute, (f.name for f in self.entity.fields))
        self.entity.fields.append(design)
        if not design.ttl and design.type in ("str", "int", "datetime"):
            texts = [None if stored is None else stored.get("S", stored.get("N")) for stored in attribute_values]
            if None not in texts:
                self.values[design.name] = tuple(texts)
        return design.name


def _before(form: Words, at: int) -> str:
    """The last fixed word in front of a value; "" if there is none."""
    return next((word for word in reversed(form[:at:2]) if word not in ("{}", "")), "")


def _padded(column: Column) -> int:
    """The width of numbers that are filled up with zeros; otherwise 0."""
    texts = [text for text in column if text is not None]
    same = len({len(text) for text in texts}) == 1 and all(map(_DIGITS.fullmatch, texts))
    return len(texts[0]) if same and any(text[0] == "0" for text in texts) else 0


def _same(values: Column, column: Column) -> bool:
    """Whether the values of a field stand in a key; in front of numbers there may be zeros."""
    if values == column:
        return True
    if not _padded(column) or not all(value is not None and _WHOLE.fullmatch(value) for value in values):
        return False
    return all(text is not None and int(text) == int(value or 0) for value, text in zip(values, column, strict=True))


def _is_timed(column: Column) -> bool:
    texts = [text for text in column if text is not None]
    return all(re.match(r"\d{4}-\d\d-\d\d", text) for text in texts) or form_of_times(texts) is not None


def _is_clock(column: Column) -> bool:
    return _is_timed(column) and all(text is None or _CLOCK in text for text in column)
