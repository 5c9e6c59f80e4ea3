"""The pipeline of all writes: plan, send, and plan again if other writers changed the items meanwhile.

An operation may depend on its stored item, to compute index keys or the writes of companions. Such items are read first
(in one `BatchGet`), and the write has the condition that they are unchanged. If only such conditions failed, the
refused operations are planned again from the stored items in the answer, and everything is sent again: in the order of
`odm.protocol.turns`, and for as long as `odm.protocol.contention` says. A `Sender` sends an operation alone, in a
transaction, or between the steps of companions (`odm.procedures.companions.one_by_one`).
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias

from msgspec import Struct, field

from odm.errors import BadValue, ItemInvalid, OdmError, TransactionFailed
from odm.expressions.nodes import And, Item
from odm.observe.events import LOG
from odm.procedures.companions.intent import companion_writes_of
from odm.procedures.companions.writes import SideWrite
from odm.procedures.concurrent import without_turns
from odm.procedures.context import Context
from odm.procedures.keep import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.writing.intent import UNREAD, Plannable, Planned, mark_of
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.contention import Contention
from odm.protocol.limits import check_transaction, stored_size
from odm.protocol.predicates import ABSENT, EXISTS
from odm.protocol.turns import Turn
from odm.schema.entity import Key, Target

AGAIN: Final = object()
"""A reason: the operation stays as planned, but a write of its companions is planned again."""

Reasons: TypeAlias = Sequence[Any]  # Any: of `AGAIN`
"""Why an attempt failed, one for each operation: `req.Refused`, an OdmError, `AGAIN`, or None if it did not fail."""

_NEVER: Final = And((EXISTS, ABSENT))


class Sender:
    """Sends the operations of a call. The base class sends a single operation alone.

    Attributes:
        lone: the call has one operation, whose error is raised without a TransactionFailed around it.
        in_transaction: companions write in one transaction with the item.
    """

    lone: bool = True
    in_transaction: bool = False

    def send(self, plans: Sequence[Planned]) -> CoreGen[req.Written | Reasons]:
        """Send one attempt."""
        (plan,) = plans
        return (yield from _alone(plan.operation))


class InTransaction(Sender, Struct):
    """Sends all operations and the writes of their companions together: all are applied, or none.

    Attributes:
        once: always send a transaction, which is applied only once even if it is retried. Otherwise a lone operation
            without writes of companions is sent alone, at half the cost of a transaction.
        others: what replaces a companion's refused write (None: nothing), by the index of the operation and the
            write's key.
        lost: the highest rank of the companions' writes that lost, by key; writes of lower rank are left out too.
    """

    context: Context
    lone: bool = False
    once: bool = False
    others: dict[tuple[int, Key], req.Operation | None] = field(default_factory=dict)
    lost: dict[Key, Any] = field(default_factory=dict)
    in_transaction: bool = True

    def send(self, plans: Sequence[Planned]) -> CoreGen[req.Written | Reasons]:
        """Send one attempt."""
        side_writes, marks = self._side_writes(plans)
        own = [plan.marked(mark) for plan, mark in zip(plans, marks, strict=True)]
        if self.lone and not self.once and not side_writes:
            outcome = yield from _alone(own[0])
            return outcome if isinstance(outcome, req.Written) else self._reasons((), outcome)
        operations = (*own, *(self._operation(at, side_write) for at, side_write in side_writes))
        if side_writes:
            size = sum(
                stored_size(operation.item, operation.key, operation.entries)
                for operation in operations
                if isinstance(operation, req.Put)
            )
            check_transaction(len(operations), size, self.context.limits)
        answer = yield req.Transact(operations, self.context.limits, once=self.once)
        return answer if isinstance(answer, req.Written) else self._reasons(side_writes, answer.reasons)

    def _side_writes(self, plans: Sequence[Planned]) -> tuple[list[tuple[int, SideWrite]], list[dict[str, Any]]]:
        """The companions' writes, each with the index of its operation, and the marks for each operation."""
        kept: dict[Key, tuple[int, SideWrite]] = {}
        marks: list[dict[str, Any]] = [{} for _ in plans]
        for at, plan in enumerate(plans):
            for companion in plan.companions:
                companion_writes = companion_writes_of(self.context, companion, plan.seen_by(companion))
                marks[at][mark_of(companion)] = companion_writes.marked
                for side_write in companion_writes.side_writes:
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
        """Why each operation failed, itself or by a write of its companions; ``answers`` ends with those writes."""
        count = len(answers) - len(side_writes)
        reasons: list[Any] = list(answers[:count])
        moved = {at for at, reason in enumerate(reasons) if isinstance(reason, req.Refused)}
        # If an item was changed since it was read, its companions compute all their writes again.
        self.others = {place: other for place, other in self.others.items() if place[0] not in moved}
        for (at, side_write), reason in zip(side_writes, answers[count:], strict=True):
            if reason is not None and at not in moved:
                replacement = side_write.instead(self.context, reason)
                error = replacement if isinstance(replacement, OdmError) else None
                self.others[at, side_write.intent.target.key] = (
                    None if isinstance(replacement, OdmError) else replacement
                )
                if replacement is None and side_write.rank is not None:
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
    refused: Reasons | None = None,
) -> CoreGen[tuple[Sequence[Planned], req.Written]]:
    """Apply all operations, with the writes of their companions, or nothing.

    Args:
        context: the context of the store.
        intents: the operations to plan.
        sender: sends the planned operations.
        items: the stored items that are known already, by key; None: absent.
        tried: the number of attempts made already.
        refused: why the first attempt failed, if it was made already, of operations that depend on no stored item.

    Returns:
        The plan of each operation as it was sent, and the answer.

    Raises:
        TransactionFailed: nothing was written; its ``reasons``, one an operation, say why. A lone operation raises
            its reason itself.
        BadValue: the transaction is too large, or has an item twice.
    """
    known = dict(items or {})
    contention = Contention(tried) if tried else None
    with Turn(context.turns, [intent.intent.target.key for intent in intents]) as turn:
        unread = _unread(context, intents, sender, known)
        if unread and contention is None and turn.behind_others:
            contention = Contention()
            yield turn
        yield from _read(unread, known)
        plans = [_plan(context, intent, known.get(key, UNREAD)) for intent, key in zip(intents, turn.keys, strict=True)]
        reasons: Reasons = ()
        answer: Any = None
        while True:
            if sender.lone and plans[0].error is not None:
                raise plans[0].error
            if refused is None:
                if contention is not None and contention.tries:  # another writer was faster
                    if contention.over:
                        _give_up(plans, reasons, contention, sender)
                    LOG.debug("%s: another writer changed the item; retrying", ", ".join(_name(plan) for plan in plans))
                    yield turn if turn.open else contention.pause(context.random)
                sending = sender.send(plans)
                answer = yield from (sending if turn.open else without_turns(sending))
                if isinstance(answer, req.Written):
                    break
                reasons = answer
            else:
                reasons, refused = refused, None
            for at, reason in enumerate(reasons):
                if isinstance(reason, req.Refused):
                    plans[at] = _plan(context, intents[at], reason.item)
            _check(plans, list(_errors(plans, reasons)), sender)
            contention = contention or Contention()
            contention.tries += 1
    yield from trim_after(context, [plan.operation for plan in plans])
    return plans, answer


def _alone(operation: req.Operation) -> CoreGen[req.Written | Reasons]:
    """Send an operation alone. A check, which replaces a delete of an absent item, is not sent."""
    if isinstance(operation, req.Check):
        return req.Written(existed=False)
    answer: req.Written | req.Refused = yield operation
    return (answer,) if isinstance(answer, req.Refused) else answer


def _unread(
    context: Context, intents: Sequence[Plannable], sender: Sender, known: Mapping[Key, Item | None]
) -> list[Target]:
    """The items on which operations depend and which are not known yet."""
    wanting = [
        intent.intent.target for intent in intents if intent.reads(context, in_transaction=sender.in_transaction)
    ]
    return [target for target in wanting if target.key not in known]


def _read(targets: Sequence[Target], known: dict[Key, Item | None]) -> CoreGen[None]:
    """Read the items of an operation or a transaction."""
    keys = tuple(target.key for target in targets)
    if len(keys) == 1:
        entity = targets[0].entity
        known[keys[0]] = yield req.Get(keys[0], pattern=entity.primary.full_name, former=bool(entity.versioned))
    elif keys:
        patterns = tuple(target.entity.primary.full_name for target in targets)
        former = any(target.entity.versioned for target in targets)
        items = yield from send_batch(req.BatchGet(keys, patterns=patterns, former=former), {})
        known.update(zip(keys, items, strict=True))


def _plan(context: Context, plannable: Plannable, item: Any) -> Planned:
    """The plan for the stored item.

    An operation that would fail is sent as a check that never holds. So the backend evaluates all operations on items
    of the same instant, and the reasons are complete.
    """
    if item is UNREAD:
        plan: Planned | OdmError = plannable.plan(context, item)
    else:
        try:
            plan = plannable.plan(context, item)
        except (BadValue, ItemInvalid) as error:  # the new item cannot be stored, or the stored item cannot be read
            plan = error
    if isinstance(plan, Planned):
        return plan
    target = plannable.intent.target
    return Planned(plannable, req.Check(target.key, _NEVER, pattern=target.entity.primary.full_name), error=plan)


def _errors(plans: Sequence[Planned], reasons: Reasons) -> Iterator[OdmError | None]:
    """The error of each operation; None if it succeeded or can be retried."""
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


def _give_up(plans: Sequence[Planned], reasons: Reasons, contention: Contention, sender: Sender) -> NoReturn:
    """Raise the error for items that other writers changed before every attempt."""
    busy = [
        None if reason is None else contention.conflict(plan.target)
        for plan, reason in zip(plans, reasons or [AGAIN], strict=True)
    ]
    _check(plans, busy, sender)
    raise AssertionError("no operation has an error")


def _name(plan: Planned) -> str:
    return f"{plan.of.intent.name} of {plan.target.entity.name}"
