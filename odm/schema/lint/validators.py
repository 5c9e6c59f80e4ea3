"""The rule for validators: what one has made, it must leave as it is, because each read validates again."""

from collections.abc import Iterator
from itertools import islice
from time import monotonic
from typing import Any, Final

from odm.codec.proofs import nodes_of
from odm.codec.types.stored import show
from odm.codec.types.validation import model_schema
from odm.errors import ItemInvalid
from odm.schema.entity import EntitySchema
from odm.schema.lint.examples import MOST, combined, examples_of
from odm.schema.lint.finding import UNSTABLE_VALUE, LintFinding, lint_finding
from odm.schema.model import Schema

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
