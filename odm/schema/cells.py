"""The cells that `odm.Cell` names on Bigtable: their names, and whether the type of a field fits the encoding."""

import re
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import TYPE_CHECKING, Final

from pydantic.fields import FieldInfo

from odm.codec import EntityCodec
from odm.codec.types.compressed import parts_of
from odm.codec.types.containers import DictType
from odm.codec.types.forms import BoolFormType
from odm.codec.types.records import RecordField
from odm.codec.types.scalars import BOOL, BYTES, COUNTER, FLOAT, INT
from odm.codec.types.stored import BINARY, BOOLEAN, LIST, MAP, NULL, NUMBER, SET, TEXT, StoredType
from odm.codec.types.times import EpochType
from odm.codec.types.unions import bare
from odm.entities.markers import (
    AggregateMarker,
    Cell,
    CellVersions,
    ColumnsMarker,
    CounterMarker,
    Stored,
    find_marker,
    metadata_of,
)
from odm.errors import SchemaError
from odm.schema.entity import CellAt
from odm.schema.families import OWN_FAMILIES, check_own_families
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.entities.entity import Entity

_NAME: Final = r"(?s)([-_.a-zA-Z0-9]{1,64}):(.*)"
"""A column family (google.bigtable.admin.v2, ModifyColumnFamiliesRequest.Modification.id) and a qualifier."""

MAX_QUALIFIER: Final = 16 * 1024
"""Bytes of a qualifier (google.bigtable.v2, data.proto: Column.qualifier)."""


def find_cells(cls: "type[Entity]", codec: EntityCodec) -> dict[str, CellAt]:
    """The fields with a cell of their own, by stored name.

    Raises:
        SchemaError: the reason.
    """
    cells: dict[str, CellAt] = {}
    names: dict[tuple[str, str, bool], str] = {}
    for name, info in cls.model_fields.items():
        marks = [mark for mark in metadata_of(info) if isinstance(mark, Cell)]
        if not marks:
            continue
        where = f"{cls.__name__}.{name}"
        if len(marks) > 1:
            raise SchemaError(f"{where} is marked by Cell twice: keep one")
        stored = find_marker(info, Stored)
        if stored is not None and stored.family is not None:
            raise SchemaError(f"{where}: Cell and Stored(family=) both name a column family: keep one")
        several = find_marker(info, ColumnsMarker) is not None
        mark = find_marker(info, AggregateMarker)
        if (mark is not None and mark.kind != "sum") or find_marker(info, CellVersions) is not None:
            raise SchemaError(
                f"{where}: a Min or Max, or a field with CellVersions, has its cell in a family of odm's own, "
                "which Cell cannot name: remove one of the two"
            )
        if mark is not None and marks[0].encoding not in (None, "int64be"):
            raise SchemaError(
                f'{where}: a Sum is a cell of 8 bytes, to which the server adds: write Cell("{marks[0].name}") '
                f"without {marks[0].encoding!r}"
            )
        if find_marker(info, CounterMarker) is not None:
            raise SchemaError(
                f"{where}: a Counter has its cell in odm's own family of counters, which Cell cannot name: declare "
                'a plain int with Cell(..., "int64be"), which increment() also changes atomically'
            )
        at = _cell(where, marks[0])
        other = names.setdefault((at.family, at.qualifier, several), name)
        if other != name:
            raise SchemaError(
                f'{where} and {cls.__name__}.{other} are both in the cell "{marks[0].name}": give each a cell of its '
                "own"
            )
        if mark is None and not several:
            _check_type(where, codec.record.fields[name], marks[0])
        cells[codec.stored[name]] = at
    return cells


def check_cells(schema: Schema) -> None:
    """Check that the cells of a table are not in families that odm owns whole.

    Raises:
        SchemaError: the reason.
    """
    if schema.verbatim_rows:
        _check_sums(schema)
        _check_spans(schema)
        return  # a family of another program may have any name
    check_own_families(
        schema.entities.values(), {cell.family for entity in schema.entities.values() for cell in entity.cells.values()}
    )
    taken = {*schema.families} | OWN_FAMILIES
    for entity in schema.entities.values():
        names = {stored: name for name, stored in entity.codec.stored.items()}
        for stored, cell in entity.cells.items():
            where = f'{entity.name}.{names[stored]}: Cell("{cell.family}:{cell.qualifier}")'
            if names[stored] in entity.columns:
                raise SchemaError(
                    f"{where}: a field in Columns has many cells, and Cell names one: remove one, or declare "
                    'Table(row_style="verbatim") for rows of other programs'
                )
            if names[stored] in entity.aggregates:
                raise SchemaError(
                    f"{where}: a Sum has its cell in a family of odm's own, unless its row is that of another program: "
                    'remove Cell, or declare Table(row_style="verbatim")'
                )
            if schema.wide and not schema.hash_only:
                raise SchemaError(
                    f'{where} has no effect with Table(layout="row_per_partition"), which stores an item as one '
                    "document: remove Cell, or the layout"
                )
            if cell.family in taken:
                raise SchemaError(
                    f"{where}: odm replaces the family {cell.family!r} as a whole, and a Cell is for a family that "
                    "also has cells of other programs: name another family, or write Stored(family=...)"
                )


def _check_sums(schema: Schema) -> None:
    """Check that each Sum names its cell, and that its column family holds nothing else."""
    sums: dict[str, str] = {}
    others: dict[str, str] = {}
    for entity in schema.entities.values():
        for name, stored in entity.codec.stored.items():
            cell = entity.cells.get(stored)
            if cell is not None:
                (sums if name in entity.aggregates else others)[cell.family] = f"{entity.name}.{name}"
    for family in sorted(sums.keys() & others.keys()):
        raise SchemaError(
            f"{sums[family]} is a Sum in the column family {family!r}, to whose cells the server adds, and "
            f"{others[family]} has another cell in it: mark it with Sum, too, or name another family"
        )


def _check_spans(schema: Schema) -> None:
    """Check the dicts with a cell for each entry, and that a column is an entry of one of them only.

    Raises:
        SchemaError: the reason.
    """
    for entity in schema.entities.values():
        names = {stored: name for name, stored in entity.codec.stored.items()}
        spans = {names[stored]: cell for stored, cell in entity.cells.items() if names[stored] in entity.columns}
        for name, cell in spans.items():
            info, record = entity.cls.model_fields[name], entity.codec.record
            _check_entries(f"{entity.name}.{name}", record.fields[name], info, cell)
        for (name, cell), (other, another) in combinations(spans.items(), 2):
            if cell.family == another.family and (
                cell.qualifier.startswith(another.qualifier) or another.qualifier.startswith(cell.qualifier)
            ):
                raise SchemaError(
                    f'{entity.name}.{name} and {entity.name}.{other} are both in columns such as "{cell.family}:'
                    f'{max(cell.qualifier, another.qualifier, key=len)}...": give each another family, or prefixes of '
                    "which none begins with the other"
                )


def _check_entries(where: str, field: RecordField, info: FieldInfo, mark: CellAt) -> None:
    """Check that the cells of a dict in rows of other programs show whether it has an entry, and nothing else."""
    whole = field.type
    example = f'Annotated[dict[str, int], Columns, Cell("{mark.family}:{mark.qualifier}", "int64be")] = {{}}'
    if not isinstance(whole, DictType):
        raise SchemaError(
            f"{where} is of type {whole.text}, and only a dict can have a cell for each entry, which is never None: "
            f"declare {example}"
        )
    takes_data = info.default_factory is not None and info.default_factory_takes_validated_data
    if takes_data or (not info.is_required() and info.get_default(call_default_factory=True) != {}):
        raise SchemaError(f"{where}: a row without such cells has an empty dict, so its default is one: {example}")
    if mark.encoding is None:
        return
    if NULL & whole.item.kinds and mark.encoding != "json":
        raise SchemaError(f"{where}: {mark.encoding} has no bytes for None: declare values that are never None")
    if (fix := _FITS[mark.encoding](bare(whole.item))) is not None:
        raise SchemaError(f"{where} has values of type {whole.item.text}, which {mark.encoding} cannot hold: {fix}")


def _cell(where: str, mark: Cell) -> CellAt:
    name = mark.name
    parts = re.fullmatch(_NAME, name) if isinstance(name, str) else None
    if parts is None:
        raise SchemaError(
            f"{where}: Cell({name!r}): write the column family, a colon and the qualifier, as in "
            'Cell("MD:ASK"); a family has 1 to 64 letters, digits, "-", "_" and "."'
        )
    try:
        size = len(parts[2].encode())
    except UnicodeEncodeError:
        size = MAX_QUALIFIER + 1
    if size > MAX_QUALIFIER:
        raise SchemaError(
            f"{where}: Cell({name[:40]!r}...): a qualifier is UTF-8 text of at most {MAX_QUALIFIER} bytes"
        )
    if mark.encoding is not None and mark.encoding not in _FITS:
        raise SchemaError(
            f"{where}: Cell({name!r}, {mark.encoding!r}): the encodings are {', '.join(_FITS)}; without one, the cell "
            "has odm's own form"
        )
    return CellAt(parts[1], parts[2], mark.encoding)


def _check_type(where: str, field: RecordField, mark: Cell) -> None:
    """Check that all values of a field have bytes in its encoding, and are read back equal."""
    if mark.encoding is None:
        return
    plain = bare(field.type)
    if NULL & field.type.kinds and not field.omits_none and mark.encoding != "json":
        raise SchemaError(
            f"{where}: {mark.encoding} has no bytes for None: give the field the default None, which has no cell"
        )
    if (fix := _FITS[mark.encoding](plain)) is not None:
        raise SchemaError(f"{where} is of type {field.type.text}, which {mark.encoding} cannot hold: {fix}")


def _is_float(type_: StoredType) -> str | None:
    if type_ == FLOAT:
        return None
    return 'declare a float, or store the number as text with Cell(..., "text")'


def _is_whole(type_: StoredType) -> str | None:
    if type_ in {INT, COUNTER} or (isinstance(type_, EpochType) and type_.whole):
        return None
    if isinstance(type_, BoolFormType) and type_.kinds == NUMBER:
        return None
    return 'declare an int, a datetime with Stored(epoch="s"), "ms", "us" or "ns", or a bool with format="number"'


def _is_bool(type_: StoredType) -> str | None:
    return None if type_ == BOOL else 'declare a bool, or an int with Cell(..., "int8")'


def _is_text(type_: StoredType) -> str | None:
    if type_.kinds in (TEXT, NUMBER, BOOLEAN):
        return None
    return 'only text, numbers, times and bools have one text; for other types use "json"'


def _is_bytes(type_: StoredType) -> str | None:
    return None if type_ == BYTES or type_.kinds == BINARY else 'declare bytes, or a UUID with format="bytes"'


def _is_json(type_: StoredType) -> str | None:
    for part in parts_of(type_):
        if part.kinds & (BINARY | SET) and not part.kinds & (LIST | MAP):
            return "JSON has neither bytes nor sets: declare text and lists"
    return None


_FITS: Final[Mapping[str, Callable[[StoredType], str | None]]] = {
    "float64be": _is_float,
    "float32be": _is_float,
    "int64be": _is_whole,
    "int32be": _is_whole,
    "int16be": _is_whole,
    "int8": _is_whole,
    "hbase_bool": _is_bool,
    "text": _is_text,
    "json": _is_json,
    "bytes": _is_bytes,
}
"""By encoding: what to do about a type that it cannot hold; None: it can."""
