"""The changes of a table whose change stream is enabled, in order."""

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import define, field
from google.cloud.bigtable_v2 import types
from msgspec import Struct
from msgspec.structs import replace as evolve

from odm.backends.bigtable.emulator.rows import Version


class Change(Struct, frozen=True):
    """A change of a row.

    Attributes:
        key: the row.
        at: when it was made, in microseconds.
        mutations: its google.bigtable.v2.Mutation messages.
        collected: garbage collection made it.
    """

    key: bytes
    at: int
    mutations: Sequence[Any]
    collected: bool = False


@define
class Log:
    """The changes, each by its place from 0 on. A later one has a later timestamp, also if the clock stands still."""

    changes: list[Change] = field(factory=list)

    def add(self, changes: Iterable[Change]) -> None:
        """Add changes, in order."""
        for change in changes:
            last = self.changes[-1].at if self.changes else 0
            self.changes.append(change if change.at > last else evolve(change, at=last + 1))


def collected(key: bytes, family: str, qualifier: bytes, gone: Sequence[Version], at: int) -> Change:
    """What garbage collection removed from a cell."""
    message = types.Mutation.pb()
    mutations = [message() for _ in gone]
    for mutation, (timestamp, _) in zip(mutations, gone, strict=True):
        mutation.delete_from_column.family_name = family
        mutation.delete_from_column.column_qualifier = qualifier
        mutation.delete_from_column.time_range.start_timestamp_micros = timestamp
        mutation.delete_from_column.time_range.end_timestamp_micros = timestamp + 1
    return Change(key, at, mutations, collected=True)
