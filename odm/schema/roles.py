"""Find and check fields with a role: Revision, TTL, Counter, Columns, CellVersions, aggregates, automatic fields."""

from collections.abc import Collection, Iterator
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Union, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from odm.codec import EntityCodec
from odm.codec.types.blobs import BlobType
from odm.codec.types.compressed import parts_of
from odm.codec.types.containers import DictType, SetType
from odm.codec.types.unions import bare
from odm.entities.blobs import Blob, LazyBytes
from odm.entities.companions import companions_of
from odm.entities.markers import (
    AggregateMarker,
    AutomaticMarker,
    Cell,
    CellVersions,
    ColumnsMarker,
    Compressed,
    CounterMarker,
    Marker,
    RevisionMarker,
    Stored,
    TTLMarker,
    aggregates_of,
    find_marker,
    meaning,
    metadata_of,
)
from odm.errors import SchemaError, Unsupported
from odm.expressions.nodes import Condition, paths
from odm.schema.automatic import find_automatic
from odm.schema.entity import PatternSchema

if TYPE_CHECKING:
    from odm.entities.entity import Entity

MOST_VERSIONS: Final = 1000
"""The most values that a field may keep: they are all stored with the item."""


def find_roles(cls: "type[Entity]", patterns: Collection[PatternSchema], codec: EntityCodec) -> dict[str, Any]:
    """The keyword arguments of `EntitySchema` for the fields with a role. Raises SchemaError."""
    keyed = {field for pattern in patterns for field in (*pattern.sources, *_named(pattern.when))}
    revision = _only(cls, RevisionMarker, "Revision")
    ttl = _only(cls, TTLMarker, "TTL")
    counters, columns = _all(cls, CounterMarker), _all(cls, ColumnsMarker)
    aggregates = aggregates_of(cls)
    for name in (*counters, *aggregates, *([revision] if revision else [])):
        if name in aggregates:
            _check_aggregate(cls, name, aggregates[name])
        if aggregates.get(name, "sum") == "sum":
            _check_number(cls, name, cls.model_fields[name])
        if name in keyed:
            raise SchemaError(
                f"{cls.__name__}.{name}: a Counter or Revision, or an aggregate, changes with every write and cannot "
                "be part of a key; remove it from the template, when= or shards=, or remove the marker"
            )
    for name in columns:
        _check_members(cls, name, codec)
    for name in _all(cls, Compressed):
        _check_compressed(cls, name, keyed)
    versioned, blobs = _versioned(cls, keyed), _blobs(cls, keyed, codec)
    for name, info in cls.model_fields.items():
        for mark, where in _misplaced(info.annotation, None, set()):
            raise SchemaError(
                f"{cls.__name__}.{name}: a marker in {where} has no effect: a role applies to a whole field; "
                f"mark the field itself, as in {name}: {mark._odm_usage}, or remove the marker"
            )
    many = {"counters": counters, "columns": columns, "versioned": versioned, "aggregates": aggregates}
    primary = next(pattern for pattern in patterns if pattern.kind == "primary")
    automatic = find_automatic(cls, primary, codec)
    return {"revision": revision, "ttl": ttl, "blobs": blobs, "automatic": automatic, **many}


def _check_aggregate(cls: "type[Entity]", name: str, kind: str) -> None:
    """Check the type of an aggregate, and that it has no other role.

    Raises:
        Unsupported: no backend can read an HLL.
    """
    info, at = cls.model_fields[name], f"{cls.__name__}.{name}"
    if kind == "hll":
        raise Unsupported(
            f"{at}: HLL: Bigtable's data API returns only the bytes of the sketch, which SQL can count, and DynamoDB "
            "and the bundled engine have no such type. For an exact count, add_to() a set with Columns, or insert an "
            "item for each value and count() them"
        )
    if sum(isinstance(mark, AggregateMarker | CounterMarker | TTLMarker) for mark in metadata_of(info)) > 1:
        raise SchemaError(f"{at}: an aggregate has no other role: keep one of the markers")
    annotation = meaning(info.annotation)
    annotation = get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation
    if kind != "sum" and (set(get_args(annotation)) != {int, type(None)} or info.default is not None):
        mark = "Min" if kind == "min" else "Max"
        says = f"a {mark} is an int, or None before the first value"
        raise SchemaError(f"{at}: {says}: {name}: Annotated[int | None, {mark}] = None")


def _check_compressed(cls: "type[Entity]", name: str, keyed: set[str]) -> None:
    at = f"{cls.__name__}.{name}"
    if name in keyed:
        raise SchemaError(
            f"{at}: a compressed field cannot be part of a key, because its stored bytes have no order; remove it from "
            "the template, when= or shards=, or remove Compressed"
        )
    roles = (AggregateMarker, AutomaticMarker, CellVersions, CounterMarker, RevisionMarker, TTLMarker, ColumnsMarker)
    if any(isinstance(mark, (*roles, Cell)) for mark in metadata_of(cls.model_fields[name])):
        raise SchemaError(f"{at}: Compressed cannot be combined with Cell or with a marker of a role: keep one of them")


def _versioned(cls: "type[Entity]", keyed: set[str]) -> dict[str, int]:
    """The fields marked with CellVersions, and how many values each keeps."""
    counts: dict[str, int] = {}
    for name, info in cls.model_fields.items():
        mark = find_marker(info, CellVersions)
        if mark is None:
            continue
        at = f"{cls.__name__}.{name}"
        if type(mark.count) is not int or not 2 <= mark.count <= MOST_VERSIONS:
            raise SchemaError(
                f"{at}: CellVersions({mark.count!r}) is the number of values to keep, including the newest: "
                f"an int from 2 to {MOST_VERSIONS}"
            )
        if name in keyed:
            raise SchemaError(
                f"{at}: a field with CellVersions cannot be part of a key; remove it from the template, when= or "
                "shards=, or remove the marker"
            )
        others = (RevisionMarker, TTLMarker, CounterMarker, ColumnsMarker, AggregateMarker)
        if any(find_marker(info, other) for other in others):
            raise SchemaError(
                f"{at}: CellVersions cannot be combined with TTL, Revision, Counter, Columns, Sum, Min or Max: keep "
                "one of the markers"
            )
        counts[name] = mark.count
    return counts


def _blobs(cls: "type[Entity]", keyed: set[str], codec: EntityCodec) -> dict[str, bool]:
    """The fields marked with Blob by stored name, and whether a read of the item reads their values."""
    blobs: dict[str, bool] = {}
    for name, record_field in codec.record.fields.items():
        type_ = bare(record_field.type)
        if any(isinstance(part, BlobType) and part is not type_ for part in parts_of(record_field.type)):
            raise SchemaError(
                f"{cls.__name__}.{name}: it has a value with Blob inside, whose blob nothing would upload: keep that "
                "value in an entity of its own, or in a field of this one"
            )
        if not isinstance(type_, BlobType):
            continue
        default = record_field.default if record_field.factory is None else record_field.factory()
        fault = _blob_fault(cls, name, type_, default)
        if name in keyed:
            fault = "it is part of a key: remove it from the template, when= or shards=, or remove the marker"
        elif not type_.lazy and codec.upgrades.version > 1:
            fault = fault or "upgrades of older items do not read blobs: declare the field as LazyBytes"
        if fault:
            raise SchemaError(f"{cls.__name__}.{name}: Blob does not apply, because {fault}")
        blobs[record_field.stored] = not type_.lazy
    return blobs


def _blob_fault(cls: "type[Entity]", name: str, type_: BlobType, default: object) -> str:
    """Why the values of a field cannot be kept in blobs; "" if they can."""
    marks = (mark for mark in metadata_of(cls.model_fields[name]) if isinstance(mark, Marker))
    for mark in marks:
        if not isinstance(mark, Blob | Stored):
            return f"it is marked by {type(mark).__name__.removesuffix('Marker')} too: keep one of the markers"
    for companion in companions_of(cls):
        seen = f"the class has {companion.name} ({type(companion).__name__}), which sees whole items"
        return f"{seen}: give the large value a class of its own"
    content = default.read() if isinstance(default, LazyBytes) else default
    if isinstance(content, bytes) and len(content) > type_.over:
        return "its default is so long that each new item would have a blob: make it None"
    return ""


def _misplaced(annotation: Any, where: str | None, seen: set[int]) -> Iterator[tuple[Marker, str]]:
    """The markers in elements of containers and in nested models, except Stored without a family, which may be there.

    A nested entity may have markers: it uses them where it is stored by itself.

    Args:
        annotation: the type of a field, or a part of it.
        where: the container or field that contains it; None for the field of the entity itself.
        seen: the models and aliases already visited, by id: they may be recursive.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        if not hasattr(annotation, "__odm_table__") and id(annotation) not in seen:
            seen.add(id(annotation))
            for name, info in annotation.model_fields.items():
                inside = f"{annotation.__name__}.{name}"
                yield from ((m, inside) for m in metadata_of(info) if isinstance(m, Marker) and not _fits_inside(m))
                yield from _misplaced(info.annotation, None, seen)
        return
    meant = meaning(annotation)
    if meant is not annotation:
        if id(annotation) in seen:
            return
        seen.add(id(annotation))
    origin, parts = get_origin(meant), get_args(meant)
    if origin is Annotated:
        yield from ((mark, where) for mark in parts[1:] if where is not None and isinstance(mark, Marker))
        yield from _misplaced(parts[0], where, seen)
    elif origin is not Literal:
        container = (
            f"{origin.__name__}[...]" if isinstance(origin, type) and origin not in {Union, UnionType} else where
        )
        for part in parts:
            yield from _misplaced(part, container, seen)


def _fits_inside(marker: Marker) -> bool:
    """Whether a field of a nested model may have this marker."""
    plain = isinstance(marker, Stored) and marker.family is None and marker.gc is None
    return plain or isinstance(marker, Compressed)


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
            f"{cls.__name__}.{name}: Columns is for a set or a dict; Bigtable stores each of its members in a column "
            f"of its own: {name}: Annotated[set[str], Columns] = set(), or remove the marker"
        )


def _check_number(cls: "type[Entity]", name: str, info: FieldInfo) -> None:
    """Check that counters and revisions start at 0 and have no bounds, which an atomic increment could exceed."""
    bounded = any(hasattr(m, bound) for m in metadata_of(info) for bound in ("ge", "gt", "le", "lt"))
    annotation = meaning(info.annotation)
    if (
        (get_args(annotation)[0] if get_origin(annotation) is Annotated else annotation) is not int
        or info.default != 0
        or bounded
    ):
        raise SchemaError(
            f"{cls.__name__}.{name}: a Counter, Sum or Revision is an unbounded int that starts at 0: "
            f"{name}: Annotated[int, ...] = 0"
        )
