"""Fields with a role: Revision, TTL, Counter and Columns markers, found and checked."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic.fields import FieldInfo

from odm.codec import EntityCodec
from odm.codec.containers import DictType, SetType
from odm.codec.unions import bare
from odm.entities.markers import (
    ColumnsMarker,
    CounterMarker,
    RevisionMarker,
    TTLMarker,
    find_marker,
    meaning,
    metadata_of,
)
from odm.errors import SchemaError
from odm.expressions.nodes import Condition, paths
from odm.schema.model import PatternSchema

if TYPE_CHECKING:
    from odm.entities.entity import Entity


def find_roles(cls: "type[Entity]", patterns: Iterable[PatternSchema], codec: EntityCodec) -> dict[str, Any]:
    """The keyword arguments revision, ttl, counters and columns of `EntitySchema`. Raises SchemaError."""
    keyed = {field for pattern in patterns for field in (*pattern.sources, *_named(pattern.when))}
    revision = _only(cls, RevisionMarker, "Revision")
    ttl = _only(cls, TTLMarker, "TTL")
    counters, columns = _all(cls, CounterMarker), _all(cls, ColumnsMarker)
    for name in (*counters, *([revision] if revision else [])):
        _check_number(cls, name, cls.model_fields[name])
        if name in keyed:
            raise SchemaError(
                f"{cls.__name__}.{name}: a Counter or Revision changes by itself and can not decide about a key; "
                "take it out of the template, when= or shards=, or take the marker away"
            )
    for name in columns:
        _check_members(cls, name, codec)
    return {"revision": revision, "ttl": ttl, "counters": counters, "columns": columns}


def _named(condition: Condition | None) -> set[str]:
    """The fields that a pattern's ``when`` names."""
    return set() if condition is None else {path.root for path in paths(condition)}


def _all(cls: "type[Entity]", kind: type) -> frozenset[str]:
    return frozenset(name for name, info in cls.model_fields.items() if find_marker(info, kind))


def _only(cls: "type[Entity]", kind: type, word: str) -> str | None:
    names = [name for name, info in cls.model_fields.items() if find_marker(info, kind)]
    if len(names) > 1:
        raise SchemaError(f"{cls.__name__} marks several fields as {word}: {', '.join(names)}; keep one")
    return names[0] if names else None


def _check_members(cls: "type[Entity]", name: str, codec: EntityCodec) -> None:
    if not isinstance(bare(codec.record.fields[name].type), SetType | DictType):
        raise SchemaError(
            f"{cls.__name__}.{name}: Columns marks a set or a dict, each member of which Bigtable stores in a column "
            f"of its own: {name}: Annotated[set[str], Columns] = set(), or take the marker away"
        )


def _check_number(cls: "type[Entity]", name: str, info: FieldInfo) -> None:
    """Counters and revisions start at 0 and have no bounds that an atomic increment could break."""
    bounded = any(hasattr(m, bound) for m in metadata_of(info) for bound in ("ge", "gt", "le", "lt"))
    annotation = meaning(info.annotation)
    if (
        (get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation) is not int
        or info.default != 0
        or bounded
    ):
        raise SchemaError(
            f"{cls.__name__}.{name}: a Counter or Revision is an unbounded int that starts at 0: "
            f"{name}: Annotated[int, ...] = 0"
        )
