"""The columns of rows → those that a model can name, and families of columns whose names are data."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from odm.backends.bigtable.client.native import Column, Row
from odm.cli.inspect.cells import CellGuess, guess
from odm.cli.inspect.texts import words_of

_DATA: Final = re.compile(
    r"[0-9]+|[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{16,}|[0-9]{4}-[0-9]{2}-[0-9]{2}.*",
    re.ASCII | re.IGNORECASE,
)
"""Names that are numbers, ids or times."""

_BUCKET: Final = re.compile(r"([^0-9]+)([0-9]+)", re.ASCII)
"""Names that could be those of buckets, such as ``m05`` for a minute."""

_BUCKETS: Final = 8
"""So many names with the same letters and the same number of digits are data; fewer may be fields."""

_MANY: Final = 30
"""A family with more names than this has names that are data, if most rows have few of them."""

_FEW: Final = 0.25


class NamedColumn(NamedTuple):
    """A column that has one name in many rows."""

    family: str
    qualifier: str
    values: tuple[bytes | None, ...]
    guess: CellGuess


class DataColumns(Struct, frozen=True):
    """Columns of a family whose names are data, such as times.

    Attributes:
        family: their family.
        prefix: the text with which their names begin.
        names: their names, in order.
        guess: what all their values are.
        readable: all of them are text and longer than the prefix, so they can be entries of a dict.
    """

    family: str
    prefix: str
    names: tuple[str, ...]
    guess: CellGuess
    readable: bool


def columns_of(rows: Sequence[Row]) -> tuple[list[NamedColumn], list[DataColumns]]:
    """The columns of rows, in the order of families and names."""
    by_family: dict[str, dict[bytes, list[bytes | None]]] = defaultdict(dict)
    for at, row in enumerate(rows):
        for column, value in zip(row.columns, row.values, strict=True):
            by_family[column.family].setdefault(column.qualifier, [None] * len(rows))[at] = value
    groups = [
        (family, prefix, names)
        for family, columns in sorted(by_family.items())
        for prefix, names in _joined(data_names(columns, len(rows), _cells(columns.values()))).items()
    ]
    data = {(family, name) for family, _, names in groups for name in names}
    named = [
        _named(family, qualifier, columns[qualifier])
        for family, columns in sorted(by_family.items())
        for qualifier in sorted(columns)
        if (family, qualifier) not in data
    ]
    return named, [_data(family, prefix, names, by_family[family]) for family, prefix, names in groups]


def _cells(columns: Iterable[Sequence[bytes | None]]) -> int:
    return sum(value is not None for values in columns for value in values)


def _is_text(name: bytes) -> bool:
    try:
        name.decode()
    except UnicodeDecodeError:
        return False
    return True


def _named(family: str, qualifier: bytes, values: Sequence[bytes | None]) -> NamedColumn:
    name = qualifier.decode()
    return NamedColumn(family, name, tuple(values), guess(name, [value for value in values if value is not None]))


def _data(
    family: str, prefix: str, names: Sequence[bytes], columns: Mapping[bytes, Sequence[bytes | None]]
) -> DataColumns:
    values = [value for name in names for value in columns[name] if value is not None]
    texts = tuple(name.decode(errors="backslashreplace") for name in names)
    begin = prefix.encode()
    # a column that begins with the prefix and is not an entry would make the item invalid
    readable = all(_is_text(name) for name in columns if name.startswith(begin)) and begin not in names
    return DataColumns(family, prefix, texts, guess("", values), readable)


def _joined(groups: Mapping[str, list[bytes]]) -> dict[str, list[bytes]]:
    """The groups of names, so that no two can be dicts of which one would have the columns of the other, too."""
    joined: dict[str, list[bytes]] = {}
    for prefix in sorted(groups, key=len):
        starts = (other for other in joined if prefix.startswith(other) and any(map(_is_text, joined[other])))
        start = next(starts, prefix)
        joined[start] = sorted([*joined.get(start, ()), *groups[prefix]])
    return {prefix: joined[prefix] for prefix in sorted(joined)}


def data_names(names: Iterable[bytes], rows: int, cells: int) -> dict[str, list[bytes]]:
    """The names of columns of a family that are data, by the text with which they begin.

    Args:
        names: all names in the family.
        rows: the number of rows.
        cells: the number of cells in the family.
    """
    by_prefix: dict[str, list[bytes]] = defaultdict(list)
    every = sorted(names)
    if len(every) > _MANY and cells < _FEW * len(every) * rows:
        return {"": every}
    buckets: dict[tuple[str, int], list[bytes]] = defaultdict(list)
    for name in every:
        try:
            *head, last = words_of(name.decode())
        except UnicodeDecodeError:
            by_prefix[""].append(name)
            continue
        if _DATA.fullmatch(last):
            by_prefix["".join(head)].append(name)
        elif bucket := _BUCKET.fullmatch(last):
            buckets["".join(head) + bucket[1], len(bucket[2])].append(name)
    for (prefix, _), its in buckets.items():
        if len(its) >= _BUCKETS:
            by_prefix["" if len(its) == len(every) else prefix] += its
    return {prefix: its for prefix, its in by_prefix.items() if len(its) > 1 or not prefix}


def common(rows: Sequence[Row], least: float = 0.02) -> list[set[Column]]:
    """The columns of each row without those that only a small share of the rows have."""
    counted: dict[Column, int] = defaultdict(int)
    for row in rows:
        for column in row.columns:
            counted[column] += 1
    return [{column for column in row.columns if counted[column] >= least * len(rows)} for row in rows]
