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

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from odm.backends.bigtable.client.errors import NATIVE_FAILURES, is_lost, translate
from odm.backends.bigtable.client.filters import Filter, chained, fits, interleave
from odm.backends.bigtable.client.native import CheckAndMutateRow, Entry, MutateRow, Mutation, Steps
from odm.backends.bigtable.client.retry import until_answered
from odm.backends.bigtable.rows.locks import OneCall
from odm.backends.bigtable.rows.mutations import CompiledUpdate, compiled, settled
from odm.backends.bigtable.rows.predicates import Predicate, predicate, predicate_of_own
from odm.backends.bigtable.writer import Writer
from odm.backends.bigtable.writes.batches import merge
from odm.backends.bigtable.writes.commit import Work, settle
from odm.backends.bigtable.writes.counters import count, counts
from odm.codec import TAG, VERSION
from odm.errors import BadValue, OdmError, OutcomeUnknown, Throttled
from odm.expressions.nodes import Action, AddTo, Set, Value
from odm.immutable import Immutable, evolve
from odm.protocol.limits import Limits, item_size
from odm.protocol.predicates import EXISTS, condition_of, every
from odm.protocol.requests import Delete, Merge, Operation, Put, Refusals, Refused, Sleep, Transact, Update, Written

BLIND_PART = 64
"""An update with values larger than 1/64 of the maximum size of an item is not written without a read.

Without a read, the size of the resulting item is not known. With large values, one more read costs little.
"""


_TEXTS: Final = frozenset({str, bytes})
_NUMBERS: Final = frozenset({bool, int, Decimal, type(None)})
_NUMBER_BYTES: Final = 40
"""The maximum size of a number as `item_size` counts it."""


class ItemWrites(Immutable):
    """How one item is written in rows of items; the contract of all layouts.

    Attributes:
        writer: the writer of the table.
    """

    writer: Writer

    def write(self, request: Operation) -> Steps[Written | Refused]:
        """Make one write, or a check.

        Raises:
            BadValue: the resulting item cannot be stored, or an action does not fit the item.
            OutcomeUnknown: a response was lost, and the row does not show whether the write was applied.
            Throttled: other writers kept changing the row until the time was up; the write was not applied.
        """
        writer, one_call = self.writer, None
        row_key = writer.row_keys.row_key(request.key)
        if isinstance(request, Put):
            if request.condition is None and writer.places.unlisted(request, writer.schema):
                return (yield from put_whole(writer, request, row_key))
            one_call = self._put_call(request, row_key)
        elif isinstance(request, Update):
            form = compiled(request.actions, request.tag, request.version, writer.form)
            if form.counts and (rules := counts(request, writer.form)) is not None:
                counted = yield from count(writer, row_key, rules, request)
                if counted is not None:
                    return counted
            one_call = self._update_call(request, row_key, form)
        elif isinstance(request, Delete):
            one_call = self._delete_call(request, row_key)
        return (yield from self._send(request, row_key, one_call))

    def transact(self, request: Transact) -> Steps[Written | Refusals]:
        """Make a transaction of operations on items that one call can change together."""
        for operation in request.operations:
            try:
                answer = yield from self.write(operation)
            except BadValue as error:
                return Refusals((error,))
            if isinstance(answer, Refused):
                return Refusals((answer,))
        return Written()

    def merge(self, request: Merge) -> Steps[Written | Refused]:
        """Write parts of an item, which may not exist.

        Raises:
            OutcomeUnknown: it adds to a sum, and the response was lost.
            OdmError: it was not answered, or refused.
        """
        return merge(self.writer, request)

    def _put_call(self, request: Put, row_key: str) -> OneCall | None:
        """The write in one call; None if it needs a read."""
        return _put_at_once(self.writer, request, row_key)

    def _update_call(self, request: Update, row_key: str, form: CompiledUpdate) -> OneCall | None:
        return _update_at_once(self.writer, request, row_key, form)

    def _delete_call(self, request: Delete, row_key: str) -> OneCall | None:
        return _delete_at_once(self.writer, request, row_key)

    def _send(self, request: Operation, row_key: str, one_call: OneCall | None) -> Steps[Written | Refused]:
        """Send the write in one call, if that is possible, and else, or if it is refused, after a read."""
        if one_call is not None:
            one_call = self.writer.places.locks.one_call(row_key, one_call)
        answer = None if one_call is None else (yield from _fire(self.writer, one_call))
        if answer is None:
            return (yield from _evaluated(self.writer, Work(request, row_key, refused=one_call is not None)))
        return answer


class ForeignWrites(ItemWrites):
    """How an item is written in a row of other programs: such a row does not show which write was the last."""

    def _put_call(self, request: Put, row_key: str) -> OneCall | None:
        return None

    def _update_call(self, request: Update, row_key: str, form: CompiledUpdate) -> OneCall | None:
        return None

    def _delete_call(self, request: Delete, row_key: str) -> OneCall | None:
        return None


def put_whole(writer: Writer, request: Put, row_key: str) -> Steps[Written | Refused]:
    """Replace the item of a row, unless the row holds cells of another program."""
    places, id = writer.places, writer.id_of(request.item.get(VERSION))
    mutations, row = places.replaced(request.item, row_key, id, (), writer.now()), places.row(row_key)
    if request.tag is not None and not places.surely_own(row_key):
        others: tuple[Filter, ...] = (places.strange(row_key, request.tag),)
    else:
        others = places.locks.locked(row_key)
    if not others:
        yield from until_answered(MutateRow(writer.table, Entry(row, mutations)), writer.retry)
        return Written()
    call = CheckAndMutateRow(writer.table, row, others[0], unmatched=mutations)
    pauses: Iterator[Sleep] | None = None
    # Sent until it is answered: a put without a condition may be applied twice.
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


def _put_at_once(writer: Writer, request: Put, row_key: str) -> OneCall | None:
    if request.presence == "absent" or not writer.places.unlisted(request, writer.schema):
        return None  # an insert through `commit` needs only one call, too
    asked = _over_own(writer, request)
    if asked is None:
        return None
    id = writer.id_of(request.item.get(VERSION))
    mutations = writer.places.replaced(request.item, row_key, id, (), writer.now())
    return OneCall(_if(writer, row_key, asked, mutations), asked.holds, id)


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


def _update_at_once(writer: Writer, request: Update, row_key: str, form: CompiledUpdate) -> OneCall | None:
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
    return OneCall(call, asked.holds, id)


def _delete_at_once(writer: Writer, request: Delete, row_key: str) -> OneCall | None:
    """A delete whose predicate also checks that there is an item, so that the answer shows whether it existed."""
    if not writer.places.unlisted(request, writer.schema) or (request.tag is None and writer.form.placements):
        return None  # the tag decides where the cells stand
    asked = _of_item(writer, request)
    if asked is None:
        return None
    return OneCall(
        _if(writer, row_key, asked, writer.places.removed(row_key)), asked.holds, None, answer_absent(request)
    )


def answer_absent(request: Delete) -> Written | None:
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
    if asked.holds:
        return CheckAndMutateRow(writer.table, row_key, asked.filter, matched=mutations)
    return CheckAndMutateRow(writer.table, row_key, asked.filter, unmatched=mutations)


def _fire(writer: Writer, shot: OneCall) -> Steps[Written | Refused | None]:
    """Send the call. Returns the answer, or None if the write was refused and the item must be read to say why.

    It is sent once: a second copy could be applied after another writer has changed the item.

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
