"""Mutations in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), encoded by hand.

A bulk write has thousands of cells. One of Google's messages for each cell takes more than twice as long as this
encoder, and longer than all other work for a row. Rare mutations still use Google's messages. A test compares the two
encodings.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from google.cloud.bigtable_v2 import types as data

from odm.backends.bigtable.native import DeleteColumn, DeleteFamily, Mutation, SetCell


def varint(number: int) -> bytes:
    """A number as a varint; a negative number has 64 bits."""
    left, parts = number % (1 << 64), bytearray()
    while left > 0x7F:
        parts.append(left & 0x7F | 0x80)
        left >>= 7
    parts.append(left)
    return bytes(parts)


def field(number: int, content: bytes) -> bytes:
    """A field with bytes, text or a message; ``number`` is at most 15, so that its tag has one byte."""
    return b"%c%b%b" % (number << 3 | 2, varint(len(content)), content)


_LENGTHS: Final = tuple(map(varint, range(128)))
"""The varints of one byte."""

_SHORT: Final = len(_LENGTHS) - 2
"""If a message is shorter than this, the length of a message around it still has one byte."""


def mutations_of(number: int, mutations: Iterable[Mutation]) -> bytes:
    """The ``google.bigtable.v2.Mutation`` messages of a repeated field with this number."""
    parts: list[bytes] = []
    heads = _heads(number)
    for mutation in mutations:
        if not isinstance(mutation, SetCell):
            parts.append(field(number, _other(mutation)))
            continue
        qualifier, value, timestamp, family = mutation
        start = _column(family, qualifier) + _time(timestamp)
        length = len(value)
        size = len(start) + 1 + length
        if size < _SHORT:
            parts.append(heads[size] + start + _LENGTHS[length] + value)
        else:
            parts.append(field(number, field(1, start + varint(length) + value)))
    return b"".join(parts)


@lru_cache
def _heads(number: int) -> tuple[bytes, ...]:
    """The tags and lengths before a short cell, by its length: of the mutation, and of the SetCell in it."""
    return tuple(bytes([number << 3 | 2, size + 2, 1 << 3 | 2, size]) for size in range(_SHORT))


@lru_cache(maxsize=4096)
def _column(family: str, qualifier: str) -> bytes:
    """A SetCell message up to the value of its timestamp."""
    return field(1, family.encode()) + field(2, qualifier.encode()) + b"\x18"


@lru_cache(maxsize=16)
def _time(timestamp: int) -> bytes:
    """A SetCell message from its timestamp up to the length of its value; all cells of a write have one timestamp."""
    return varint(timestamp) + b"\x22"


def _other(mutation: DeleteFamily | DeleteColumn) -> bytes:
    if isinstance(mutation, DeleteFamily):
        return field(3, field(1, mutation.family.encode()))
    message = data.Mutation.pb()()
    column = message.delete_from_column
    column.family_name, column.column_qualifier = mutation.family, mutation.qualifier.encode()
    if mutation.before is not None:
        column.time_range.end_timestamp_micros = mutation.before
    return bytes(message.SerializeToString())
