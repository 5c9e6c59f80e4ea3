"""`odm schema --bigquery`: SQL that shows a Bigtable table as columns, in BigQuery and in Bigtable's own GoogleSQL.

Sources: BigQuery, REST reference, BigtableOptions, and "Create a Bigtable external table"; Bigtable, "GoogleSQL for
Bigtable overview" and "Create and manage logical views", https://docs.cloud.google.com/bigtable/docs.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from functools import partial
from typing import Any, Final

from odm.backends.bigtable.client.native import COUNTERS, FAMILY
from odm.backends.bigtable.rows.cells import qualifier
from odm.backends.bigtable.rows.keys import is_wide
from odm.backends.bigtable.rows.placement import VERSIONS
from odm.codec import TAG
from odm.codec.types.scalars import BoolType, BytesType, FloatType, IntType
from odm.codec.types.stored import StoredType
from odm.codec.types.times import DateTimeType, DateType, EpochType, FormatType
from odm.codec.types.unions import bare
from odm.errors import Unsupported
from odm.immutable import Immutable, evolve
from odm.keys import Literal, next_prefix
from odm.keys.verbatim import VerbatimKey
from odm.schema.entity import EntitySchema
from odm.schema.model import Schema

_FIELD: Final = re.compile(r"[a-zA-Z][a-zA-Z0-9_]*", re.ASCII)
"""A name of a column that BigQuery takes as it is (REST reference, BigtableColumn.fieldName)."""

_PLACE: Final = re.compile(r"^( +)([0-9]+)", re.MULTILINE)
_ISO: Final = "%Y-%m-%dT%H:%M:%S"


class Shown(Immutable):
    """How SQL shows a column.

    Attributes:
        type: the type in an external table of BigQuery.
        encoding: the encoding there, TEXT or BINARY.
        sql: makes a GoogleSQL expression of one for the bytes.
    """

    type: str
    encoding: str
    sql: Callable[[str], str]


def _text(cell: str) -> str:
    return f"CAST({cell} AS STRING)"


_AS_TEXT: Final = Shown("STRING", "TEXT", _text)
_COUNTER: Final = Shown("INTEGER", "BINARY", lambda cell: f"TO_INT64({cell})")
_EPOCHS: Final = {"s": "TIMESTAMP_SECONDS", "ms": "TIMESTAMP_MILLIS", "us": "TIMESTAMP_MICROS"}
"""By the unit of times; those of other units are shown as numbers."""
_AS_BYTES: Final = Shown("BYTES", "BINARY", lambda cell: cell)
_SMALL: Final = {"int32be": 4, "int16be": 2, "int8": 1}
"""By encoding, the bytes of a whole number that is shorter than TO_INT64 takes it."""


def _widened(size: int, cell: str) -> str:
    """The number of a cell of this size: with as many bytes of its sign in front as 8 bytes need."""
    zeros, ones = ("\\x00" * (8 - size), "\\xff" * (8 - size))
    return f"TO_INT64(CONCAT(IF({cell} < b'\\x80', b'{zeros}', b'{ones}'), {cell}))"


_BINARY: Final[Mapping[str, Shown]] = {
    "int64be": _COUNTER,
    "float64be": Shown("FLOAT", "BINARY", lambda cell: f"TO_FLOAT64({cell})"),
    "float32be": _AS_BYTES,
    **{encoding: Shown("BYTES", "BINARY", partial(_widened, size)) for encoding, size in _SMALL.items()},
    "hbase_bool": Shown("BYTES", "BINARY", lambda cell: f"{cell} = b'\\xff'"),
    "bytes": _AS_BYTES,
    "json": _AS_TEXT,
}
"""By the encoding of `odm.Cell`; text depends on the type."""


def statements(schema: Schema, project: str, instance: str) -> str:
    """The statements for a table.

    Args:
        schema: the table; its name is that on Bigtable.
        project: the Google Cloud project.
        instance: the Bigtable instance.

    Raises:
        Unsupported: a row key has binary parts.
    """
    if schema.binary_row_keys:
        raise Unsupported(
            f"table {schema.name!r}: row keys with binary parts have no columns in these statements; select parts of "
            "_key with SUBSTR in a view of your own"
        )
    parts = [_external_table(schema, project, instance)]
    parts += [_view(schema, entity) for entity in schema.entities.values()]
    return "\n".join(parts)


def _external_table(schema: Schema, project: str, instance: str) -> str:
    families: dict[str, dict[str, Shown]] = {}
    for entity in schema.entities.values():
        if not schema.verbatim_rows:
            families.setdefault(entity.family or FAMILY, {})
        for _, family, name, column in _columns(schema, entity):
            known = families.setdefault(family, {}).setdefault(name, column)
            if (known.type, known.encoding) != (column.type, column.encoding):
                families[family][name] = _AS_TEXT  # entities differ in its type
    options = {
        "columnFamilies": [_family(name, columns) for name, columns in sorted(families.items())],
        "ignoreUnspecifiedColumnFamilies": True,
        "readRowkeyAsString": True,
    }
    uri = f"https://googleapis.com/bigtable/projects/{project}/instances/{instance}/tables/{schema.name}"
    return (
        "-- BigQuery: replace DATASET. A column is read as d.name.cell.value; the row key as rowkey.\n"
        f"CREATE OR REPLACE EXTERNAL TABLE `DATASET.{schema.name}`\n"
        "OPTIONS (\n"
        "  format = 'CLOUD_BIGTABLE',\n"
        f"  uris = [{_literal(uri)}],\n"
        f"  bigtable_options = r'''{_lines(options)}'''\n"
        ");\n"
    )


def _lines(options: Mapping[str, Any]) -> str:
    """JSON with a line for each column, for a raw string in single quotes."""
    lines: list[str] = []

    def place(part: Mapping[str, Any]) -> int:
        lines.append(json.dumps(part))
        return len(lines) - 1

    families = [
        option | {"columns": [*map(place, option["columns"])]} if "columns" in option else place(option)
        for option in options["columnFamilies"]
    ]
    whole = json.dumps({**options, "columnFamilies": families}, indent=2)
    return _PLACE.sub(lambda match: f"{match[1]}{lines[int(match[2])]}", whole).replace("'", "\\u0027")


def _family(name: str, columns: Mapping[str, Shown]) -> dict[str, Any]:
    family: dict[str, Any] = {"familyId": name, "onlyReadLatest": True}
    if not columns:
        return family | {"type": "STRING", "encoding": "TEXT"}
    taken: set[str] = set()
    family["columns"] = [_bigquery_column(column, column_type, taken) for column, column_type in columns.items()]
    return family


def _bigquery_column(name: str, column_type: Shown, taken: set[str]) -> dict[str, Any]:
    declared = {"qualifierString": name, "type": column_type.type, "encoding": column_type.encoding}
    plain = field = name if _FIELD.fullmatch(name) else f"f_{re.sub(r'[^a-zA-Z0-9]+', '_', name).strip('_')}"
    while field.lower() in taken:  # names of BigQuery do not differ in case only
        field += "_"
    taken.add(field.lower())
    return declared | ({"fieldName": field} if field != name or plain != name else {})


def _columns(schema: Schema, entity: EntitySchema) -> Iterator[tuple[str, str, str, Shown]]:
    """The field, family, qualifier and form of each column of an entity; in wide rows there are none."""
    if is_wide(schema):
        return
    home = entity.family or FAMILY
    if not schema.verbatim_rows:
        yield "", home, TAG, _AS_TEXT
    for part in entity.codec.record.fields.values():
        only_in_key = entity.row is not None and part.name in entity.row.fields and part.stored not in entity.cells
        if part.name in entity.columns or only_in_key:
            continue
        if part.stored in entity.cells:
            at = entity.cells[part.stored]
            form = _COUNTER if part.name in entity.aggregates else _encoded(bare(part.type), at.encoding)
            yield part.name, at.family, at.qualifier, form
        elif part.name in entity.counters:
            yield part.name, COUNTERS, qualifier(part.stored), _COUNTER
        elif part.name in entity.aggregates:
            yield part.name, entity.aggregates[part.name], qualifier(part.stored), _COUNTER
        elif part.name in entity.versioned:
            yield part.name, VERSIONS, qualifier(part.stored), _form(bare(part.type))
        else:
            yield part.name, entity.families.get(part.stored) or home, qualifier(part.stored), _form(bare(part.type))


def _encoded(type_: StoredType, encoding: str | None) -> Shown:
    """How a cell of an encoding is shown."""
    if encoding in (None, "text"):
        return _form(type_)
    form = _BINARY[encoding]
    if isinstance(type_, EpochType) and (function := _EPOCHS.get(type_.unit)) is not None:
        return evolve(form, sql=lambda cell: f"{function}({form.sql(cell)})")
    return form


def _form(type_: StoredType) -> Shown:
    """How a column with text in it is shown."""
    if isinstance(type_, BoolType):
        return Shown("BOOLEAN", "TEXT", lambda cell: f"CAST({_text(cell)} AS BOOL)")
    if isinstance(type_, BytesType):
        return Shown("BYTES", "BINARY", lambda cell: f"SUBSTR({cell}, 2)")  # odm's own form begins with a zero byte
    if isinstance(type_, IntType | EpochType):
        return Shown("INTEGER", "TEXT", partial(_converted_cell, type_))
    if isinstance(type_, FloatType):
        return Shown("FLOAT", "TEXT", partial(_converted_cell, type_))
    return Shown("STRING", "TEXT", partial(_converted_cell, type_))


def _converted_cell(type_: StoredType, cell: str) -> str:
    return _converted(type_, _text(cell))


def _converted(type_: StoredType, text: str) -> str:
    """The expression for a value whose text is an expression; text of a Decimal stays text, which is exact."""
    if isinstance(type_, EpochType):
        function = _EPOCHS.get(type_.unit)
        return f"CAST({text} AS NUMERIC)" if function is None else f"{function}(CAST({text} AS INT64))"
    if isinstance(type_, FormatType):
        return _parsed(type_, text)
    for kind, name in ((IntType, "INT64"), (FloatType, "FLOAT64"), (DateTimeType, "TIMESTAMP"), (DateType, "DATE")):
        if isinstance(type_, kind):
            return f"CAST({text} AS {name})"
    return text


def _parsed(type_: FormatType, text: str) -> str:
    if type_.form == "%Y-%m-%d":
        return f"CAST({text} AS DATE)"
    if type_.form.startswith(_ISO):
        return f"CAST({text} AS TIMESTAMP)"
    if re.search("%(3f|f|z|:z)", type_.form):
        return text
    return f"PARSE_{'DATE' if type_.of is date else 'TIMESTAMP'}({_literal(type_.form)}, {text})"


def _view(schema: Schema, entity: EntitySchema) -> str:
    """The query of a logical view: the rows of an entity, with a column for each field."""
    view = f"{schema.name}-{entity.name.lower()}"
    head = f"-- Bigtable: {entity.name}, the query of the logical view {view}.\n"
    if is_wide(schema):
        return (
            f"-- Bigtable: {entity.name} has no columns of its own in layout row_per_partition: an item is a cell, and "
            f"its qualifier is the sort key.\nSELECT CAST(_key AS STRING) AS _key, {_quoted(entity.family or FAMILY)} "
            f"FROM {_quoted(schema.name)};\n"
        )
    expressions = ["CAST(_key AS STRING) AS _key", *_key_columns(entity)]
    expressions += [
        f"{form.sql(f'{_quoted(family)}[{_literal(column)}]')} AS {_quoted(name)}"
        for name, family, column, form in _columns(schema, entity)
        if name
    ]
    where = " AND ".join(_conditions(schema, entity))
    columns = ",\n  ".join(expressions)
    return f"{head}SELECT\n  {columns}\nFROM {_quoted(schema.name)}{where and chr(10)}{where and f'WHERE {where}'};\n"


def _conditions(schema: Schema, entity: EntitySchema) -> Iterator[str]:
    """Which rows are of an entity."""
    first = entity.primary.partition.parts[0]
    if isinstance(first, Literal):
        yield f"_key >= {_bytes(first.text)}"
        if (end := next_prefix(first.text)) is not None:
            yield f"_key < {_bytes(end)}"
    if not schema.verbatim_rows:
        yield f"{_quoted(entity.family or FAMILY)}[{_literal(TAG)}] = {_bytes(entity.tag)}"
    elif len(schema.entities) > 1:
        yield f"REGEXP_CONTAINS(CAST(_key AS STRING), {_pattern(entity, '')})"


def _key_columns(entity: EntitySchema) -> Iterator[str]:
    """The fields that stand in row keys as they are, and in no column."""
    if entity.row is None:
        return
    types = {part.name: part.type for part in entity.codec.record.fields.values()}
    for field in entity.row.fields:
        if entity.codec.stored[field] not in entity.cells:
            text = f"REGEXP_EXTRACT(CAST(_key AS STRING), {_pattern(entity, field)})"
            yield f"{_converted(bare(types[field]), text)} AS {_quoted(field)}"


def _pattern(entity: EntitySchema, field: str) -> str:
    """The regular expression of an entity's row keys, with a group for one field."""
    assert entity.row is not None
    pattern = ""
    for part in entity.row.parts:
        if isinstance(part, Literal):
            pattern += _escaped(part.text)
            continue
        size, empty = (part.type.size, part.type.empty) if isinstance(part.type, VerbatimKey) else (0, False)
        some = "*" if empty else "+"
        text = f".{{{size}}}" if size else f"[^{_escaped(part.follow[0])}]{some}" if part.follow else f".{some}"
        pattern += f"({text})" if part.name == field else text
    return f"r'^{pattern}$'"


def _escaped(text: str) -> str:
    """A literal in a regular expression that stands in a raw string with single quotes."""
    return "".join(
        rf"\x{{{ord(char):x}}}" if char == "'" or not char.isprintable() else char if char == "#" else re.escape(char)
        for char in text
    )


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"  # always: a field may have the name of a keyword


def _literal(text: str) -> str:
    """A literal of text, with escapes for what cannot be seen."""
    escaped = "".join(
        f"\\{char}" if char in "\\'" else char if char.isprintable() else f"\\U{ord(char):08x}" for char in text
    )
    return f"'{escaped}'"


def _bytes(text: str) -> str:
    """A literal of bytes, with escapes for all but printable ASCII."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in "'\\" else f"\\x{byte:02x}" for byte in text.encode()
    )
    return f"b'{escaped}'"
