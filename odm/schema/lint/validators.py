"""The rule for validators: what one has made, it must leave as it is, because each read validates again.

They are tried on values of a field's type: its ``examples=``, then a few of each type.
"""

from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from itertools import islice
from time import monotonic
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NewType, Union, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from odm.codec.proofs import nodes_of
from odm.codec.types.stored import show
from odm.codec.types.validation import model_schema
from odm.errors import ItemInvalid
from odm.schema.entity import EntitySchema
from odm.schema.lint.finding import UNSTABLE_VALUE, LintFinding, lint_finding
from odm.schema.model import Schema

MOST: Final = 24
"""The most values of a field."""

_LEVELS: Final = 3
"""How deep examples of containers and nested models go."""

_SCALARS: Final[dict[type, tuple[Any, ...]]] = {
    str: (
        *("a", "Ab", " Ab 1 ", "Two words", "ANN@Example.com", "0", "12.50", "https://example.com/a?b=c", "2026-01-05"),
        *("00000000-0000-4000-8000-000000000001", "a,b", '{"a": 1}', "a" * 64, ""),
    ),
    int: (1, 0, 2, 7, 10, 100, 12345, -1),
    float: (0.5, 1.0, 2.25, 0.333, 100.0, -1.5),
    bool: (True, False),
    bytes: (b"a", b"Two words", b""),
    Decimal: tuple(map(Decimal, ("0.5", "1", "2.255", "100", "-1.5"))),
    datetime: (datetime(2026, 1, 5, 12, 30, 15, 250000, UTC), datetime(2001, 2, 3, tzinfo=UTC)),
    date: (date(2026, 1, 5), date(2001, 2, 3)),
    time: (time(12, 30, 15),),
    timedelta: (timedelta(seconds=90), timedelta(days=1)),
    UUID: (UUID(int=1 << 78 | 1 << 63 | 1), UUID("00000000-0000-4000-8000-000000000001")),
}


def examples_of(info: FieldInfo) -> Iterator[Any]:
    """Values for a field, those of its ``examples=`` first; none for a type that is not known here."""
    return islice(_chained(info, 0), MOST)


def _chained(info: FieldInfo, level: int) -> Iterator[Any]:
    yield from info.examples or ()
    yield from _of_type(info.annotation, level)
    if level == 0 and info.annotation is not str:
        yield from _SCALARS[str]  # a validator that runs before the type's own may take text


def _of_type(annotation: Any, level: int) -> Iterator[Any]:
    if isinstance(annotation, TypeAliasType):
        annotation = annotation.__value__
    if isinstance(annotation, NewType):
        annotation = annotation.__supertype__
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from _of_type(arguments[0], level)
    elif origin is Literal:
        yield from arguments
    elif origin in (Union, UnionType):
        for argument in arguments:
            if argument is not NoneType:
                yield from _of_type(argument, level)
    elif origin in (list, set, frozenset, tuple) and level < _LEVELS:
        yield from _of_container(origin, arguments, level + 1)
    elif origin is dict and level < _LEVELS:
        for key, value in zip(_of_type(arguments[0], level + 1), _of_type(arguments[1], level + 1), strict=False):
            yield {key: value}
    elif isinstance(annotation, type):
        yield from _of_class(annotation, level)


def _of_container(origin: Any, arguments: tuple[Any, ...], level: int) -> Iterator[Any]:
    if origin is tuple and (len(arguments) != 2 or arguments[1] is not Ellipsis):
        yield from zip(*(_of_type(argument, level) for argument in arguments), strict=False)
        return
    values = list(islice(_of_type(arguments[0], level), MOST))
    for sample in (values[:1], values[:2], values[1:4]):
        try:
            yield origin(sample)
        except TypeError:  # a set of what has no hash
            return
    for value in values:
        yield origin([value])


def _of_class(cls: type, level: int) -> Iterator[Any]:
    if issubclass(cls, Enum):
        yield from islice(cls, MOST)
    elif issubclass(cls, BaseModel):
        if level < _LEVELS:
            fields = {name: list(islice(_chained(info, level + 1), MOST)) for name, info in cls.model_fields.items()}
            yield from combined(fields)
    else:
        yield from next((values for known, values in _SCALARS.items() if issubclass(cls, known)), ())


def combined(fields: dict[str, list[Any]]) -> Iterator[dict[str, Any]]:
    """Values of several fields together, each with its next example; fields without examples are left out."""
    there = {name: values for name, values in fields.items() if values}
    for at in range(max(map(len, there.values()), default=0)):
        yield {name: values[at % len(values)] for name, values in there.items()}


SECONDS: Final = 1.0
"""No other example of a field is tried after this time, as a validator may be slow."""


def unstable_value(_schema: Schema, entity: EntitySchema) -> Iterator[LintFinding]:
    """Fields whose stored value is validated to another one when it is read.

    Validators are run on examples; an example that one refuses says nothing.
    """
    seen: set[str] = set()
    for name in _validated_by_code(entity):
        change = _change_of_field(entity, name)
        if change is not None:
            seen.add(name)
            yield _finding(entity, name, *change)
    for name, change in _changes_of_whole(entity).items():
        if name not in seen:
            yield _finding(entity, name, *change)


def _finding(entity: EntitySchema, name: str, first: str, second: str) -> LintFinding:
    return lint_finding(
        UNSTABLE_VALUE,
        f"{entity.name}.{name}",
        what=f"{first}; when that is read, {second}",
        why="each read of a stored item validates it, so what a validator makes of its own result is what you read, "
        "and what the next put stores",
        fix='let the validator leave its own result as it is, or return the value if (info.context or {}).get("odm") '
        '== "load"; or make the value before you make the entity',
    )


def _validated_by_code(entity: EntitySchema) -> Iterator[str]:
    """The fields whose validation runs functions."""
    schema = model_schema(entity.cls)
    shared = any(_has_function(definition) for definition in schema.definitions)
    for name, field in schema.fields.items():
        if name in entity.codec.stored and (shared or _has_function(field)):
            yield name


def _has_function(schema: Any) -> bool:
    return any(node["type"].startswith("function-") or node.get("post_init") for node in nodes_of(schema))


def _change_of_field(entity: EntitySchema, name: str) -> tuple[str, str] | None:
    """An example, what its validator makes of it, and what a read makes of that; None if no example changes."""
    codec, end = entity.codec, monotonic() + SECONDS
    for example in examples_of(entity.cls.model_fields[name]):
        if monotonic() > end:
            return None
        try:
            first = codec.validate(name, example)
            item = {codec.stored[name]: codec.value(name, first)}
        except Exception:  # noqa: BLE001  # a validator may raise anything; it refuses the example
            continue
        effect = f"the validator makes {show(example)} {show(first)}"
        try:
            second = codec.read(item, (name,))[name]
        except ItemInvalid as error:
            return effect, f"it is refused: {' '.join(str(error.__cause__).split())}"
        except Exception as error:  # noqa: BLE001  # the same function has taken the example
            return effect, f"it fails: {type(error).__name__}: {error}"
        if second != first:
            return effect, f"it makes {show(second)} of it"
    return None


def _changes_of_whole(entity: EntitySchema) -> dict[str, tuple[str, str]]:
    """The same for validators of the whole model, by field."""
    cls, end = entity.cls, monotonic() + SECONDS
    if not cls.__pydantic_decorators__.model_validators and cls.__pydantic_post_init__ is None:
        return {}
    auto = entity.automatic
    automatic = () if auto is None else (auto.id, auto.created, auto.updated)
    fields = {
        name: list(islice(examples_of(info), MOST)) for name, info in cls.model_fields.items() if name not in automatic
    }
    changes: dict[str, tuple[str, str]] = {}
    for values in combined(fields):
        if monotonic() > end:
            break
        try:
            first = cls.model_validate(values, by_name=True)
            second = entity.codec.decode(entity.codec.encode(first))
        except Exception:  # noqa: BLE001  # it refuses the example
            continue
        for name in entity.codec.stored:
            once, two = getattr(first, name), getattr(second, name)
            if once != two and name not in changes:
                changes[name] = f"a validator of {entity.name} makes it {show(once)}", f"it makes it {show(two)}"
    return changes
