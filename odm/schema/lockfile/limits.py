"""The constraints that Pydantic checks on a field and on the parts of its type: which values it accepts or changes."""

from collections.abc import Iterator
from math import isfinite
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import RootModel
from pydantic.fields import FieldInfo

from odm.entities.markers import meaning

LIMITS: Final = (
    "ge",
    "gt",
    "le",
    "lt",
    "min_length",
    "max_length",
    "multiple_of",
    "max_digits",
    "decimal_places",
    "pattern",
    "strip_whitespace",
    "to_lower",
    "to_upper",
    "uuid_version",
)
"""The constraints that are described, by their attribute name in annotated-types and pydantic."""


def limits_of(info: FieldInfo) -> dict[str, int | float | str]:
    """The constraints of a field, by name; those of a part of its type start with its position: ``[0].max_length``.

    Of several with one name the last counts, as in pydantic.
    """
    found: dict[str, int | float | str] = {}
    for place, mark in (*(("", mark) for mark in info.metadata), *_marks(info.annotation)):
        for name in LIMITS:
            value = getattr(mark, name, None)
            if value is not None and value is not False:
                found[_at(place, name)] = value if _is_json(value) else str(value)
            if name == "decimal_places":  # more places leave fewer digits before the point
                _add_whole_digits(found, place)
    return found


def _add_whole_digits(found: dict[str, int | float | str], place: str) -> None:
    digits, places = (found.get(_at(place, name)) for name in ("max_digits", "decimal_places"))
    if isinstance(digits, int) and isinstance(places, int):
        found[_at(place, "max_whole_digits")] = digits - places


def _is_json(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and isfinite(value))


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name


def _marks(annotation: Any, place: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The metadata in an annotation, each with its position; that of models belongs to their fields."""
    annotation = meaning(annotation)
    if annotation in above:  # a recursive type
        return
    above = (*above, annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield from ((place, mark) for mark in _spread(args[1:]))
        yield from _marks(args[0], place, above)
    elif isinstance(annotation, type) and issubclass(annotation, RootModel):
        root = annotation.model_fields["root"]
        yield from ((place, mark) for mark in root.metadata)
        yield from _marks(root.annotation, place, above)
    elif origin is not Literal:
        parts = [part for part in args if part not in (NoneType, ...)]
        alone = origin in {Union, UnionType} and len(parts) == 1
        for number, part in enumerate(parts):
            yield from _marks(part, place if alone else f"{place}[{number}]", above)


def _spread(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for mark in metadata:
        yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
