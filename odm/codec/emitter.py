"""The emitter: it walks the fields of an entity once and writes the source of a function that encodes or decodes it.

A backend supplies tables: how it writes or reads the usual values of each type. The one rule for everything else:

- Per value: a type that is not in the table, or a value that is not usual, goes to the type's own `dump` or `load`.
- Per item: a generated function returns None for an item that it cannot handle, whatever was raised inside. The caller
  then uses the interpreting codec, which encodes or decodes it, or reports the fault.
- Per entity: a function that cannot be generated is replaced by one that always returns None.

`generated_dump` is `RecordType.dump` unrolled for one class.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from operator import attrgetter
from typing import Any, ClassVar, Final

from odm.codec.attributes import TTL_ATTRIBUTE, VERSION, ttl_seconds
from odm.codec.depth import check_levels
from odm.codec.types.containers import DictType, ListType
from odm.codec.types.numbers import DIGITS, canonical_decimal
from odm.codec.types.records import RecordField, RecordType
from odm.codec.types.scalars import BOOL, DECIMAL, INT, STR, DecimalType, LiteralType, TextType
from odm.codec.types.stored import StoredType
from odm.codec.types.times import DATE, DATETIME, TIME
from odm.codec.types.unions import NullableType, RootType
from odm.codec.types.validation import validating
from odm.expressions.nodes import Value
from odm.immutable import Immutable

_INDENT: Final = "\n    "
_SAFE: Final = 10**DIGITS

IS_INT: Final = f"type({{0}}) is int and -{_SAFE} < {{0}} < {_SAFE}"
"""Whether an int is a usual one."""

FOUR_DIGITS: Final = 1000
IS_DATETIME: Final = f"type({{0}}) is datetime and {{0}}.tzinfo is UTC and {{0}}.year >= {FOUR_DIGITS}"
"""Whether a datetime is a usual one."""

DATETIME_TEXT: Final = (
    "{{{0}.year}}-{{TWO[{0}.month]}}-{{TWO[{0}.day]}}T"
    "{{TWO[{0}.hour]}}:{{TWO[{0}.minute]}}:{{TWO[{0}.second]}}."
    "{{THREE[(us := {0}.microsecond) // 1000]}}{{THREE[us % 1000]}}Z"
)
"""The stored text of a usual datetime, as part of an f-string. Looking up digits is faster than formatting them."""

_PARSERS: Final[Mapping[StoredType, Callable[[str], Any]]] = {
    DATETIME: datetime.fromisoformat,
    DATE: date.fromisoformat,
    TIME: time.fromisoformat,
}
"""Types of which pydantic takes the text, too."""


_WRITING: Final[Mapping[str, object]] = {
    "Decimal": Decimal,
    "THREE": [f"{number:03}" for number in range(1000)],
    "TWO": [f"{number:02}" for number in range(60)],
    "UTC": UTC,
    "canonical_decimal": canonical_decimal,
    "datetime": datetime,
    "shallow": check_levels,
    "ttl_seconds": ttl_seconds,
}
"""What every function that writes can name."""


def written_as(type_: StoredType) -> StoredType:
    """The type that writes the same values alike: a Decimal of any number of places is stored as any Decimal."""
    return DECIMAL if isinstance(type_, DecimalType) else type_


class Unsupported(Exception):
    """No function can be generated for an entity."""


class Emitter(ABC):
    """The source of one generated function and of those that it calls, one per nested record type.

    Args:
        names: the objects that the source names.
    """

    def __init__(self, names: Mapping[str, object]) -> None:
        self._names: dict[str, Any] = {**names}
        self._functions: list[str] = []
        self._records: dict[RecordType, str] = {}

    def name(self, thing: object) -> str:
        """A name for an object."""
        name = f"c{len(self._names)}"
        self._names[name] = thing
        return name

    def compiled(self, arguments: str, body: Callable[[], Iterable[str]]) -> Callable[..., Any]:
        """The generated function; it returns None instead of raising, so that the general code words each fault.

        Args:
            arguments: their names.
            body: returns the statements.
        """
        try:
            inner = _INDENT.join(f"    {line}" for line in body())
            whole = f"def generated({arguments}):\n    try:\n    {inner}\n    except Exception:\n        return None"
            exec("\n\n".join((*self._functions, whole)), self._names)  # built here from reprs and own names
        except (Unsupported, SyntaxError, RecursionError, MemoryError):  # the last three: types nested too deep
            return lambda _: None
        return self._names["generated"]  # type: ignore[no-any-return]

    def called(self, record: RecordType, argument: str) -> str:
        """An expression that calls the function of a nested record."""
        name = self._records.get(record)
        if name is None:
            name = self._records[record] = f"record{len(self._records)}"  # first, because a field may lead back to it
            self._functions.append(_INDENT.join((f"def {name}(item):", *self.nested(record))))
        return f"{name}({argument})"

    @abstractmethod
    def nested(self, record: RecordType) -> Iterable[str]:
        """The statements of the function of a nested record; its argument is ``item``."""


class WriteTable(Immutable, eq=False):
    """How values are written.

    Attributes:
        usual: per type, a condition for its usual values and the expression that writes them; ``{0}`` is the value.
        rest: the expression that writes any other value; ``{0}`` is its stored form.
        constant: writes a value that is known beforehand.
    """

    usual: Mapping[StoredType, tuple[str, str]]
    rest: str
    constant: Callable[[Value], Any]


class Writes(Emitter):
    """Emits functions that write records.

    Args:
        names: the objects that the source names, besides those that every such function has. If ``most`` is among
            them, the function of an entity returns a pair: what is written, and what ``most`` returns for it.
        record: the entity's.
        marks: see `EntityCodec.marks`.
        ttl: the entity's TTL field, if the function writes its attribute.
    """

    def __init__(
        self, names: Mapping[str, object], record: RecordType, marks: Mapping[str, Value], ttl: str | None
    ) -> None:
        super().__init__({**_WRITING, **names})
        self.record = record
        self.marks = marks
        self.expiry = "" if ttl is None else f"f{[*record.fields].index(ttl)}"  # the variable of the TTL field

    def writer(self) -> Callable[[Any], Any]:
        """The function that writes an entity."""
        return self.compiled("item", lambda: (*self._statements(self.record, entity=True), f"return {self.result}"))

    @property
    def result(self) -> str:
        """The expression for what the function of an entity returns."""
        return "made, most(made)" if "most" in self._names else "made"

    def nested(self, record: RecordType) -> Iterable[str]:
        return (*self._statements(record, entity=False), "return made")

    def _statements(self, record: RecordType, *, entity: bool) -> list[str]:
        plain = isinstance(record.values, attrgetter)
        fields = list(record.fields.values())
        return [
            f"if type(item) is not {self.name(record.cls)}: raise TypeError",
            "values = item.__dict__" if plain else f"values = {self.name(record.values)}(item)",
            *["given = item.__pydantic_fields_set__"] * any(field.keeps_null for field in fields),
            *(f"f{at} = values[{field.name!r}]" for at, field in enumerate(fields)),
            *self.body(fields, entity=entity),
        ]

    @abstractmethod
    def body(self, fields: Sequence[RecordField], *, entity: bool) -> list[str]:
        """The statements that make ``made``, the written record; field number n is in the variable ``fn``."""

    def is_stored(self, field: RecordField, var: str) -> str:
        """A condition for whether a field is stored; "" if it always is."""
        there = f"({var} is not None or {field.name!r} in given)" if field.keeps_null else f"{var} is not None"
        conditions = [there] * field.omits_none
        return " and ".join(conditions + [f"{var} != {self.name(frozenset())}"] * field.is_set)

    def either(self, table: WriteTable, type_: StoredType, var: str, usual: str = "", written: str = "") -> str:
        """An expression for the value of a variable: as given or as the table says if it is usual, else by its type."""
        if not usual:
            usual, written = (text.format(var) for text in table.usual.get(written_as(type_), ("", "")))
        rest = table.rest.format(f"{self.name(type_.dump)}({var})")
        return f"({written} if {usual} else {rest})" if usual else rest

    def chosen(self, table: WriteTable, stored: Mapping[Any, Value], var: str) -> str:
        """An expression for one of a few values, by type and value; others raise."""
        kinds = {kind for kind, _ in stored}
        if len(kinds) == 1 and type(None) not in kinds:  # the usual case needs no pair to look up
            written = {value: table.constant(as_stored) for (_, value), as_stored in stored.items()}
            return f"{self.name(written)}[{var} if type({var}) is {self.name(*kinds)} else None]"
        written = {key: table.constant(as_stored) for key, as_stored in stored.items()}
        return f"{self.name(written)}[type({var}), {var}]"


class Collects(Writes):
    """Emits functions that write a record as a collection, one entry per stored field.

    Attributes:
        whole, entry, add: templates of the collection, of an entry in it and of the statement that adds one.
        table: of fields and marks.
    """

    whole: ClassVar[str]
    entry: ClassVar[str]
    add: ClassVar[str]
    table: ClassVar[WriteTable]

    def body(self, fields: Sequence[RecordField], *, entity: bool) -> list[str]:
        first = next((at for at, field in enumerate(fields) if not field.always), len(fields))
        entries = [(self.column(field.stored), self.field(field, f"f{at}")) for at, field in enumerate(fields)]
        marks = [(self.column(name), repr(self.table.constant(value))) for name, value in self.marks.items()]
        always = [self.entry.format(*entry) for entry in marks * entity + entries[:first]]
        lines = [f"made = {self.whole.format(', '.join(always))}"]
        for at, field in enumerate(fields[first:], first):
            stored, add = self.is_stored(field, f"f{at}"), self.add.format(*entries[at])
            lines.append(f"if {stored}: {add}" if stored else add)
        if entity and self.expiry:
            add = self.add.format(self.column(TTL_ATTRIBUTE), self.table.rest.format(f"ttl_seconds({self.expiry})"))
            lines.append(f"if {self.expiry} is not None: {add}")
        return lines

    def column(self, name: str) -> str:
        """The literal of an entry's name."""
        return repr(name)

    def field(self, field: RecordField, var: str) -> str:
        """The expression that writes the value of a field."""
        return self.value(self.table, field.type, var)

    def value(self, table: WriteTable, type_: StoredType, var: str) -> str:
        """The expression that writes the value of a variable."""
        match type_:
            case NullableType():
                return f"({table.constant(None)!r} if {var} is None else {self.value(table, type_.inner, var)})"
            case LiteralType():
                return self.chosen(table, type_.stored, var)
        return self.either(table, type_, var)


class ReadTable(Immutable, eq=False):
    """How what is stored is read.

    Attributes:
        null: a condition for None; ``{0}`` is what is stored.
        usual: per type, the expression for its usual values, which raises for others; ``{0}`` is the content of what is
            stored. Text and what is parsed from text are read as the text.
        rest: the expression for the stored value of any type; ``{0}`` is what is stored.
    """

    null: str
    usual: Mapping[StoredType, str]
    rest: str


class Reads(Emitter):
    """Emits functions that make the input of validation from stored items, each in the variable ``item``."""

    def loader(self, record: RecordType, marks: Mapping[str, Value]) -> Callable[..., list[Any] | None]:
        """The function that loads items of one entity and version; see `odm.codec.loading.Load`."""
        return self.compiled("items", lambda: self._load(record, marks))

    def _load(self, record: RecordType, marks: Mapping[str, Value]) -> list[str]:
        unlike = [self.unlike(self.at(name), value) for name, value in marks.items()]
        unlike += [self.has(VERSION)] * (VERSION not in marks)
        check = f"if {' or '.join(unlike)}: raise ValueError"
        append = f"made.append({self.name(validating(record.validator))}(values))"
        lines = (check, *self.fields(record), append)
        each = (f"    {line}" for line in (*self.opening(record), *lines))
        return ["made, columns = [], None", "for item in items:", *each, "return made"]

    def opening(self, record: RecordType) -> Iterable[str]:
        """The statements before those for the attributes of an ``item``, which are written first."""
        return ()

    def at(self, stored: str) -> str:
        """The expression for what is stored as an attribute; it raises if there is none."""
        return f"item[{stored!r}]"

    def has(self, stored: str) -> str:
        """The condition for whether an attribute is stored."""
        return f"{stored!r} in item"

    @abstractmethod
    def unlike(self, at: str, value: Value) -> str:
        """A condition for whether a mark is not this one."""

    def nested(self, record: RecordType) -> Iterable[str]:
        return (*self.fields(record), "return values")

    def fields(self, record: RecordType) -> list[str]:
        """Statements that make ``values``, the input of validation, from ``item``."""
        always, lines = [], []
        for field in record.fields.values():
            value, absent = self.field(field, self.at(field.stored)), self.absent(field)
            if field.required and not field.is_set and not absent:
                always.append(f"{field.name!r}: {value}")
            else:
                lines += [f"if {self.has(field.stored)}: values[{field.name!r}] = {value}", *absent]
        return [f"values = {{{', '.join(always)}}}", *lines]

    @abstractmethod
    def field(self, field: RecordField, at: str) -> str:
        """An expression for the input of a field that is stored."""

    def absent(self, field: RecordField) -> list[str]:
        """Statements for a field that is not stored, from ``else`` or ``elif`` on."""
        return [f"else: values[{field.name!r}] = set()"] if field.fills_in else []

    def value(self, table: ReadTable, type_: StoredType, at: str, *, raw: bool) -> str:
        """An expression for a stored value; ``raw``: pydantic takes its stored form."""
        match type_:
            case NullableType():
                return f"(None if {table.null.format(at)} else {self.value(table, type_.inner, at, raw=raw)})"
            case RootType():
                return self.value(table, type_.inner, at, raw=raw)
        return self.usual(table, type_, at, raw=raw) or self.rest(table, type_, at, raw=raw)

    @abstractmethod
    def usual(self, table: ReadTable, type_: StoredType, at: str, *, raw: bool) -> str:
        """An expression for the usual values of a type, which raises for others; "" if there is only its `load`."""

    def scalar(self, table: ReadTable, type_: StoredType, content: str, *, raw: bool) -> str:
        """The same for the content of what is stored, and a type without parts."""
        base, parse = written_as(type_), _PARSERS.get(type_)
        if isinstance(type_, TextType):
            base, parse = STR, type_.parse
        elif base != type_:
            parse = type_.load
        usual = table.usual.get(base, "").format(content)
        return f"{self.name(parse)}({usual})" if usual and parse and not raw else usual

    def rest(self, table: ReadTable, type_: StoredType, at: str, *, raw: bool) -> str:
        """An expression that leaves the value to its type."""
        value = table.rest.format(at)
        return value if raw else f"{self.name(type_.load)}({value})"


_TABLE: Final = WriteTable(
    {
        STR: ("type({0}) is str and {0}.isascii()", "{0}"),
        BOOL: ("type({0}) is bool", "{0}"),
        INT: (IS_INT, "{0}"),
        DECIMAL: ("type({0}) is Decimal", "canonical_decimal({0})"),
        DATETIME: (IS_DATETIME, f"f'{DATETIME_TEXT}'"),
    },
    rest="{0}",
    constant=lambda value: value,
)


def generated_dump(record: RecordType, marks: Mapping[str, Value]) -> Callable[[Any], dict[str, Value] | None]:
    """A function that makes the item of an entity, `EntityCodec.marks` first; None if it cannot."""
    return _Dumps({}, record, marks, None).writer()


class _Dumps(Collects):
    """Emits functions that make dicts."""

    whole = "{{{0}}}"
    entry = "{0}: {1}"
    add = "made[{0}] = {1}"
    table = _TABLE

    def value(self, table: WriteTable, type_: StoredType, var: str) -> str:
        part = f"{var}_"
        match type_:
            case RecordType():
                return self.called(type_, var)
            case LiteralType() if all(kind is str for kind, _ in type_.stored):
                usual = f"type({var}) is str and {var} in {self.name({*type_.values})}"
                return self.either(table, type_, var, usual, var)
            case ListType():
                expression = f"[{self.value(table, type_.item, part)} for {part} in {var}]"
                return self.either(table, type_, var, f"type({var}) is {type_.of.__name__}", expression)
            case DictType():
                key, item = self.value(table, type_.key, f"{var}k"), self.value(table, type_.item, part)
                expression = f"{{{key}: {item} for {var}k, {part} in {var}.items()}}"
                return self.either(table, type_, var, f"type({var}) is dict and '' not in {var}", expression)
        return super().value(table, type_, var)
