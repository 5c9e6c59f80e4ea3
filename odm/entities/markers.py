"""Markers that give a field a role.

``Annotated[datetime, TTL]``, ``Annotated[int, Revision]``, ``Annotated[str, Stored("c")]``.
A marker is found in ``Annotated[X | None, M]`` and in ``Annotated[X, M] | None`` alike, and in type aliases
and NewTypes.
"""

import sys
import typing
from collections.abc import Iterator
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    NewType,
    NoReturn,
    TypeAlias,
    TypeVar,
    get_args,
    get_origin,
    get_type_hints,
)

from pydantic import BaseModel, GetCoreSchemaHandler
from pydantic.fields import FieldInfo
from pydantic_core import CoreSchema
from typing_extensions import TypeAliasType

from odm._published import public
from odm.errors import SchemaError
from odm.expressions.collection import GCRule
from odm.immutable import Immutable


def _field(handler: GetCoreSchemaHandler) -> str:
    return f"{handler.field_name}: " if handler.field_name else ""


class Marker:
    """Used in ``Annotated`` after the type. Used as the type itself it raises an error that says so."""

    __slots__ = ()
    _odm_usage: ClassVar[str]

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        if isinstance(source, cls) or source is cls:
            raise SchemaError(
                f"a marker is not a type; put it after the type in Annotated: write {_field(handler)}{cls._odm_usage}"
            )
        return handler(source)

    if not TYPE_CHECKING:  # where it is an error anyway

        def __call__(self, *_: Any, **__: Any) -> NoReturn:
            raise SchemaError(f"a marker is not called: write {self._odm_usage}")


class TTLMarker(Marker, Immutable):
    """The item expires at this time: ``expires_at: Annotated[datetime, TTL]``.

    From then on the item counts as absent, on every backend.
    """

    _odm_usage = "Annotated[datetime, TTL]"


class RevisionMarker(Marker, Immutable):
    """The optimistic lock: ``revision: Annotated[int, Revision] = 0``.

    It counts the writes of an item; a write of a stale entity raises `odm.Conflict`.
    """

    _odm_usage = "Annotated[int, Revision] = 0"


class CounterMarker(Marker, Immutable):
    """A signed 64-bit number, incremented atomically and not part of any key: ``Annotated[int, Counter] = 0``."""

    _odm_usage = "Annotated[int, Counter] = 0"


class AggregateMarker(Marker):
    """The base of markers of an aggregate: a field to which values are added without reading it, with `odm.add_value`.

    On Bigtable it is a cell of an aggregate column family, which the server computes from the added values.
    """

    __slots__ = ()
    kind: ClassVar[Literal["sum", "min", "max", "hll"]]


class SumMarker(AggregateMarker, Immutable):
    """The sum of the added values, a signed 64-bit number that is not part of any key: ``Annotated[int, Sum] = 0``."""

    _odm_usage = "Annotated[int, Sum] = 0"
    kind = "sum"


class MinMarker(AggregateMarker, Immutable):
    """The least of the added values, a signed 64-bit number: ``Annotated[int | None, Min] = None``."""

    _odm_usage = "Annotated[int | None, Min] = None"
    kind = "min"


class MaxMarker(AggregateMarker, Immutable):
    """The greatest of the added values, a signed 64-bit number: ``Annotated[int | None, Max] = None``."""

    _odm_usage = "Annotated[int | None, Max] = None"
    kind = "max"


class HLLMarker(AggregateMarker, Immutable):
    """The number of different values that were added, as HyperLogLog estimates it. No backend of odm supports it yet.

    Bigtable's data API returns only the bytes of the sketch, and DynamoDB and the bundled engine have no such type. A
    model that has it raises `odm.Unsupported` when its table is compiled.
    """

    _odm_usage = "Annotated[int, HLL] = 0"
    kind = "hll"


class ColumnsMarker(Marker, Immutable):
    """Bigtable stores each member of the set or dict in a column of its own: ``Annotated[set[str], Columns] = set()``.

    Members are then added and removed without reading or rewriting the others. It has no effect on other backends.

    In rows of other programs, ``Annotated[dict[str, int], Columns, Cell("hours:", "int64be")]`` is a dict over the
    columns of a family: each entry is a cell, whose qualifier is the key. With ``Cell("hours:h", ...)`` these are the
    columns whose names begin with ``h``, and the key is the rest. `Stored` says the form of the values. Such a dict is
    never missing, only empty.
    """

    _odm_usage = "Annotated[set[str], Columns] = set()"


@public
class CellVersions(Marker, Immutable):
    """Keep the former values of the field, up to ``count`` values in all: ``Annotated[Decimal, CellVersions(5)]``.

    Each write that changes the value keeps the value before it, with the time at which it was written. `Store.get` and
    all other reads return the newest value; `Store.cell_versions` returns all of them. On Bigtable they are the
    versions of the field's cell.

    Args:
        count: how many values to keep, including the newest; 2 to 1000.

    Raises:
        SchemaError: when the table is compiled, if the field is part of a key, is a Counter, or has another role; or
            for a count that is out of range.
    """

    _odm_usage = "Annotated[Decimal, CellVersions(5)]"

    count: int


class _Form(Marker, Immutable, kw_only=True):
    format: str | None = None
    epoch: Literal["s", "ms", "us", "ns", "s.f", "d"] | None = None
    null: Literal["keep"] | None = None
    family: str | None = None
    gc: GCRule | None = None


@public
class Stored(_Form):
    """Store the field under another name, or in another form: ``Annotated[str, Stored("c")]``.

    Args:
        name: the stored name. Default: the name of the field.
        format: the form of the stored value, by the type of the field.
            datetime, date: text in UTC of a format such as ``"%Y-%m-%dT%H:%M:%SZ"``, which has %Y, %m and %d, and may
            have %H, %M, %S, %3f (milliseconds), %f, %z, %:z and other text.
            datetime: ISO text in UTC with as many digits as the time needs: "Instant", "OffsetDateTime" or
            "LocalDateTime" as those classes of Java write it, "RFC3339Nano" as Go does, "isoformat" as Python does, or
            "isoformat naive" for the same without a time zone.
            int, float, Decimal: "text", plain digits; a Decimal has its ``decimal_places``.
            bool: "number", 1 or 0; or the texts of True and False with a slash between them, as in "yes/no".
            UUID: "upper", "hex" or "HEX" (without dashes), or "bytes".
            bytes: "base64", "base64url" (without padding) or "hex", as text.
            A list, tuple, dict, model, dataclass or Any: JSON text as "JSON.stringify" of JavaScript writes it, or as
            "json.dumps" of Python does.
        epoch: a datetime is stored as a number of seconds ("s"), milliseconds ("ms"), microseconds ("us") or
            nanoseconds ("ns") since 1970, or of seconds with a fraction ("s.f"). A date is stored as a number of days
            ("d"), or as its midnight in UTC in "s", "ms", "us" or "ns".
        null: "keep": None is stored as NULL if the field was set to it, and not stored if the field was not set, as
            pydantic's ``model_fields_set`` shows. For a field with the default None, which otherwise is never NULL.
        family: on Bigtable the field is a cell of this column family. No effect on other backends.
        gc: what Bigtable deletes in that family; see ``gc=`` of `odm.Entity`.

    A value that could not be read back equal, because it is finer than the form, is refused. A stored value of another
    form makes the item `odm.ItemInvalid`.

    Raises:
        SchemaError: when the table is compiled, for another type of field, or a format that cannot be read back.
    """

    _odm_usage = 'Annotated[str, Stored("c")]'

    name: str | None = None


Encoding: TypeAlias = Literal[
    "float64be", "float32be", "int64be", "int32be", "int16be", "int8", "hbase_bool", "text", "json", "bytes"
]
"""The bytes of a cell, see `Cell`."""


@public
class Cell(Marker, Immutable):
    """On Bigtable the field is this cell, and no other: ``Annotated[float, Cell("MD:ASK", "float64be")]``.

    For cells that other programs read or write. It has no effect on other backends, where the field has its stored
    name.

    Args:
        name: the column family and the qualifier, separated by the first colon: ``"MD:ASK"``. With `Columns`, the
            family, and what the qualifiers of all entries begin with, which may be nothing.
        encoding: the bytes of the cell. "float64be" and "float32be": a float in 8 or 4 bytes, big-endian (IEEE 754).
            "int64be", "int32be", "int16be" and "int8": an int, or a datetime with ``epoch=``, in 8, 4, 2 bytes or one,
            big-endian and signed. "hbase_bool": a bool as HBase's ``Bytes.toBytes(boolean)`` writes it, 0xFF or 0x00.
            "text": the text of a str, enum, date, number or bool in UTF-8. "json": JSON text of a model, list, dict or
            any other value without bytes and sets. "bytes": the bytes themselves. None: odm's own form, which shows the
            type of the value, or the 8 bytes of a `Sum`. Writing a value that the encoding cannot hold exactly raises
            `odm.BadValue`.

    Raises:
        SchemaError: when the table is compiled: the type of the field does not fit the encoding, another field has the
            cell, or the name is not valid.
    """

    _odm_usage = 'Annotated[float, Cell("MD:ASK", "float64be")]'

    name: str
    encoding: Encoding | None = None


class _Compression(Marker, Immutable, kw_only=True):
    level: int | None = None
    over: int = 1024
    max_size: int = 64 * 1024 * 1024


@public
class Compressed(_Compression):
    """Store a long str or bytes compressed: ``Annotated[str, Compressed("zstd")]``.

    A short value is stored as it is, a longer one as bytes: one zstd or gzip frame, which other programs can read.
    Bytes that begin like such a frame are always compressed, so reading is unambiguous. Both kinds of frames are read,
    whichever the field names, so the algorithm can be changed later.

    Args:
        algorithm: "zstd", which needs ``single-table-odm[zstd]`` before Python 3.14, or "gzip".
        level: of the compression, 1 to 22 for zstd (default 3), 1 to 9 for gzip (default 6).
        over: values of more than this number of bytes are compressed; of a str, its bytes in UTF-8.
        max_size: the most bytes that a value may have, 64 MiB by default. Writing a larger one raises `odm.BadValue`. A
            stored value that is larger or damaged makes the item `odm.ItemInvalid`.

    Raises:
        SchemaError: when the table is compiled: for another type of field, a field that is part of a key, or an option
            that cannot be used.
    """

    _odm_usage = 'Annotated[str, Compressed("zstd")]'

    algorithm: Literal["zstd", "gzip"] = "zstd"


class AutomaticMarker(Marker):
    """The base of markers of fields whose value the store assigns, see `AUTO`."""

    __slots__ = ()


class CreatedAtMarker(AutomaticMarker, Immutable):
    """The time of the first write: ``created_at: Annotated[datetime, CreatedAt] = AUTO``.

    A put or insert of an entity without a value assigns the time of the store's clock; a value that the entity has is
    kept. An update with ``upsert=True`` that creates the item assigns it too. It is cut to what the field stores, as
    with ``Stored(epoch="s")``.
    """

    _odm_usage = "Annotated[datetime, CreatedAt] = AUTO"


class UpdatedAtMarker(AutomaticMarker, Immutable):
    """The time of the last write: ``updated_at: Annotated[datetime, UpdatedAt] = AUTO``.

    Each put, insert, update and merge assigns the time of the store's clock, also in batches and transactions. Copies,
    backfills, reshards and `odm.Store.put_raw` leave it unchanged.
    """

    _odm_usage = "Annotated[datetime, UpdatedAt] = AUTO"


@public
class Id(AutomaticMarker, Immutable):
    """A unique id, which the store assigns to an entity without one: ``id: Annotated[str, Id()] = AUTO``.

    Ids sort by the time at which they were made, by the store's clock, and those of one process also within one
    millisecond. An id can be part of the primary key. `odm.Store.new_id` makes one before the entity is written.

    Args:
        form: "ulid": a ULID in its text form of 26 characters, in a str field (https://github.com/ulid/spec).
            "uuid7": a UUID of version 7, in a str or UUID field (RFC 9562, section 5.7).

    Raises:
        SchemaError: when the table is compiled, for another form or another type of field.
    """

    _odm_usage = "Annotated[str, Id()] = AUTO"

    form: Literal["ulid", "uuid7"] = "ulid"


AUTO: Final[Any] = None
"""The default of a field with `odm.Id`, `odm.CreatedAt` or `odm.UpdatedAt`: None until the store assigns a value.

It is of type Any, so type checkers accept it as the default of a field of any type.
"""

TTL = TTLMarker()
Revision = RevisionMarker()
CreatedAt = CreatedAtMarker()
UpdatedAt = UpdatedAtMarker()
Counter = CounterMarker()
Columns = ColumnsMarker()
Sum = SumMarker()
Min = MinMarker()
Max = MaxMarker()
HLL = HLLMarker()

M = TypeVar("M")

# Before Python 3.14 the ``type`` statement creates a class that Python 3.11 does not have.
ALIASES: Final[tuple[type[Any], ...]] = (TypeAliasType, getattr(typing, "TypeAliasType", TypeAliasType))
"""The classes of type aliases."""


def find_marker(info: FieldInfo, kind: type[M]) -> M | None:
    """The field's marker of this kind, or None."""
    return next((m for m in metadata_of(info) if isinstance(m, kind)), None)


def aggregates_of(cls: type[BaseModel]) -> dict[str, Literal["sum", "min", "max", "hll"]]:
    """The fields of a model that are marked as an aggregate, each with its kind."""
    marks = ((name, find_marker(info, AggregateMarker)) for name, info in cls.model_fields.items())
    return {name: mark.kind for name, mark in marks if mark is not None}


def entries_of(cls: type[BaseModel]) -> frozenset[str]:
    """The dicts of a model with a cell for each entry, in rows of other programs."""
    return frozenset(
        name
        for name, info in cls.model_fields.items()
        if find_marker(info, ColumnsMarker) is not None and find_marker(info, Cell) is not None
    )


def metadata_of(info: FieldInfo) -> Iterator[Any]:
    """All metadata of a field: markers and constraints, also those inside ``Annotated[X, M] | None``."""
    yield from info.metadata
    yield from _annotated(info.annotation)


def meaning(annotation: Any) -> Any:
    """The type behind a type alias or NewType; other annotations unchanged."""
    holder = get_origin(annotation) or annotation
    if isinstance(annotation, NewType):
        return meaning(annotation.__supertype__)
    return meaning(holder.__value__) if isinstance(holder, ALIASES) else annotation


def alias_value(alias: Any) -> Any:
    """The type behind an alias, which may be or contain strings that name the alias itself.

    Raises:
        NameError: a name in it is not defined.
    """
    holder = type("_Holder", (), {"__annotations__": {"value": alias.__value__}})
    module = sys.modules.get(alias.__module__ or "", None)
    return get_type_hints(holder, vars(module) if module else {}, include_extras=True)["value"]


def _annotated(annotation: Any) -> Iterator[Any]:
    """Metadata inside a union's members or an alias; not inside containers, whose elements are not fields."""
    if type(annotation) is type:  # fast path: most annotations are plain classes
        return
    annotation = meaning(annotation)
    if get_origin(annotation) is Annotated:
        inner, *metadata = get_args(annotation)
        for mark in metadata:
            yield from mark.metadata if isinstance(mark, FieldInfo) else (mark,)
        yield from _annotated(inner)
    elif type(None) in get_args(annotation):
        for member in get_args(annotation):
            yield from _annotated(member)
