"""Reads *usual* rows from the chunks of a ReadRows response without parsing the chunks.

In a usual row each chunk is a whole cell with its qualifier, a timestamp and a value, in this order. Rows with the same
columns differ only in the row key, the timestamps and the values. So it suffices to compare the other bytes of a chunk
with those of an earlier row, and to check that the value has its length and ends the chunk.

A row that is not usual is left to `odm.backends.bigtable.rows`, which also checks the order of rows.
"""

from typing import Final

from google.protobuf.message import DecodeError

from odm.backends.bigtable.messages import ABSENT, CellChunk, column
from odm.backends.bigtable.native import Column, Row

_ROW_KEY, _FAMILY, _QUALIFIER, _TIME, _VALUE = b"\x0a\x12\x1a\x20\x32"
"""The tags of a chunk's fields, in order."""

_COMMIT: Final = b"\x48\x01"
"""The field ``commit_row``, which ends the last chunk of a row."""

_LARGE: Final = 0x80
"""The first length that needs a second byte, and the bit that marks all bytes of a number but the last."""

_STAMP: Final = 10
"""The bytes of a timestamp from the year 1987 up to 4253, with its tag, and of the tag of the value."""

_MOST_PATTERNS: Final = 64
"""The patterns that are kept of one response."""

_MOST_MISSES: Final = 4
"""After this number of rows in a sequence that are not usual, the rest of the response is parsed."""

_KNOWN: Final[dict[tuple[bytes, ...], tuple[Column, ...]]] = {}
"""The columns of rows by the bytes of their names, shared by all responses, of all threads.

Most rows have the columns of an entity. Other programs may write any number of columns, so there are limits: the cache
is emptied when it is full. Keys are names of a `Pattern`, or those that `columns_of` takes, which begin with ABSENT.
"""

_MOST_KNOWN: Final = 512
_MOST_BYTES: Final = 16 * 1024
"""The maximum sets of columns in the cache, and the maximum bytes of the names of one."""


class Pattern:
    """What the chunks of usual rows with the same columns have in common; for one response.

    Args:
        names: of each chunk, the bytes of its column, without the row key before it.

    Attributes:
        following: the pattern of the row that followed the last row of this pattern.
    """

    def __init__(self, names: tuple[bytes, ...]) -> None:
        self.following = self
        self._names = names
        self._columns = _KNOWN.get(names) or _kept(names, columns_of(_spelled(names)))
        self._ends = [len(name) + _STAMP for name in names]  # of what is before the value and its length
        self._heads: list[bytes] = []  # the names with the timestamp of the last row and the tag of the value
        self._timestamps: tuple[int, ...] = ()

    def row(self, chunks: list[bytes], at: int) -> Row | None:
        """The row that begins at a chunk; None if its chunks differ in more than row key, timestamps and values.

        Raises:
            IndexError: as None.
        """
        row = chunks[at : at + len(self._names)]
        first, last = row[0], row[-1]
        if len(row) < len(self._names) or first[0] != _ROW_KEY or last[-2:] != _COMMIT:
            return None
        start, key_end = _key(first)
        row[-1] = last[:-2]
        if last[0] == _ROW_KEY:  # the emulator repeats the key in each chunk
            key = first[:key_end]
            row = [chunk.removeprefix(key) for chunk in row]
        else:
            row[0] = first[key_end:]
        if not (self._heads and row[0].startswith(self._heads[0])) and not self._restamp(row[0]):
            return None
        values: list[bytes] = []
        times: list[int] | None = None  # if they differ
        for chunk, head, end in zip(row, self._heads, self._ends, strict=True):
            if not chunk.startswith(head):
                if chunk == head[:-1]:  # the field of an empty value is left out
                    values.append(b"")
                    continue
                time = self._timestamp(len(values), chunk)
                if time is None:
                    return None
                times = times or list(self._timestamps)
                times[len(values)] = time
            size = chunk[end]
            if size < _LARGE:
                value = chunk[end + 1 :]
            elif chunk[end + 1] < _LARGE:
                size += (chunk[end + 1] - 1) * _LARGE
                value = chunk[end + 2 :]
            else:  # a size of three bytes
                return None
            if len(value) != size:
                return None
            values.append(value)
        timestamps = self._timestamps if times is None else tuple(times)
        return Row.parted(first[start:key_end], self._columns, tuple(values), timestamps)

    def _restamp(self, first: bytes) -> bool:
        """Expect the timestamp of a row's first chunk in the others; False if the chunk is not usual."""
        timestamp = self._timestamp(0, first)
        if timestamp is not None:
            stamp = first[self._ends[0] - _STAMP : self._ends[0]]
            self._heads = [name + stamp for name in self._names]
            self._timestamps = (timestamp,) * len(self._names)
        return timestamp is not None

    def _timestamp(self, place: int, chunk: bytes) -> int | None:
        """The timestamp of a cell; None if the chunk is not usual."""
        name, end = self._names[place], self._ends[place]
        time = chunk[len(name) : end - 1]
        if not chunk.startswith(name) or chunk[end - 1] != _VALUE or time[0] != _TIME:
            return None
        if min(time[1:-1]) < _LARGE or time[-1] >= _LARGE:
            return None
        return int(CellChunk.FromString(time).timestamp_micros)


class Patterns:
    """The patterns of one response, for rows with different columns."""

    def __init__(self) -> None:
        self._last: Pattern | None = None
        self._known: dict[tuple[bytes, ...], Pattern] = {}
        self._misses = 0

    def row(self, chunks: list[bytes], at: int) -> Row | None:
        """The row that begins at a chunk; None if it is not a usual one, or if many rows before it were not."""
        if self._misses == _MOST_MISSES:
            return None
        try:
            last = self._last
            pattern = None if last is None else last.following
            row = None if pattern is None else pattern.row(chunks, at)
            if row is None:
                pattern = self._of(_names(chunks, at))
                row = pattern.row(chunks, at)
                if last is not None and row is not None:
                    last.following = pattern
            if row is not None:
                self._last = pattern
        except (IndexError, DecodeError):  # a chunk ends too early, or only looks like a usual one
            row = None
        self._misses = 0 if row is not None else self._misses + 1
        return row

    def _of(self, names: tuple[bytes, ...]) -> Pattern:
        pattern = self._known.get(names)
        if pattern is None:
            if len(self._known) == _MOST_PATTERNS:
                self._known.clear()
            pattern = self._known[names] = Pattern(names)
        return pattern


def _key(first: bytes) -> tuple[int, int]:
    """Where the row key in a chunk begins and ends.

    Raises:
        IndexError: it has 16,384 bytes or more.
    """
    if first[1] < _LARGE:
        return 2, 2 + first[1]
    if first[2] < _LARGE:
        return 3, 3 + first[1] + (first[2] - 1) * _LARGE
    raise IndexError


def _names(chunks: list[bytes], at: int) -> tuple[bytes, ...]:
    """The names for the `Pattern` of the row that begins at a chunk.

    Raises:
        IndexError: it is not a usual row.
    """
    names: list[bytes] = []
    first = chunks[at]
    key = first[: _key(first)[1]]
    for place in range(at, len(chunks)):
        chunk = chunks[place]
        if chunk[0] == _ROW_KEY:
            chunk = chunk.removeprefix(key)
        end = 0
        if chunk[0] == _FAMILY and chunk[1] < _LARGE:
            end = 2 + chunk[1]
        if chunk[end] != _QUALIFIER or chunk[end + 1] >= _LARGE or not (end or names):
            raise IndexError
        names.append(chunk[: end + 2 + chunk[end + 1]])
        if chunk[-2:] == _COMMIT:
            return tuple(names)
    raise IndexError  # the row ends in another message


def columns_of(names: tuple[bytes, ...]) -> tuple[Column, ...]:
    """The columns of a row, cached.

    Args:
        names: the ``qualifier`` of each cell, and before those of a family ABSENT and its ``family_name``.
    """
    found = _KNOWN.get(names)
    return _kept(names, _decoded(names)) if found is None else found


def _kept(names: tuple[bytes, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, which are added to the cache."""
    if sum(map(len, names)) <= _MOST_BYTES:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[names] = columns
    return columns


def _decoded(names: tuple[bytes, ...]) -> tuple[Column, ...]:
    family, columns = b"", []
    place = iter(names)
    for name in place:
        if name == ABSENT:
            family = next(place)
        else:
            columns.append(column(family, name))
    return tuple(columns)


def _spelled(names: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The names of a `Pattern` as `columns_of` takes them."""
    found: list[bytes] = []
    for name in names:
        chunk = CellChunk.FromString(name)
        if chunk.family_name != ABSENT:
            found += (ABSENT, chunk.family_name)
        found.append(chunk.qualifier)
    return tuple(found)
