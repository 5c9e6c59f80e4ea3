"""The one pipeline of writes: plan, send, and plan again while other writers are faster.

An operation that depends on its item, for index keys that nobody gave or for companions, is planned on the item as it
was read (all of them in one `BatchGet`) and guarded. Where nothing but guards failed, what was refused is planned again
from the items as they were judged, and everything is sent again. A `Sender` decides how: an operation alone, in a
transaction, or between the steps of its companions (`odm.procedures.companion_commit`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import define, field

from odm.errors import BadValue, Conflict, ItemInvalid, OdmError, TransactionFailed
from odm.expressions.nodes import And, Item
from odm.observe.events import LOG
from odm.procedures.companion_intent import companion_writes_of
from odm.procedures.companion_writes import SideWrite
from odm.procedures.context import Context
from odm.procedures.retention import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.write_intent import UNREAD, Plannable, Planned, mark_of
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_transaction, item_size
from odm.protocol.predicates import ABSENT, EXISTS
from odm.schema.entity import Key
from odm.schema.target import Target

ATTEMPTS: Final = 64
"""How often a write is tried against other writers before it gives up with Conflict."""

AGAIN: Final = object()
"""A reason: the plan is still right, and a write of its companions is planned again."""

Reasons: TypeAlias = Sequence[Any]  # Any: of `AGAIN`
"""Why a try failed, one for each operation: `req.Refused`, an OdmError, `AGAIN`, or None where it was not at fault."""

_NEVER: Final = And((EXISTS, ABSENT))


class Sender:
    """Sends the operations of a call: this one sends a single operation by itself.

    Attributes:
        lone: the call has one operation, whose error it raises itself.
        in_transaction: companions write in one transaction with the item.
    """

    lone: bool = True
    in_transaction: bool = False

    def send(self, plans: Sequence[Planned]) -> CoreGen[req.Written | Reasons]:
        """Try once."""
        (plan,) = plans
        return (yield from _alone(plan.operation))


@define
class InTransaction(Sender):
    """Sends all operations and the writes of their companions together: all are applied, or none.

    Attributes:
        once: it is applied once, however often it is sent. Otherwise a lone operation without writes of companions is
            sent by itself, at half the cost of a transaction.
        others: by the place of their operation and their own key: what takes the place of a companion's write that was
            refused; None: nothing.
        lost: by their own key: the highest rank of a companion's write that lost, and all of lower rank with it.
    """

    context: Context
    lone: bool = False
    once: bool = False
    others: dict[tuple[int, Key], req.Operation | None] = field(factory=dict, init=False)
    lost: dict[Key, Any] = field(factory=dict, init=False)
    in_transaction: bool = field(default=True, init=False)

    def send(self, plans: Sequence[Planned]) -> CoreGen[req.Written | Reasons]:
        """Try once."""
        side_writes, marks = self._side_writes(plans)
        own = [plan.marked(found) for plan, found in zip(plans, marks, strict=True)]
        if self.lone and not self.once and not side_writes:
            found = yield from _alone(own[0])
            return found if isinstance(found, req.Written) else self._reasons((), found)
        operations = (*own, *(self._operation(at, side_write) for at, side_write in side_writes))
        if side_writes:
            size = sum(item_size(one.item) for one in operations if isinstance(one, req.Put))
            check_transaction(len(operations), size, self.context.limits)
        answer = yield req.Transact(operations, self.context.limits, once=self.once)
        return answer if isinstance(answer, req.Written) else self._reasons(side_writes, answer.reasons)

    def _side_writes(self, plans: Sequence[Planned]) -> tuple[list[tuple[int, SideWrite]], list[dict[str, Any]]]:
        """What companions write, with the place of the operation that each belongs to, and the marks of each."""
        kept: dict[Key, tuple[int, SideWrite]] = {}
        marks: list[dict[str, Any]] = [{} for _ in plans]
        for at, plan in enumerate(plans):
            for companion in plan.companions:
                found = companion_writes_of(self.context, companion, plan.seen_by(companion))
                marks[at][mark_of(companion)] = found.marked
                for side_write in found.side_writes:
                    self._keep(kept, at, side_write, plans)
        return list(kept.values()), marks

    def _keep(
        self, kept: dict[Key, tuple[int, SideWrite]], at: int, side_write: SideWrite, plans: Sequence[Planned]
    ) -> None:
        key = side_write.intent.target.key
        if self.others.get((at, key), side_write) is None:
            return
        if side_write.rank is not None and key in self.lost and side_write.rank <= self.lost[key]:
            return
        other = kept.get(key)
        twice = other is not None and None in (side_write.rank, other[1].rank)
        if twice or any(plan.target.key == key for plan in plans):
            raise BadValue(
                f"{plans[at].target} is written with {side_write.intent.target}, which the transaction "
                "writes already, and it has one operation an item: say this in a transaction of its own"
            )
        if other is None or side_write.rank > other[1].rank:
            kept[key] = (at, side_write)

    def _operation(self, at: int, side_write: SideWrite) -> req.Operation:
        return self.others.get((at, side_write.intent.target.key)) or side_write.operation(self.context)

    def _reasons(self, side_writes: Sequence[tuple[int, SideWrite]], answers: Reasons) -> Reasons:
        """Why each operation failed, by itself or by a write of its companions, whose answers come last."""
        count = len(answers) - len(side_writes)
        reasons: list[Any] = list(answers[:count])
        moved = {at for at, reason in enumerate(reasons) if isinstance(reason, req.Refused)}
        # The companions of an item that has changed since are asked again, whatever became of their writes until then.
        self.others = {place: other for place, other in self.others.items() if place[0] not in moved}
        for (at, side_write), reason in zip(side_writes, answers[count:], strict=True):
            if reason is not None and at not in moved:
                found = side_write.instead(self.context, reason)
                error = found if isinstance(found, OdmError) else None
                self.others[at, side_write.intent.target.key] = None if isinstance(found, OdmError) else found
                if found is None and side_write.rank is not None:
                    self.lost[side_write.intent.target.key] = side_write.rank
                if reasons[at] in (None, AGAIN):
                    reasons[at] = error or AGAIN
        return reasons


ALONE: Final = Sender()


def commit(
    context: Context,
    intents: Sequence[Plannable],
    sender: Sender,
    items: Mapping[Key, Item | None] | None = None,
    *,
    tried: int = 0,
) -> CoreGen[tuple[Sequence[Planned], req.Written]]:
    """Apply all operations, with the writes of their companions, or nothing.

    Args:
        context: of the store.
        intents: the operations, with what plans them.
        sender: sends them.
        items: those that were read or judged already, by key; None: absent.
        tried: how often it has been sent already.

    Returns:
        What was sent of each operation, and the answer.

    Raises:
        TransactionFailed: nothing was written; its reasons, one an operation, say why. A lone operation raises the
            reason.
        BadValue: there is too much in it, or an item twice.
    """
    known = dict(items or {})
    yield from _read(context, intents, sender, known)
    plans = [_plan(context, one, known.get(one.intent.target.key, UNREAD)) for one in intents]
    reasons: Reasons = ()
    for _ in range(tried, ATTEMPTS):
        if sender.lone and plans[0].error is not None:
            raise plans[0].error
        answer = yield from sender.send(plans)
        if isinstance(answer, req.Written):
            yield from trim_after(context, [plan.operation for plan in plans])
            return plans, answer
        reasons = answer
        for at, reason in enumerate(reasons):
            if isinstance(reason, req.Refused):
                plans[at] = _plan(context, intents[at], reason.item)
        _check(plans, list(_errors(plans, reasons)), sender)
        LOG.debug("%s: another writer was faster, so it is tried again", ", ".join(_name(plan) for plan in plans))
    busy = [None if reason is None else _contended(plan.target) for plan, reason in zip(plans, reasons, strict=True)]
    _check(plans, busy, sender)
    raise AssertionError("nobody was at fault")


def _alone(operation: req.Operation) -> CoreGen[req.Written | Reasons]:
    """Send an operation by itself; a check takes the place of a delete where there is nothing to delete."""
    if isinstance(operation, req.Check):
        return req.Written(existed=False)
    answer: req.Written | req.Refused = yield operation
    return (answer,) if isinstance(answer, req.Refused) else answer


def _read(
    context: Context, intents: Sequence[Plannable], sender: Sender, known: dict[Key, Item | None]
) -> CoreGen[None]:
    """Read the items on which operations depend."""
    wanting = [one.intent.target for one in intents if one.reads(context, in_transaction=sender.in_transaction)]
    wanting = [target for target in wanting if target.key not in known]
    keys = tuple(target.key for target in wanting)
    if len(keys) == 1:
        known[keys[0]] = yield req.Get(keys[0], pattern=wanting[0].entity.primary.full_name)
    elif keys:
        patterns = tuple(target.entity.primary.full_name for target in wanting)
        found = yield from send_batch(req.BatchGet(keys, patterns=patterns), {})
        known.update(zip(keys, found, strict=True))


def _plan(context: Context, one: Plannable, item: Any) -> Planned:
    """The plan for an item as it was read or judged.

    What cannot be done is sent as a check that never holds: the store judges it again, at the same time as all others,
    and the reasons are complete.
    """
    if item is UNREAD:
        plan: Planned | OdmError = one.plan(context, item)
    else:
        try:
            plan = one.plan(context, item)
        except (BadValue, ItemInvalid) as error:  # what comes of it cannot be stored; what is there cannot be read
            plan = error
    if isinstance(plan, Planned):
        return plan
    target = one.intent.target
    return Planned(one, req.Check(target.key, _NEVER, pattern=target.entity.primary.full_name), error=plan)


def _errors(plans: Sequence[Planned], reasons: Reasons) -> Iterator[OdmError | None]:
    """What the user must know of each operation; None where it helps to try again."""
    for plan, reason in zip(plans, reasons, strict=True):
        if isinstance(reason, req.Refused):
            yield plan.error
        else:
            yield reason if isinstance(reason, OdmError) else None


def _check(plans: Sequence[Planned], errors: Sequence[OdmError | None], sender: Sender) -> None:
    """Raise the error of a lone operation, or all of them as the reasons of a TransactionFailed."""
    failed = [
        f"reasons[{at}], {plan.of.intent.name}(): {error}"
        for at, (plan, error) in enumerate(zip(plans, errors, strict=True))
        if error is not None
    ]
    if sender.lone and errors[0] is not None:
        raise errors[0]
    if failed:
        raise TransactionFailed(
            f"nothing was written, because {len(failed)} of {len(plans)} operations cannot be done: "
            f"{'; '.join(failed)}",
            errors,
        )


def _contended(target: Target) -> Conflict:
    """The error for an item that other writers changed between each read and write."""
    return Conflict(f"{target} was changed by other writers {ATTEMPTS} times in a row: retry later")


def _name(plan: Planned) -> str:
    return f"{plan.of.intent.name} of {plan.target.entity.name}"
