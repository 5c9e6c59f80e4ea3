"""Transactions: operations on several items, collected and checked one by one, then done all together or not at all.

The transaction is one `Transact`. An update whose index keys need values that nobody gave is read first, all such items
in one `BatchGet`, and guarded as in `odm.operations.updates`: where nothing but guards failed, what was refused is
computed anew from the items as they were judged, and the whole is tried again.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

from attrs import frozen

from odm.entities.entity import Entity
from odm.errors import BadValue, ItemInvalid, OdmError, TransactionFailed, Unsupported
from odm.expressions.nodes import Action, And, Condition, Item
from odm.operations import ir
from odm.operations.backend import Gen
from odm.operations.context import Context, Target
from odm.operations.guards import ABSENT, EXISTS
from odm.operations.left import send_batch
from odm.operations.limits import check_transaction, item_size, size_at_most
from odm.operations.trim import trim_after
from odm.operations.updates import ATTEMPTS, Change, attempt, fault, restless, start, understand
from odm.operations.watching import LOG
from odm.operations.writes import Write, insert_write, lower_when, put_write, target_of
from odm.schema.model import Key

E = TypeVar("E", bound=Entity)
Refused: TypeAlias = Sequence[ir.Refused | BadValue | None]

_NEVER: Final = And((EXISTS, ABSENT))


@frozen
class _Step:
    """One operation of a transaction, named as the user called it.

    Attributes:
        base: what the first attempt of an update builds on; None: the item must be read.
    """

    name: str
    work: Write | Change
    base: Item | None = None

    @property
    def target(self) -> Target:
        return self.work.target

    def first(self, context: Context) -> ir.Operation | None:
        """The operation as it is sent first; None if it depends on the item as it is stored."""
        if isinstance(self.work, Write):
            return self.work.at(context.now())
        return None if self.base is None else attempt(context, self.work, self.base)

    def next(self, context: Context, item: Item | None) -> ir.Operation | OdmError:
        """The operation that is right for the item as it was read or judged, or why there is none."""
        if isinstance(self.work, Write):
            return self.work.again(context, item) or self.work.refusal(context, item)
        base = context.now().living(item)
        try:
            return fault(context, self.work, base) or attempt(context, self.work, base)
        except (BadValue, ItemInvalid) as error:  # what comes of it can not be stored; what is there can not be read
            return error

    def after(self, context: Context, refused: ir.Refused | BadValue) -> ir.Operation | OdmError:
        """As `next`, after a refusal."""
        return refused if isinstance(refused, BadValue) else self.next(context, refused.item)


class Pending:
    """The operations of a transaction that is not committed yet, by key.

    Attributes:
        open: the transaction is inside its ``with`` block, at whose end it will be committed.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._steps: dict[Key, _Step] = {}
        self._items: list[Item] = []
        self._size = 0
        self.open = False

    def begin(self) -> None:
        """Begin the block.

        Raises:
            BadValue: it has begun, and its end would commit what the outer one has so far.
        """
        if self.open:
            raise BadValue("the block of this transaction has begun already: write with db.transaction() for another")
        self.open = True

    def put(self, entity: E, when: Condition | bool | None) -> E:
        """Add a put; returns the entity as it will be stored."""
        stored, write = put_write(self._context, entity, when)
        self._add(_Step("put", write))
        return stored

    def insert(self, entity: E) -> E:
        """Add an insert; returns the entity as it will be stored."""
        stored, write = insert_write(self._context, entity)
        self._add(_Step("insert", write))
        return stored

    def update(self, which: object, actions: Sequence[Action], when: Condition | bool | None, *, upsert: bool) -> None:
        """Add an update."""
        if isinstance(which, Entity):
            which = which.model_copy()  # it counts as it is now, and may change until the end of the block
        change = understand(self._context, which, actions, when, "none", upsert=upsert)
        self._add(_Step("update", change, start(self._context, change)))

    def delete(self, which: object, when: Condition | bool | None) -> None:
        """Add a delete. Unlike that of a store, ``when`` and a Revision are judged on an absent item too."""
        target = target_of(self._context, which)
        operation = ir.Delete(target.key, pattern=target.entity.primary.full_name)
        write = Write(target, operation, lower_when(target, when), target.revision)
        self._add(_Step("delete", write))

    def check(self, which: object, when: Condition | bool | None) -> None:
        """Add a check: of the condition, or without one that the item is there."""
        target = target_of(self._context, which)
        present = True if when is None else None
        operation = ir.Check(target.key, pattern=target.entity.primary.full_name)
        write = Write(target, operation, lower_when(target, when), target.revision, present)
        self._add(_Step("check", write))

    def _add(self, step: _Step) -> None:
        if not self.open:
            raise BadValue(
                "a transaction is committed when its block ends, and this one is not in a block: write "
                "with db.transaction() as tx: ... (async with, of an AsyncStore)"
            )
        earlier = self._steps.get(step.target.key)
        if earlier is not None:
            raise BadValue(
                f"{step.target} is in this transaction already, by {earlier.name}(), and now by {step.name}(): a "
                "transaction has one operation an item, so say both in one"
            )
        self._check_together(step)
        operation = step.first(self._context)
        items, size, most = self._items, self._size, self._context.limits.transaction_bytes
        if isinstance(operation, ir.Put):
            items, size = [*items, operation.item], size + size_at_most(operation.item)
        if most is not None and size > most:
            size = sum(map(item_size, items))  # drafts are only read where the limit is near
        check_transaction(len(self._steps) + 1, size, self._context.limits)
        self._steps[step.target.key] = step
        self._items, self._size = items, size

    def _check_together(self, step: _Step) -> None:
        """Refuse an operation on an item that the backend can not write together with the others."""
        apart = self._context.apart
        if apart is None or not self._steps:
            return
        if (reason := apart((*self._steps, step.target.key))) is not None:
            others = ", ".join(str(one.target) for one in self._steps.values())
            raise Unsupported(f"{step.target} can not be in a transaction with {others}: {reason}")

    def close(self) -> None:
        """End the block: what has not been committed is dropped."""
        self.open = False
        self._steps.clear()
        self._items, self._size = [], 0

    def commit(self) -> Gen[None]:
        """Do all operations, or none.

        Raises:
            TransactionFailed: none was done; its reasons say why.
            ItemTooLarge: the items have more than 4 MB together.
        """
        context, steps = self._context, tuple(self._steps.values())
        if not steps:
            return
        operations = yield from _first_operations(context, steps)
        refused: Refused = ()
        for _ in range(ATTEMPTS):
            answer = yield ir.Transact(tuple(operations), context.limits)
            if isinstance(answer, ir.Written):
                yield from trim_after(context, operations)
                return
            refused = answer.reasons
            operations = _next_operations(context, steps, operations, refused)
            LOG.debug("a transaction: another writer was faster, so it is tried again")
        raise _failed(
            steps, [None if one is None else restless(step.target) for step, one in zip(steps, refused, strict=True)]
        )


def _first_operations(context: Context, steps: Sequence[_Step]) -> Gen[list[ir.Operation]]:
    """What is sent first, after one read of all items that operations depend on."""
    operations = {step.target.key: step.first(context) for step in steps}
    unread = tuple(key for key, operation in operations.items() if operation is None)
    patterns = tuple(step.target.entity.primary.full_name for step in steps if operations[step.target.key] is None)
    items = (yield from send_batch(ir.BatchGet(unread, patterns=patterns), {})) if unread else ()
    read = dict(zip(unread, items, strict=True))
    return [operations[step.target.key] or _on_read(context, step, read[step.target.key]) for step in steps]


def _on_read(context: Context, step: _Step, item: Item | None) -> ir.Operation:
    """The operation on an item as it was read.

    One that can not be done is sent as a check that never holds: the store judges it again, with all others at one
    moment, and the reasons are complete.
    """
    operation = step.next(context, item)
    if isinstance(operation, OdmError):
        return ir.Check(step.target.key, _NEVER, pattern=step.target.entity.primary.full_name)
    return operation


def _next_operations(
    context: Context, steps: Sequence[_Step], operations: Sequence[ir.Operation], refused: Refused
) -> list[ir.Operation]:
    """What is sent after a refusal in which only guards failed.

    Raises:
        TransactionFailed: an operation can not be done on the item as it was judged.
    """
    found = [one and step.after(context, one) for step, one in zip(steps, refused, strict=True)]
    reasons = [one if isinstance(one, OdmError) else None for one in found]
    if any(reasons):
        raise _failed(steps, reasons)
    return [one if isinstance(one, ir.Operation) else old for one, old in zip(found, operations, strict=True)]


def _failed(steps: Sequence[_Step], reasons: Sequence[OdmError | None]) -> TransactionFailed:
    told = [
        f"reasons[{n}], {step.name}(): {reason}"
        for n, (step, reason) in enumerate(zip(steps, reasons, strict=True))
        if reason is not None
    ]
    return TransactionFailed(
        f"nothing was written, because {len(told)} of {len(steps)} operations can not be done: {'; '.join(told)}",
        reasons,
    )
