"""What Pydantic checks or converts without code of the user's: which values it accepts, and which it changes.

Constraints of fields and of the parts of their types, narrow types such as PastDate, and the options of a model's
configuration that affect stored values. Left out is what has no effect on them: odm reads by field name, not strictly,
from Python values and without undeclared attributes, and refuses what no number can store.
"""

from collections.abc import Iterator, Mapping
from dataclasses import is_dataclass
from enum import Flag
from math import isfinite
from typing import Any, Final

from annotated_types import Not, Predicate
from pydantic import AnyUrl, BaseModel, ByteSize, EmailStr, FutureDate, FutureDatetime, PastDate, PastDatetime
from pydantic.fields import FieldInfo

from odm.schema.lockfile.nodes import classes_in, marks_in, order_of
from odm.schema.lockfile.validators import name_of

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
    "ascii_only",
    "coerce_numbers_to_str",
    "path_type",
    "union_mode",
)
"""The constraints that are described, by their attribute name in annotated-types and pydantic."""

_OPTIONS: Final[Mapping[str, Any]] = {
    "coerce_numbers_to_str": False,
    "regex_engine": "rust-regex",
    "str_max_length": None,
    "str_min_length": 0,
    "str_strip_whitespace": False,
    "str_to_lower": False,
    "str_to_upper": False,
    "url_preserve_empty_path": False,
    "use_enum_values": False,
}
"""The options of a configuration that are described, with pydantic's default."""

_NARROW: Final[Mapping[Any, str]] = {
    ByteSize: "byte_size",
    EmailStr: "email",
    FutureDate: "future",
    FutureDatetime: "future",
    PastDate: "past",
    PastDatetime: "past",
}
"""Types that are stored like a wider one, by the name of their limit."""

_Limits = dict[str, bool | int | float | str]


def limits_of(info: FieldInfo) -> _Limits:
    """The constraints of a field, by name; those of a part of its type start with its position: ``[0].max_length``.

    Of several with one name the last counts, as in pydantic.
    """
    limits: _Limits = {}
    for place, mark in marks_in(info):
        for name, value in _limits(mark):
            limits[_at(place, name)] = f"{value} of {order_of(info, place)}" if name == "union_mode" else value
            if name == "decimal_places":  # more places leave fewer digits before the point
                _add_whole_digits(limits, place)
    for place, cls in classes_in(info):
        limits.update(
            {_at(place, name): value for name, value in {**_limits_of(cls, place), **options_of(cls)}.items()}
        )
    return limits


def options_of(cls: type[Any]) -> _Limits:
    """The options of a model's configuration that affect stored values; none for other classes."""
    if issubclass(cls, BaseModel):
        config: Mapping[str, Any] = cls.model_config
    elif is_dataclass(cls) or issubclass(cls, tuple):
        config = getattr(cls, "__pydantic_config__", {})
    else:
        return {}
    return {name: config[name] for name, usual in _OPTIONS.items() if config.get(name, usual) not in (usual, None)}


def _limits(mark: Any) -> Iterator[tuple[str, Any]]:
    """The constraints in one piece of metadata."""
    if isinstance(mark, Predicate | Not):
        yield type(mark).__name__.lower(), name_of(mark)
    for name in LIMITS:
        value = getattr(mark, name, None)
        if value is not None and value is not False:
            yield name, value if _is_json(value) else str(value)


def _limits_of(cls: type[Any], place: str) -> _Limits:
    """The constraints of a class."""
    limits: _Limits = {}
    if cls in _NARROW:
        limits[_NARROW[cls]] = True
    if issubclass(cls, AnyUrl) and not cls.__module__.startswith("pydantic"):  # pydantic's are known by their name
        limits["url"] = str(cls._constraints)
    if issubclass(cls, Flag):
        limits["boundary"] = cls._boundary_.name.lower()  # type: ignore[attr-defined]
        if place:  # otherwise its values are described
            limits["flags"] = sum({member.value for member in cls})
    return limits


def _add_whole_digits(limits: _Limits, place: str) -> None:
    digits, places = (limits.get(_at(place, name)) for name in ("max_digits", "decimal_places"))
    if isinstance(digits, int) and isinstance(places, int):
        limits[_at(place, "max_whole_digits")] = digits - places


def _is_json(value: Any) -> bool:
    return isinstance(value, int) or (isinstance(value, float) and isfinite(value))


def _at(place: str, name: str) -> str:
    return f"{place}.{name}" if place else name
