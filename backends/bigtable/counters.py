"""Counters: 64-bit numbers that the server adds to, without a read and beside all other writes.

An increment alone is one read-modify-write. It cannot have a condition, so it asks for the tag and the revision too,
by appending nothing to them. An empty tag in the answer means that there was no item. Then the row, a *ghost*, holds an
empty tag, an empty revision and the counters, next to what other programs keep in it. Its writer *undoes* the
increment: each counter is set to what it held before, or deleted where that is 0, and the empty tag and revision are
deleted, in one step and only if there is still no item and the counters are as they were read. Several increments that
found no item undo what each of them added, in any order. No read takes a ghost for an item, so one that stays behind,
because the writer stopped, does no harm until `odm scrub` removes it. If another increment fails there before that, it
takes the marks away, and the number that the first one left stays as if it were another program's: to remove it could
remove theirs. The next item that is written there replaces it.

The revision ends with the version of the item. A model of a later version than the first asks for it before it counts,
for it meets items that are to be upgraded first. If the increment still finds another version, as one of an old
program that is still running in a newer item, or an item of another tag than the condition asks for, it is *taken
back*: the counters are set to what they held, if they and the revision are as the increment left them. To subtract
would be wrong if the item has been put anew in between.

Such an increment leaves the row's revision alone. Hence a write that was worked out from what a counter held must ask
for the counter's cell, as it was read, together with the revision.
"""

import logging
from collections.abc import Mapping
from typing import Final, TypeAlias

from attrs import frozen

from odm.backends.bigtable.bulk import read_many
from odm.backends.bigtable.cells import qualifier, read_counter, write, write_counter
from odm.backends.bigtable.codec import REVISION, TAG, Stored
from odm.backends.bigtable.expressions import increments, there
from odm.backends.bigtable.filters import Filter, ValueIs, ValueRange, chain, chained, interleave, newest
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.native import (
    COUNTERS,
    FAMILY,
    AppendValue,
    CheckAndMutateRow,
    DeleteColumn,
    Increment,
    Mutation,
    ReadModifyWriteRow,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.retry import all_of, once, pause, until_answered
from odm.backends.bigtable.writer import Writer, version_in
from odm.codec import VERSION
from odm.errors import OdmError, OutcomeUnknown, Throttled
from odm.expressions.nodes import And, Compare, Condition, Const, Missing, Path, Remove, Set, Value, paths
from odm.expressions.nodes import Increment as IncrementAction
from odm.protocol.predicates import EXISTS
from odm.protocol.requests import Operation, Update, Written

FIRST: Final = Missing(Path((VERSION,)))
"""The item is of the first version, as the core asks for it."""

_TOLD: Final = interleave(newest(FAMILY, TAG), newest(FAMILY, REVISION))
"""What an increment is told, too."""

Held: TypeAlias = Mapping[tuple[str, str], bytes]
"""The newest cells of a row, by family and qualifier."""

_LOG = logging.getLogger("odm.bigtable")


def counts(request: Operation, form: Form) -> tuple[Increment, ...] | None:
    """The server's own increments, if the request is nothing else and only asks for an item, of a tag or version."""
    if not isinstance(request, Update) or request.entries or request.returning != "none":
        return None
    asked = _parts(request.condition)  # not to be hashed: a condition may hold a list
    of_item = [part == EXISTS or _tag_of(part) is not None for part in asked]
    if not any(of_item) or not all(here or _is_of_version(part) for here, part in zip(of_item, asked, strict=True)):
        return None
    return increments(request.actions, form)


def _tag_of(part: Condition | None) -> str | None:
    """The tag that a condition asks for, and nothing else."""
    match part:
        case Compare("=", Path((name,)), Const(str(tag))) if name == TAG and tag:
            return tag
        case _:
            return None


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
) -> Steps[Written | None]:
    """Add to counters of an item in one request; None if there is none, or of another tag or version: nothing is added.

    Raises:
        OutcomeUnknown: the answer was lost; it is not sent again, because it would count twice. Or it was taken back,
            and it cannot be told whether what somebody else has written since was made of it.
    """
    asked = asked_version(condition)
    if asked is not None:
        rows = yield from read_many(writer.table, (row_key,), writer.retry, _TOLD)
        if row_key not in rows or not _is_asked(rows[row_key], condition):
            return None
    also_returned = tuple(AppendValue(name, b"") for name in (TAG, REVISION))
    row: Row = yield from once(ReadModifyWriteRow(writer.table, row_key, (*rules, *also_returned)))
    if not _held(row).get((FAMILY, TAG)):
        yield from _remove_ghost(writer, row_key, rules, row)
        return None  # a read shows whether nothing is there, or what another program wrote
    if _is_asked(row, condition):
        return Written()
    yield from _take_back(writer, row_key, rules, row)
    return None


def _is_asked(row: Row, condition: Condition | None) -> bool:
    """Whether the item of the row has the tag and the version that the condition asks for."""
    parts = _parts(condition)
    tags = [write(tag) for part in parts if (tag := _tag_of(part)) is not None]
    if any(_held(row).get((FAMILY, TAG)) != tag for tag in tags):
        return False
    asked = asked_version(condition)
    return not any(map(_is_of_version, parts)) or _version(row) == ("" if asked is None else str(asked))


def _held(row: Row) -> dict[tuple[str, str], bytes]:
    return {(cell.family, cell.qualifier.decode()): cell.value for cell in row.cells}


def _columns(rules: tuple[Increment, ...]) -> Filter:
    """What an increment writes."""
    return interleave(_TOLD, *(newest(COUNTERS, column) for column in dict.fromkeys(rule.qualifier for rule in rules)))


def _version(row: Row) -> str:
    """The version that the row's revision tells; "" is the first."""
    return version_in(_held(row).get((FAMILY, REVISION), b"").decode(errors="backslashreplace"))


def _take_back(writer: Writer, row_key: str, rules: tuple[Increment, ...], row: Row) -> Steps[None]:
    """Undo an increment that left the row like this."""
    pauses = writer.retry.contention()
    held, revision = _held(row), _held(row)[FAMILY, REVISION]
    columns = [(COUNTERS, rule.qualifier) for rule in rules]
    while held.get((FAMILY, REVISION)) == revision and all(column in held for column in columns):
        if (yield from once(_as_before(writer, row_key, rules, held))):
            return
        if (wait := next(pauses, None)) is None:
            break
        yield wait
        rows = yield from read_many(writer.table, (row_key,), writer.retry, _columns(rules))
        held = _held(rows[row_key]) if row_key in rows else {}
    raise OutcomeUnknown(
        f"row {row_key!r} of table {writer.table!r}: its counters were added to before it showed that the item is of "
        "another tag or version, and somebody else has written since: what was added may or may not be in them; read "
        "the item"
    )


def _as_before(writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Held) -> CheckAndMutateRow:
    """What sets counters to what they were before an increment, if nothing else changes them meanwhile."""
    revision = held[FAMILY, REVISION]
    same = [chain(newest(FAMILY, REVISION), ValueIs(revision)), *_counters_are(rules, held)]
    back = _counters_back(writer, rules, held)
    if not revision:  # the increment has made it, in an item that odm did not write
        back = (*back, DeleteColumn(REVISION))
    return CheckAndMutateRow(writer.table, row_key, chained(*same), matched=back)


def _counters_are(rules: tuple[Increment, ...], held: Held) -> list[Filter]:
    """Filters that each leave one cell if a counter is as it was read; those that are there."""
    columns = dict.fromkeys(rule.qualifier for rule in rules if (COUNTERS, rule.qualifier) in held)
    return [chain(newest(COUNTERS, column), ValueIs(held[COUNTERS, column])) for column in columns]


def _counters_back(writer: Writer, rules: tuple[Increment, ...], held: Held) -> tuple[Mutation, ...]:
    """What subtracts an increment from counters that are as they were read; one that is not there is 0, and 0 is none.

    Raises:
        BadValue: a counter would have more than 64 bits.
    """
    before: dict[str, int] = {}
    for rule in rules:
        read = read_counter(held.get((COUNTERS, rule.qualifier), bytes(8)))
        before[rule.qualifier] = before.get(rule.qualifier, read) - rule.by
    back: list[Mutation] = []
    for column, number in before.items():
        back.append(DeleteColumn(column, COUNTERS))
        if number:
            back.append(SetCell(column, write_counter(number), writer.now(), COUNTERS))
    return tuple(back)


def _remove_ghost(writer: Writer, row_key: str, rules: tuple[Increment, ...], row: Row) -> Steps[None]:
    """Undo an increment that found no item; if that fails, the answer to the request is known all the same."""
    try:
        yield from _undo(writer, row_key, rules, _held(row))
    except OdmError as error:
        _LOG.warning("row %r of %s holds counters and no item: odm scrub removes it (%s)", row_key, writer.table, error)


def _undo(writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Held) -> Steps[None]:
    """Subtract an increment from a row without an item, and take its marks away.

    Where an answer is lost and the marks are gone, the call was applied, so it is not sent again.
    """
    lost, failed, refused = False, writer.retry.pauses(), writer.retry.contention()
    while not held.get((FAMILY, TAG)) and not (lost and (FAMILY, TAG) not in held):
        call = _undone(writer, row_key, rules, held)
        (answer,) = yield from all_of((call,))
        if isinstance(answer, Exception):
            lost = True
            yield from pause(failed, answer, call)
        elif answer is bool(call.matched):
            return
        elif (wait := next(refused, None)) is not None:
            yield wait
        else:
            raise Throttled("other writers were faster until the time was up", [])
        rows = yield from read_many(writer.table, (row_key,), writer.retry, _columns(rules))
        held = _held(rows[row_key]) if row_key in rows else {}


def _undone(writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Held) -> CheckAndMutateRow:
    """What undoes an increment in a row that was read like this, if the row still is.

    The marks are there unless another increment that found no item has been undone and has taken them away. A predicate
    cannot ask that one cell is there and another is not. Without the marks it can only ask that nothing else is there.
    """
    marks = [mark for mark in (TAG, REVISION) if held.get((FAMILY, mark)) == b""]
    back = (*_counters_back(writer, rules, held), *map(DeleteColumn, marks))
    same = _counters_are(rules, held)
    if TAG in marks and len(same) == len({rule.qualifier for rule in rules}):
        marked = [chain(newest(FAMILY, mark), ValueIs(b"")) for mark in marks]
        return CheckAndMutateRow(writer.table, row_key, chained(*marked, *same), matched=back)
    other = [newest(FAMILY, TAG)] if TAG not in marks else [there()]
    for column in dict.fromkeys(rule.qualifier for rule in rules):
        cell = held.get((COUNTERS, column))
        values = () if cell is None else (interleave(ValueRange(b"", cell), ValueRange(cell, open=True)),)
        other.append(chain(newest(COUNTERS, column), *values))
    return CheckAndMutateRow(writer.table, row_key, interleave(*other), unmatched=back)


@frozen
class Guards:
    """What counters must hold for a write to be right.

    Attributes:
        filters: each leaves one cell if its counter is as it was read.
        unset: what makes the counters that are not there yet; done before the write, because a predicate cannot ask
            that a cell is absent and another one there.
    """

    filters: tuple[Filter, ...] = ()
    unset: tuple[CheckAndMutateRow, ...] = ()


def set_up(writer: Writer, guards: Guards) -> Steps[None]:
    """Make the counters that a write is to guard; that changes nothing of what they count as.

    If the item is deleted in between, a counter stays in a row without an item. It is harmless: the row has no tag, so
    no read takes it for an item, an increment that finds no item leaves it as it was, and the next item that is written
    there replaces it. It has no marks of a ghost, so a scrub cannot know it from another program's and leaves it alone.
    """
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
