"""The rows of a table of Bigtable → its design: entities by the form of row keys, and fields by columns."""

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from odm import BadValue
from odm.backends.bigtable.client.native import FAMILY, Column, Row
from odm.backends.bigtable.client.native_admin import ColumnFamily, Families
from odm.backends.bigtable.rows.keys import MAX_ROW_KEY
from odm.cli.inspect.binary_keys import UNKNOWN_BYTES, binary_parts, has_other_bytes
from odm.cli.inspect.columns import DataColumns, NamedColumn, columns_of, common
from odm.cli.inspect.design import Design, EntityDesign, FieldDesign, PatternDesign, class_name, python_name
from odm.cli.inspect.origins import Place, doubt, nearest, words_in
from odm.cli.inspect.row_keys import KeyPart, RowGroup, fixed_width, group_rows
from odm.codec import TAG
from odm.codec.types.stored import show
from odm.schema.cells import MAX_QUALIFIER
from odm.schema.checks import NAMES, is_name
from odm.schema.families import FAMILY_NAMES, is_family

_SHOWN: Final = 4
_TAG: Final = Column(FAMILY, TAG.encode())
_DATE: Final = "date"
"""The name of a type; a field of that name would hide it from the fields behind it."""


class RowFacts(Struct, frozen=True):
    """What is known of a table.

    Attributes:
        name: the table.
        families: its column families.
        rows: the sample; the newest cell of each column.

    Raises:
        BadValue: a name cannot be one.
    """

    name: str
    families: Families = field(default_factory=dict)
    rows: tuple[Row, ...] = ()

    def __post_init__(self) -> None:
        if not is_name(self.name):
            raise BadValue(f"{show(self.name)} cannot name a table: a name has {NAMES}")
        for family in {*self.families, *(column.family for row in self.rows for column in row.columns)}:
            if not is_family(family):
                raise BadValue(f"{show(family)} cannot name a column family: a name has {FAMILY_NAMES}")
        for row in self.rows:
            if len(row.key) > MAX_ROW_KEY:
                raise BadValue(f"the row key {show(row.key)} has more than {MAX_ROW_KEY} bytes")
            for column in row.columns:
                if len(column.qualifier) > MAX_QUALIFIER:
                    raise BadValue(
                        f"{show(column.qualifier)} cannot name a column: it has more than {MAX_QUALIFIER} bytes"
                    )


def infer_rows(facts: RowFacts) -> Design:
    """The design that the rows of a table show."""
    groups = group_rows([row.text for row in facts.rows], common(facts.rows))
    return _design(facts, groups)


def infer_binary_rows(facts: RowFacts) -> Design:
    """The design of rows whose keys have binary parts: one entity. If none has, that of `infer_rows`."""
    parts = binary_parts([row.key for row in facts.rows])
    if not parts:
        return infer_rows(facts)
    return _design(facts, [RowGroup(tuple(range(len(facts.rows))), parts)])


def infer_plain_rows(facts: RowFacts) -> Design:
    """The design that always fits: one entity, whose key is the row key as text, or as bytes if it is not text."""
    whole = KeyPart(word="row_key")
    if any(has_other_bytes(row.key) for row in facts.rows):
        whole = KeyPart(word="row_key", type="bytes", format="bytes", why=UNKNOWN_BYTES)
    every = RowGroup(tuple(range(len(facts.rows))), (whole,))
    design = _design(facts, [every])
    design.notes.append("The rows could not be divided into entities: the key is the whole row key.")
    return design


def _design(facts: RowFacts, groups: Sequence[RowGroup]) -> Design:
    design = Design(facts.name, (), {}, None, None, [], len(facts.rows))
    design.join, splits = _splits(groups)
    if None in splits and any(len(group.parts) > 1 for group in groups):
        design.notes.append(
            "The row keys have no separator of partition and sort key in common, so each is one template: rows cannot "
            "be queried by a range of it."
        )
    for group, split in zip(groups, splits, strict=True) if facts.rows else ():
        name = class_name(group.name or facts.name, (entity.name for entity in design.entities))
        rows = [facts.rows[at] for at in group.rows]
        entity = _entity(name, group, rows, split)
        if any(field.cell is not None for field in entity.fields):
            design.entities.append(entity)
        else:
            design.notes += [_without_class(rows), *entity.notes]
    seen = {column.family for row in facts.rows for column in row.columns}
    families = ((name, _about(name, family, seen)) for name, family in sorted(facts.families.items()))
    design.notes += [f"Family {name}{about}." for name, about in families if about]
    if any(_TAG in row.columns for row in facts.rows):
        design.notes.append("Rows with a cell d:_t were written by odm: the models that wrote them fit better.")
    if not facts.rows:
        design.notes.append("The table has no rows, so its columns are not known.")
    return design


def _without_class(rows: Sequence[Row]) -> str:
    subject = "The row" if len(rows) == 1 else f"{len(rows)} rows such as"
    has = "has" if len(rows) == 1 else "have"
    return (
        f"{subject} {rows[0].text} {has} no class: all names of columns there are data, and some are not text, so they "
        "cannot be keys of a dict."
    )


def _about(name: str, family: ColumnFamily, seen: set[str]) -> str:
    aggregate = "" if family.aggregate is None else f", an aggregate ({family.aggregate})"
    empty = "" if name in seen else ", without cells in the sample"
    rule = "" if family.gc is None else f", gc={family.gc!r}"
    return f"{rule}{aggregate}{empty}"


def _entity(name: str, group: RowGroup, rows: Sequence[Row], split: int | None) -> EntityDesign:
    entity = EntityDesign(name, None, items=len(rows))
    named, data = columns_of(rows)
    for column in named:
        entity.fields.append(_column(column, [_DATE, *(field.name for field in entity.fields)]))
    dicts = [group_of_data for group_of_data in data if group_of_data.readable]
    texts = {
        field.name: column
        for column, field in zip(named, entity.fields, strict=True)
        if field.type == "str" and not field.options
    }
    around = {word for text in (name, group.name) for word in words_in(text)}
    entity.patterns.append(PatternDesign(None, _templates(group.parts, split, entity, texts, around)))
    if len(group.parts) == 1 and group.parts[0].type == "str" and (seen := fixed_width([row.text for row in rows])):
        entity.notes.append(f"The row key has {seen}.")
    for group_of_data in dicts:
        dict_field = _entries(group_of_data, [_DATE, *(known.name for known in entity.fields)])
        entity.fields.append(dict_field)
        entity.notes.append(_of_entries(dict_field.name, group_of_data))
    entity.notes += [_data(group_of_data) for group_of_data in data if not group_of_data.readable]
    return entity


def _templates(
    parts: Sequence[KeyPart],
    split: int | None,
    entity: EntityDesign,
    columns: Mapping[str, NamedColumn],
    around: Collection[str],
) -> tuple[str, ...]:
    """The templates of partition and sort key; their fields are added before the others.

    Args:
        parts: what the keys consist of.
        split: the separator between partition and sort key; None: there is no sort key.
        entity: the entity.
        columns: those with text, by the names of their fields.
        around: the words in the names of the entity and the table.
    """
    texts: list[str] = []
    fields: list[FieldDesign] = []
    taken = [_DATE, *(column.name for column in entity.fields)]
    for at, part in enumerate(parts):
        if part.text is not None:
            texts.append(part.text)
            continue
        others = {name: column for name, column in columns.items() if f"{{{name}}}" not in texts}
        name = _origin(parts, at, entity, others, around)
        if name is None:
            name = python_name(part.word or f"part_{len(fields) + 1}", taken)
            taken.append(name)
            fields.append(FieldDesign(name, part.type, options=part.options, why=part.why))
        texts.append(f"{{{name}{':' * bool(part.format)}{part.format}}}")
    entity.fields[:0] = fields
    return ("".join(texts),) if split is None else ("".join(texts[:split]), "".join(texts[split + 1 :]))


def _origin(
    parts: Sequence[KeyPart],
    at: int,
    entity: EntityDesign,
    columns: Mapping[str, NamedColumn],
    around: Collection[str],
) -> str | None:
    """The field that a part of a key is made of; None: it is a part of its own. Comments say what is not sure."""
    part = parts[at]
    values = tuple(value.encode(errors="surrogateescape") for value in part.values)
    fits = {column.qualifier: name for name, column in columns.items() if column.values == values}
    if part.type != "str" or not fits:
        return None
    place = Place(word=part.word, own=_is_own(parts, at), key="", around=around, timed=False)
    chosen = nearest([*fits], place)
    others = [name for name in fits if name != chosen]
    if others:
        entity.notes.append(doubt(f"row key, part {at // 2 + 1}", chosen, others, len(values), "row"))
    return None if chosen is None else fits[chosen]


def _is_own(parts: Sequence[KeyPart], at: int) -> bool:
    """Whether a part distinguishes the rows of the entity: the last value, or the last in front of a time."""
    values = [part for part in parts[at + 1 :] if part.text is None]
    words = [part for part in parts[at + 2 :: 2] if part.text]
    return not values or (all(part.timed for part in values) and not words)


def _splits(groups: Sequence[RowGroup]) -> tuple[str, list[int | None]]:
    """The separator of partition and sort key that all groups have, and where it stands in the parts of each."""
    marks = [part.text for group in groups for part in group.parts[1::2]]
    for mark in sorted({str(mark) for mark in marks}, key=lambda mark: (mark != "#", -marks.count(mark))):
        splits = [_split(group.parts, mark) for group in groups]
        if None not in splits:
            return mark, splits
    return "#", [None for _ in groups]


def _split(parts: Sequence[KeyPart], mark: str) -> int | None:
    """The separator in front of the last value, and of the fixed text before it; None: nothing stands on one side."""
    marks = [at for at in range(1, len(parts), 2) if parts[at].text == mark]
    if not marks:
        return None
    last = marks[-1]
    fixed = parts[last - 1].text is not None and parts[last + 1].text is None
    middle = marks[-2] if fixed and len(marks) > 1 else last
    sides = parts[:middle], parts[middle + 1 :]
    return middle if all(any(part.text != "" for part in side) for side in sides) else None


def _column(column: NamedColumn, taken: Sequence[str]) -> FieldDesign:
    absent = any(value is None for value in column.values)
    guess = column.guess
    return FieldDesign(
        python_name(column.qualifier, taken),
        guess.type,
        options=guess.options,
        default="None" if absent else None,
        why=guess.why,
        cell=(f"{column.family}:{column.qualifier}", guess.encoding),
    )


def _entries(columns: DataColumns, taken: Sequence[str]) -> FieldDesign:
    """The field of columns whose names are data."""
    values = columns.guess
    return FieldDesign(
        python_name(columns.prefix if re.search("[a-zA-Z]", columns.prefix) else columns.family, taken),
        f"dict[str, {values.type}]",
        options=values.options,
        default="{}",
        why=values.why,
        cell=(f"{columns.family}:{columns.prefix}", values.encoding),
        entries=True,
    )


def _of_entries(name: str, columns: DataColumns) -> str:
    which = f" whose name begins with {columns.prefix}" if columns.prefix else ""
    key = "the rest of it" if columns.prefix else "its name"
    return (
        f"{name}: each column of family {columns.family}{which} that no other field names is an entry, and {key} the "
        f"key, as in {_names(columns)}. A put deletes the entries that it does not have."
    )


def _names(columns: DataColumns) -> str:
    names = columns.names
    return ", ".join([*names[: _SHOWN - 1], "…", names[-1]] if len(names) > _SHOWN else names)


def _data(columns: DataColumns) -> str:
    names = columns.names
    are = "column whose name is data is" if len(names) == 1 else "columns whose names are data are"
    stay = f"not declared, and left as {'it is' if len(names) == 1 else 'they are'}"
    why = "as some are not text"
    return f"Family {columns.family}: {len(names)} {are} {stay}, {why}: {_names(columns)} ({columns.guess.encoding})."
