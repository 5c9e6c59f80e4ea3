"""Key templates: encoding, ranges and buckets.

A template such as ``"PLACED#{placed_at:ms:desc}#{order_id}"`` is compiled once against the fields of its entity and
then only turns values into texts: no I/O, no knowledge of entities beyond their field names. Keys are `str`, compared
by code point, which is the byte order of their UTF-8.

Three laws hold for every template that compiles, on values as the formats write them: different values give different
keys; keys sort as the tuples of values; the keys that share leading components are one range with nothing else in it.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeVar, cast

from pydantic.fields import FieldInfo

from odm.errors import BadValue, KeyValueError, SchemaError, brief
from odm.immutable import Immutable
from odm.keys.base import Descending, KeyType, Refused
from odm.keys.grammar import Literal, Part, Slot, components, heads, native_slot, parse, parse_verbatim, several_parts
from odm.keys.shapes import Shape, fits, size_of
from odm.keys.spans import Op, Span, around, bounded, next_prefix
from odm.keys.text import StrKey, finds_to_escape
from odm.keys.times import TimeKey
from odm.keys.verbatim import Form, Kind, VerbatimKey

P = TypeVar("P", bound=tuple[str, str])

_FLIPPED: dict[Op, Op] = {"<": ">", "<=": ">=", ">": "<", ">=": "<=", "prefix": "prefix"}

_PLAIN_TEXT: Final = "value if type(value) is str and value and finds(value) is None else "
"""The usual text needs no call."""


def compile_template(text: str, fields: Mapping[str, FieldInfo], *, owner: str) -> "Template":
    """Compile a key template.

    Args:
        text: the template, e.g. ``"CUSTOMER#{customer_id}"``.
        fields: the fields of the entity, its `model_fields`.
        owner: the entity and its pattern, e.g. ``"Order.by_date"``; every error starts with it.

    Raises:
        SchemaError: the template breaks a rule of keys, or a field cannot be used in a key.
    """
    try:
        return Template(text, owner, parse(text, fields))
    except Refused as fault:
        raise SchemaError(f"{owner}: key template {text!r}: {fault}") from None


def compile_several(text: str, forms: Mapping[str, Form], *, owner: str) -> "Template":
    """Compile the template of a key of several attributes, each a field: ``{tenant}#{region}``."""
    names = [piece[1:-1] for piece in text.split("#")]
    each = (
        Template(f"{{{n}}}", owner, (native_slot(n, forms[n]),), verbatim=True, native=forms[n].kind) for n in names
    )
    return Template(text, owner, several_parts(text, forms), several=tuple(each))


def compile_verbatim(
    text: str,
    fields: Mapping[str, FieldInfo],
    forms: Mapping[str, Form],
    *,
    owner: str,
    native: Kind | None = None,
    binary: bool = False,
) -> "Template":
    """Compile a template of keys as they are.

    Args:
        text: the template, e.g. ``"User:{user}"``.
        fields: the fields of the entity, its `model_fields`.
        forms: how those fields are stored that a key can contain.
        owner: the entity and its pattern.
        native: the key attribute is a field, the only placeholder of the template, stored as this type.
        binary: keys have a character for each byte; see `odm.keys.binary`.

    Raises:
        SchemaError: as `compile_template`.
    """
    if native is not None:
        name = text[1:-1]
        return Template(text, owner, (native_slot(name, forms[name]),), verbatim=True, native=native)
    try:
        return Template(text, owner, parse_verbatim(text, fields, forms, binary=binary), verbatim=True)
    except Refused as fault:
        raise SchemaError(f"{owner}: key template {text!r}: {fault}") from None


def pair_encoder(
    partition: "Template", sort: "Template | None", pair: type[P], apart: Callable[[Mapping[str, Any]], P | None]
) -> Callable[[Mapping[str, Any]], P | None]:
    """Makes both parts of a key in one go; generated, because every write and most reads of an item call it.

    Args:
        partition: the template of the first part.
        sort: the template of the second part; None: it is "".
        pair: the class of the key.
        apart: makes the key by `Template.encode` of each; called if a value is None or cannot be used in a key.
    """
    names: dict[str, Any] = {"apart": apart, "new": tuple.__new__, "pair": pair}
    lines, first = partition._statements(names, "apart(values)")
    more, second = ([], "''") if sort is None else sort._statements(names, "apart(values)")
    return _compiled([*lines, *more], f"new(pair, ({first}, {second}))", "return apart(values)", names)


def _compiled(
    lines: Sequence[str], expression: str, refused: str, names: dict[str, Any]
) -> Callable[[Mapping[str, Any]], Any]:
    """A function of field values: runs the statements and returns what is made, or refuses a value."""
    names |= {"Refused": Refused, "finds": finds_to_escape}
    body = [
        "try:",
        *(f"    {line}" for line in (*lines, f"return {expression}")),
        "except Refused:",
        f"    {refused}",
        "    raise",
    ]
    exec("\n    ".join(["def encode(values):", *body]), names)  # made here, of reprs and names of its own
    return cast("Callable[[Mapping[str, Any]], Any]", names["encode"])


class Template(Immutable, dict=True):
    """A compiled key template; made by `compile_template`.

    Attributes:
        text: as the user wrote it.
        owner: the entity and its pattern, for errors.
        parts: literals and slots in order.
        behind: the possible texts of each component that is appended to the template, such as a shard.
        verbatim: its keys are texts as they are; see `odm.keys.verbatim`.
        native: the type of the key attribute, if that is the only field of the template itself.
        several: the templates of the attributes, if the key has several.
    """

    text: str
    owner: str
    parts: tuple[Part, ...]
    behind: tuple[tuple[Shape, ...], ...] = ()
    verbatim: bool = False
    native: Kind | None = None
    several: "tuple[Template, ...]" = ()

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """The placeholders in order."""
        return tuple(part for part in self.parts if isinstance(part, Slot))

    @cached_property
    def fields(self) -> tuple[str, ...]:
        """The field of each slot in order; a field may repeat."""
        return tuple(slot.name for slot in self.slots)

    @cached_property
    def lossy(self) -> frozenset[str]:
        """The fields with a slot that does not keep their value whole."""
        return frozenset(slot.name for slot in self.slots if slot.type.lossy)

    @cached_property
    def components(self) -> tuple[tuple[Shape, ...], ...]:
        """What each component between '#' can hold, for comparing templates."""
        return components(self.parts) + self.behind

    @cached_property
    def _heads(self) -> tuple[str, ...]:
        return heads(self.parts)

    @cached_property
    def encode(self) -> Callable[[Mapping[str, Any]], str | None]:
        """Makes the key of an item, in one go; generated, because every read and write of an item calls it.

        Args:
            values: the value of every field of the template; others are ignored.

        Returns:
            The key, or None if one of the values is None: the item has no entry here.

        Raises:
            KeyValueError: a value cannot be used in a key.
        """

        def refused(values: Mapping[str, Any]) -> None:
            """Raise the KeyValueError that names the value which cannot be used in a key."""
            for slot in self.slots:
                self._write(slot, values[slot.name])

        names: dict[str, Any] = {"refused": refused}
        lines, text = self._statements(names, "None")
        return _compiled(lines, text, "refused(values)", names)

    def _statements(self, names: dict[str, Any], empty: str) -> tuple[list[str], str]:
        """Statements that write the slots, and the expression for the key.

        Args:
            names: receives what they name.
            empty: the expression to return if a value is None.
        """
        lines, text = [], ""
        for part in self.parts:
            if isinstance(part, Literal):
                text += part.text  # which has no braces
                continue
            at = len(names)
            names[f"write{at}"] = part.type.encode
            lines.append(f"if (value := values[{part.name!r}]) is None: return {empty}")
            lines.append(f"text{at} = {_PLAIN_TEXT if type(part.type) is StrKey else ''}write{at}(value)")
            text += f"{{text{at}}}"
        return lines, f"f{text!r}"

    def read(self, text: str) -> dict[str, Any] | None:
        """The stored values of the fields that a key as it is contains; None if it is not a key of this template."""
        values: dict[str, Any] = {}
        at = 0
        for part in self.parts:
            if isinstance(part, Literal):
                if not text.startswith(part.text, at):
                    return None
                at += len(part.text)
                continue
            shapes = () if isinstance(part.type, VerbatimKey) else part.type.shapes()
            size = part.type.size if isinstance(part.type, VerbatimKey) else size_of(shapes)
            end = at + size if size else text.find(part.follow, at) if part.follow else len(text)
            piece, at = text[at:end], end
            if end < 0 or not (piece or (isinstance(part.type, VerbatimKey) and part.type.empty)):
                return None
            if isinstance(part.type, VerbatimKey):
                value = part.type.read(piece)
                if value is None or values.setdefault(part.name, value) != value:
                    return None
            elif not fits(piece, shapes):
                return None
        return values if at == len(text) else None

    def written(self, stored: Mapping[str, Any]) -> str:
        """The key as it is that contains these stored values, the opposite of `read`."""
        texts = (
            part.text if isinstance(part, Literal) else cast("VerbatimKey", part.type).written(stored[part.name])
            for part in self.parts
        )
        return "".join(texts)

    def text_of(self, field: str, value: Any) -> str:
        """How a value is written in the first slot of a field.

        Raises:
            KeyValueError: it cannot be used in a key.
        """
        return self._write(next(slot for slot in self.slots if slot.name == field), value)

    def texts_of(self, field: str, value: Any) -> tuple[str, ...]:
        """How a value is written in each slot of a field.

        Raises:
            KeyValueError: it cannot be used in a key.
        """
        return tuple(self._write(slot, value) for slot in self.slots if slot.name == field)

    def unit_of(self, field: str, value: Any) -> tuple[Any, Any | None] | None:
        """The first instant of the unit, such as the day, that the key keeps of a time, and that of the next unit.

        Returns:
            None if the field is not a time. The second is None if no unit follows.

        Raises:
            KeyValueError: the value cannot be used in a key.
        """
        times = [type_.inner if isinstance(type_, Descending) else type_ for type_ in self._types(field)]
        if not times or not all(isinstance(type_, TimeKey) for type_ in times):
            return None
        finest = max((type_ for type_ in times if isinstance(type_, TimeKey)), key=lambda time: len(time.units(())))
        try:
            numbers = finest.units(((">=", value), ("<=", value)))
        except Refused as why:
            raise self._refusal(field, value, why) from None
        if not numbers:
            return None
        try:
            return finest.start(numbers[0]), finest.start(numbers[0] + 1)
        except (OverflowError, ValueError):  # the year 10000
            return finest.start(numbers[0]), None

    def _types(self, field: str) -> list[KeyType]:
        return [slot.type for slot in self.slots if slot.name == field]

    def span(self, field_values: Mapping[str, Any], bounds: Sequence[tuple[Op, Any]] = ()) -> Span:
        """The keys with the given leading values, and the next one within the bounds.

        Args:
            field_values: the values of a leading run of slots. All of them: the span is that one key.
            bounds: on the first slot not given, all to hold. Values are checked for their type only; what lies outside
                the field's own bounds counts as below or above everything. "prefix" is for text and bytes.

        Raises:
            KeyValueError: a value cannot be used in a key, or a bound is of another type.
            ValueError: `field_values` is not a leading run, or `bounds` has no slot left to bind (a fault of the
                caller).
        """
        known = self.leading(field_values)
        start = self._heads[known] % tuple(self._write(slot, field_values[slot.name]) for slot in self.slots[:known])
        if bounds and known == len(self.slots):
            raise ValueError(f"{self.owner}: every field of {self.text!r} is given, so there is nothing to bound")
        return self.span_behind(start, known, bounds, exact=self.determined(known))

    def lead(self, known: int) -> Callable[[Mapping[str, Any]], str | None]:
        """As `encode`, of the first ``known`` slots and the text between them and the next slot."""
        parts: list[Part] = []
        for part in self.parts:
            if isinstance(part, Slot) and sum(isinstance(piece, Slot) for piece in parts) == known:
                break
            parts.append(part)
        return Template(self.text, self.owner, tuple(parts), verbatim=self.verbatim, native=self.native).encode

    def span_behind(self, start: str, known: int, bounds: Sequence[tuple[Op, Any]], *, exact: bool) -> Span:
        """As `span`, for the text of the first ``known`` slots; ``exact`` is what `determined` says of them."""
        if known == len(self.slots):
            return Span(start, start + "\0", exact)
        whole = span = Span(start, next_prefix(start), exact)
        for op, value in bounds:
            span = span.meet(self._bound(self.slots[known], whole, op, value))
        return span

    def buckets(
        self, field_values: Mapping[str, Any], field: str, bounds: Sequence[tuple[Op, Any]], *, most: int = 1000
    ) -> tuple[str, ...]:
        """The keys of every unit of a lossy field that holds values within the bounds, ascending.

        Args:
            field_values: the values of all other fields.
            field: the field of a time format.
            bounds: on that field, at both ends.
            most: how many keys are too many.

        Raises:
            BadValue: the bounds are open at an end, or touch more than `most` units.
            KeyValueError: a value cannot be used in a key, or a bound is of another type.
            ValueError: `field` is not a time field of the template, or another one is missing (a fault of the caller).
        """
        missing = set(self.fields) - {field} - field_values.keys()
        if missing:
            raise ValueError(f"{self.owner}: {self.text!r} also needs {', '.join(sorted(missing))}")
        times = self._times(field)
        self._check_closed(field, bounds)
        try:
            # Of several slots of one field the one with the shortest units distinguishes the keys.
            finest = max(times, key=lambda time: len(time.units(())))
            units = finest.units(bounds)
        except Refused as why:
            raise self._refusal(field, [value for _, value in bounds], why) from None
        if len(units) > most:
            raise BadValue(
                f"{self.owner}: the range of {field} touches {len(units)} partitions of {self.text!r}, "
                f"more than {most}; narrow the range, or use a coarser format"
            )
        rows = ({**field_values, field: finest.start(number)} for number in units)
        return tuple(sorted(self._heads[-1] % tuple(self._write(s, row[s.name]) for s in self.slots) for row in rows))

    def _times(self, field: str) -> list[TimeKey]:
        plain = [type_.inner if isinstance(type_, Descending) else type_ for type_ in self._types(field)]
        times = [type_ for type_ in plain if isinstance(type_, TimeKey)]
        if not times:
            raise ValueError(f"{self.owner}: {field} is not a time field of {self.text!r}")
        return times

    def _check_closed(self, field: str, bounds: Sequence[tuple[Op, Any]]) -> None:
        ops = {op for op, _ in bounds}
        if "prefix" in ops:
            raise BadValue(f"{self.owner}: {field} is a time, which has no prefix; give a range with >= and <")
        if not ops & {">", ">="} or not ops & {"<", "<="}:
            end = "end" if ops & {">", ">="} else "start"
            raise BadValue(
                f"{self.owner}: the range of {field} has no {end}, and {self.text!r} spreads it over partitions; "
                "bound it on both sides"
            )

    def leading(self, names: Mapping[str, Any]) -> int:
        """How many leading slots are given. Raises ValueError if another one is (a fault of the caller)."""
        known = next((at for at, name in enumerate(self.fields) if name not in names), len(self.fields))
        if stray := names.keys() - set(self.fields[:known]):
            raise ValueError(
                f"{self.owner}: {', '.join(sorted(stray))} cannot be given without all fields before it; "
                f"the order of {self.text!r} is {', '.join(self.fields)}"
            )
        return known

    def determined(self, known: int) -> bool:
        """Whether the texts of the leading slots determine their values."""
        leading = self.slots[:known]
        told = {slot.name for slot in leading if not slot.type.lossy}
        return all(slot.name in told for slot in leading)

    def _bound(self, slot: Slot, whole: Span, op: Op, value: Any) -> Span:
        """The part of `whole` whose next slot satisfies a bound."""
        try:
            if op == "prefix":
                head = slot.type.head(value)
                lo = whole.lo + (head or "")
                exact = not isinstance(slot.type, VerbatimKey) or head is None or slot.type.sorts(op, head)
                return Span(lo, lo if head is None else next_prefix(lo), exact)
            if isinstance(slot.type, VerbatimKey) and not slot.type.sorts(op, value):
                place = slot.type.place(value)
                if place.outside:
                    return bounded(whole, op, place, "")
                return around(whole, op, place.text, slot.follow, empty=slot.type.empty)
            turned = _FLIPPED[op] if slot.type.flips else op
            return bounded(whole, turned, slot.type.place(value), slot.follow, verbatim=self.verbatim)
        except Refused as why:
            raise self._refusal(slot.name, value, why) from None

    def _write(self, slot: Slot, value: Any) -> str:
        try:
            return slot.type.encode(value)
        except Refused as why:
            raise self._refusal(slot.name, value, why) from None

    def _refusal(self, name: str, value: Any, why: Refused) -> KeyValueError:
        return KeyValueError(f"{self.owner}: {name}={_show(value)} cannot stand in the key {self.text!r}: {why}")


def _show(value: Any) -> str:
    text = brief(value)
    return text if len(text) <= 120 else f"{text[:117]}..."
