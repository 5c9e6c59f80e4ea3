"""Reads and writes of many rows: divided into requests that the server accepts, and retried until all are complete."""

import logging
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, takewhile
from typing import TypeAlias, TypeVar

from grpc import StatusCode

from odm.backends.bigtable.advice import Advice, advice_of
from odm.backends.bigtable.errors import RETRIED, explain, is_throttled, passing, status, status_of, text_of, translate
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.native import ITEM, Entry, Mutated, MutateRows, Mutation, ReadRows, Row, SetCell, Steps
from odm.backends.bigtable.retry import Retry, all_of, read_all
from odm.errors import OdmError
from odm.immutable import frozen

_LOG = logging.getLogger("odm.bigtable")

READ_BYTES = 256 * 1024
"""The maximum bytes of row keys in one read of many rows."""

WRITE_BYTES = 4 * 1024 * 1024
"""The maximum bytes in one write of many rows; a larger row is sent alone."""

MUTATION_BYTES = 64
"""The bytes of a mutation without its data. This also keeps a request below Bigtable's limit of 100,000 mutations."""

T = TypeVar("T")

Refusal: TypeAlias = tuple[Entry, OdmError]
"""An entry that was not written, or is not known to be, and why."""


@frozen
class Stuck:
    """The result of a bulk write whose time was up before all rows were written.

    Attributes:
        left: the entries that may not be written, by table.
        reason: the server's last message.
    """

    left: Mapping[str, tuple[Entry, ...]]
    reason: str


def read_many(table: str, row_keys: tuple[str, ...], retry: Retry, wanted: Filter = ITEM) -> Steps[dict[str, Row]]:
    """Read rows by key; in one request, unless there are very many keys. Missing rows are omitted.

    Args:
        table: the table's name.
        row_keys: the row keys, without duplicates.
        retry: how long to retry.
        wanted: which cells to read.
    """
    found: dict[str, Row] = {}
    left = row_keys
    while left:
        some = leading(left, lambda row_key: 4 * len(row_key), READ_BYTES)
        rows = yield from read_all(ReadRows(table, keys=some, filter=wanted), retry)
        found |= {row.text: row for row in rows}
        left = left[len(some) :]
    return found


def write_many(
    work: Mapping[str, Sequence[Entry]],
    retry: Retry,
    renewed: Callable[[Entry], Entry] = lambda entry: entry,
    once: Callable[[Entry], bool] = lambda _: False,
    refused: list[Refusal] | None = None,
) -> Steps[Stuck | None]:
    """Write entries, to several tables at the same time. Returns None when all are written.

    They are sent in the order of the row keys, so that a request writes to few tablets (Google: Bigtable, "Batch
    writes").

    Args:
        work: the entries, by table.
        retry: how long to retry.
        renewed: returns an entry that may have been applied as it is sent again.
        once: whether an entry must not be applied twice: it is refused with OutcomeUnknown if it may have been applied.
        refused: gets the refused entries, which raise nothing then.

    Raises:
        OdmError: the server refused an entry with an error that is not retried. The other entries were written, or
            retried until the time was up.
    """
    left = {table: tuple(sorted(entries, key=_row_key)) for table, entries in work.items() if entries}
    refusals: list[Refusal] = [] if refused is None else refused
    advice = dict.fromkeys(left, Advice())
    pauses = retry.pauses()
    while left:
        calls = [
            MutateRows(table, leading(entries, _weight, WRITE_BYTES), cookies=advice[table].cookies)
            for table, entries in left.items()
        ]
        answers = yield from all_of(calls)
        again: dict[Entry, str] = {}
        for call, answer in zip(calls, answers, strict=True):
            undone = _undone(call, answer, refusals, once)
            again |= undone
            told = advice_of(answer if isinstance(answer, Exception) else answer.failure)
            advice[call.table] = Advice(told.seconds, told.followed_by(call).cookies)
            left[call.table] = (*map(renewed, undone), *left[call.table][len(call.entries) :])
        left = {table: entries for table, entries in left.items() if entries}
        if not again:
            pauses = retry.pauses()
        elif (wait := pauses.at_least(max(one.seconds or 0 for one in advice.values()))) is not None:
            _LOG.warning("Bigtable did not write %d rows: trying again in %.2f s", len(again), wait.seconds)
            yield wait
        elif refused is not None or not refusals:
            return Stuck(left, next(iter(again.values())))
        else:
            break
    if refusals and refused is None:
        raise refusals[0][1]
    return None


def _undone(
    call: MutateRows, answer: Mutated | Exception, refusals: list[Refusal], once: Callable[[Entry], bool]
) -> dict[Entry, str]:
    """The entries to send again, with the reason: entries without an answer or with a temporary error.

    Adds entries with other errors to ``refusals``.
    """
    mutated = Mutated(failure=answer) if isinstance(answer, Exception) else answer
    failure = mutated.failure
    if failure is not None and not _may_pass(failure):
        refusal = translate(failure, call)
        refusal.__cause__ = failure
        there = mutated.answers
        refusals += [(entry, refusal) for at, entry in enumerate(call.entries) if at not in there or there[at].code]
        return {}
    silence = StatusCode.UNAVAILABLE, "the answer ended early"
    if failure is not None:
        silence = status(failure), text_of(failure)
    again: dict[Entry, str] = {}
    for index, entry in enumerate(call.entries):
        given = mutated.answers.get(index)
        if given is not None and not given.code:
            continue
        code, message = silence if given is None else (status_of(given), given.message)
        passes = given is None or code in RETRIED or is_throttled(code, message)
        # of an answer that is cut off, the server has applied entries that it has not answered
        unsure = once(entry) and not (is_throttled(code, message) and (given is not None or not mutated.answers))
        if passes and not unsure:
            again[entry] = message
        else:
            where = f", row {entry.key!r} (other rows of the batch may be written)"
            code = StatusCode.UNAVAILABLE if passes and given is None else code
            refusals.append((entry, explain(code, message, call, where)))
    return again


def _may_pass(failure: Exception) -> bool:
    """Whether a failure is temporary. In bulk writes, an exhausted quota is: the unwritten entries are returned."""
    told = advice_of(failure).seconds is not None
    return told or passing(failure) or is_throttled(status(failure), text_of(failure))


def leading(things: tuple[T, ...], size: Callable[[T], int], budget: int) -> tuple[T, ...]:
    """The longest prefix of the things whose total size is within the budget, but at least one thing.

    Args:
        things: row keys or entries.
        size: returns the bytes of a thing.
        budget: the maximum total bytes.
    """
    if sum(map(size, things)) <= budget:  # the usual case
        return things
    totals = accumulate(map(size, things))
    return things[: max(1, sum(1 for _ in takewhile(lambda total: total <= budget, totals)))]


def weight(row_key: str, mutations: Sequence[Mutation]) -> int:
    """The maximum bytes of the mutations of a row in a request."""
    cells = [4 * len(one[0]) + len(one[1]) for one in mutations if type(one) is SetCell]
    return 4 * len(row_key) + MUTATION_BYTES * len(mutations) + sum(cells)


def _row_key(entry: Entry) -> str:
    return entry.key


def _weight(entry: Entry) -> int:
    return weight(entry.key, entry.mutations)
