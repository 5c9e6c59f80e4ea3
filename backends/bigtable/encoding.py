"""Mutations in protobuf's wire format (https://protobuf.dev/programming-guides/encoding), cells written by hand.

A bulk write is made of thousands of cells. Filling one of Google's messages for each, field by field, takes more than
twice as long, and more than all else that is done for a row. What is rare is left to those messages, and a test holds
the two against each other.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from google.cloud.bigtable_v2 import types as data

from odm.backends.bigtable.native import DeleteColumn, DeleteFamily, Mutation, SetCell


def varint(number: int) -> bytes:
    """A number as it stands on the wire; a negative one as of 64 bits."""
    left, parts = number % (1 << 64), bytearray()
    while left > 0x7F:
        parts.append(left & 0x7F | 0x80)
        left >>= 7
    parts.append(left)
    return bytes(parts)


def field(number: int, content: bytes) -> bytes:
    """A field of bytes, text or a message; its number is 15 at most."""
    return b"%c%b%b" % (number << 3 | 2, varint(len(content)), content)


_LENGTHS: Final = tuple(map(varint, range(128)))
"""Those of one byte."""

_SHORT: Final = len(_LENGTHS) - 2
"""A message shorter than this still has such a length as the only field of another one."""


def mutations_of(number: int, mutations: Iterable[Mutation]) -> bytes:
    """The field of this number with ``google.bigtable.v2.Mutation`` messages."""
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
    """What stands before a short cell, by its length: that a mutation begins, and in it a cell."""
    return tuple(bytes([number << 3 | 2, size + 2, 1 << 3 | 2, size]) for size in range(_SHORT))


@lru_cache(maxsize=4096)
def _column(family: str, qualifier: str) -> bytes:
    """A cell up to its timestamp."""
    return field(1, family.encode()) + field(2, qualifier.encode()) + b"\x18"


@lru_cache(maxsize=16)
def _time(timestamp: int) -> bytes:
    """A cell from its timestamp, which all cells of a write share, up to the length of its value."""
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
