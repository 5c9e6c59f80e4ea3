"""Find and check the fields whose value the store assigns: Id, CreatedAt and UpdatedAt."""

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal
from uuid import UUID

from pydantic.fields import FieldInfo

from odm.codec import EntityCodec
from odm.codec.types.scalars import STR, TextType
from odm.codec.types.stored import StoredType
from odm.codec.types.times import is_datetime, storable
from odm.codec.types.unions import NullableType
from odm.entities.markers import (
    AggregateMarker,
    AutomaticMarker,
    CellVersions,
    ColumnsMarker,
    CounterMarker,
    CreatedAtMarker,
    Id,
    RevisionMarker,
    TTLMarker,
    UpdatedAtMarker,
    find_marker,
    metadata_of,
)
from odm.errors import SchemaError
from odm.expressions.nodes import paths
from odm.immutable import Immutable, field

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.schema.entity import PatternSchema

_OTHERS = (RevisionMarker, TTLMarker, CounterMarker, ColumnsMarker, AggregateMarker, CellVersions)


class Automatic(Immutable):
    """The fields of an entity whose value the store assigns; each is None if there is no such field.

    Attributes:
        id, created, updated: their names.
        form: the form of the ids.
        as_uuid: the field of the id holds a UUID; otherwise its text.
        truncate: returns the part of a time that each field of a time stores, by field name.
    """

    id: str | None
    created: str | None
    updated: str | None
    form: Literal["ulid", "uuid7"]
    as_uuid: bool
    truncate: dict[str, Callable[[datetime], datetime]] = field(eq=False, repr=False)


def find_automatic(cls: "type[Entity]", primary: "PatternSchema", codec: EntityCodec) -> Automatic | None:
    """The automatic fields of an entity; None if it has none, or is made by a companion, which copies their values.

    Raises:
        SchemaError: a marker is on a field that cannot have it.
    """
    if cls.__odm_made__:
        return None
    by_marker: dict[type[AutomaticMarker], str] = {}
    for name, info in cls.model_fields.items():
        marks = [mark for mark in metadata_of(info) if isinstance(mark, AutomaticMarker)]
        if any(mark is Id for mark in metadata_of(info)):
            raise SchemaError(f"{cls.__name__}.{name} is marked by Id without parentheses: write {Id._odm_usage}")
        for mark in marks:
            _check(cls, name, info, mark, codec)
            twin = by_marker.setdefault(type(mark), name)
            if twin != name or len(marks) > 1:
                raise SchemaError(
                    f"{cls.__name__}: an entity has at most one Id, CreatedAt and UpdatedAt, each on a field of its "
                    f"own: remove {_word(mark)} from {' or '.join(map(repr, dict.fromkeys((twin, name))))}"
                )
    if not by_marker:
        return None
    updated = by_marker.get(UpdatedAtMarker)
    if updated is not None:
        _check_changes(cls, updated, primary)
    id_, times = by_marker.get(Id), [name for kind, name in by_marker.items() if kind is not Id]
    named = None if id_ is None else find_marker(cls.model_fields[id_], Id)
    return Automatic(
        id_,
        by_marker.get(CreatedAtMarker),
        updated,
        "ulid" if named is None else named.form,
        id_ is not None and _plain(codec, id_) != STR,
        {name: storable(_plain(codec, name)) for name in times},
    )


def _check(cls: "type[Entity]", name: str, info: FieldInfo, mark: AutomaticMarker, codec: EntityCodec) -> None:
    at, type_ = f"{cls.__name__}.{name}", _plain(codec, name)
    if isinstance(mark, Id):
        if mark.form not in ("ulid", "uuid7"):
            raise SchemaError(f"{at}: Id({mark.form!r}): the form of an id is 'ulid' or 'uuid7'")
        if type_ != STR and not (mark.form == "uuid7" and _is_uuid(type_)):
            raise SchemaError(f"{at}: Id({mark.form!r}) is for a str field, and 'uuid7' also for one of UUID")
    elif not is_datetime(type_):
        raise SchemaError(f"{at}: {_word(mark)} is for a datetime field: {name}: {mark._odm_usage}")
    if info.is_required() or info.default_factory is not None or info.default is not None:
        raise SchemaError(f"{at}: the store assigns its value, so it has no other default: write {name}: ... = AUTO")
    if any(isinstance(other, _OTHERS) for other in metadata_of(info)):
        raise SchemaError(
            f"{at}: {_word(mark)} cannot be combined with TTL, Revision, Counter, Columns, CellVersions, Sum, Min "
            "or Max: keep one of the markers"
        )


def _plain(codec: EntityCodec, name: str) -> StoredType:
    """The type of a field without ``| None``."""
    type_ = codec.record.fields[name].type
    return type_.inner if isinstance(type_, NullableType) else type_


def _word(mark: AutomaticMarker) -> str:
    """The name that users import."""
    return type(mark).__name__.removesuffix("Marker")


def _is_uuid(type_: StoredType) -> bool:
    return isinstance(type_, TextType) and type_.accepts is UUID


def _check_changes(cls: "type[Entity]", name: str, primary: "PatternSchema") -> None:
    """Refuse an UpdatedAt where a change of its value would make another item."""
    match: Any = cls.__odm_match__
    if name in primary.sources or (match is not None and name in {path.root for path in paths(match)}):
        raise SchemaError(
            f"{cls.__name__}.{name}: UpdatedAt changes with every write and cannot be part of the primary key or of "
            "match=: use CreatedAt, or an access pattern"
        )
