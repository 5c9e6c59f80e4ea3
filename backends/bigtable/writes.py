"""Which way a write goes: in one call where the server can judge and do it alone, otherwise by `commit`.

* **Put** without a condition, where no index entry can be listed: one check-and-mutate, which asks that the row holds
  nothing of another program; one mutation of the row in a table that is ``exclusive``. It takes the old item away and
  sets every cell with a given timestamp, so applied twice it leaves what applying it once does: it is sent until it is
  answered. As with any repeated put, one of another writer in between loses.
* **Counters alone**: one read-modify-write (`counters`).
* **One check-and-mutate**, where the server can judge the condition, the actions do not depend on what they find, and
  no index entry changes. If it is refused, `commit` reads the item, judges it, and answers or tries on. If its answer
  is lost, it is not sent again: the row tells by its revision if it was done; a delete leaves nothing to tell by.
* **All else**: read, evaluated here, and committed by the revision.
"""

from collections.abc import Sequence
from typing import NamedTuple

from attrs import evolve

from odm.backends.bigtable.bulk import read_many
from odm.backends.bigtable.codec import bookkeeping, replacement, stored
from odm.backends.bigtable.commit import Work, settle
from odm.backends.bigtable.counters import asked_version, count, counts
from odm.backends.bigtable.errors import NATIVE_FAILURES, is_lost, translate
from odm.backends.bigtable.expressions import Predicate, blind, predicate, settled
from odm.backends.bigtable.filters import chained, fits, interleave
from odm.backends.bigtable.native import CheckAndMutateRow, Entry, MutateRow, Mutation, Steps
from odm.backends.bigtable.ownership import REMOVED
from odm.backends.bigtable.retry import until_answered
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG, VERSION
from odm.errors import BadValue, OdmError, OutcomeUnknown, Throttled
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, AddTo, Condition, Set
from odm.protocol.limits import Limits, item_size
from odm.protocol.predicates import ABSENT, EXISTS, every, has_tag, requires
from odm.protocol.requests import Check, Delete, Operation, Put, Refusals, Refused, Transact, Update, Written

BLIND_PART = 64
"""The values that an update writes without a read are together at most such a part of what an item may have.

How large the item has become cannot be told then, and a read more costs little where values are large.
"""


class _Shot(NamedTuple):
    """A write in one call.

    Attributes:
        call: the call.
        matches: it is done if the predicate matches; otherwise if not.
        id: what the row has as its revision if it was done; None: nothing tells that.
        refused: the answer if it is not done; None: the item tells.
    """

    call: CheckAndMutateRow
    matches: bool
    id: str | None
    refused: Written | Refused | None = None


def write(writer: Writer, request: Operation) -> Steps[Written | Refused]:
    """Do one write, or a check.

    Raises:
        BadValue: what comes of it cannot be stored, or an action does not fit the item.
        OutcomeUnknown: an answer was lost, and it cannot be told whether it was done.
        Throttled: other writers were faster until the time was up; it was not done.
    """
    row_key = writer.row_key(request.key)
    if isinstance(request, Put) and request.condition is None and writer.unlisted(request):
        return (yield from _put(writer, request, row_key))
    if (rules := counts(request, writer.form)) is not None:
        counted = yield from count(writer, row_key, rules, request.condition)
        if counted is not None:
            return counted
    shot = _shot(writer, request, row_key)
    answer = None if shot is None else (yield from _fire(writer, shot))
    if answer is None:
        return (yield from _evaluated(writer, Work(request, row_key, refused=shot is not None)))
    return answer


def transact(writer: Writer, request: Transact) -> Steps[Written | Refusals]:
    """Do a transaction of one operation, or of none."""
    for operation in request.operations:
        try:
            answer = yield from write(writer, operation)
        except BadValue as error:
            return Refusals((error,))
        if isinstance(answer, Refused):
            return Refusals((answer,))
    return Written()


def _put(writer: Writer, request: Put, row_key: str) -> Steps[Written | Refused]:
    """Replace whatever the row holds, but nothing of another program."""
    mutations = _replaced(writer, request)
    if request.tag is None:
        yield from until_answered(MutateRow(writer.table, Entry(row_key, mutations)), writer.retry)
        return Written()
    call = CheckAndMutateRow(writer.table, row_key, writer.form.owned.strange(request.tag), unmatched=mutations)
    pauses = writer.retry.contention()
    while (yield from until_answered(call, writer.retry)):
        rows = yield from read_many(writer.table, (row_key,), writer.retry)
        before = stored(rows.get(row_key), writer.form)
        if before is not None and before.item.get(TAG) != request.tag:
            return Refused(before.item)
        if (wait := next(pauses, None)) is None:
            raise Throttled(
                f"row {row_key!r} of table {writer.table!r}: others kept writing to it; nothing was written"
            )
        yield wait
    return Written()


def _replaced(writer: Writer, request: Put, id: str | None = None) -> tuple[Mutation, ...]:
    """The mutations of a put without index entries."""
    id = id or writer.id_of(request.item.get(VERSION))
    return replacement(request.item, writer.form, writer.row_key(request.key), id, (), writer.now())


def _shot(writer: Writer, request: Operation, row_key: str) -> _Shot | None:
    """The one call that does the write; None if there is none."""
    match request:
        case Put():
            return _put_at_once(writer, request, row_key)
        case Update():
            return _update_at_once(writer, request, row_key)
        case Delete():
            return _delete_at_once(writer, request, row_key)
        case Check():
            return None


def _put_at_once(writer: Writer, request: Put, row_key: str) -> _Shot | None:
    if request.condition == ABSENT or not writer.unlisted(request):
        return None  # an insert is one call in any case
    asked = _over_own(writer, request)
    if asked is None:
        return None
    id = writer.id_of(request.item.get(VERSION))
    return _Shot(_if(writer, row_key, asked, _replaced(writer, request, id)), asked.holds, id, _absent(request))


def _over_own(writer: Writer, request: Put) -> Predicate | None:
    """The condition of a put, and that the row holds nothing of another program."""
    if request.tag is None or request.condition is None:
        return predicate(request.condition, writer.form)
    if not holds(request.condition, None):  # so there must be an item anyway
        return predicate(every(has_tag(request.tag), request.condition), writer.form)
    asked = predicate(request.condition, writer.form)
    if asked is None or not fits(both := interleave(asked.filter, writer.form.owned.strange(request.tag))):
        return None
    return evolve(asked, filter=both)


def _update_at_once(writer: Writer, request: Update, row_key: str) -> _Shot | None:
    actions = settled(request.actions, request.condition)
    if request.entries or request.returning != "none" or not _are_small(actions, request.limits):
        return None
    made = blind(actions, writer.form, writer.now(), row_key)
    asked = predicate(_of_item(request), writer.form)
    if made is None or asked is None:
        return None
    if made.requires:
        asked = evolve(asked, filter=chained(asked.filter, *made.requires))
        if not fits(asked.filter):
            return None
    id = writer.id_of(asked_version(request.condition))
    mutations = (*made.mutations, *bookkeeping(id, None, writer.now()))
    return _Shot(_if(writer, row_key, asked, mutations), asked.holds, id, None if made.requires else _absent(request))


def _delete_at_once(writer: Writer, request: Delete, row_key: str) -> _Shot | None:
    """Whether there is an item decides, so that the answer tells if there was one."""
    asked = None if writer.schema.indexes else predicate(_of_item(request), writer.form)
    if asked is None:
        return None
    refused = Written(existed=False) if (request.condition, request.tag) == (None, None) else _absent(request)
    return _Shot(_if(writer, row_key, asked, REMOVED), asked.holds, None, refused)


def _absent(request: Put | Update | Delete) -> Refused | None:
    """The refusal, where it tells by itself that there is no item."""
    return Refused(None) if request.condition == EXISTS else None


def _of_item(request: Update | Delete) -> Condition | None:
    """The condition, which also asks that there is an item, of the tag that the request names."""
    tag = request.tag if isinstance(request, Delete) else None
    there = EXISTS if tag is None else has_tag(tag)
    return request.condition if requires(request.condition, there) else every(there, request.condition)


def _are_small(actions: Sequence[Action], limits: Limits) -> bool:
    given = {
        str(one.path): one.value if isinstance(one, Set) else one.members
        for one in actions
        if isinstance(one, Set | AddTo)
    }
    return limits.item_bytes is None or item_size(given) <= limits.item_bytes // BLIND_PART


def _if(writer: Writer, row_key: str, asked: Predicate, mutations: tuple[Mutation, ...]) -> CheckAndMutateRow:
    if asked.holds:
        return CheckAndMutateRow(writer.table, row_key, asked.filter, matched=mutations)
    return CheckAndMutateRow(writer.table, row_key, asked.filter, unmatched=mutations)


def _fire(writer: Writer, shot: _Shot) -> Steps[Written | Refused | None]:
    """Make the one call: the answer, or None if the write was refused and the item tells why.

    Raises:
        OutcomeUnknown: the answer was lost, and the row does not show that it was done.
    """
    try:
        matched: bool = yield shot.call
    except NATIVE_FAILURES as failure:
        if not is_lost(failure) or shot.id is None or not (yield from _shows(writer, shot.call.key, shot.id)):
            raise translate(failure, shot.call) from failure
        return Written()
    return Written() if matched is shot.matches else shot.refused


def _shows(writer: Writer, row_key: str, id: str) -> Steps[bool]:
    """Whether the row was last written by this attempt."""
    try:
        rows = yield from read_many(writer.table, (row_key,), writer.retry)
    except OdmError:  # what counts is that the outcome is not known
        return False
    before = stored(rows.get(row_key), writer.form)
    return before is not None and before.revision == id


def _evaluated(writer: Writer, work: Work) -> Steps[Written | Refused]:
    """Read, evaluate, commit."""
    try:
        reason = yield from settle(writer, (work,))
    except OutcomeUnknown:
        raise
    except OdmError as error:
        if not work.lost:
            raise
        raise _unknown(writer, work, error) from error
    if work.answer is not None:
        return work.answer
    if work.lost:
        raise _unknown(writer, work, reason)
    raise Throttled(
        f"row {work.row_key!r} of table {writer.table!r}: {reason}: nothing was written; try again later, or spread "
        "the writes over more items"
    )


def _unknown(writer: Writer, work: Work, reason: object) -> OutcomeUnknown:
    return OutcomeUnknown(
        f"row {work.row_key!r} of table {writer.table!r}: {reason}: the write may or may not have been applied; read "
        "the item before going on"
    )
