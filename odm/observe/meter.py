"""`Meter`: counts the requests that a part of a program sends, and the capacity units that they use.

A meter is open in the context of its ``with`` block: in its thread or task, and in tasks started there. The store looks
for open meters at each call; without one, nothing is measured.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from threading import Lock
from typing import Any, Final

from msgspec import Struct, field

from odm._published import public_in
from odm.immutable import Immutable
from odm.protocol.capacity import Units, computed, weights
from odm.protocol.requests import Request

UNANSWERED: Final = object()
"""Stands for the response to a request that failed."""

_TABLE: Final = "the table itself"


class Sent(Immutable):
    """A native request that was sent: the units that the backend reported, and the index that it read or wrote."""

    units: Units | None = None
    index: str | None = None


@public_in("odm.results")
class Usage(Immutable):
    """The number of requests, and the capacity units that they used.

    Attributes:
        calls: the number of native requests sent.
        read_units: the units of reads: one for 4 KB, half of one if the read is eventually consistent.
        write_units: the units of writes: one for 1 KB.
    """

    calls: int = 0
    read_units: float = 0.0
    write_units: float = 0.0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(self.calls + other.calls, self.read_units + other.read_units, self.write_units + other.write_units)


@public_in("odm.results")
class Meter(Struct, eq=False):
    """The usage of the requests inside a ``with db.meter() as meter:`` block. Print it, or read its attributes.

    DynamoDB reports the units of its requests; the bundled engine computes them by DynamoDB's published rules. For
    other backends, they are computed from requests and responses, without the items that a filter dropped or a write
    replaced.

    The units of a failed request, or of a refused write or transaction, are not known: DynamoDB charges them, but the
    meter only counts the call. Requests that create or drop tables are not counted.

    Calls that are made after the answer, to retry the cleaning of index entries on Bigtable, are counted when they have
    been made, without units; close the store to wait for them.
    """

    _total: Usage = Usage()  # frozen
    _by_pattern: dict[str, Usage] = field(default_factory=dict)
    _by_index: dict[str | None, Usage] = field(default_factory=dict)
    _notices: Counter[str] = field(default_factory=Counter)
    _lock: Lock = field(default_factory=Lock)

    @property
    def aborted(self) -> int:
        """On Bigtable: how often a transaction started over, because other writers changed or locked its items."""
        return self._notices["aborted"]

    @property
    def waited(self) -> int:
        """On Bigtable: how often a write waited for a transaction of another writer."""
        return self._notices["waited"]

    @property
    def resolved(self) -> int:
        """On Bigtable: the number of other writers' locks that were resolved."""
        return self._notices["resolved"]

    def notice(self, kind: str) -> None:
        """Count what happened to a write; see `odm.protocol.requests.Notice`."""
        with self._lock:
            self._notices[kind] += 1

    @property
    def calls(self) -> int:
        """The number of native requests sent; each retry counts as one."""
        return self._total.calls

    @property
    def read_units(self) -> float:
        """The capacity units of all reads."""
        return self._total.read_units

    @property
    def write_units(self) -> float:
        """The capacity units of all writes, including those of the index entries that they changed."""
        return self._total.write_units

    @property
    def by_pattern(self) -> Mapping[str, Usage]:
        """The usage by pattern: ``{"Order.by_date": Usage(calls=2, read_units=3.5, write_units=0.0)}``.

        A query has the name of its pattern, also for ``delete_all``; a call for one item that of the primary key, such
        as "Order.primary". Other names are "collection(Customer.primary)" and "scan(Order)". A batch or transaction
        counts as a call of each of its patterns; its units are split by the sizes of the items.
        """
        with self._lock:
            return dict(self._by_pattern)

    @property
    def by_index(self) -> Mapping[str | None, Usage]:
        """The usage by index name; None is the table itself. A write counts as a call of each index that it changed.

        On Bigtable, an index is a table of its own, and has the calls that were sent to it.
        """
        with self._lock:
            return dict(self._by_index)

    def __repr__(self) -> str:
        return f"<Meter: {self.calls} calls, {self.read_units:g} read units, {self.write_units:g} write units>"

    def __str__(self) -> str:
        patterns = sorted(self.by_pattern.items())
        indexes = sorted((_TABLE if name is None else name, used) for name, used in self.by_index.items())
        rows = [("pattern", None), *patterns, ("index", None), *indexes, ("total", self._total)]
        width = max(len(name) for name, _ in rows)
        return "\n".join(_row(name, width, usage) for name, usage in rows)

    def count(self, request: Request, sent: Sequence[Sent], answer: Any) -> None:
        """Count the native requests of a request of the core: those up to its answer, or those after it.

        Args:
            request: the request.
            sent: its native requests.
            answer: its response; ``UNANSWERED`` if it failed, or if these are the native requests after the answer.
        """
        if not sent:
            return
        reported = [sent_request.units for sent_request in sent if sent_request.units]
        unseen = computed(request, answer) if answer is not UNANSWERED and not reported else None
        known = reported if unseen is None else [unseen]
        parts = weights(request, answer, {key: used for units in known for key, used in units.by_key.items()})
        if not parts:
            return
        whole = sum(parts.values())
        reads = sum(sum(units.read.values()) for units in known)
        writes = sum(sum(units.write.values()) for units in known)
        with self._lock:
            self._total += Usage(len(sent), reads, writes)
            for pattern, part in parts.items():
                _add(self._by_pattern, pattern, Usage(len(sent), reads * part / whole, writes * part / whole))
            for sent_request in sent:
                for index, usage in _by_index(sent_request).items():
                    _add(self._by_index, index, usage)
            for index, usage in _used(unseen, 0).items():
                _add(self._by_index, index, usage)


def _by_index(sent: Sent) -> dict[str | None, Usage]:
    """The usage of one native request by index; if its units are not known, one call of its index."""
    return _used(sent.units, 1) or {sent.index: Usage(1)}


def _used(units: Units | None, calls: int) -> dict[str | None, Usage]:
    """The units by index, each with ``calls`` calls."""
    if units is None:
        return {}
    names = {**units.read, **units.write}
    return {name: Usage(calls, units.read.get(name, 0.0), units.write.get(name, 0.0)) for name in names}


def _add(to: dict[Any, Usage], name: Any, usage: Usage) -> None:
    to[name] = to.get(name, Usage()) + usage


def _row(name: str, width: int, usage: Usage | None) -> str:
    if usage is None:
        return f"{name:<{width}} {'calls':>8} {'read units':>12} {'write units':>12}"
    return f"{name:<{width}} {usage.calls:>8} {usage.read_units:>12.10g} {usage.write_units:>12.10g}"


OPEN: Final[ContextVar[tuple[tuple[object, Meter], ...]]] = ContextVar("odm_open_meters", default=())
"""The open meters, each with its store."""


@contextmanager
def metering(store: object) -> Iterator[Meter]:
    """A block with an open meter for the requests of a store."""
    entry = (store, Meter())
    OPEN.set((*OPEN.get(), entry))
    try:
        yield entry[1]
    finally:  # no reset with a token: the two halves of a test fixture may run in different contexts
        OPEN.set(tuple(open_entry for open_entry in OPEN.get() if open_entry is not entry))


def open_meters(store: object) -> tuple[Meter, ...]:
    """The open meters of a store."""
    return tuple(meter for owner, meter in OPEN.get() if owner is store)
