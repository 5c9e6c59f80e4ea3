"""Row filters: google.bigtable.v2.RowFilter, checked, as nodes that only hold data; `evaluate` applies them.

What the comments of data.proto do not allow is refused here, before a row is read.
"""

from collections.abc import Callable, Container
from functools import lru_cache
from typing import Any, Final, TypeAlias

from attrs import field, frozen
from msgspec import Struct

from odm.backends.bigtable.emulator import limits
from odm.backends.bigtable.emulator.refusals import invalid


class Pass(Struct, frozen=True):
    """All cells."""


class Block(Struct, frozen=True):
    """No cell."""


class Sink(Struct, frozen=True):
    """The cells go to the result of the whole filter, whatever the filters after it do; no cell goes on."""


class Chain(Struct, frozen=True):
    """The filters one after the other."""

    filters: "tuple[Filter, ...]"


class Interleave(Struct, frozen=True):
    """What each filter returns, together; a cell is repeated for each that returns it."""

    filters: "tuple[Filter, ...]"


class Condition(Struct, frozen=True):
    """The second filter if the first returns a cell, else the third; None: no cell."""

    predicate: "Filter"
    matched: "Filter | None"
    unmatched: "Filter | None"


@frozen
class Matches:
    """Whether a text as a whole matches an expression of RE2; of bytes, not of characters."""

    pattern: bytes
    _known: dict[bytes, bool] = field(init=False, factory=dict, eq=False, repr=False)
    _test: Callable[[bytes], bool] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_test", _compiled(self.pattern))

    def __call__(self, text: bytes) -> bool:
        known = self._known.get(text)
        if known is None:  # the names of columns repeat, and RE2 takes longer than a dict
            known = self._test(text)
            if len(text) < _SHORT and len(self._known) < _KNOWN:
                self._known[text] = known
        return known


_SHORT: Final = 200
"""The length of texts that `Matches` remembers."""

_KNOWN: Final = 1000
"""The number of texts that `Matches` remembers."""


class RowKey(Struct, frozen=True):
    """All cells of a row whose key matches."""

    matches: Matches


class Sample(Struct, frozen=True):
    """All cells of a row with this probability."""

    share: float


class Family(Struct, frozen=True):
    """Cells of families whose name matches."""

    matches: Matches


class Qualifier(Struct, frozen=True):
    """Cells whose qualifier matches."""

    matches: Matches


class Value(Struct, frozen=True):
    """Cells whose value matches."""

    matches: Matches


class Span(Struct, frozen=True):
    """An interval of bytes; None: no bound."""

    start: bytes
    start_open: bool
    end: bytes | None
    end_open: bool

    def __contains__(self, value: bytes) -> bool:
        if value < self.start or (self.start_open and value == self.start):
            return False
        return self.end is None or value < self.end or (not self.end_open and value == self.end)


class Columns(Struct, frozen=True):
    """Cells of a family whose qualifier is in an interval."""

    family: str
    span: Span


class Values(Struct, frozen=True):
    """Cells whose value is in an interval."""

    span: Span


class Bits(Struct, frozen=True):
    """Cells whose value has these bits, and the length of the mask."""

    mask: bytes


class Times(Struct, frozen=True):
    """Cells whose timestamp is in ``[start, end)``."""

    start: int
    end: int


class Offset(Struct, frozen=True):
    """Without the first cells of the row."""

    count: int


class First(Struct, frozen=True):
    """Only the first cells of the row."""

    count: int


class Newest(Struct, frozen=True):
    """Only the first cells of each column."""

    count: int


class Strip(Struct, frozen=True):
    """Without their values."""


class Label(Struct, frozen=True):
    """With a label."""

    label: str


Filter: TypeAlias = (
    Pass
    | Block
    | Sink
    | Chain
    | Interleave
    | Condition
    | RowKey
    | Sample
    | Family
    | Qualifier
    | Value
    | Columns
    | Values
    | Bits
    | Times
    | Offset
    | First
    | Newest
    | Strip
    | Label
)


def read_filter(message: Any, families: Container[str], unit: int) -> Filter:
    """The filter of a google.bigtable.v2.RowFilter message.

    Args:
        message: the message.
        families: the names of the table's families.
        unit: the microseconds of which every timestamp is a multiple.

    Raises:
        Refused: the filter is not valid, or names a family or a timestamp that the table cannot have.
    """
    if (size := message.ByteSize()) > limits.FILTER:
        raise invalid(f"Row filter exceeds maximum size of {limits.FILTER} bytes: it has {size}")
    parsed = _read(message, 1, in_condition=False)
    _check(parsed, families, unit)
    return parsed


def _check(filter: Filter, families: Container[str], unit: int) -> None:
    """Refuse the names of unknown families, and timestamps that are not in the unit of the table."""
    match filter:
        case Chain(parts) | Interleave(parts):
            for part in parts:
                _check(part, families, unit)
        case Condition():
            for inner in (filter.predicate, filter.matched, filter.unmatched):
                if inner is not None:
                    _check(inner, families, unit)
        case Family(Matches(pattern)):
            if not set(pattern) & _SPECIAL and (name := pattern.decode()) not in families:
                raise limits.no_family(name)
        case Columns(family):
            if family not in families:
                raise limits.no_family(family)
        case Times(start, end):
            for micros in (start, end):
                if micros != limits.NO_END:
                    limits.check_time(micros, unit)


def _read(message: Any, depth: int, *, in_condition: bool) -> Filter:
    if depth > limits.DEPTH:
        raise invalid(f"Filters are nested at most {limits.DEPTH} deep")
    kind = message.WhichOneof("filter")
    if kind in ("chain", "interleave"):
        inner = getattr(message, kind).filters
        if len(inner) < 2:
            raise invalid(f"{kind.capitalize()} must contain at least two RowFilters")
        parts = tuple(_read(part, depth + 1, in_condition=in_condition) for part in inner)
        if kind == "interleave":
            return Interleave(parts)
        if sum(map(_has_label, parts)) > 1:
            raise invalid("A chain may have only one filter that contains an apply_label_transformer")
        return Chain(parts)
    if kind == "condition":
        return _condition(message.condition, depth)
    if kind == "sink" and in_condition:
        raise invalid("A sink cannot be used within a condition")
    if kind is None:
        raise invalid("A RowFilter must set one of its filters")
    return _LEAVES[kind](getattr(message, kind), kind)


def _condition(message: Any, depth: int) -> Condition:
    def part(name: str) -> Filter | None:
        return _read(getattr(message, name), depth + 1, in_condition=True) if message.HasField(name) else None

    predicate = part("predicate_filter")
    if predicate is None:
        raise invalid("A condition must have a predicate_filter")
    return Condition(predicate, part("true_filter"), part("false_filter"))


def _has_label(filter: Filter | None) -> bool:
    """Whether a filter contains a label."""
    match filter:
        case Label():
            return True
        case Chain(parts) | Interleave(parts):
            return any(map(_has_label, parts))
        case Condition():
            return any(map(_has_label, (filter.predicate, filter.matched, filter.unmatched)))
        case _:
            return False


def _flag(made: Filter) -> Callable[[Any, str], Filter]:
    def read(value: Any, kind: str) -> Filter:
        if not value:
            raise invalid(f"{kind} must be true if set")
        return made

    return read


def _regex(make: Callable[[Matches], Filter]) -> Callable[[Any, str], Filter]:
    def read(value: Any, kind: str) -> Filter:
        pattern = value if isinstance(value, bytes) else value.encode()
        try:
            return make(Matches(pattern))
        except ValueError as error:
            raise invalid(f"Error in field '{kind}': {error}") from error

    return read


def _count(make: Callable[[int], Filter], least: int) -> Callable[[Any, str], Filter]:
    def read(value: Any, kind: str) -> Filter:
        if value < least:
            raise invalid(f"Error in field '{kind}': argument must be {least} or more, not {value}")
        return make(value)

    return read


def _sample(value: Any, kind: str) -> Filter:
    if not 0 < value < 1:
        raise invalid(f"Error in field '{kind}': argument must be between 0 and 1, not {value}")
    return Sample(value)


def _columns(value: Any, kind: str) -> Filter:
    if not value.family_name:
        raise invalid(f"Error in field '{kind}': family_name must be set")
    return Columns(value.family_name, _span(value, "qualifier", kind))


def _values(value: Any, kind: str) -> Filter:
    return Values(_span(value, "value", kind))


def _span(message: Any, what: str, kind: str) -> Span:
    start, end = message.WhichOneof(f"start_{what}"), message.WhichOneof(f"end_{what}")
    low = b"" if start is None else getattr(message, start)
    high = None if end is None else getattr(message, end)
    if high is not None and high < low:
        raise invalid(f"Error in field '{kind}': the start {low!r} is behind the end {high!r}")
    return Span(low, start == f"start_{what}_open", high, end == f"end_{what}_open")


def _times(value: Any, kind: str) -> Filter:
    start, end = value.start_timestamp_micros, value.end_timestamp_micros or limits.NO_END
    if start < 0 or start > end:
        raise invalid(f"Error in field '{kind}': [{start}, {end}) is not a range of timestamps")
    return Times(start, end)


def _label(value: Any, kind: str) -> Filter:
    if not limits.LABEL.fullmatch(value):
        raise invalid(f"Error in field '{kind}': {value!r} must match {limits.LABEL.pattern}")
    return Label(value)


_LEAVES: Final[dict[str, Callable[[Any, str], Filter]]] = {
    "sink": _flag(Sink()),
    "pass_all_filter": _flag(Pass()),
    "block_all_filter": _flag(Block()),
    "strip_value_transformer": _flag(Strip()),
    "row_key_regex_filter": _regex(RowKey),
    "family_name_regex_filter": _regex(Family),
    "column_qualifier_regex_filter": _regex(Qualifier),
    "value_regex_filter": _regex(Value),
    "cells_per_row_offset_filter": _count(Offset, 0),
    "cells_per_row_limit_filter": _count(First, 1),
    "cells_per_column_limit_filter": _count(Newest, 1),
    "row_sample_filter": _sample,
    "column_range_filter": _columns,
    "value_range_filter": _values,
    "timestamp_range_filter": _times,
    "value_bitmask_filter": lambda value, _: Bits(value.mask),
    "apply_label_transformer": _label,
}


@lru_cache(maxsize=256)
def _compiled(pattern: bytes) -> Callable[[bytes], bool]:
    """Whether a text as a whole matches. Raises ValueError."""
    if not set(pattern) & _SPECIAL:
        return pattern.__eq__
    import re2

    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1  # of bytes
    try:
        compiled = re2.compile(pattern, options)
    except re2.error as error:
        (said, *_) = error.args
        raise ValueError(said.decode("latin-1") if isinstance(said, bytes) else said) from error
    return lambda text: compiled.fullmatch(text) is not None


_SPECIAL: Final = frozenset(rb".^$*+?{}[]\|()")
