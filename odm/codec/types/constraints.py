"""The metadata that a model declares next to the type of a path's target, also inside nested models.

Reads the annotations that pydantic resolved. Stored types do not hold this metadata: pydantic checks it, except where
a store computes the new value itself.
"""

from collections.abc import Iterator
from dataclasses import is_dataclass
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypeGuard, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from odm.codec.types.models import field_infos
from odm.entities.markers import Stored, find_marker, meaning
from odm.expressions.nodes import Path


def marks_at(cls: type[BaseModel], path: Path) -> tuple[Any, ...]:
    """The metadata of a path of stored names: `annotated_types` constraints, markers and others."""
    return _marks_at(cls, path.segments)


@lru_cache(maxsize=1024)  # called at every increment; bounded, because paths may contain any dict key
def _marks_at(cls: type[BaseModel], segments: tuple[str | int, ...]) -> tuple[Any, ...]:
    annotations: list[Any] = [cls]
    for segment in segments:
        annotations = [part for annotation in annotations for part in _parts(annotation, segment)]
    return tuple(mark for annotation in annotations for mark in _marks(annotation))


def _parts(annotation: Any, segment: str | int) -> Iterator[Any]:
    """The annotations of the part that a segment names."""
    for type_ in _types(annotation):
        origin, args = get_origin(type_), get_args(type_)
        if isinstance(type_, type) and (issubclass(type_, BaseModel) or is_dataclass(type_)):
            yield from _fields(type_, segment)
        elif origin is dict:
            yield args[1]
        elif origin in {list, tuple} and isinstance(segment, int):
            yield args[segment] if origin is tuple and Ellipsis not in args else args[0]


def _fields(cls: type[Any], segment: str | int) -> Iterator[Any]:
    for name, info in field_infos(cls).items():
        marker = find_marker(info, Stored)
        if segment == (name if marker is None or marker.name is None else marker.name):
            yield _whole(info)


def _whole(info: FieldInfo) -> Any:
    """The annotation of a field together with its metadata, which pydantic keeps apart."""
    return Annotated[(info.annotation, *info.metadata)] if info.metadata else info.annotation


def is_root(annotation: object) -> TypeGuard[type[BaseModel]]:
    """Whether it is a `pydantic.RootModel`, which takes time to import."""
    return isinstance(annotation, type) and getattr(annotation, "__pydantic_root_model__", False)


def _types(annotation: Any) -> Iterator[Any]:
    """The types that an annotation stands for: members of unions, without metadata; of a root model, its root's."""
    annotation = meaning(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _types(get_args(annotation)[0])
    elif origin in {Union, UnionType}:
        for member in get_args(annotation):
            yield from _types(member)
    elif is_root(annotation):
        yield from _types(annotation.model_fields["root"].annotation)
    else:
        yield annotation


def _marks(annotation: Any) -> Iterator[Any]:
    annotation = meaning(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *metadata = get_args(annotation)
        for mark in metadata:
            yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
        yield from _marks(inner)
    elif origin in {Union, UnionType}:
        for member in get_args(annotation):
            yield from _marks(member)
    elif is_root(annotation):
        yield from _marks(_whole(annotation.model_fields["root"]))
