"""A write with its companions: what it makes of the item, and what each companion is to write with it.

For that the item may have to be read first. What was read is guarded in the write: where it has changed by then, all is
computed again.
"""

from collections.abc import Mapping
from typing import Any, cast

from attrs import Factory, evolve, field, frozen

from odm.entities.companions import BaseCompanion, Effect
from odm.errors import OdmError
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import Condition, Item, Path, Remove, Set, Value
from odm.procedures.calls import Companion
from odm.procedures.companion_writes import KEEP, UNREAD, CompanionWrites
from odm.procedures.context import Context
from odm.procedures.upgrades import unchanged
from odm.procedures.write import Write
from odm.procedures.write_intent import WriteIntent
from odm.protocol import requests as req
from odm.protocol.predicates import ABSENT, EXISTS, equals, every, judged, revision_is
from odm.schema.entity import EntitySchema
from odm.schema.target import Target


@frozen
class IntentWithCompanions:
    """An operation on an entity with the companions that it concerns."""

    intent: WriteIntent
    companions: tuple[Companion, ...] = field(
        default=Factory(lambda self: concerned(self.intent), takes_self=True), init=False
    )

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first."""
        if not self.companions:
            return self.intent.reads
        if self.intent.name in ("put", "insert"):
            fresh = isinstance(self.intent.work, Write) and self.intent.work.present is False
            return not fresh and any(
                one.reads or (not in_transaction and one.reads_without_transaction) for one in self.companions
            )
        return True

    def plan(self, context: Context, item: Any) -> "Planned | OdmError":
        """What is written for the item as it was read or judged (`UNREAD`: neither), or why nothing can be.

        Raises:
            BadValue: what comes of it cannot be stored.
            ItemInvalid: what is stored cannot be read.
        """
        if not self.companions:
            plain = self.intent.first(context) if item is UNREAD else self.intent.next(context, item)
            assert plain is not None  # where it needs the item, it was read
            return plain if isinstance(plain, OdmError) else Planned(self, plain)
        if item is not UNREAD and (stranger := self.intent.stranger(context, item)) is not None:
            return stranger
        there: Any = UNREAD if item is UNREAD else context.living(item)
        operation = self._operation(context, there)
        if isinstance(operation, OdmError):
            return operation
        target = self.intent.target
        old = None if there is UNREAD or there is None else context.decode(there, target.key)
        effect: Effect[Any] = Effect(target.query, old, self._new(context, operation, there))
        marks = {} if there is UNREAD or there is None else _marks(target.entity, there)
        if there is not UNREAD:
            guard = self._guard(context, there)
            operation = evolve(operation, condition=every(operation.condition, guard))
        return Planned(self, operation, effect, marks)

    def _operation(self, context: Context, there: Any) -> req.Operation | OdmError:
        """The operation without what guards that the item is as it was read."""
        work = self.intent.work
        if not isinstance(work, Write):
            return self.intent.next(context, there)
        operation = work.at(context.now())
        if there is UNREAD or operation.condition is None or holds(operation.condition, there):
            return operation
        return self.intent.next(context, there)

    def _new(self, context: Context, operation: req.Operation, there: Any) -> Any:
        if isinstance(operation, req.Delete):
            return None
        if self.intent.stored is not None:
            return self.intent.stored
        if isinstance(operation, req.Put):
            return context.decode(operation.item, operation.key)
        assert isinstance(operation, req.Update)
        return context.decode(apply(operation.actions, there), operation.key)

    def _guard(self, context: Context, there: Item | None) -> Condition | None:
        """That the item is as it was read, in all that the companions look at."""
        entity = self.intent.target.entity
        if there is None:
            return judged(entity, ABSENT, context.now())
        marks = [equals(mark_of(one), there) for one in entity.companions]
        if entity.revision is not None:
            number = there.get(entity.codec.stored[entity.revision], 0)
            return every(revision_is(entity, number), *marks)
        fields = [one.sources(entity.cls) for one in self.companions]
        if None in fields:
            return every(EXISTS, unchanged(entity, there), *marks)
        names = sorted({entity.codec.stored[name] for some in fields for name in some or ()})
        return every(EXISTS, *(equals(name, there) for name in names), *marks)


@frozen
class Planned:
    """An operation as it is written, and what it makes of the item.

    Attributes:
        effect: where it has companions.
        marks: those that the item has, by stored name.
    """

    of: IntentWithCompanions
    operation: req.Operation
    effect: Effect[Any] | None = None
    marks: Mapping[str, Value] = field(factory=dict)

    @property
    def target(self) -> Target:
        return self.of.intent.target

    def seen_by(self, companion: BaseCompanion) -> Effect[Any]:
        """The effect as this companion sees it."""
        assert self.effect is not None
        mark = self.marks.get(mark_of(companion))
        return self.effect if mark is None else evolve(self.effect, mark=str(mark))

    def marked(self, marks: Mapping[str, Any]) -> req.Operation:
        """The operation with these marks, by stored name, `KEEP` among them, set on the item."""
        if not marks and not self.marks:
            return self.operation
        new = {name: mark for name, mark in marks.items() if mark is not KEEP}
        if isinstance(self.operation, req.Put):
            all_ = {name: mark for name, mark in {**self.marks, **new}.items() if mark is not None}
            return evolve(self.operation, item={**self.operation.item, **all_}) if all_ else self.operation
        if isinstance(self.operation, req.Update) and new:
            actions = [Remove(Path((n,))) if mark is None else Set(Path((n,)), mark) for n, mark in new.items()]
            return evolve(self.operation, actions=(*self.operation.actions, *actions))
        return self.operation


def companion_writes_of(context: Context, companion: Companion, effect: Effect[Any]) -> CompanionWrites:
    """What a companion writes with an item, and its mark."""
    tx = CompanionWrites(context)
    companion.companion_writes(tx, effect)
    return tx


def concerned(intent: WriteIntent) -> tuple[Companion, ...]:
    """The companions that an operation concerns."""
    # What declares one derives from Companion; the entity, which is below it, knows its base alone.
    companions = cast("tuple[Companion, ...]", intent.target.entity.companions)
    if not companions or intent.name == "check":
        return ()
    if intent.name == "delete":
        return tuple(one for one in companions if one.deletes)
    if isinstance(intent.work, Write) or intent.work.upsert:
        return companions
    entity = intent.target.entity
    roots = {action.path.root for action in intent.work.actions}

    def touched(one: Companion) -> bool:
        names = one.sources(entity.cls)
        return names is None or any(entity.codec.stored[name] in roots for name in names)

    return tuple(filter(touched, companions))


def mark_of(companion: BaseCompanion) -> str:
    """The attribute in which the entity's own item has the mark of a companion."""
    return f"_c_{companion.name}"


def _marks(entity: EntitySchema, item: Item) -> dict[str, Value]:
    names = [mark_of(one) for one in entity.companions]
    return {name: item[name] for name in names if name in item}
