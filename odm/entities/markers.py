"""Markers that give a field a role.

``Annotated[datetime, TTL]``, ``Annotated[int, Revision]``, ``Annotated[str, Stored("c")]``.
A marker is found in ``Annotated[X | None, M]`` and in ``Annotated[X, M] | None`` alike.
"""

from collections.abc import Iterator
from typing import Annotated, Any, TypeVar, get_args, get_origin

from attrs import frozen
from pydantic.fields import FieldInfo


@frozen
class TTLMarker:
    """The item expires at this moment: from then on it counts as absent, on every backend."""


@frozen
class RevisionMarker:
    """The optimistic lock: counts the writes of an item; a write of a stale entity is a `odm.Conflict`."""


@frozen
class CounterMarker:
    """A signed 64-bit number that is incremented atomically and stands in no key."""


@frozen
class Stored:
    """Store the field under another name: ``Annotated[str, Stored("c")]``."""

    name: str


TTL = TTLMarker()
Revision = RevisionMarker()
Counter = CounterMarker()

M = TypeVar("M")


def find_marker(info: FieldInfo, kind: type[M]) -> M | None:
    """The field's marker of this kind, or None."""
    return next((m for m in metadata_of(info) if isinstance(m, kind)), None)


def metadata_of(info: FieldInfo) -> Iterator[Any]:
    """All metadata of a field: markers and constraints, also those inside ``Annotated[X, M] | None``."""
    yield from info.metadata
    yield from _annotated(info.annotation)


def _annotated(annotation: Any) -> Iterator[Any]:
    """Metadata inside a union's members; not inside containers, whose elements are not fields."""
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        for mark in metadata:
            yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
        yield from _annotated(inner)
    elif type(None) in get_args(annotation):
        for member in get_args(annotation):
            yield from _annotated(member)
