"""The values of change streams: partitions, positions in them, and what a stream delivers.

A partition, in odm a *shard*, is a range of row keys. Its name and the positions in it are text::

    PRODUCT%235:USER%23                 the row keys from PRODUCT#5 up to but not including USER#
    PRODUCT%235:USER%23=CgR0b2tl        a position: a continuation token of this range
    PRODUCT%235:USER%23@1700000000000   a position: a time, in microseconds, at which to begin

A partition that continues several others has a position from each of them, one a line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote_to_bytes

from odm.immutable import Immutable

_SPAN: Final = re.compile(r"([^:@=\n]*):([^:@=\n]*)")
_POSITION: Final = re.compile(rf"({_SPAN.pattern})(?:=([^:@=\n]+)|@([0-9]{{1,18}}))")


class Span(NamedTuple):
    """A range of row keys, from ``start`` up to but not including ``end``; ``end`` b"" is the end of the table."""

    start: bytes
    end: bytes

    @property
    def id(self) -> str:
        """Its name."""
        return f"{quote(self.start, safe='')}:{quote(self.end, safe='')}"

    @classmethod
    def of(cls, id: str) -> "Span | None":
        """The range with this name; None: it is another text."""
        found = _SPAN.fullmatch(id)
        if found is None:
            return None
        made = cls(unquote_to_bytes(found[1]), unquote_to_bytes(found[2]))
        return made if made.id == id and not (made.end and made.end <= made.start) else None

    def ends_before(self, start: bytes) -> bool:
        """Whether it has no row key from ``start`` on."""
        return bool(self.end) and self.end <= start

    def meets(self, other: "Span") -> bool:
        """Whether a row key is in both ranges."""
        return not self.ends_before(other.start) and not other.ends_before(self.start)


class Token(NamedTuple):
    """A position in a partition, from the server."""

    span: Span
    token: str

    def __str__(self) -> str:
        return f"{self.span.id}={quote(self.token, safe='')}"


class Begin(Immutable):
    """Where to begin to read a partition.

    Attributes:
        tokens: tokens of ranges that are together the partition's.
        at: without tokens, the time of the first change, in microseconds.
    """

    tokens: tuple[Token, ...] = ()
    at: int = 0

    def __str__(self) -> str:
        return f"start={self.at}" if not self.tokens else f"tokens={','.join(map(str, self.tokens))}"


def time_position(span: Span, at: int) -> str:
    """The position at a time, in microseconds."""
    return f"{span.id}@{at}"


def begin_of(position: str, span: Span) -> Begin | None:
    """Where a position of a partition is; None: it does not have the tokens of the whole partition yet.

    Raises:
        ValueError: it is not a position of this partition.
    """
    times: list[int] = []
    tokens: dict[Span, Token] = {}
    for line in position.split("\n"):
        found = _POSITION.fullmatch(line)
        part = None if found is None else Span.of(found[1])
        if found is None or part is None:
            raise ValueError(line)
        if found[5] is not None:
            times.append(int(found[5]))
        else:
            tokens[part] = Token(part, unquote_to_bytes(found[4]).decode())
    if times and (tokens or len(times) > 1 or not position.startswith(f"{span.id}@")):
        raise ValueError(position)
    if times:
        return Begin(at=times[0])
    parts = sorted(tokens)
    if any(one.meets(other) for one, other in pairwise(parts)) or not _are_within(parts, span):
        raise ValueError(position)
    return Begin(tuple(map(tokens.__getitem__, parts))) if _are_all_of(parts, span) else None


def _are_within(parts: Iterable[Span], whole: Span) -> bool:
    return all(part.start >= whole.start and (not whole.end or b"" < part.end <= whole.end) for part in parts)


def _are_all_of(parts: Sequence[Span], whole: Span) -> bool:
    joined = all(one.end == other.start for one, other in pairwise(parts))
    return joined and (parts[0].start, parts[-1].end) == whole


class RowChange(Immutable):
    """A change of one row.

    Attributes:
        key: the row key.
        at: the commit timestamp, in microseconds.
        tiebreaker: orders changes of several clusters with the same timestamp.
        cluster: where it was made.
        token: the position behind it.
        mutations: google.bigtable.v2.Mutation messages as mappings, such as ``{"set_cell": {"family_name": "d"}}``;
            fields with their default value are left out.
    """

    key: bytes
    at: int
    tiebreaker: int
    cluster: str
    token: str
    mutations: Sequence[Mapping[str, Any]]

    @property
    def order(self) -> str:
        """Text that is larger for a later change of the row."""
        return f"{self.at:020}{self.tiebreaker + 2**31:010}"

    @property
    def touched(self) -> "list[Touched]":
        """What its mutations wrote or deleted."""
        return [_touched(*one) for mutation in self.mutations for one in mutation.items()]


class Touched(NamedTuple):
    """Cells that a mutation wrote or deleted.

    Attributes:
        family: the family; None: all cells of the row.
        qualifier: the column; None: all of the family.
        value: the cell that was written.
    """

    family: str | None = None
    qualifier: bytes | None = None
    value: bytes | None = None


def _touched(kind: str, said: Mapping[str, Any]) -> Touched:
    if kind == "delete_from_row":
        return Touched()
    family: str = said.get("family_name", "")
    if kind == "delete_from_family":
        return Touched(family)
    column = said.get("column_qualifier", b"")
    qualifier: bytes = column if isinstance(column, bytes) else column.get("raw_value", b"")  # of an aggregate
    return Touched(family, qualifier, said.get("value", b"") if kind == "set_cell" else None)


class Streamed(Immutable):
    """The answer to one attempt of `ReadChangeStream`.

    Attributes:
        changes: the changes by users, each with all of its mutations.
        token: the last position, also behind other changes; None: the answer has none.
        tokens: the partition was split or merged: where its ranges continue.
        partitions: the partitions that have these ranges from now on.
        failure: what ended the attempt early.
    """

    changes: Sequence[RowChange] = ()
    token: str | None = None
    tokens: tuple[Token, ...] = ()
    partitions: tuple[Span, ...] = ()
    failure: Exception | None = None

    @property
    def children(self) -> dict[str, str]:
        """The shards that continue the partition, each with its position, or its part of one."""
        spans = self.partitions or tuple(one.span for one in self.tokens)
        found = {span.id: [str(one) for one in self.tokens if one.span.meets(span)] for span in spans}
        return {id: "\n".join(tokens) for id, tokens in found.items() if tokens}
