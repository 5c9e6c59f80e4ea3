"""Requests for data in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), encoded by hand.

One of Google's messages for each cell of a write takes more than twice as long as this encoder, and longer than all
other work for a row. Tests parse what it writes with Google's messages.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from struct import pack
from typing import Final, assert_never

from odm.backends.bigtable.client.filters import (
    AnyFamily,
    Before,
    Behind,
    Chain,
    Column,
    ColumnRange,
    Family,
    Filter,
    First,
    Interleave,
    Newest,
    Nothing,
    Sampled,
    Stripped,
    Unless,
    ValueIs,
    ValueMatches,
    ValueRange,
    utf8,
)
from odm.backends.bigtable.client.native import (
    AddToCell,
    AppendValue,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteFamily,
    Increment,
    MutateRow,
    MutateRows,
    Mutation,
    ReadModifyWriteRow,
    ReadRows,
    RowRange,
    SetCell,
)
from odm.immutable import force_setattr


def varint(number: int) -> bytes:
    """A number as a varint; a negative number has 64 bits."""
    left, parts = number % (1 << 64), bytearray()
    while left > 0x7F:
        parts.append(left & 0x7F | 0x80)
        left >>= 7
    parts.append(left)
    return bytes(parts)


_LENGTHS: Final = tuple(map(varint, range(1024)))
"""The varints of the usual lengths."""

_SHORT: Final = 126
"""If a message is shorter than this, the lengths of it and of a message around it have one byte."""


def field(number: int, content: bytes) -> bytes:
    """A field with bytes, text or a message; ``number`` is at most 15, so that its tag has one byte."""
    size = len(content)
    return b"%c%b%b" % (number << 3 | 2, _LENGTHS[size] if size < len(_LENGTHS) else varint(size), content)


def number_field(number: int, value: int) -> bytes:
    """A field with an integer or a boolean."""
    return varint(number << 3) + varint(value)


def read_rows(call: ReadRows) -> bytes:
    """A ``ReadRowsRequest``, like the messages of the functions below without its table and app profile."""
    rows = b"".join([field(1, _key(key)) for key in call.keys]) if call.keys else field(2, _range(call.range))
    limit = number_field(4, call.limit) if call.limit else b""
    return field(2, rows) + field(3, filter_of(call.filter)) + limit + (number_field(7, True) if call.reverse else b"")


def check_and_mutate(call: CheckAndMutateRow) -> bytes:
    """A ``CheckAndMutateRowRequest``; without a predicate, the server checks whether the row has any cell."""
    predicate = b"" if call.predicate is None else field(6, filter_of(call.predicate))
    return field(2, _key(call.key)) + predicate + mutations_of(4, call.matched) + mutations_of(5, call.unmatched)


def mutate(call: MutateRow) -> bytes:
    """A ``MutateRowRequest``."""
    return field(2, _key(call.entry.key)) + mutations_of(3, call.entry.mutations)


def mutate_many(call: MutateRows) -> bytes:
    """A ``MutateRowsRequest``."""
    return b"".join([field(2, field(1, _key(entry.key)) + mutations_of(2, entry.mutations)) for entry in call.entries])


def read_modify_write(call: ReadModifyWriteRow) -> bytes:
    """A ``ReadModifyWriteRowRequest``."""
    return field(2, _key(call.key)) + b"".join([field(3, _rule(rule)) for rule in call.rules])


def _rule(rule: Increment | AppendValue) -> bytes:
    column = field(1, rule.family.encode()) + field(2, rule.qualifier.encode())
    return column + (number_field(4, rule.by) if isinstance(rule, Increment) else field(3, rule.value))


def _range(rows: RowRange) -> bytes:
    """A RowRange message; without a start or an end, it has no limit there."""
    start = field(2 if rows.open else 1, _key(rows.start)) if rows.open or rows.start else b""
    return start if rows.end is None else start + field(3, _key(rows.end))


def _key(row_key: str) -> bytes:
    return row_key.encode("utf-8", "surrogateescape")


def mutations_of(number: int, mutations: Iterable[Mutation]) -> bytes:
    """The ``google.bigtable.v2.Mutation`` messages of a repeated field with this number."""
    parts: list[bytes] = []
    heads, last, time = _heads(number), None, b""
    for mutation in mutations:
        if type(mutation) is not SetCell:
            if isinstance(mutation, AddToCell):
                parts.append(_addition(number, mutation))
            else:
                parts.append(_deletion(number, mutation))
            continue
        qualifier, value, timestamp, family = mutation
        if timestamp != last:  # all cells of a write have one timestamp
            last, time = timestamp, _time(timestamp)
        start = _column(family, qualifier)
        length = len(value)
        size = len(start) + len(time) + 1 + length
        if size < _SHORT:
            parts += (heads[size], start, time, _LENGTHS[length], value)
        else:
            parts.append(field(number, field(1, start + time + varint(length) + value)))
    return b"".join(parts)


@lru_cache
def _heads(number: int) -> tuple[bytes, ...]:
    """The tags and lengths before a short cell, by its length: of the mutation, and of the SetCell in it."""
    return tuple(bytes([number << 3 | 2, size + 2, 1 << 3 | 2, size]) for size in range(_SHORT))


@lru_cache(maxsize=4096)
def _column(family: str, qualifier: str) -> bytes:
    """A SetCell message up to the value of its timestamp.

    Cached, because the items of an entity have the same columns; bounded, because members of dicts are columns, too.
    """
    return field(1, family.encode()) + field(2, utf8(qualifier)) + b"\x18"


@lru_cache(maxsize=16)
def _time(timestamp: int) -> bytes:
    """A SetCell message from its timestamp up to the length of its value."""
    return varint(timestamp) + b"\x22"


def _addition(number: int, mutation: AddToCell) -> bytes:
    """A Mutation that adds to an aggregate cell; its parts are ``google.bigtable.v2.Value`` messages."""
    column, at = field(8, utf8(mutation.qualifier)), number_field(9, mutation.timestamp)
    where = field(1, mutation.family.encode()) + field(2, column) + field(3, at)
    return field(number, field(5, where + field(4, number_field(6, mutation.by))))


@lru_cache(maxsize=256)  # most are those of `odm.backends.bigtable.rows.ownership.REMOVED`
def _deletion(number: int, mutation: DeleteFamily | DeleteColumn) -> bytes:
    """A Mutation that deletes cells."""
    if isinstance(mutation, DeleteFamily):
        return field(number, field(3, field(1, mutation.family.encode())))
    column = field(1, mutation.family.encode()) + field(2, utf8(mutation.qualifier))
    if mutation.before is not None:
        column += field(3, number_field(2, mutation.before))
    return field(number, field(2, column))


def filter_of(wanted: Filter) -> bytes:
    """The ``google.bigtable.v2.RowFilter`` message of a filter.

    That of a compound filter is kept in the filter: filters that live longer than a request are encoded only once.
    """
    if not isinstance(wanted, Chain | Interleave | Unless):
        return _simple(wanted)
    if wanted.message is None:
        force_setattr(wanted, "message", _compound(wanted))
    assert wanted.message is not None
    return wanted.message


def _compound(wanted: Chain | Interleave | Unless) -> bytes:
    match wanted:
        case Chain(filters):
            return field(1, b"".join([field(1, filter_of(part)) for part in filters]))
        case Interleave(filters):
            return field(2, b"".join([field(1, filter_of(part)) for part in filters]))
        case Unless(condition, otherwise):
            nothing = _simple(Nothing())
            return field(3, field(1, filter_of(condition)) + field(2, nothing) + field(3, filter_of(otherwise)))
        case _:
            assert_never(wanted)


def _simple(wanted: Filter) -> bytes:
    match wanted:
        case Newest():
            return number_field(12, 1)
        case Column() | ColumnRange():
            return field(7, _columns(wanted))
        case Family(name):
            return field(5, re.escape(name).encode())
        case AnyFamily(names):
            return field(5, "|".join(map(re.escape, names)).encode())
        case ValueIs(value):
            return field(15, field(1, value) + field(3, value))
        case ValueRange(start, end, is_open):
            return field(15, field(2 if is_open else 1, start) + (b"" if end is None else field(4, end)))
        case ValueMatches(pattern):
            return field(9, pattern)
        case Before(micros):
            return field(8, number_field(2, micros))
        case First(cells):
            return number_field(11, cells)
        case Behind(cells):
            return number_field(10, cells)
        case Stripped():
            return number_field(13, True)
        case Sampled(share):
            return varint(14 << 3 | 1) + pack("<d", share)
        case Nothing():
            return number_field(18, True)
        case Chain() | Interleave() | Unless():
            return _compound(wanted)
        case _:
            assert_never(wanted)


def _columns(wanted: Column | ColumnRange) -> bytes:
    """A ColumnRange message."""
    if isinstance(wanted, Column):
        qualifier = utf8(wanted.qualifier)
        return field(1, wanted.family.encode()) + field(2, qualifier) + field(4, qualifier)
    end = field(5, utf8(wanted.end)) if wanted.end else b""
    return field(1, wanted.family.encode()) + field(2, utf8(wanted.start)) + end
