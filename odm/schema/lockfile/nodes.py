"""The types and the metadata in a field's annotation, each with its position.

The position is ``""`` for the field itself and ``[0]`` for the items of a list. What nested models declare belongs to
their own fields; the classes of these models are among the types.
"""

from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, NewType, TypeVar, Union, get_args, get_origin, get_type_hints

from pydantic import Discriminator, RootModel
from pydantic.fields import FieldInfo

from odm.entities.markers import ALIASES, alias_value


def classes_in(info: FieldInfo) -> Iterator[tuple[str, type[Any]]]:
    """The classes in a field's annotation: models, enums and others."""
    for place, node in _nodes(info.annotation):
        cls = get_origin(node) or node
        if isinstance(cls, type):
            yield place, cls


def marks_in(info: FieldInfo) -> Iterator[tuple[str, Any]]:
    """The metadata of a field and of the parts of its annotation."""
    yield from (("", mark) for mark in _spread((info,)))
    for place, node in _nodes(info.annotation):
        if get_origin(node) is Annotated:
            yield from ((place, mark) for mark in _spread(get_args(node)[1:]))
        elif _is_root(node):
            yield from ((place, mark) for mark in _spread((node.model_fields["root"],)))


def order_of(info: FieldInfo, place: str) -> str:
    """The order of the members of the union at a position."""
    unions = [node for at, node in _nodes(info.annotation) if at == place and get_origin(node) in {Union, UnionType}]
    return ", ".join(getattr(get_origin(part) or part, "__name__", "?") for part in get_args(unions[-1]))


def _spread(metadata: tuple[Any, ...]) -> Iterator[Any]:
    for mark in metadata:
        if isinstance(mark, FieldInfo):
            yield from mark.metadata
            if isinstance(mark.discriminator, Discriminator):
                yield mark.discriminator
        else:
            yield mark


def _nodes(annotation: Any, place: str = "", above: tuple[Any, ...] = ()) -> Iterator[tuple[str, Any]]:
    if annotation in above:  # a recursive type
        return
    yield place, annotation
    for inner_place, inner in _parts(annotation, place):
        yield from _nodes(inner, inner_place, (*above, annotation))


def _parts(annotation: Any, place: str) -> Iterator[tuple[str, Any]]:
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        yield place, args[0]
    elif isinstance(origin or annotation, ALIASES):
        yield place, alias_value(origin or annotation)
    elif isinstance(annotation, NewType):
        yield place, annotation.__supertype__
    elif isinstance(annotation, TypeVar):
        bounds = annotation.__constraints__ or (annotation.__bound__ or Any,)
        yield from ((place, bound) for bound in bounds)
    elif _is_root(annotation):
        yield place, annotation.model_fields["root"].annotation
    elif isinstance(annotation, type) and issubclass(annotation, tuple) and hasattr(annotation, "_fields"):
        hints = get_type_hints(annotation, include_extras=True)
        names: tuple[str, ...] = getattr(annotation, "_fields")  # noqa: B009  # no type checker knows it
        yield from ((f"{place}[{number}]", hints.get(name, Any)) for number, name in enumerate(names))
    elif origin is not Literal:
        parts = [part for part in args if part not in (NoneType, ...)]
        alone = origin in {Union, UnionType} and len(parts) == 1
        yield from ((place if alone else f"{place}[{number}]", part) for number, part in enumerate(parts))


def _is_root(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, RootModel)
