"""Row filters: which cells of a row a read returns. As a predicate, a filter holds if it returns any cell.

The nodes only hold data; `odm.backends.bigtable.client.encoding` writes them as google.bigtable.v2.RowFilter, and keeps
the message of a compound filter in the filter. Their text has the syntax of ``cbt`` filters.
"""

import shlex
from collections.abc import Iterable, Iterator
from typing import Final, TypeAlias

from odm.immutable import Immutable, field

MAX_BYTES: Final = 20_480
"""The maximum bytes of a filter as a message (google.bigtable.v2, data.proto: RowFilter)."""

MAX_DEPTH: Final = 20
"""The maximum depth of nested filters (google.bigtable.v2, data.proto: RowFilter)."""

_OVERHEAD: Final = 24
"""Maximum bytes of one filter without its data: tags and lengths, at most five bytes each, of up to three fields."""


class Newest(Immutable):
    """The newest cell of every column; older cells may exist until garbage collection."""

    def __str__(self) -> str:
        return "cells-per-column=1"


class Column(Immutable):
    """The cells of one column."""

    family: str
    qualifier: str

    def __str__(self) -> str:
        return f"{self.family}:{shown(self.qualifier)}"


class ColumnRange(Immutable):
    """The cells of a family whose qualifier lies in ``[start, end)``; ``end`` "" means no upper bound."""

    family: str
    start: str
    end: str

    def has(self, family: str, qualifier: bytes) -> bool:
        """Whether a column is one of them."""
        return family == self.family and qualifier >= utf8(self.start) and (not self.end or qualifier < utf8(self.end))

    def without(self, ranges: "Iterable[ColumnRange]") -> "Iterator[ColumnRange]":
        """The parts of it that are in none of these ranges."""
        start, end = utf8(self.start), utf8(self.end)
        taken = (span for span in ranges if span.family == self.family)
        for span in sorted(taken, key=lambda span: utf8(span.start)):
            low, high = utf8(span.start), utf8(span.end)
            if low > start:
                yield from self._part(start, min(low, end) if end else low)
            if not high:
                return
            start = max(start, high)
        yield from self._part(start, end)

    def _part(self, start: bytes, end: bytes) -> "Iterator[ColumnRange]":
        if not end or start < end:
            yield ColumnRange(self.family, *(bound.decode("utf-8", "surrogateescape") for bound in (start, end)))

    @property
    def shortest(self) -> "Column | ColumnRange":
        """The filter for the same columns: a `Column`, if it is only one."""
        return Column(self.family, self.start) if self.end == f"{self.start}\0" else self

    def __str__(self) -> str:
        start = f"({self.start[:-1]}" if self.start.endswith("\0") else f"[{self.start}"
        return shown(f"{self.family}:{start}, {self.end})")


class Family(Immutable):
    """The cells of a family."""

    name: str

    def __str__(self) -> str:
        return f"{self.name}:*"


class AnyFamily(Immutable):
    """The cells of some families."""

    names: tuple[str, ...]

    def __str__(self) -> str:
        return "|".join(f"{name}:*" for name in self.names)


class ValueRange(Immutable):
    """The cells whose value lies in ``[start, end)``, or ``(start, end)`` if ``open``; None: no upper bound."""

    start: bytes = b""
    end: bytes | None = None
    open: bool = False

    def __str__(self) -> str:
        end = "" if self.end is None else repr(self.end)[1:]
        return f"value in {'(' if self.open else '['}{repr(self.start)[1:]}, {end})"


class ValueIs(Immutable):
    """The cells with this value."""

    value: bytes

    def __str__(self) -> str:
        return f"value = {repr(self.value)[1:]}"


class ValueMatches(Immutable):
    """The cells whose whole value matches an RE2 expression, over bytes."""

    pattern: bytes

    def __str__(self) -> str:
        return f"value ~ {repr(self.pattern)[1:]}"


class Before(Immutable):
    """The cells with a timestamp before this one, in microseconds."""

    micros: int

    def __str__(self) -> str:
        return f"timestamp < {self.micros}"


class First(Immutable):
    """The first ``cells`` cells of a row."""

    cells: int

    def __str__(self) -> str:
        return f"cells-per-row={self.cells}"


class Behind(Immutable):
    """The cells of a row without the first ``cells``."""

    cells: int

    def __str__(self) -> str:
        return f"cells-per-row-offset={self.cells}"


class Stripped(Immutable):
    """All cells, without their values."""

    def __str__(self) -> str:
        return "strip-value"


class Sampled(Immutable):
    """All cells of a random part of the rows: each row passes with this probability, between 0 and 1."""

    share: float

    def __str__(self) -> str:
        return f"sample={self.share!r}"


class Nothing(Immutable):
    """No cell."""

    def __str__(self) -> str:
        return "block-all"


class _Compound(Immutable, kw_only=True):
    message: bytes | None = field(default=None, eq=False, repr=False)


class Chain(_Compound):
    """The cells that pass all of two or more filters, applied in order."""

    filters: "tuple[Filter, ...]"

    def __str__(self) -> str:
        return f"({' | '.join(map(str, self.filters))})"


class Interleave(_Compound):
    """The cells that pass any of two or more filters; a cell is repeated for each filter that it passes."""

    filters: "tuple[Filter, ...]"

    def __str__(self) -> str:
        return f"({' + '.join(map(str, self.filters))})"


class Unless(_Compound):
    """The cells that pass ``otherwise`` if ``condition`` returns no cell of the row, else no cells. Not atomic."""

    condition: "Filter"
    otherwise: "Filter"

    def __str__(self) -> str:
        return f"(none if {self.condition} else {self.otherwise})"


Filter: TypeAlias = (
    Newest
    | Column
    | ColumnRange
    | Family
    | AnyFamily
    | ValueRange
    | ValueIs
    | ValueMatches
    | Before
    | First
    | Behind
    | Stripped
    | Sampled
    | Nothing
    | Chain
    | Interleave
    | Unless
)


def one_column(family: str, qualifier: str) -> ColumnRange:
    """The range of a single column."""
    return ColumnRange(family, qualifier, f"{qualifier}\0")


def utf8(qualifier: str) -> bytes:
    """A qualifier as bytes: those that are not UTF-8 are surrogates, as in row keys."""
    return qualifier.encode("utf-8", "surrogateescape")


def shown(text: str) -> str:
    """A text to print: bytes that are not UTF-8, which are surrogates in row keys and qualifiers, as escapes."""
    if not text.isascii():
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def quoted(text: str) -> str:
    """A text to print as an argument of a command line."""
    return shlex.quote(shown(text))


def chain(*filters: Filter) -> Filter:
    """A chain of the filters. A single filter is returned unchanged; nested chains are flattened."""
    parts = [part for one in filters for part in (one.filters if isinstance(one, Chain) else (one,))]
    return parts[0] if len(parts) == 1 else Chain(tuple(parts))


def interleave(*filters: Filter) -> Filter:
    """An interleave of the filters. A single filter is returned unchanged; nested interleaves are flattened."""
    parts = [part for one in filters for part in (one.filters if isinstance(one, Interleave) else (one,))]
    return parts[0] if len(parts) == 1 else Interleave(tuple(parts))


def newest(family: str, qualifier: str) -> Filter:
    """The newest cell of a column."""
    return Chain((Column(family, qualifier), Newest()))


def chained(*filters: Filter) -> Filter:
    """A predicate that holds if each of the filters returns a cell.

    Each filter is limited to its first cell, and an interleave counts equal cells separately (google.bigtable.v2,
    data.proto: RowFilter.Interleave). So the number of cells is the number of filters that hold.
    """
    if len(filters) == 1:
        return filters[0]
    ones = tuple(chain(one, First(1)) for one in filters)
    return Chain((Interleave(ones), Behind(len(ones) - 1)))


def fits(filter: Filter) -> bool:
    """Whether the filter is within the server's limits. False for some filters just below these limits."""
    return size(filter) <= MAX_BYTES and _depth(filter) <= MAX_DEPTH


def size(filter: Filter) -> int:
    """An upper bound of the filter's size as a message, in bytes."""
    match filter:
        case Chain(filters) | Interleave(filters):
            return _OVERHEAD + sum(map(size, filters))
        case Unless(condition, otherwise):
            return 2 * _OVERHEAD + size(condition) + size(otherwise)
        case AnyFamily(names):
            return _OVERHEAD + sum(2 * len(name) + 1 for name in names)
        case Column(family, qualifier):
            return _OVERHEAD + len(family) + 2 * _utf8(qualifier)
        case ColumnRange(family, start, end):
            return _OVERHEAD + len(family) + _utf8(start) + _utf8(end)
        case ValueRange(first, last):
            return _OVERHEAD + len(first) + len(last or b"")
        case ValueIs(value):
            return _OVERHEAD + 2 * len(value)
        case ValueMatches(pattern):
            return _OVERHEAD + len(pattern)
        case _:
            return _OVERHEAD


def _utf8(text: str) -> int:
    return len(utf8(text))


def _depth(filter: Filter) -> int:
    if isinstance(filter, Unless):
        return 1 + max(_depth(filter.condition), _depth(filter.otherwise))
    return 1 + max(map(_depth, filter.filters)) if isinstance(filter, Chain | Interleave) else 1
