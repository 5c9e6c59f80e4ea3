"""The grammar of key templates: from text and fields to literals and slots.

A placeholder is ``{field}``, ``{field:format}``, ``{field:desc}`` or ``{field:format:desc}``; all other text is
literal, with '#' between components. Faults are `Refused`; `compile_template` adds whose template it is.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from pydantic.fields import FieldInfo

from odm.errors import brief
from odm.immutable import Immutable, evolve
from odm.keys.base import KeyType, Refused
from odm.keys.binary import binary_part, in_bytes, is_binary_format, utf8_key
from odm.keys.shapes import Shape, exactly, join, size_of
from odm.keys.types import key_type
from odm.keys.verbatim import EMPTY, BinaryKey, Form, NumberKey, TextKey, VerbatimKey, formatted


class Literal(Immutable):
    """Text of every key, including the '#' between components."""

    text: str


class Slot(Immutable):
    """A placeholder.

    Attributes:
        name: the field whose value is written.
        type: what writes it.
        follow: the text of the template right behind it, a placeholder in its braces; "" at the end.
    """

    name: str
    type: KeyType
    follow: str


Part = Literal | Slot


def parse(text: str, fields: Mapping[str, FieldInfo]) -> tuple[Part, ...]:
    """The parts of a template, in order; no two literals are neighbours.

    Raises:
        Refused: the template breaks a rule of keys, or names a field that cannot stand in one.
    """
    _check_literals(text)
    pieces = re.split(r"(\{[^{}]*\})", text)
    parts = [
        _slot(piece, next(filter(None, pieces[at + 1 :]), ""), fields) if at % 2 else Literal(piece)
        for at, piece in enumerate(pieces)
    ]
    return tuple(part for part in parts if part != Literal(""))


def parse_verbatim(
    text: str, fields: Mapping[str, FieldInfo], forms: Mapping[str, Form], *, binary: bool = False
) -> tuple[Part, ...]:
    """The parts of a template of keys as they are: literals of any text, and placeholders.

    Between two placeholders is a literal, unless the first has a fixed width.

    Args:
        text: the template.
        fields: the fields of the entity.
        forms: how those that a key can contain are stored.
        binary: keys have a character for each byte; see `odm.keys.binary`.

    Raises:
        Refused: as `parse`.
    """
    pieces = re.split(r"(\{[^{}]*\})", text)
    if wrong := unpaired(text):
        raise Refused(wrong)
    parts: list[Part] = []
    for at, piece in enumerate(pieces):
        if at % 2 == 0:
            parts += [Literal(in_bytes(piece) if binary else piece)] * bool(piece)
            continue
        follow, last = in_bytes(pieces[at + 1]) if binary else pieces[at + 1], at + 2 == len(pieces)
        slot = _verbatim_slot(piece, follow, fields, forms, binary=binary)
        if not follow and not last:
            if not size_of(slot.type.shapes()):
                raise Refused(
                    f"nothing separates {piece} from {pieces[at + 2]}: put a literal between them, or give the first a "
                    f"fixed width, as in {{number:08}}{' or {hash:bytes4}' * binary}"
                )
            slot = evolve(slot, follow=pieces[at + 2])
        parts.append(slot)
    if not parts:
        raise Refused("it is empty; write a literal or a placeholder")
    match parts:
        case [Slot(type=VerbatimKey(empty=True), name=name)]:
            raise Refused(
                f"{{{name}:{EMPTY}}} is the whole of the key, which cannot be empty: drop :{EMPTY}, or put text "
                "beside it"
            )
    return tuple(parts)


def _verbatim_slot(
    placeholder: str, follow: str, fields: Mapping[str, FieldInfo], forms: Mapping[str, Form], *, binary: bool
) -> Slot:
    name, colon, format_ = placeholder[1:-1].partition(":")
    try:
        if name not in fields:
            raise Refused(near(name, fields))
        form = forms.get(name)
        if form is not None and is_binary_format(format_):
            if not binary:
                raise Refused(
                    f"{brief(format_)} would be bytes, which only row keys of other programs have: declare the table "
                    'with row_style="verbatim", for Bigtable, or drop the format'
                )
            return Slot(name, binary_part(form, follow, format_), follow)
        plain = form is not None and (format_ == EMPTY or (form.kind != "S" and format_.startswith("0")))
        if colon and not plain:
            type_ = key_type(fields[name], *_split_desc(format_))
            if not type_.lossy or type_.variable:
                raise Refused(f"{brief(format_)} is not a format of keys as they are; give the field a stored format")
            return Slot(name, type_, follow)
        if form is None or form.kind == "B":
            raise Refused(
                "its type has no text in keys; use one that is stored as text or as a number"
                + ', or, in row keys of other programs (row_style="verbatim"), bytes as in {hash:bytes4}'
                * (form is not None)
            )
        plain_key = formatted(form, follow, format_) if colon else VerbatimKey(form, follow)
        return Slot(name, utf8_key(plain_key) if binary else plain_key, follow)
    except Refused as why:
        raise Refused(f"placeholder {placeholder}: {why}") from None


def several_parts(text: str, forms: Mapping[str, Form]) -> tuple[Part, ...]:
    """The parts of a template whose placeholders are attributes of their own: ``{tenant}#{region}``."""
    names = [piece[1:-1] for piece in text.split("#")]
    parts: list[Part] = []
    for at, name in enumerate(names):
        last = at + 1 == len(names)
        form = forms[name]
        type_ = NumberKey(form) if form.kind == "N" else BinaryKey(form) if form.kind == "B" else TextKey(form)
        parts += [Slot(name, type_, "" if last else "#"), *([] if last else [Literal("#")])]
    return tuple(parts)


def native_slot(name: str, form: Form) -> Slot:
    """The part of a template that is the whole of a key attribute: the stored value of one field."""
    if form.kind == "N":
        return Slot(name, NumberKey(form), "")
    return Slot(name, BinaryKey(form) if form.kind == "B" else VerbatimKey(form, ""), "")


_OBJECT: Final = r"<(built-in function|class '|function |module '|property object)|annotation=\w+ required="
"""The text of an object that a name in an f-string meant."""


def _check_literals(text: str) -> None:
    # f"TICKET#{id}", f"TICKET#{type}", or of a name that the class gives a Field(...)
    if ("<" in text or "=" in text) and re.search(_OBJECT, text):
        raise Refused("an f-string fills in its fields at once, here with an object; drop the f before the quotes")
    if bad := re.search(r"[^ -~]|\$", re.sub(r"\{\w+", "{", text)):
        raise Refused(f"{brief(bad[0])} cannot be used in it; literals are printable ASCII without $ {{ }}")
    bare = re.sub(r"\{[^{}]*\}", "x", text)
    if low := re.search(r"[ !\"]", bare):
        raise Refused(
            f"{brief(low[0])} cannot be used in it: it sorts below '#', between a key and what is stored under it"
        )
    if wrong := unpaired(text):
        raise Refused(wrong)
    if "" in bare.split("#"):
        raise Refused("a component is empty; put text or a placeholder on both sides of every '#'")


def unpaired(text: str) -> str | None:
    """The message for a brace of a template without its partner, or None."""
    brace = re.search(r"[{}]", re.sub(r"\{[^{}]*\}", "", text))
    return f"a {brace[0]!r} has no partner; placeholders are {{field}} or {{field:format}}" if brace else None


def _slot(placeholder: str, follow: str, fields: Mapping[str, FieldInfo]) -> Slot:
    name, colon, form = placeholder[1:-1].partition(":")
    try:
        if name not in fields:
            raise Refused(near(name, fields))
        if colon and form in {"", ":desc"}:
            raise Refused("the format after ':' is missing; write it, or drop the ':'")
        form, descending = _split_desc(form)
        type_ = key_type(fields[name], form, descending)
        if type_.variable and follow and follow[0] != "#":
            raise Refused(
                f"its texts vary in width, so {follow!r} cannot follow; put '#' between them, or pad a str with :<N"
            )
        return Slot(name, type_, follow)
    except Refused as why:
        raise Refused(f"placeholder {placeholder}: {why}") from None


def _split_desc(form: str) -> tuple[str, bool]:
    if form == "desc":
        return "", True
    return form.removesuffix(":desc"), form.endswith(":desc")


def near(name: str, fields: Collection[str]) -> str:
    """The message for a name that is not a field."""
    like = difflib.get_close_matches(name, fields, n=1)
    hint = f"did you mean {like[0]}? " if like else ""
    return f"there is no field {name!r}; {hint}the fields are {', '.join(fields)}"


def components(parts: Iterable[Part]) -> tuple[tuple[Shape, ...], ...]:
    """What each component between '#' can hold."""
    groups: list[list[tuple[Shape, ...]]] = [[]]
    for part in parts:
        if isinstance(part, Slot):
            groups[-1].append(part.type.shapes())
            continue
        first, *others = part.text.split("#")
        groups[-1].append((exactly(first),))
        groups.extend([(exactly(text),)] for text in others)
    return tuple(join(pieces) for pieces in groups)


def heads(parts: Iterable[Part]) -> tuple[str, ...]:
    """The text before each slot, and finally the whole, as patterns for `%` with the texts of the slots so far."""
    formats = [""]
    for part in parts:
        if isinstance(part, Slot):
            formats.append(formats[-1] + "%s")
        else:
            formats[-1] += part.text.replace("%", "%%")
    return tuple(formats)
