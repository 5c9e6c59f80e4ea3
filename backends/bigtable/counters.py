"""Counters: 64-bit numbers that the server adds to, without a read and beside all other writes.

An increment alone is one read-modify-write. It can not have a condition, so it asks for the tag and the revision too,
by appending nothing to them. An empty tag tells that there was no item, and that the row, a ghost, is to go again. No
read takes a ghost for an item, so one that stays behind, because the writer stopped, does no harm until `odm scrub`
removes it.

The revision ends with the version of the item. A model of a later version than the first asks for it before it counts,
for it meets items that are to be upgraded first. If the increment still finds another version, as one of an old
program that is still running in a newer item, it is *taken back*: the counters are set to what they held, if they and
the revision are as the increment left them. To subtract would be wrong if the item has been put anew in between.

Such an increment leaves the row's revision alone. Hence a write that was worked out from what a counter held must ask
for the counter's cell, as it was read, together with the revision.
"""

import logging
from collections.abc import Mapping
from typing import Final

from attrs import frozen

from odm.backends.bigtable.bulk import read_many
from odm.backends.bigtable.cells import qualifier, read_counter, write_counter
from odm.backends.bigtable.codec import REVISION, TAG, Form, Stored
from odm.backends.bigtable.expressions import increments, revision_is, there
from odm.backends.bigtable.filters import Filter, ValueIs, chain, interleave, newest, together
from odm.backends.bigtable.native import (
    COUNTERS,
    FAMILY,
    AppendValue,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteRow,
    Increment,
    Mutation,
    ReadModifyWriteRow,
    Row,
    SetCell,
)
from odm.backends.bigtable.retry import once, until_answered
from odm.backends.bigtable.writer import Writer, version_in
from odm.codec import VERSION
from odm.errors import OdmError, OutcomeUnknown
from odm.expressions.nodes import And, Compare, Condition, Const, Missing, Path, Remove, Set, Value, paths
from odm.expressions.nodes import Increment as IncrementAction
from odm.operations.backend import Gen
from odm.operations.guards import EXISTS
from odm.operations.ir import Operation, Refused, Update, Written

FIRST: Final = Missing(Path((VERSION,)))
"""The item is of the first version, as the core asks for it."""

_TOLD: Final = interleave(newest(FAMILY, TAG), newest(FAMILY, REVISION))
"""What an increment is told, too."""

_LOG = logging.getLogger("odm.bigtable")


def counts(request: Operation, form: Form) -> tuple[Increment, ...] | None:
    """The server's own increments, if the request is nothing else and only asks for an item, of a version perhaps."""
    if not isinstance(request, Update) or request.entries or request.returning != "none":
        return None
    asked = _parts(request.condition)  # not to be hashed: a condition may hold a list
    if EXISTS not in asked or not all(part == EXISTS or _is_of_version(part) for part in asked):
        return None
    return increments(request.actions, form)


def asked_version(condition: Condition | None) -> Value:
    """The version that the condition asks of the item; None: the first, or any."""
    for part in _parts(condition):
        if isinstance(part, Compare) and _is_of_version(part) and isinstance(part.right, Const):
            return part.right.value
    return None


def _parts(condition: Condition | None) -> tuple[Condition | None, ...]:
    return condition.conditions if isinstance(condition, And) else (condition,)


def _is_of_version(part: Condition | None) -> bool:
    return part == FIRST or (isinstance(part, Compare) and (part.op, part.left) == ("=", FIRST.path))


def count(
    writer: Writer, row_key: str, rules: tuple[Increment, ...], condition: Condition | None
) -> Gen[Written | Refused | None]:
    """Add to counters of an item in one request; None if its version was another, and nothing is added.

    Raises:
        OutcomeUnknown: the answer was lost; it is not sent again, because it would count twice. Or it was taken back,
            and it can not be told whether what somebody else has written since was made of it.
    """
    asked = asked_version(condition)
    if asked is not None:
        rows = yield from read_many(writer.table, (row_key,), writer.retry, _TOLD)
        if row_key not in rows or _version(rows[row_key]) != str(asked):
            return None
    told = tuple(AppendValue(name, b"") for name in (TAG, REVISION))
    row: Row = yield from once(ReadModifyWriteRow(writer.table, row_key, (*rules, *told)))
    if not _held(row).get((FAMILY, TAG)):
        yield from _remove_ghost(writer, row_key)
        return Refused(None)
    if condition == EXISTS or _version(row) == ("" if asked is None else str(asked)):
        return Written()
    yield from _take_back(writer, row_key, rules, row)
    return None


def _held(row: Row) -> dict[tuple[str, str], bytes]:
    return {(cell.family, cell.qualifier.decode()): cell.value for cell in row.cells}


def _version(row: Row) -> str:
    """The version that the row's revision tells; "" is the first."""
    return version_in(_held(row).get((FAMILY, REVISION), b"").decode())


def _take_back(writer: Writer, row_key: str, rules: tuple[Increment, ...], row: Row) -> Gen[None]:
    """Undo an increment that left the row like this."""
    pauses = writer.retry.contention()
    held, revision = _held(row), _held(row)[FAMILY, REVISION]
    while held.get((FAMILY, REVISION)) == revision:
        if (yield from once(_as_before(writer, row_key, rules, held))):
            return
        if (wait := next(pauses, None)) is None:
            break
        yield wait
        rows = yield from read_many(writer.table, (row_key,), writer.retry)
        held = _held(rows[row_key]) if row_key in rows else {}
    raise OutcomeUnknown(
        f"row {row_key!r} of table {writer.table!r}: its counters were added to before it showed that the item is of "
        "another version, and somebody else has written since: what was added may or may not be in them; read the item"
    )


def _as_before(
    writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Mapping[tuple[str, str], bytes]
) -> CheckAndMutateRow:
    """What sets counters to what they were before an increment, if nothing else changes them meanwhile."""
    same = [revision_is(held[FAMILY, REVISION].decode())]
    back: list[Mutation] = []
    for rule in rules:
        column, cell = rule.qualifier, held[COUNTERS, rule.qualifier]
        same.append(chain(newest(COUNTERS, column), ValueIs(cell)))
        before = write_counter(read_counter(cell) - rule.by)
        back += [DeleteColumn(column, COUNTERS), SetCell(column, before, writer.now(), COUNTERS)]
    return CheckAndMutateRow(writer.table, row_key, together(*same), matched=tuple(back))


def _remove_ghost(writer: Writer, row_key: str) -> Gen[None]:
    """Take the row away unless somebody has made an item of it; that may be done twice."""
    call = CheckAndMutateRow(writer.table, row_key, there(), unmatched=(DeleteRow(),))
    try:
        yield from until_answered(call, writer.retry)
    except OdmError as error:  # the answer to the request is known all the same
        _LOG.warning("row %r of %s holds counters and no item: odm scrub removes it (%s)", row_key, writer.table, error)


@frozen
class Guards:
    """What counters must hold for a write to be right.

    Attributes:
        filters: each leaves one cell if its counter is as it was read.
        unset: what makes the counters that are not there yet; done before the write, because a predicate can not ask
            that a cell is absent and another one there.
    """

    filters: tuple[Filter, ...] = ()
    unset: tuple[CheckAndMutateRow, ...] = ()


def set_up(writer: Writer, guards: Guards) -> Gen[None]:
    """Make the counters that a write is to guard; that changes nothing of what they count as."""
    for call in guards.unset:
        yield from until_answered(call, writer.retry)


def guards(writer: Writer, request: Operation, row_key: str, before: Stored | None) -> Guards:
    """The guards of a write that is worked out from the item as it was read."""
    if before is None:
        return Guards()
    found = {cell.qualifier.decode(): cell.value for cell in before.row.cells if cell.family == COUNTERS}
    unset: list[CheckAndMutateRow] = []
    wanted = dict.fromkeys(found) if isinstance(request, Update) and request.returning != "none" else {}
    for name, start in _named(request, before).items():
        column = qualifier(name)
        if column not in found and writer.form.kind(name) == "counter":
            found[column] = write_counter(start)
            made = (SetCell(column, found[column], writer.now(), COUNTERS),)
            unset.append(CheckAndMutateRow(writer.table, row_key, newest(COUNTERS, column), unmatched=made))
        if column in found:
            wanted[column] = None
    return Guards(tuple(chain(newest(COUNTERS, column), ValueIs(found[column])) for column in wanted), tuple(unset))


def _named(request: Operation, before: Stored) -> dict[str, int]:
    """The attributes whose value decides what is written, and what each counts as while its counter is absent.

    A counter that is not there yet may still have a number from before it was one, to which the server's is added.
    """
    named = dict.fromkeys((path.root for path in paths(request.condition)), 0)
    if isinstance(request, Update):
        for action in request.actions:
            if isinstance(action, IncrementAction) and action.path.root not in before.item:
                named[action.path.root] = int(action.start)
            elif not isinstance(action, Set | Remove):
                named.setdefault(action.path.root, 0)
    return named
