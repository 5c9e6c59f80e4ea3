"""Code of the user's that runs when an item is read, by name: validators, and other hooks of pydantic's.

Only that it is there can be described, not what it does.
"""

from collections.abc import Iterator
from enum import Enum
from typing import Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, Discriminator, PlainValidator, RootModel, WrapValidator
from pydantic.fields import FieldInfo

from odm.entities.markers import Marker
from odm.schema.lockfile.nodes import classes_in, marks_in

_MODES: Final = {AfterValidator: "after", BeforeValidator: "before", PlainValidator: "plain", WrapValidator: "wrap"}
_HOOK: Final = "__get_pydantic_core_schema__"

_HARMLESS: Final = frozenset(
    {"PathType", "PlainSerializer", "SerializeAsAny", "Tag", "UrlConstraints", "UuidVersion", "WrapSerializer"}
)
"""Pydantic's metadata with a hook that is described elsewhere, or has no effect on what is read."""

_KNOWN: Final = frozenset({"builtins", "enum", "odm", "pydantic"})
"""The packages whose own methods are no code of the user's."""


def validators_of(info: FieldInfo, owner: type[Any], name: str) -> tuple[str, ...]:
    """The validators of a field and of the parts of its type, which start with their position; in order."""
    texts = [_at(place, text) for place, mark in marks_in(info) if (text := _validator(mark))]
    texts += [_at(place, text) for place, cls in classes_in(info) for text in validators_of_class(cls)]
    return (*texts, *_decorated(owner, name))


def validators_of_class(cls: type[Any]) -> Iterator[str]:
    """The validators of a whole model or dataclass, and of an Enum."""
    decorators = getattr(cls, "__pydantic_decorators__", None)
    if decorators is not None:
        for kind in (decorators.model_validators, decorators.root_validators):
            yield from (f"{decorator.info.mode} {name}" for name, decorator in kind.items())
    if issubclass(cls, RootModel):
        yield from _decorated(cls, "root")
    hooks: list[str] = []
    if issubclass(cls, BaseModel):
        hooks = ["__init__", "model_post_init", _HOOK]
    elif issubclass(cls, Enum):
        hooks = ["_missing_", _HOOK]
    elif decorators is not None or hasattr(cls, "__dataclass_fields__"):
        hooks = ["__post_init__", _HOOK]
    yield from (name for name in hooks if _is_own(getattr(cls, name, None)))


def name_of(code: Any) -> str:
    """The name of a function, or of that in a piece of metadata, without its address."""
    while hasattr(code, "func"):  # a piece of metadata, or a partial
        code = code.func
    return str(getattr(code, "__name__", type(code).__name__))


def _decorated(owner: type[Any], field: str) -> Iterator[str]:
    decorators = getattr(owner, "__pydantic_decorators__", None)
    if decorators is None:
        return
    for kind in (decorators.field_validators, decorators.validators):
        for name, decorator in kind.items():
            if {field, "*"} & {*decorator.info.fields}:
                yield f"{decorator.info.mode} {name}"


def _validator(mark: Any) -> str:
    """The name of a piece of metadata that runs code; "" for any other."""
    for cls, mode in _MODES.items():
        if isinstance(mark, cls):
            return f"{mode} {name_of(mark)}"
    kind = mark if isinstance(mark, type) else type(mark)
    harmless = kind.__name__ in _HARMLESS and kind.__module__.startswith("pydantic")
    if not hasattr(mark, _HOOK) or harmless or issubclass(kind, Marker):
        return ""
    if isinstance(mark, Discriminator):
        return "" if isinstance(mark.discriminator, str) else f"discriminator {name_of(mark.discriminator)}"
    return kind.__name__.lstrip("_")


def _is_own(method: Any) -> bool:
    """Whether a method is neither pydantic's nor the standard library's."""
    if method is None:
        return False
    wrapped = getattr(method, "__name__", "") == "wrapped_model_post_init"  # pydantic's, around one of the user's
    return wrapped or str(getattr(method, "__module__", None)).partition(".")[0] not in _KNOWN


def _at(place: str, text: str) -> str:
    return f"{place} {text}" if place else text
