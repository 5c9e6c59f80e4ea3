"""Reads and writes of many rows, each by itself: cut into requests that the server takes, sent until all are done."""

import logging
from collections.abc import Callable
from itertools import accumulate, takewhile
from typing import TypeVar

from attrs import frozen
from grpc import StatusCode

from odm.backends.bigtable.errors import RETRIED, explain, passing, status_of, text_of, translate
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.native import NEWEST, Entry, Mutated, MutateRows, ReadRows, Row, SetCell
from odm.backends.bigtable.retry import Retry, once, read_all
from odm.operations.backend import Gen

_LOG = logging.getLogger("odm.bigtable")

READ_BYTES = 256 * 1024
"""Bytes of the row keys in one read of many rows."""

WRITE_BYTES = 4 * 1024 * 1024
"""Bytes of one write of many rows; a single row that is larger goes alone."""

MUTATION_BYTES = 64
"""What a mutation counts beyond its data; it also keeps a write of many rows below Bigtable's 100,000 mutations."""

T = TypeVar("T")


@frozen
class Stuck:
    """The time was up before all rows were written.

    Attributes:
        left: the entries that are not known to be written.
        reason: the last answer of the server.
    """

    left: tuple[Entry, ...]
    reason: str


def write_all(table: str, entries: tuple[Entry, ...], retry: Retry) -> Gen[Stuck | None]:
    """Write every entry; None when all are written.

    Raises:
        OdmError: the server refused an entry for good.
    """
    left = entries
    pauses = retry.pauses()
    while left:
        call = MutateRows(table, leading(left, _weight, WRITE_BYTES))
        answer: Mutated = yield from once(call)
        again = _undone(call, answer)
        left = (*again, *left[len(call.entries) :])
        if not again:
            pauses = retry.pauses()
        elif (wait := next(pauses, None)) is not None:
            _LOG.warning("Bigtable has not done %d rows: trying again in %.2f s", len(again), wait.seconds)
            yield wait
        else:
            return Stuck(left, next(iter(again.values())))
    return None


def read_many(table: str, row_keys: tuple[str, ...], retry: Retry, wanted: Filter = NEWEST) -> Gen[dict[str, Row]]:
    """Rows by key, those that are there: one request unless the keys are very many.

    Args:
        table: the table's name.
        row_keys: none twice.
        retry: how long to try.
        wanted: which cells of them.
    """
    found: dict[str, Row] = {}
    left = row_keys
    while left:
        some = leading(left, lambda row_key: 4 * len(row_key), READ_BYTES)
        rows = yield from read_all(ReadRows(table, keys=some, filter=wanted), retry)
        found |= {row.text: row for row in rows}
        left = left[len(some) :]
    return found


def _undone(call: MutateRows, answer: Mutated) -> dict[Entry, str]:
    """The entries to send again, and why: those not answered, and those that the server could not do now.

    Raises:
        OdmError: the server refused an entry, or the whole call, for good.
    """
    if answer.failure is not None and not passing(answer.failure):
        raise translate(answer.failure, call) from answer.failure
    silence = "the answer ended early" if answer.failure is None else text_of(answer.failure)
    again: dict[Entry, str] = {}
    for index, entry in enumerate(call.entries):
        given = answer.answers.get(index)
        if given is None:
            again[entry] = silence
        elif (code := status_of(given)) in RETRIED:
            again[entry] = given.message
        elif code is not StatusCode.OK:
            raise explain(code, given.message, call, f", row {entry.key!r} (other rows of the batch may be written)")
    return again


def leading(things: tuple[T, ...], weigh: Callable[[T], int], budget: int) -> tuple[T, ...]:
    """As many of the first things as weigh no more than the budget together, and one at least."""
    weights = accumulate(map(weigh, things))
    return things[: max(1, sum(1 for _ in takewhile(lambda weight: weight <= budget, weights)))]


def _weight(entry: Entry) -> int:
    values = (4 * len(m.qualifier) + len(m.value) for m in entry.mutations if isinstance(m, SetCell))
    return 4 * len(entry.key) + MUTATION_BYTES * len(entry.mutations) + sum(values)
