"""One transaction of operations and what goes along with them, tried until no other writer is faster.

An operation that depends on its item, for index keys that nobody gave or for companions, is worked out on the item as
it was read (all of them in one `BatchGet`) and guarded. Where nothing but guards failed, what was refused is computed
anew from the items as they were judged, and the whole is tried again.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import define, field

from odm.entities.companions import Effect
from odm.errors import BadValue, ItemInvalid, OdmError, TransactionFailed
from odm.expressions.nodes import And
from odm.observe.events import LOG
from odm.procedures.companion_writes import UNREAD, Accompanied, Beside, Planned, along_with, mark_of
from odm.procedures.context import Context
from odm.procedures.retention import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.update import ATTEMPTS, restless
from odm.procedures.write_intent import Step
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_transaction, item_size
from odm.protocol.predicates import ABSENT, EXISTS
from odm.schema.model import Key

_NEVER: Final = And((EXISTS, ABSENT))


@define
class _Commit:
    """A transaction under way.

    Attributes:
        items: what was read or judged, by key.
        restless: whether the item of an operation, or what goes along with it, was in the way of the last try.
        others: by the place of their operation and their own key: what is done in place of a companion's write that was
            refused; None: nothing.
        lost: by their own key: the highest rank of a companion's write that lost, and all of lower rank with it.
    """

    context: Context
    steps: Sequence[Accompanied]
    items: dict[Key, Any]
    restless: list[bool] = field(init=False)
    others: dict[tuple[int, Key], req.Operation | None] = field(factory=dict)
    lost: dict[Key, Any] = field(factory=dict)

    def read(self) -> CoreGen[None]:
        """Read the items on which operations depend."""
        wanting = [one.step for one in self.steps if one.reads(self.context, apart=False)]
        wanting = [step for step in wanting if step.target.key not in self.items]
        keys = tuple(step.target.key for step in wanting)
        if len(keys) == 1:
            self.items[keys[0]] = yield req.Get(keys[0], pattern=wanting[0].target.entity.primary.full_name)
        elif keys:
            patterns = tuple(step.target.entity.primary.full_name for step in wanting)
            found = yield from send_batch(req.BatchGet(keys, patterns=patterns), {})
            self.items.update(zip(keys, found, strict=True))

    def plans(self) -> list[Planned | OdmError]:
        return [self._plan(one) for one in self.steps]

    def _plan(self, one: Accompanied) -> Planned | OdmError:
        item = self.items.get(one.step.target.key, UNREAD)
        if item is UNREAD:
            return one.plan(self.context, item)
        try:
            return one.plan(self.context, item)
        except (BadValue, ItemInvalid) as error:  # what comes of it can not be stored; what is there can not be read
            return error

    def own(self, plan: Planned | OdmError, step: Step, marks: Mapping[str, Any]) -> req.Operation:
        """The operation on the entity's item.

        One that can not be done on its item as it was read is sent as a check that never holds: the store judges it
        again, with all others at one moment, and the reasons are complete.
        """
        if isinstance(plan, OdmError):
            return req.Check(step.target.key, _NEVER, pattern=step.target.entity.primary.full_name)
        return plan.marked(marks)

    def along(self, plans: Sequence[Planned | OdmError]) -> tuple[list[tuple[int, Beside]], list[dict[str, Any]]]:
        """What companions write, with the place of the operation that it goes along with, and the marks of each."""
        kept: dict[Key, tuple[int, Beside]] = {}
        marks: list[dict[str, Any]] = [{} for _ in plans]
        for at, plan in enumerate(plans):
            for companion in plan.of.companions if isinstance(plan, Planned) else ():
                assert isinstance(plan, Planned)
                found = along_with(self.context, companion, plan.seen_by(companion))
                marks[at][mark_of(companion)] = found.marked
                for beside in found.besides:
                    self._keep(kept, at, beside)
        return list(kept.values()), marks

    def _keep(self, kept: dict[Key, tuple[int, Beside]], at: int, beside: Beside) -> None:
        key = beside.step.target.key
        if self.others.get((at, key), beside) is None:
            return
        if beside.rank is not None and key in self.lost and beside.rank <= self.lost[key]:
            return
        other = kept.get(key)
        twice = other is not None and None in (beside.rank, other[1].rank)
        if twice or any(one.step.target.key == key for one in self.steps):
            raise BadValue(
                f"{self.steps[at].step.target} is written along with {beside.step.target}, which the transaction "
                "writes already, and it has one operation an item: say this in a transaction of its own"
            )
        if other is None or beside.rank > other[1].rank:
            kept[key] = (at, beside)

    def beside(self, at: int, beside: Beside) -> req.Operation:
        return self.others.get((at, beside.step.target.key)) or beside.operation(self.context)

    def refused(self, along: Sequence[tuple[int, Beside]], answer: req.Refusals) -> None:
        """Take note of a refusal.

        Raises:
            TransactionFailed: it does not help to try again.
        """
        reasons: list[OdmError | None] = [None] * len(self.steps)
        self.restless = [reason is not None for reason in answer.reasons[: len(self.steps)]]
        for at, (one, reason) in enumerate(zip(self.steps, answer.reasons, strict=False)):
            if isinstance(reason, req.Refused):
                self.items[one.step.target.key] = reason.item
                plan = self._plan(one)
                reasons[at] = plan if isinstance(plan, OdmError) else None
            else:
                reasons[at] = reason
        moved = {at for at, reason in enumerate(answer.reasons[: len(self.steps)]) if isinstance(reason, req.Refused)}
        # What goes along with an item that is another by now will be said anew, whatever became of it until then.
        self.others = {place: other for place, other in self.others.items() if place[0] not in moved}
        for (at, beside), reason in zip(along, answer.reasons[len(self.steps) :], strict=True):
            if reason is not None and at not in moved:
                self.restless[at] = True
                found = beside.instead(self.context, reason)
                reasons[at] = reasons[at] or (found if isinstance(found, OdmError) else None)
                self.others[at, beside.step.target.key] = None if isinstance(found, OdmError) else found
                if found is None and beside.rank is not None:
                    self.lost[beside.step.target.key] = beside.rank
        if any(reasons):
            raise _failed([one.step for one in self.steps], reasons)


def commit(
    context: Context, steps: Sequence[Step], items: Mapping[Key, Any], *, once: bool = False, alone: bool = False
) -> CoreGen[list[Effect[Any] | None]]:
    """Do all operations and what goes along, or nothing.

    Args:
        context: of the store.
        steps: the operations.
        items: those that were read already, by key.
        once: it is done once, however often it is sent.
        alone: an operation that nothing goes along with is sent as it is, at half the cost of a transaction.

    Returns:
        What became of the item of each operation that has companions.

    Raises:
        TransactionFailed: nothing was written; its reasons, one an operation, say why.
        BadValue: there is too much in it, or an item twice.
    """
    work = _Commit(context, [Accompanied(step) for step in steps], dict(items))
    yield from work.read()
    for _ in range(ATTEMPTS):
        plans = work.plans()
        along, marks = work.along(plans)
        own = [work.own(*each) for each in zip(plans, steps, marks, strict=True)]
        operations = (*own, *(work.beside(at, beside) for at, beside in along))
        if along:
            size = sum(item_size(one.item) for one in operations if isinstance(one, req.Put))
            check_transaction(len(operations), size, context.limits)
        request = req.Transact(operations, context.limits, once=once)
        answer = yield from _alone(request) if alone and len(operations) == 1 else _together(request)
        if isinstance(answer, req.Written):
            yield from trim_after(context, own)
            return [plan.effect for plan in plans if isinstance(plan, Planned)]
        work.refused(along, answer)
        LOG.debug("a transaction: another writer was faster, so it is tried again")
    busy = zip(steps, work.restless, strict=True)
    raise _failed(steps, [restless(step.target) if was else None for step, was in busy])


def _together(request: req.Transact) -> CoreGen[req.Written | req.Refusals]:
    answer: req.Written | req.Refusals = yield request
    return answer


def _alone(request: req.Transact) -> CoreGen[req.Written | req.Refusals]:
    """Send the only operation of a transaction; a check is none without it."""
    (operation,) = request.operations
    if isinstance(operation, req.Check):
        return (yield from _together(request))
    answer: req.Written | req.Refused = yield operation
    return req.Refusals((answer,)) if isinstance(answer, req.Refused) else answer


def _failed(steps: Sequence[Step], reasons: Sequence[OdmError | None]) -> TransactionFailed:
    told = [
        f"reasons[{n}], {step.name}(): {reason}"
        for n, (step, reason) in enumerate(zip(steps, reasons, strict=True))
        if reason is not None
    ]
    return TransactionFailed(
        f"nothing was written, because {len(told)} of {len(steps)} operations can not be done: {'; '.join(told)}",
        reasons,
    )
