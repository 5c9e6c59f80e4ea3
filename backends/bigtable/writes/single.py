"""How a write is sent: in one call where the server can evaluate and apply it, otherwise through `commit`.

* **Put** without a condition, if neither the old nor the new item can have index entries: one CheckAndMutateRow, whose
  predicate checks that the row holds no cells of another program; in an ``exclusive`` table, one MutateRow. It deletes
  the old item and sets every cell with an explicit timestamp. It is idempotent, so it is retried until it is answered.
  As with any repeated put, it overwrites a put of another writer in between.
* **Increments of Counters only**: one ReadModifyWriteRow (`counters`).
* **One CheckAndMutateRow**, if the server can evaluate the condition, the actions do not depend on stored values, and
  no index entry changes. If it is refused, `commit` reads the item, evaluates the condition, and answers or tries
  again. If its response is lost, it is not resent: the row's revision shows whether it was applied. A deleted row
  cannot show that.
* **All others**: read the item, evaluate the write here, and commit it on the condition that the revision is unchanged.
"""

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import Final, NamedTuple

from odm.backends.bigtable.client.advice import advice_of
from odm.backends.bigtable.client.errors import NATIVE_FAILURES, is_lost, is_throttled, status, text_of, translate
from odm.backends.bigtable.client.filters import chained, fits, interleave
from odm.backends.bigtable.client.native import CheckAndMutateRow, Cookies, Entry, MutateRow, Mutation, Steps
from odm.backends.bigtable.client.retry import Pauses, pause, until_answered
from odm.backends.bigtable.index.commit import Work, settle
from odm.backends.bigtable.rows.mutations import CompiledUpdate, compiled, settled
from odm.backends.bigtable.rows.predicates import Predicate, predicate, predicate_of_own
from odm.backends.bigtable.rows.wide import WideRows
from odm.backends.bigtable.writer import Writer
from odm.backends.bigtable.writes.counters import count, counts
from odm.backends.bigtable.writes.wide import at_once, write_together
from odm.codec import TAG, VERSION
from odm.errors import BadValue, OdmError, OutcomeUnknown, Throttled
from odm.expressions.nodes import Action, AddTo, Set, Value
from odm.immutable import evolve
from odm.protocol.limits import Limits, item_size
from odm.protocol.predicates import EXISTS, condition_of, every
from odm.protocol.requests import Delete, Operation, Put, Refusals, Refused, Sleep, Transact, Update, Written

BLIND_PART = 64
"""An update with values larger than 1/64 of the maximum size of an item is not written without a read.

Without a read, the size of the resulting item is not known. With large values, one more read costs little.
"""


_TEXTS: Final = frozenset({str, bytes})
_NUMBERS: Final = frozenset({bool, int, Decimal, type(None)})
_NUMBER_BYTES: Final = 40
"""The maximum size of a number as `item_size` counts it."""


class _Shot(NamedTuple):
    """A write in one call.

    Attributes:
        call: the call.
        matches: True: the write is applied if the predicate matches; False: if it does not match.
        id: the row's revision after the write; None: the row does not show whether it was applied.
        refused: the answer if the write is refused; None: the item must be read to find the answer.
    """

    call: CheckAndMutateRow
    matches: bool
    id: str | None
    refused: Written | None = None


def write(writer: Writer, request: Operation) -> Steps[Written | Refused]:
    """Make one write, or a check.

    Raises:
        BadValue: the resulting item cannot be stored, or an action does not fit the item.
        OutcomeUnknown: a response was lost, and the row does not show whether the write was applied.
        Throttled: other writers kept changing the row until the time was up; the write was not applied.
    """
    row_key, places, shot = writer.layout.row_key(request.key), writer.places, None
    if isinstance(request, Put) and request.condition is None and writer.unlisted(request):
        return (yield from _put(writer, request, row_key))
    if isinstance(places, WideRows):
        shot = _wide_at_once(writer, places, request, row_key)
    elif isinstance(request, Update):
        form = compiled(request.actions, request.tag, request.version, writer.form)
        if form.counts and (rules := counts(request, writer.form)) is not None:
            counted = yield from count(writer, row_key, rules, request)
            if counted is not None:
                return counted
        if places.tagged:  # else the row does not show which write was the last
            shot = _update_at_once(writer, request, row_key, form)
    elif isinstance(request, Put) and places.tagged:
        shot = _put_at_once(writer, request, row_key)
    elif isinstance(request, Delete) and places.tagged:
        shot = _delete_at_once(writer, request, row_key)
    if shot is not None and places.locks is not None:
        shot = _unless_locked(shot)
    answer = None if shot is None else (yield from _fire(writer, shot))
    if answer is None:
        return (yield from _evaluated(writer, Work(request, row_key, refused=shot is not None)))
    return answer


def transact(writer: Writer, request: Transact) -> Steps[Written | Refusals]:
    """Make a transaction of one operation, or of operations on items of one wide row."""
    if len(request.operations) > 1 and isinstance(writer.places, WideRows):
        return (yield from write_together(writer, writer.places, request))
    for operation in request.operations:
        try:
            answer = yield from write(writer, operation)
        except BadValue as error:
            return Refusals((error,))
        if isinstance(answer, Refused):
            return Refusals((answer,))
    return Written()


def _put(writer: Writer, request: Put, row_key: str) -> Steps[Written | Refused]:
    """Replace the item of a row, unless the row holds cells of another program."""
    places, locks, id = writer.places, writer.places.locks, writer.id_of(request.item.get(VERSION))
    mutations, row = places.replaced(request.item, row_key, id, (), writer.now()), places.row(row_key)
    if request.tag is not None and not places.surely_own(row_key):
        other = places.strange(row_key, request.tag)
    elif locks is not None:
        other = locks.cells.locked(row_key)
    else:
        yield from until_answered(MutateRow(writer.table, Entry(row, mutations)), writer.retry)
        return Written()
    call = CheckAndMutateRow(writer.table, row, other, unmatched=mutations)
    pauses: Iterator[Sleep] | None = None
    while (yield from until_answered(call, writer.retry)):
        pauses = pauses or writer.retry.contention()
        rows = yield from writer.read((row_key,))
        before = writer.places.stored(rows.get(row_key))
        if before is not None and request.tag is not None and before.item.get(TAG) != request.tag:
            return Refused(before.item)
        yield from writer.places.check_space({row: 0}, writer.retry)
        if (wait := next(pauses, None)) is None:
            raise Throttled(
                f"row {row_key!r} of table {writer.table!r}: other writers kept changing it; nothing was written"
            )
        yield wait
    return Written()


def unless_locked(
    writer: Writer,
    ids: tuple[str, ...],
    mutations: Callable[[], tuple[Mutation, ...]],
    *,
    once: bool = False,
    batch: bool = False,
) -> Steps[None]:
    """Change items of a row without a condition on them, in a table with locks: when none of them is locked.

    Args:
        writer: the writer of the table.
        ids: the items.
        mutations: returns the change, for each time that it is sent.
        once: the change must not be applied twice.
        batch: it is one of many, and so is retried when a quota is exhausted.

    Raises:
        OutcomeUnknown: the response was lost, and the change must not be applied twice; or no response came until the
            time was up.
        Throttled: other programs kept locking the items until the time was up, or a quota is exhausted.
    """
    locks = writer.places.locks
    assert locks is not None
    row, asked = writer.places.row(ids[0]), interleave(*map(locks.cells.locked, ids))
    pauses: Pauses | None = None
    cookies: Cookies = ()
    while True:
        call = CheckAndMutateRow(writer.table, row, asked, unmatched=mutations(), cookies=cookies)
        try:
            locked = yield call
        except NATIVE_FAILURES as failure:
            throttled = batch and is_throttled(status(failure), text_of(failure))
            if once and not throttled:
                raise translate(failure, call) from failure
            pauses = pauses or writer.retry.pauses()
            if throttled and (wait := pauses.at_least(advice_of(failure).seconds or 0)) is not None:
                yield wait
                continue
            cookies = (yield from pause(pauses, failure, call)).cookies
        else:
            if not locked:
                return
            yield from writer.read(ids, locks.cells.any_lock)


def _wide_at_once(writer: Writer, places: WideRows, request: Operation, row_key: str) -> _Shot | None:
    """The write of an item of a wide row in one call; None if it needs more calls."""
    call = at_once(writer, places, request, row_key)
    refused = _not_there(request) if isinstance(request, Delete) else None
    return None if call is None else _Shot(call, matches=True, id=None, refused=refused)


def _unless_locked(shot: _Shot) -> _Shot | None:
    """The write in one call, in a table with locks; None if its condition is too large with the one about locks.

    If it is refused, only a read shows whether the row is locked.
    """
    return shot._replace(refused=None) if shot.call.predicate is None or fits(shot.call.predicate) else None


def _put_at_once(writer: Writer, request: Put, row_key: str) -> _Shot | None:
    if request.presence == "absent" or not writer.unlisted(request):
        return None  # an insert through `commit` needs only one call, too
    asked = _over_own(writer, request)
    if asked is None:
        return None
    id = writer.id_of(request.item.get(VERSION))
    mutations = writer.places.replaced(request.item, row_key, id, (), writer.now())
    return _Shot(_if(writer, row_key, asked, mutations), asked.holds, id)


def _over_own(writer: Writer, request: Put) -> Predicate | None:
    """The predicate that the condition of a put holds, and that the row has no cells of another program."""
    if request.tag is None or request.condition is None:
        return predicate(request.condition, writer.form, request.item.get(TAG))
    if request.presence in ("present", "own"):  # the tag of the item can be checked
        return predicate_of_own(request.tag, None, writer.form, request.condition)
    asked = predicate(request.condition, writer.form, request.tag)
    if asked is None or asked.holds:
        return None
    both = interleave(asked.filter, writer.form.owned.strange(request.tag))
    return evolve(asked, filter=both) if fits(both) else None


def _update_at_once(writer: Writer, request: Update, row_key: str, form: CompiledUpdate) -> _Shot | None:
    if form.ages or request.entries or request.returning != "none":
        return None
    actions = request.actions
    if form.settles and request.fixed:
        actions = settled(actions, request.fixed)
        form = compiled(actions, request.tag, request.version, writer.form)
    now = writer.now()
    changes = form.blind(actions, now, row_key) if _are_small(actions, request.limits) else None
    if changes is None:
        return None
    asked = form.own if request.condition is None and request.tag is not None else _of_item(writer, request)
    if asked is not None and changes.requires:
        asked = evolve(asked, filter=chained(asked.filter, *changes.requires))
        asked = asked if fits(asked.filter) else None
    if asked is None:
        return None
    id = writer.id_of(form.version)
    call = _if(writer, row_key, asked, (*changes.mutations, *form.revised(id, now)))
    return _Shot(call, asked.holds, id)


def _delete_at_once(writer: Writer, request: Delete, row_key: str) -> _Shot | None:
    """A delete whose predicate also checks that there is an item, so that the answer shows whether it existed."""
    if not writer.unlisted(request) or (request.tag is None and writer.form.placements):
        return None  # the tag decides where the cells stand
    asked = _of_item(writer, request)
    if asked is None:
        return None
    return _Shot(_if(writer, row_key, asked, writer.places.removed(row_key)), asked.holds, None, _not_there(request))


def _not_there(request: Delete) -> Written | None:
    """The answer to a delete that found no item; None: the row must be read."""
    return Written(existed=False) if (request.condition, request.tag) == (None, None) else None


def _of_item(writer: Writer, request: Update | Delete) -> Predicate | None:
    """The predicate of the request's condition, and that there is an item with the tag that the request names."""
    if request.tag is not None:
        version = request.version if isinstance(request, Update) else None
        return predicate_of_own(request.tag, version, writer.form, request.condition)
    return predicate(every(EXISTS, condition_of(request)), writer.form)


def _are_small(actions: Sequence[Action], limits: Limits) -> bool:
    """Whether no value is larger than a `BLIND_PART` of an item."""
    if limits.item_bytes is None:
        return True
    most = limits.item_bytes // BLIND_PART
    values: dict[str, Value] = {}
    bound = 0
    for action in actions:
        if type(action) is Set:
            value = action.value
            bound += 4 * len(value) if type(value) in _TEXTS else _NUMBER_BYTES if type(value) in _NUMBERS else most
        elif type(action) is AddTo:
            bound += most
        bound += sum([4 * len(part) + 4 if type(part) is str else _NUMBER_BYTES for part in action.path.segments])
    if bound < most:
        return True
    for action in actions:
        if isinstance(action, Set | AddTo):
            values[str(action.path)] = action.value if isinstance(action, Set) else action.members
    return item_size(values) <= most


def _if(writer: Writer, row_key: str, asked: Predicate, mutations: tuple[Mutation, ...]) -> CheckAndMutateRow:
    locks = writer.places.locks
    if asked.holds:
        said = asked.filter if locks is None else chained(asked.filter, locks.cells.unlocked(row_key))
        return CheckAndMutateRow(writer.table, row_key, said, matched=mutations)
    said = asked.filter if locks is None else interleave(asked.filter, locks.cells.locked(row_key))
    return CheckAndMutateRow(writer.table, row_key, said, unmatched=mutations)


def _fire(writer: Writer, shot: _Shot) -> Steps[Written | Refused | None]:
    """Send the call. Returns the answer, or None if the write was refused and the item must be read to say why.

    Raises:
        OutcomeUnknown: the response was lost, and the row does not show that the write was applied.
    """
    try:
        matched: bool = yield shot.call
    except NATIVE_FAILURES as failure:
        if not is_lost(failure) or shot.id is None or not (yield from _shows(writer, shot.call.key, shot.id)):
            raise translate(failure, shot.call) from failure
        return Written()
    return Written() if matched is shot.matches else shot.refused


def _shows(writer: Writer, row_key: str, id: str) -> Steps[bool]:
    """Whether this attempt was the last to write the row."""
    try:
        rows = yield from writer.places.read((row_key,), writer.retry)
    except OdmError:  # the caller raises OutcomeUnknown, which matters more than this failure
        return False
    before = writer.places.stored(rows.get(row_key))
    return before is not None and before.revision == id


def _evaluated(writer: Writer, work: Work) -> Steps[Written | Refused]:
    """Make a write that needs a read: read, evaluate, commit."""
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
