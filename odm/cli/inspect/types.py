"""Attributes → the field that holds them: its annotation, and how it is stored."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from odm.cli.inspect.design import FieldDesign
from odm.codec.types.times import format_type

FORMATS: Final = (
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%dT%H:%M:%S.%3fZ",
    "%Y-%m-%dT%H:%M:%S.%fZ",
    "%Y-%m-%dT%H:%M:%S.%f%z",
    "%Y-%m-%dT%H:%M:%S%:z",
    "%Y-%m-%dT%H:%M:%S.%f%:z",
)
"""Forms of times with a zone; others stay text, because their zone would be a guess."""

_SETS: Final = frozenset({"SS", "NS", "BS"})
_PLAIN: Final = {"S": "str", "BOOL": "bool", "B": "bytes", "L": "list[Any]", "M": "dict[str, Any]"}


def typed(
    attribute: str, attribute_values: Sequence[Mapping[str, Any] | None], *, ttl: bool, kind: str | None = None
) -> FieldDesign:
    """The field of an attribute.

    Args:
        attribute: its name.
        attribute_values: its value in each item; None where it is absent.
        ttl: it is the TTL attribute.
        kind: its type, if it is a key attribute.
    """
    there = [stored for stored in attribute_values if stored is not None]
    kinds = {next(iter(stored)) for stored in there} or {kind or "S"}
    absent = len(there) < len(attribute_values)
    default = "None" if absent else None
    null = "NULL" in kinds
    if null:
        kinds.discard("NULL")
    only = next(iter(kinds), "")
    if len(kinds) != 1 or (null and only in _SETS):  # no field is a set or None
        return FieldDesign(
            "", "Any", attribute, default=default, why="values of several types" if kinds else "only null"
        )
    if only in _SETS:
        return FieldDesign("", _set_type(only, there), attribute, default="set()" if absent else None)
    field = FieldDesign("", _PLAIN.get(only, ""), attribute, default=default)
    contents = [stored[only] for stored in there if only in stored]
    if only == "N":
        field.type = _number(contents)
        if ttl and field.type == "int":
            field.type, field.options, field.ttl = "datetime", 'epoch="s"', True
    elif only == "S" and (form := form_of_times(contents)) is not None:
        field.type, field.options = "datetime", f'format="{form}"'
    if null:
        field.type += " | None"
        field.default = None
        field.why = "null in some items" + (", absent in others" if absent else "")
        if absent:
            field.type, field.default = field.type.removesuffix(" | None"), "None"
            field.options = ", ".join(filter(None, [field.options, 'null="keep"']))
    return field


def _set_type(kind: str, there: Sequence[Mapping[str, Any]]) -> str:
    numbers = [text for stored in there for text in stored.get("NS", ())]
    return f"set[{_number(numbers) if kind == 'NS' else _PLAIN[kind[0]]}]"


def _number(texts: Sequence[str]) -> str:
    return "int" if all(text.lstrip("-").isdecimal() for text in texts) else "Decimal"


def form_of_times(texts: Sequence[str]) -> str | None:
    """The format that reads all these texts as times and writes them as they are; None if there is none."""
    for form in FORMATS:
        type_ = format_type(form, datetime)
        times = [type_.load(text) for text in texts]
        if times and all(
            isinstance(time, datetime) and type_.dump(time) == text for time, text in zip(times, texts, strict=True)
        ):
            return form
    return None
