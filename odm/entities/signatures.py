"""The names and types that a pattern call takes, and the signature that a declaration may state for type checkers.

`odm.mypy` reports faults of names in the same words as the calls themselves.
"""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic.fields import FieldInfo

from odm.errors import SchemaError
from odm.keys.types import stripped


def wrong_names(fields: Sequence[str], partition: Collection[str], names: Collection[str]) -> str | None:
    """What is wrong with the names of a pattern call, as the end of a sentence; None if nothing is.

    Args:
        fields: the fields of the pattern, in order.
        partition: those of the partition, which are required.
        names: the names that the call gives; right are those of the partition and any leading ones of the others.
    """
    leading = [field for field in fields if field not in partition]
    then = f", then any leading ones of {', '.join(leading)}" if leading else ""
    advice = f"give {', '.join(field for field in fields if field in partition) or 'nothing'}{then}"
    unknown = [name for name in names if name not in fields]
    if unknown:
        near = get_close_matches(unknown[0], fields, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        return f"has no key field {unknown[0]!r}: {hint}{advice}"
    missing = [field for field in fields if field in partition and field not in names]
    if missing:
        return f"needs {missing[0]!r}: {advice}"
    there = [field in names for field in fields]
    if there != sorted(there, reverse=True):
        return f"leaves out {fields[there.index(False)]!r} before a later field: {advice}"
    return None


def wrong_parameters(
    fields: Sequence[str], partition: Collection[str], parameters: Iterable[tuple[str, bool, bool]]
) -> str | None:
    """What is wrong with the parameters of a pattern's signature, as the end of a sentence; None if nothing is.

    Args:
        fields: the fields of the pattern, in order.
        partition: those of the partition.
        parameters: the name of each, whether it is keyword-only, and whether it has a default.
    """
    names = []
    for name, by_name, optional in parameters:
        names.append(name)
        if name not in fields:
            near = get_close_matches(name, fields, 1)
            hint = f"did you mean {near[0]!r}? " if near else ""
            return f"its signature has {name!r}, which is not in the templates: {hint}they have {', '.join(fields)}"
        if not by_name:
            return f"its values are passed by name: write '*, {name}' in its signature"
        if optional and name in partition:
            return f"{name!r} is in the partition template, so each call needs it: remove its default"
    lacking = [field for field in fields if field not in names]
    return f"its signature lacks {lacking[0]!r}, which is in the templates" if lacking else None


def check_signature(
    owner: str, signature: Callable[..., object], keys: tuple[Sequence[str], Collection[str]], cls: type[Any]
) -> None:
    """Compare the signature of a decorated pattern with its templates and with the fields of an entity.

    Args:
        owner: the pattern, for the error.
        signature: the decorated function.
        keys: the fields of the pattern, and those of its partition.
        cls: the entity.

    Raises:
        SchemaError: a parameter is missing, unknown or not keyword-only, or its type is not that of the field.
    """
    by_name = inspect.Parameter.KEYWORD_ONLY
    parameters = inspect.signature(signature).parameters.values()
    wrong = wrong_parameters(
        *keys, [(p.name, p.kind is by_name, p.default is not inspect.Parameter.empty) for p in parameters]
    )
    if wrong is None:
        wrong = _wrong_type(_hints(signature, cls), cls.model_fields)
    if wrong is not None:
        raise SchemaError(f"{owner}: {wrong}")


def _hints(signature: Callable[..., object], cls: type[Any]) -> dict[str, Any]:
    """The types of the parameters; none if a name in them can only be resolved by type checkers."""
    try:
        return get_type_hints(signature, localns={cls.__name__: cls}, include_extras=True)
    except NameError:
        return {}


def _wrong_type(hints: Mapping[str, Any], fields: Mapping[str, FieldInfo]) -> str | None:
    for name, hint in hints.items():
        if name not in fields or hint is Any:
            continue
        of_field = stripped(fields[name].annotation, ())[0]
        of_parameter = stripped(hint, ())[0]
        if of_parameter != of_field:
            return (
                f"{name!r} is of type {_text_of(of_field)}, and of type {_text_of(of_parameter)} in its signature: "
                "write the type of the field"
            )
    return None


def _text_of(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)
