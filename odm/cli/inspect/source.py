"""A design → the source of its models.

Text of others: every name, template, docstring and comment goes through `escaped`.
"""

import re
from collections.abc import Iterator
from textwrap import wrap
from typing import Final

from odm.cli.inspect.design import Design, EntityDesign, FieldDesign, PatternDesign, python_name
from odm.schema.model import KeyNames

_QUOTED: Final = {'"': '\\"', "\\": "\\\\"}


def escaped(text: str) -> str:
    """The text as it may stand between double quotes, or behind a ``#``: it ends neither the literal nor the line.

    Quotes, backslashes and all characters that cannot be seen become escapes; so a reader sees every character, also
    one that would change the direction of the text.
    """
    return "".join(_QUOTED.get(char) or (char if char.isprintable() else _escape(char)) for char in text)


def literal(text: str) -> str:
    """The text as a literal of Python."""
    return f'"{escaped(text)}"'


def _escape(char: str) -> str:
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


_WIDTH: Final = 110
"""Of comments, in characters."""


def source_of(design: Design) -> str:
    """The Python text of the models."""
    body = list(_table(design))
    for entity in design.entities:
        body += ["", "", *_entity(entity, design)]
    text = "\n".join(body)
    return "\n".join([*_head(design, text), "", text, ""])


def _head(design: Design, text: str) -> Iterator[str]:
    yield f'"""The models of table {escaped(design.name)}, from its description and {design.sampled} of its items."""'
    yield ""
    times = [name for name in ("date", "datetime") if re.search(rf"[:\[,] ?{name}\b", text)]
    if times:
        yield f"from datetime import {', '.join(times)}"
    if re.search(r"\bDecimal\b", text):
        yield "from decimal import Decimal"
    typed = [name for name in ("Annotated", "Any") if re.search(rf"\b{name}\b", text)]
    if typed:
        yield f"from typing import {', '.join(typed)}"
    if times or typed or "Decimal" in text:
        yield ""
    names = ("TTL", "AccessPattern", "Cell", "Columns", "Entity", "PrimaryKey", "Stored", "Table")
    used = [name for name in names if re.search(rf"\b{name}\b", text)]
    used += ["exists", "field"] * any(entity.match for entity in design.entities)
    yield f"from odm import {', '.join(used)}"
    if design.notes:
        yield ""
        for note in design.notes:
            yield from _comment(note, "")


def table_name(design: Design) -> str:
    """The variable of the table."""
    return python_name(design.name, ("date",))


def _table(design: Design) -> Iterator[str]:
    yield f"{table_name(design)} = Table("
    yield f"    {literal(design.name)},"
    if not design.keys:
        yield '    row_style="verbatim",'
        if design.join != "#":
            yield f"    row_key_join={literal(design.join)},"
        yield ")"
        return
    yield f"    keys={_tuple(design.keys)},"
    if design.indexes:
        yield "    index_keys={"
        for name, keys in design.indexes.items():
            yield f"        {literal(name)}: {_tuple(keys)},"
        yield "    },"
    yield '    key_style="verbatim",'
    yield f"    tag={'None' if design.tag is None else literal(design.tag)},"
    if design.ttl is not None:
        yield f"    ttl={literal(design.ttl)},"
    if design.keeps:
        yield "    keep_unknown=True,  # a put leaves the attributes that have no field, see the comments"
    yield ")"


def _entity(entity: EntityDesign, design: Design) -> Iterator[str]:
    tag = "" if entity.tag is None else f", tag={literal(entity.tag)}"
    if entity.match:
        tag = f", match=exists(field({literal(entity.match)}))"
    yield f"class {entity.name}(Entity, table={table_name(design)}{tag}):"
    ordered = sorted(entity.fields, key=lambda field: field.default is not None)
    for field in ordered:
        yield f"    {_field(field)}"
    yield ""
    taken = {field.name for field in entity.fields}
    for pattern in entity.patterns:
        yield from _pattern(pattern, taken)
    notes = [
        *entity.notes,
        *(f"{name} has no field, and a put leaves it as it is: {w}." for name, w in entity.kept.items()),
    ]
    if notes:
        yield ""
    for note in notes:
        yield from _comment(note, "    ")


def _comment(text: str, indent: str) -> list[str]:
    indent = f"{indent}# "
    return wrap(escaped(text), _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)


def _field(field: FieldDesign) -> str:
    type_ = field.type if field.default != "None" or field.type == "Any" else f"{field.type} | None"
    marks = ["TTL"] * field.ttl + ["Columns"] * field.entries
    stored = [literal(field.stored)] if field.stored is not None else []
    if stored or field.options:
        marks.append(f"Stored({', '.join(filter(None, [*stored, field.options]))})")
    if field.cell is not None:
        marks.append(f"Cell({', '.join(map(literal, field.cell))})")
    annotation = f"Annotated[{', '.join([type_, *marks])}]" if marks else type_
    default = "" if field.default is None else f" = {field.default}"
    return f"{field.name}: {annotation}{default}" + (f"  # {escaped(field.why)}" if field.why else "")


def _pattern(pattern: PatternDesign, taken: set[str]) -> Iterator[str]:
    templates = ", ".join(map(literal, pattern.templates))
    if pattern.index is None:
        single = not any("{" in template for template in pattern.templates)
        yield f"    primary = PrimaryKey({templates})" + "  # odm: ignore[constant-key]" * single
        return
    by = "" if pattern.index.lower().startswith(("by-", "by_", "by.")) else "by_"
    name = python_name(f"{by}{pattern.index}", {*taken, "primary"})
    taken.add(name)
    options = ", local=True" * pattern.local + (f", projection={pattern.projection}" if pattern.projection else "")
    yield f"    {name} = AccessPattern({templates}, index={literal(pattern.index)}{options})"


def _tuple(names: KeyNames) -> str:
    parts = [literal(name) if isinstance(name, str) else _tuple(name) for name in names]
    return f"({', '.join(parts)}{',' * (len(names) == 1)})"
