"""One transaction of operations and the items of their companions, retried while other writers are faster.

An operation that depends on its item, for index keys that nobody gave or for companions, is worked out on the item as
it was read (all of them in one `BatchGet`) and guarded. Where nothing but guards failed, what was refused is computed
again from the items as they were judged, and the whole is tried again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field

from odm.entities.companions import Effect
from odm.errors import BadValue, ItemInvalid, OdmError, TransactionFailed
from odm.expressions.nodes import And, Item
from odm.observe.events import LOG
from odm.procedures.companion_intent import IntentWithCompanions, Planned, companion_writes_of, mark_of
from odm.procedures.companion_writes import UNREAD, SideWrite
from odm.procedures.context import Context
from odm.procedures.retention import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.update import ATTEMPTS, contended
from odm.procedures.write_intent import WriteIntent
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_transaction, item_size
from odm.protocol.predicates import ABSENT, EXISTS
from odm.schema.entity import Key

Items: TypeAlias = Mapping[Key, Item | None]
"""Items as they were read, by key; None: absent."""

_NEVER: Final = And((EXISTS, ABSENT))


@define
class _Commit:
    """A transaction under way.

    Attributes:
        items: what was read or judged, by key.
        contended: whether the item of an operation, or one of its companions, caused the last try to fail.
        others: by the place of their operation and their own key: what is done in place of a companion's write that was
            refused; None: nothing.
        lost: by their own key: the highest rank of a companion's write that lost, and all of lower rank with it.
    """

    context: Context
    intents: Sequence[IntentWithCompanions]
    items: dict[Key, Any]
    contended: list[bool] = field(init=False)
    others: dict[tuple[int, Key], req.Operation | None] = field(factory=dict)
    lost: dict[Key, Any] = field(factory=dict)

    def read(self) -> CoreGen[None]:
        """Read the items on which operations depend."""
        wanting = [one.intent for one in self.intents if one.reads(self.context, in_transaction=True)]
        wanting = [intent for intent in wanting if intent.target.key not in self.items]
        keys = tuple(intent.target.key for intent in wanting)
        if len(keys) == 1:
            self.items[keys[0]] = yield req.Get(keys[0], pattern=wanting[0].target.entity.primary.full_name)
        elif keys:
            patterns = tuple(intent.target.entity.primary.full_name for intent in wanting)
            found = yield from send_batch(req.BatchGet(keys, patterns=patterns), {})
            self.items.update(zip(keys, found, strict=True))

    def plans(self) -> list[Planned | OdmError]:
        return [self._plan(one) for one in self.intents]

    def _plan(self, one: IntentWithCompanions) -> Planned | OdmError:
        item = self.items.get(one.intent.target.key, UNREAD)
        if item is UNREAD:
            return one.plan(self.context, item)
        try:
            return one.plan(self.context, item)
        except (BadValue, ItemInvalid) as error:  # what comes of it cannot be stored; what is there cannot be read
            return error

    def own(self, plan: Planned | OdmError, intent: WriteIntent, marks: Mapping[str, Any]) -> req.Operation:
        """The operation on the entity's item.

        One that cannot be done on its item as it was read is sent as a check that never holds: the store judges it
        again, at the same time as all others, and the reasons are complete.
        """
        if isinstance(plan, OdmError):
            return req.Check(intent.target.key, _NEVER, pattern=intent.target.entity.primary.full_name)
        return plan.marked(marks)

    def side_writes_of(
        self, plans: Sequence[Planned | OdmError]
    ) -> tuple[list[tuple[int, SideWrite]], list[dict[str, Any]]]:
        """What companions write, with the place of the operation that each belongs to, and the marks of each."""
        kept: dict[Key, tuple[int, SideWrite]] = {}
        marks: list[dict[str, Any]] = [{} for _ in plans]
        for at, plan in enumerate(plans):
            for companion in plan.of.companions if isinstance(plan, Planned) else ():
                assert isinstance(plan, Planned)
                found = companion_writes_of(self.context, companion, plan.seen_by(companion))
                marks[at][mark_of(companion)] = found.marked
                for side_write in found.side_writes:
                    self._keep(kept, at, side_write)
        return list(kept.values()), marks

    def _keep(self, kept: dict[Key, tuple[int, SideWrite]], at: int, side_write: SideWrite) -> None:
        key = side_write.intent.target.key
        if self.others.get((at, key), side_write) is None:
            return
        if side_write.rank is not None and key in self.lost and side_write.rank <= self.lost[key]:
            return
        other = kept.get(key)
        twice = other is not None and None in (side_write.rank, other[1].rank)
        if twice or any(one.intent.target.key == key for one in self.intents):
            raise BadValue(
                f"{self.intents[at].intent.target} is written with {side_write.intent.target}, which the transaction "
                "writes already, and it has one operation an item: say this in a transaction of its own"
            )
        if other is None or side_write.rank > other[1].rank:
            kept[key] = (at, side_write)

    def side_write(self, at: int, side_write: SideWrite) -> req.Operation:
        return self.others.get((at, side_write.intent.target.key)) or side_write.operation(self.context)

    def refused(self, side_writes: Sequence[tuple[int, SideWrite]], answer: req.Refusals) -> None:
        """Take note of a refusal.

        Raises:
            TransactionFailed: it does not help to try again.
        """
        reasons: list[OdmError | None] = [None] * len(self.intents)
        self.contended = [reason is not None for reason in answer.reasons[: len(self.intents)]]
        for at, (one, reason) in enumerate(zip(self.intents, answer.reasons, strict=False)):
            if isinstance(reason, req.Refused):
                self.items[one.intent.target.key] = reason.item
                plan = self._plan(one)
                reasons[at] = plan if isinstance(plan, OdmError) else None
            else:
                reasons[at] = reason
        moved = {at for at, reason in enumerate(answer.reasons[: len(self.intents)]) if isinstance(reason, req.Refused)}
        # The companions of an item that has changed since are asked again, whatever became of their writes until then.
        self.others = {place: other for place, other in self.others.items() if place[0] not in moved}
        for (at, side_write), reason in zip(side_writes, answer.reasons[len(self.intents) :], strict=True):
            if reason is not None and at not in moved:
                self.contended[at] = True
                found = side_write.instead(self.context, reason)
                reasons[at] = reasons[at] or (found if isinstance(found, OdmError) else None)
                self.others[at, side_write.intent.target.key] = None if isinstance(found, OdmError) else found
                if found is None and side_write.rank is not None:
                    self.lost[side_write.intent.target.key] = side_write.rank
        if any(reasons):
            raise _failed([one.intent for one in self.intents], reasons)


def commit(
    context: Context, intents: Sequence[WriteIntent], items: Items, *, once: bool = False, alone: bool = False
) -> CoreGen[list[Effect[Any] | None]]:
    """Apply all operations and the writes of their companions, or nothing.

    Args:
        context: of the store.
        intents: the operations.
        items: those that were read already, by key.
        once: it is applied once, however often it is sent.
        alone: an operation without writes of companions is sent as it is, at half the cost of a transaction.

    Returns:
        What became of the item of each operation that has companions.

    Raises:
        TransactionFailed: nothing was written; its reasons, one an operation, say why.
        BadValue: there is too much in it, or an item twice.
    """
    work = _Commit(context, [IntentWithCompanions(intent) for intent in intents], dict(items))
    yield from work.read()
    for _ in range(ATTEMPTS):
        plans = work.plans()
        side_writes, marks = work.side_writes_of(plans)
        own = [work.own(*each) for each in zip(plans, intents, marks, strict=True)]
        operations = (*own, *(work.side_write(at, side_write) for at, side_write in side_writes))
        if side_writes:
            size = sum(item_size(one.item) for one in operations if isinstance(one, req.Put))
            check_transaction(len(operations), size, context.limits)
        request = req.Transact(operations, context.limits, once=once)
        answer = yield from _alone(request) if alone and len(operations) == 1 else _transact(request)
        if isinstance(answer, req.Written):
            yield from trim_after(context, own)
            return [plan.effect for plan in plans if isinstance(plan, Planned)]
        work.refused(side_writes, answer)
        LOG.debug("a transaction: another writer was faster, so it is tried again")
    busy = zip(intents, work.contended, strict=True)
    raise _failed(intents, [contended(intent.target) if was else None for intent, was in busy])


def _transact(request: req.Transact) -> CoreGen[req.Written | req.Refusals]:
    answer: req.Written | req.Refusals = yield request
    return answer


def _alone(request: req.Transact) -> CoreGen[req.Written | req.Refusals]:
    """Send the only operation of a transaction by itself; a check needs the transaction."""
    (operation,) = request.operations
    if isinstance(operation, req.Check):
        return (yield from _transact(request))
    answer: req.Written | req.Refused = yield operation
    return req.Refusals((answer,)) if isinstance(answer, req.Refused) else answer


def _failed(intents: Sequence[WriteIntent], reasons: Sequence[OdmError | None]) -> TransactionFailed:
    failed = [
        f"reasons[{n}], {intent.name}(): {reason}"
        for n, (intent, reason) in enumerate(zip(intents, reasons, strict=True))
        if reason is not None
    ]
    return TransactionFailed(
        f"nothing was written, because {len(failed)} of {len(intents)} operations cannot be done: {'; '.join(failed)}",
        reasons,
    )
