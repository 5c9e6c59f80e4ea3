"""Faults in the cells that `odm.Cell` names."""

import re
from decimal import Decimal
from typing import Annotated, Any

import pytest

from odm import Cell, Columns, Counter, Entity, PrimaryKey, SchemaError, Stored, Table
from tests.schema.test_faults import declare_entity

FAULTS: dict[str, tuple[Any, Any, str]] = {
    "no family": (Annotated[str, Cell("ASK")], ..., "x: Cell('ASK'): write the column family, a colon and"),
    "a family of odm": (Annotated[str, Cell("d:x")], ..., 'Cell("d:x"): odm replaces the family'),
    "an unknown encoding": (Annotated[str, Cell("MD:x", "utf8")], ..., "the encodings are float64be"),  # type: ignore[arg-type]
    "a Decimal as float": (Annotated[Decimal, Cell("MD:x", "float64be")], ..., "declare a float, or store the number"),
    "a float as int": (Annotated[float, Cell("MD:x", "int64be")], ..., "declare an int, a datetime with"),
    "an int as float32": (Annotated[int, Cell("MD:x", "float32be")], ..., "declare a float, or store the number"),
    "a float as int32": (Annotated[float, Cell("MD:x", "int32be")], ..., "declare an int, a datetime with"),
    "an int as bool": (
        Annotated[int, Cell("MD:x", "hbase_bool")],
        ...,
        "declare a bool, or an int with",
    ),
    "a None of a bool": (Annotated[bool | None, Cell("MD:x", "hbase_bool")], ..., "give the field the default None"),
    "a list as text": (Annotated[list[str], Cell("MD:x", "text")], ..., 'for other types use "json"'),
    "a union as text": (Annotated[str | int, Cell("MD:x", "text")], ..., "which text cannot hold"),
    "bytes in JSON": (Annotated[list[bytes], Cell("MD:x", "json")], ..., "JSON has neither bytes nor sets"),
    "text as bytes": (Annotated[str, Cell("MD:x", "bytes")], ..., "declare bytes"),
    "a None that is stored": (Annotated[int | None, Cell("MD:x", "int64be")], ..., "give the field the default None"),
    "two cells": (Annotated[str, Cell("MD:x"), Cell("MD:z")], ..., "marked by Cell twice"),
    "a family, too": (Annotated[str, Cell("MD:x"), Stored(family="n")], ..., "both name a column family"),
    "Columns": (Annotated[set[str], Columns, Cell("MD:x")], set(), "has many cells"),
    "a Counter": (Annotated[int, Counter, Cell("MD:x")], 0, "which Cell cannot name"),
    "one cell for two fields": (Annotated[str, Cell("MD:y")], ..., "are both in the cell"),
}


@pytest.mark.parametrize(("type_", "default", "message"), FAULTS.values(), ids=FAULTS)
def test_faults(type_: Any, default: Any, message: str) -> None:
    table = Table("faults")
    annotations = {"id": str, "y": Annotated[str, Cell("MD:y")], "x": type_}
    values = {} if default is ... else {"x": default}
    declare_entity(table, annotations, primary=PrimaryKey("A#{id}"), **values)
    with pytest.raises(SchemaError, match=re.escape(message)):
        table.compile()


def test_a_wide_row_has_no_cells_of_fields() -> None:
    table = Table("wide", layout="row_per_partition")

    class Order(Entity, table=table):
        id: str
        x: Annotated[str, Cell("MD:x")]
        primary = PrimaryKey("A#{id}", "B")

    with pytest.raises(SchemaError, match="stores an item as one document"):
        table.compile()
