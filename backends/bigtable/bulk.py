"""Many rows at once, each by itself: cut into requests that the server takes, sent again until all are done."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import TypeVar

from attrs import frozen
from grpc import StatusCode

from odm.backends.bigtable.errors import RETRIED, explain, is_throttled, passing, status, status_of, text_of, translate
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.native import ITEM, Entry, Mutated, MutateRows, ReadRows, Row, SetCell, Steps
from odm.backends.bigtable.retry import Retry, all_of, read_all
from odm.errors import OdmError

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
        left: by table, the entries that are not known to be written.
        reason: the last answer of the server.
    """

    left: Mapping[str, tuple[Entry, ...]]
    reason: str


def read_many(table: str, row_keys: tuple[str, ...], retry: Retry, wanted: Filter = ITEM) -> Steps[dict[str, Row]]:
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


def write_many(work: Mapping[str, Sequence[Entry]], retry: Retry) -> Steps[Stuck | None]:
    """Write the entries of each table, those of several tables at the same time; None when all are written.

    Entries may be applied twice.

    Raises:
        OdmError: the server refused an entry for good; all others are written or given up.
    """
    left = {table: tuple(entries) for table, entries in work.items() if entries}
    refusals: list[OdmError] = []
    pauses = retry.pauses()
    while left:
        calls = tuple(MutateRows(table, leading(entries, _weight, WRITE_BYTES)) for table, entries in left.items())
        answers = yield from all_of(calls)
        again: dict[Entry, str] = {}
        for call, answer in zip(calls, answers, strict=True):
            undone = _undone(call, answer, refusals)
            again |= undone
            left[call.table] = (*undone, *left[call.table][len(call.entries) :])
        left = {table: entries for table, entries in left.items() if entries}
        if not again:
            pauses = retry.pauses()
        elif (wait := next(pauses, None)) is not None:
            _LOG.warning("Bigtable has not done %d rows: trying again in %.2f s", len(again), wait.seconds)
            yield wait
        elif not refusals:
            return Stuck(left, next(iter(again.values())))
        else:
            break
    if refusals:
        raise refusals[0]
    return None


def _undone(call: MutateRows, answer: Mutated | Exception, refusals: list[OdmError]) -> dict[Entry, str]:
    """The entries to send again, and why: those not answered, and those that the server could not do now.

    What it refused for good goes to ``refusals``.
    """
    mutated = Mutated(failure=answer) if isinstance(answer, Exception) else answer
    if mutated.failure is not None and not _may_pass(mutated.failure):
        refusal = translate(mutated.failure, call)
        refusal.__cause__ = mutated.failure
        refusals.append(refusal)
        return {}
    silence = "the answer ended early" if mutated.failure is None else text_of(mutated.failure)
    again: dict[Entry, str] = {}
    for index, entry in enumerate(call.entries):
        given = mutated.answers.get(index)
        if given is None:
            again[entry] = silence
        elif (code := status_of(given)) in RETRIED or is_throttled(code, given.message):
            again[entry] = given.message
        elif code is not StatusCode.OK:
            where = f", row {entry.key!r} (other rows of the batch may be written)"
            refusals.append(explain(code, given.message, call, where))
    return again


def _may_pass(failure: Exception) -> bool:
    """Here a quota that is used up may pass too: what is left in the end is handed back, to be written later."""
    return passing(failure) or is_throttled(status(failure), text_of(failure))


def leading(things: tuple[T, ...], weigh: Callable[[T], int], budget: int) -> tuple[T, ...]:
    """As many of the first things as weigh no more than the budget together, and one at least."""
    weights = accumulate(map(weigh, things))
    return things[: max(1, sum(1 for _ in takewhile(lambda weight: weight <= budget, weights)))]


def _weight(entry: Entry) -> int:
    values = (4 * len(m.qualifier) + len(m.value) for m in entry.mutations if isinstance(m, SetCell))
    return 4 * len(entry.key) + MUTATION_BYTES * len(entry.mutations) + sum(values)
