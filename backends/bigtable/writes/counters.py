"""Counters: 64-bit numbers that the server increments, without a read, concurrently with all other writes.

An update that only increments Counters is one ReadModifyWriteRow. That call cannot have a condition. So it also appends
an empty value to the tag and the revision, which returns both. An empty tag in the response means that there was no
item. Then the row is a *ghost*: it has an empty tag, an empty revision (the *marks*) and the counters, and perhaps
cells of other programs. The writer *undoes* the increment in one CheckAndMutateRow: it sets each counter to its
previous value, or deletes it if that is 0, and deletes the marks, on the condition that there is still no item and the
counters are unchanged since they were read. Several increments without an item each subtract what they added.

No read takes a ghost for an item, and the answer does not wait for a retry that undoes it. If a writer stops before it
undoes its increment, the ghost does no harm until `odm scrub` removes it. If another increment finds no item in that
row before the scrub, it deletes the marks, but the number of the first increment remains. A scrub cannot distinguish
that cell from another program's cell, and does not remove it; the next item that is written to the row replaces it.

The revision ends with the version of the item. If the model's version is not the first, its writer reads the revision
before the increment, because an older item must be upgraded first. If the increment nevertheless finds another version
(written by another program in between), or another tag than the condition requires, it is *reverted*: the counters are
set to their previous values, if they and the revision are unchanged since the increment. To subtract would be wrong if
the item was replaced in between.

An increment does not change the row's revision. So a write that depends on the value of a counter must check the
counter's cell in addition to the revision.
"""

import logging
from collections.abc import Mapping
from typing import TypeAlias

from odm.backends.bigtable.client.errors import kind_of
from odm.backends.bigtable.client.filters import Filter, ValueIs, ValueRange, chain, chained, interleave, newest
from odm.backends.bigtable.client.native import (
    COUNTERS,
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
from odm.backends.bigtable.client.retry import all_of, once, pause, pausing_later, read_many
from odm.backends.bigtable.rows.cells import read_counter, write, write_counter
from odm.backends.bigtable.rows.codec import REVISION, TAG, Form
from odm.backends.bigtable.rows.mutations import increments
from odm.backends.bigtable.transactions.lock_cells import is_lock
from odm.backends.bigtable.writer import Writer, version_in
from odm.errors import OdmError, OutcomeUnknown, Throttled
from odm.protocol.requests import Operation, Update, Written

Held: TypeAlias = Mapping[tuple[str, str], bytes]
"""The newest cells of a row, by family and qualifier."""

_LOG = logging.getLogger("odm.bigtable")


def counts(request: Operation, form: Form) -> tuple[Increment, ...] | None:
    """The request as increments by the server; None if it has other actions.

    It may only require the tag and the version of the item.
    """
    if not isinstance(request, Update) or request.entries or request.returning != "none":
        return None
    return None if request.tag is None or request.condition is not None else increments(request.actions, form)


def marked_version(request: Update) -> int | None:
    """The version that the item says by a cell; None: the first, which has none, or any."""
    return None if request.version == 1 else request.version


def count(writer: Writer, row_key: str, rules: tuple[Increment, ...], request: Update) -> Steps[Written | None]:
    """Increment counters of an item in one request.

    Returns:
        None if there is no item, or its tag or version differs; then the counters are unchanged.

    Raises:
        OutcomeUnknown: the response was lost; the call is not resent, because it could count twice. Or the increment
            had to be reverted, but another writer has written since, perhaps based on the incremented value.
    """
    home = writer.form.placement(request.tag).home
    # Read first: to take back an increment of an item of another version fails if another writer comes in between.
    if marked_version(request) is not None:
        rows = yield from writer.read((row_key,), _marks(home))
        if row_key not in rows or not _is_own(rows[row_key], request, home):
            return None
    # To append nothing returns these cells in the same call; without an item it makes empty ones, the marks of a ghost.
    also_returned = tuple(AppendValue(name, b"", home) for name in (TAG, REVISION))
    call = ReadModifyWriteRow(writer.table, row_key, (*rules, *also_returned))
    row: Row = yield from once(call)
    while _is_locked(
        writer, row, home
    ):  # the increment does not count, see `odm.backends.bigtable.transactions.lock_cells`
        yield from writer.read((row_key,), _marks(home))
        row = yield from once(call)
    if not _held(row).get((home, TAG)):
        yield from pausing_later(_remove_ghost(writer, row_key, rules, row, home), writer.background)
        return None  # a read shows whether the row is missing, or holds cells of another program
    if _is_own(row, request, home):
        return Written()
    yield from _take_back(writer, row_key, rules, row, home)
    return None


def _is_locked(writer: Writer, row: Row, home: str) -> bool:
    return writer.places.locks.is_lock(_held(row).get((home, REVISION), b""))


def _marks(home: str) -> Filter:
    """The cells that an increment returns in addition to the counters."""
    return interleave(newest(home, TAG), newest(home, REVISION))


def _is_own(row: Row, request: Update, home: str) -> bool:
    """Whether the item of the row has the tag and the version that the update requires."""
    if request.tag is not None and _held(row).get((home, TAG)) != write(request.tag):
        return False
    marked = marked_version(request)
    return request.version is None or _version(row, home) == ("" if marked is None else str(marked))


def _held(row: Row) -> dict[tuple[str, str], bytes]:
    return {(cell.family, cell.qualifier.decode()): cell.value for cell in row.cells}


def _columns(rules: tuple[Increment, ...], home: str) -> Filter:
    """The filter for the cells that an increment writes."""
    return interleave(
        _marks(home), *(newest(COUNTERS, column) for column in dict.fromkeys(rule.qualifier for rule in rules))
    )


def _version(row: Row, home: str) -> str:
    """The version in the row's revision; "" is the first version."""
    return version_in(_held(row).get((home, REVISION), b"").decode(errors="backslashreplace"))


def _take_back(writer: Writer, row_key: str, rules: tuple[Increment, ...], row: Row, home: str) -> Steps[None]:
    """Revert an increment; ``row`` is the response to it."""
    pauses = writer.retry.contention()
    held, revision = _held(row), _held(row)[home, REVISION]
    columns = [(COUNTERS, rule.qualifier) for rule in rules]
    while held.get((home, REVISION)) == revision and all(column in held for column in columns):
        if (yield from once(_as_before(writer, row_key, rules, held, home))):
            return
        if (wait := next(pauses, None)) is None:
            break
        yield wait
        rows = yield from read_many(writer.table, (row_key,), writer.retry, _columns(rules, home))
        held = _held(rows[row_key]) if row_key in rows else {}
    raise OutcomeUnknown(
        f"row {row_key!r} of table {writer.table!r}: its counters were incremented, but the item has another tag or "
        "version, and another writer has written since: the counters may or may not include the increment; read the "
        "item"
    )


def _as_before(writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Held, home: str) -> CheckAndMutateRow:
    """The call that sets counters to their values before an increment, if they and the revision are unchanged."""
    revision = held[home, REVISION]
    same = [chain(newest(home, REVISION), ValueIs(revision)), *_counters_are(rules, held)]
    back = _counters_back(writer, rules, held)
    if not revision:  # the increment made it, in an item that odm did not write
        back = (*back, DeleteColumn(REVISION, home))
    return CheckAndMutateRow(writer.table, row_key, chained(*same), matched=back)


def _counters_are(rules: tuple[Increment, ...], held: Held) -> list[Filter]:
    """For each counter that was read, a filter that returns a cell if it is unchanged."""
    columns = dict.fromkeys(rule.qualifier for rule in rules if (COUNTERS, rule.qualifier) in held)
    return [chain(newest(COUNTERS, column), ValueIs(held[COUNTERS, column])) for column in columns]


def _counters_back(writer: Writer, rules: tuple[Increment, ...], held: Held) -> tuple[Mutation, ...]:
    """The mutations that subtract an increment from counters. A missing counter is 0; a counter of 0 is deleted.

    Raises:
        BadValue: a counter would not fit into 64 bits.
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


def _remove_ghost(writer: Writer, row_key: str, rules: tuple[Increment, ...], row: Row, home: str) -> Steps[None]:
    """Undo an increment that found no item. A failure is only logged, because the answer to the request is known."""
    try:
        yield from _undo(writer, row_key, rules, _held(row), home)
    except OdmError as error:
        kind = kind_of(error)
        _LOG.warning("a row of %s holds counters and no item: odm scrub removes it (%s)", writer.table, kind)


def _undo(writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Held, home: str) -> Steps[None]:
    """Subtract an increment from a row without an item, and delete the marks of the row.

    If a response is lost and the marks no longer exist, the call was applied, so it is not resent.
    """
    lost, failed, refused = False, writer.retry.pauses(), writer.retry.contention()
    while not held.get((home, TAG)) and not (lost and (home, TAG) not in held):
        call = _undone(writer, row_key, rules, held, home)
        (answer,) = yield from all_of((call,))
        if isinstance(answer, Exception):
            lost = True
            yield from pause(failed, answer, call)
        elif answer is bool(call.matched):
            return
        elif (wait := next(refused, None)) is not None:
            yield wait
        else:
            raise Throttled("other writers kept changing the row until the time was up", [])
        rows = yield from read_many(writer.table, (row_key,), writer.retry, _columns(rules, home))
        held = _held(rows[row_key]) if row_key in rows else {}
        if is_lock(held.get((home, REVISION), b"")):
            return  # what resolves the lock also sets the counters


def _undone(writer: Writer, row_key: str, rules: tuple[Increment, ...], held: Held, home: str) -> CheckAndMutateRow:
    """The call that undoes an increment, if the row is unchanged since it was read.

    The marks exist, unless the writer of another increment without an item has deleted them. A predicate cannot check
    that one cell exists and another does not. So without the marks, it can only check that no changed cell exists.
    """
    marks = [mark for mark in (TAG, REVISION) if held.get((home, mark)) == b""]
    back = (*_counters_back(writer, rules, held), *(DeleteColumn(mark, home) for mark in marks))
    same = _counters_are(rules, held)
    locks = writer.places.locks
    if locks.ghost_marks <= {*marks} and len(same) == len({rule.qualifier for rule in rules}):
        marked = [chain(newest(home, mark), ValueIs(b"")) for mark in marks]
        return CheckAndMutateRow(writer.table, row_key, chained(*marked, *same), matched=back)
    tag = newest(home, TAG)
    other = [tag] if TAG not in marks else [chain(tag, ValueRange(open=True))]
    for column in dict.fromkeys(rule.qualifier for rule in rules):
        cell = held.get((COUNTERS, column))
        values = () if cell is None else (interleave(ValueRange(b"", cell), ValueRange(cell, open=True)),)
        other.append(chain(newest(COUNTERS, column), *values))
    other += locks.locked(row_key)
    return CheckAndMutateRow(writer.table, row_key, interleave(*other), unmatched=back)
