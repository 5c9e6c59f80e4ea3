"""Plans a write with its companions: computes the new item, from which each companion computes its own writes.

For this the item may have to be read first. Then the write has the condition that the item is unchanged; if it was
changed, the write is planned again. The former values of fields with `odm.CellVersions` are kept in the same way, and
the blobs of fields with `odm.Blob` are replaced.
"""

from typing import TYPE_CHECKING, Any, cast

from odm.entities.companions import Effect
from odm.errors import OdmError
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import Condition, Item, Value
from odm.immutable import Immutable, evolve, force_setattr
from odm.procedures.blobs import concerns, misplaced, same_pointers
from odm.procedures.companions.writes import CompanionWrites
from odm.procedures.context import Context
from odm.procedures.writing.cell_versions import keeps, remembering, same_values
from odm.procedures.writing.intent import UNREAD, Planned, WriteIntent, mark_of
from odm.procedures.writing.update import ItemUpdate
from odm.procedures.writing.upgrades import unchanged
from odm.procedures.writing.write import Write
from odm.protocol import requests as req
from odm.protocol.predicates import ABSENT, EXISTS, equals, every, judged, revision_is
from odm.schema.entity import EntitySchema

if TYPE_CHECKING:
    from odm.procedures.calls import Companion


class IntentWithCompanions(Immutable):
    """An operation on an entity, with the companions that must write with it."""

    intent: WriteIntent
    companions: "tuple[Companion, ...]" = ()

    def __post_init__(self) -> None:
        force_setattr(self, "companions", concerned(self.intent))

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first."""
        kept = keeps(self.intent) or concerns(self.intent)
        if not self.companions and not kept:
            return self.intent.reads
        if self.intent.name in ("put", "insert"):
            fresh = isinstance(self.intent, Write) and self.intent.present is False
            needed = (
                companion.reads or (not in_transaction and companion.reads_without_transaction)
                for companion in self.companions
            )
            return not fresh and (kept or self.intent.reads or any(needed))
        return True

    def plan(self, context: Context, item: Any) -> Planned | OdmError:
        """The plan for the stored item (`UNREAD`: not known), or the error if nothing can be written.

        Raises:
            BadValue: the new item cannot be stored.
            ItemInvalid: the stored item cannot be read.
        """
        intent = self.intent
        there: Any = UNREAD if item is UNREAD else context.living(item)
        base = None if there is UNREAD else there
        kept, large = keeps(intent), concerns(intent)
        if not self.companions and not kept and not large:
            plain = intent.first(context) if item is UNREAD else intent.next(context, item)
            assert plain is not None  # an operation that depends on the item was planned from the read item
            return plain if isinstance(plain, OdmError) else Planned(self, plain, base)
        if item is not UNREAD and (stranger := intent.stranger(context, item)) is not None:
            return stranger
        operation = self._operation(context, there)
        if isinstance(operation, OdmError):
            return operation
        target = intent.target
        if large and (misplaced_ := misplaced(context, target, operation, base)) is not None:
            return misplaced_
        if kept:
            operation = remembering(context, target, operation, base)
        effect: Effect[Any] | None = None
        if self.companions:
            old = None if base is None else context.decode(base, target.key)
            effect = Effect(target.query, old, self._new(context, operation, there))
        if there is not UNREAD and not isinstance(operation, req.Check):
            operation = self._guarded(context, operation, there)
        return Planned(self, operation, base, effect, {} if base is None else _marks(target.entity, base))

    def _operation(self, context: Context, there: Any) -> req.Operation | OdmError:
        """The operation, without the condition that the item is unchanged."""
        if isinstance(self.intent, Write) and not self.intent.reads:
            operation = self.intent.first(context)
            gone = there is None and self.intent.absent_ok
            if there is UNREAD or (not gone and (operation.condition is None or holds(operation.condition, there))):
                return operation
        return self.intent.next(context, there)

    def _new(self, context: Context, operation: req.Operation, there: Any) -> Any:
        if isinstance(operation, req.Delete | req.Check):
            return None
        if self.intent.stored is not None:
            return self.intent.stored
        if isinstance(operation, req.Put):
            return context.decode(operation.item, operation.key)
        assert isinstance(operation, req.Update)
        return context.decode(apply(operation.actions, there), operation.key)

    def _guarded(
        self, context: Context, operation: req.Put | req.Update | req.Delete, there: Item | None
    ) -> req.Operation:
        """The operation with the condition that what it depends on is unchanged."""
        guard, presence = self._guard(context, there)
        condition = every(operation.condition, guard)
        if isinstance(operation, req.Update):
            return evolve(operation, condition=condition)
        known = presence if operation.presence is None or presence == "own" else operation.presence
        return evolve(operation, condition=condition, presence=known)

    def _guard(self, context: Context, there: Item | None) -> tuple[Condition | None, req.Presence]:
        """The condition that every attribute that the write depends on, or the call returns, is unchanged."""
        entity = self.intent.target.entity
        if there is None:
            return judged(entity, ABSENT, context.now()), "absent" if entity.ttl is None else "expired"
        marks = [equals(mark_of(companion), there) for companion in entity.companions]
        marks += same_values(entity, there) if keeps(self.intent) else []
        marks += same_pointers(entity, there) if concerns(self.intent) else []
        if entity.revision is not None:
            number = there.get(entity.codec.stored[entity.revision], 0)
            return every(revision_is(entity, number), *marks), "present"
        fields = [companion.sources(entity.cls) for companion in self.companions]
        if self.companions and (None in fields or _returns(self.intent)):
            return every(EXISTS, unchanged(entity, there), *marks), "own"
        names = sorted({entity.codec.stored[name] for some in fields for name in some or ()})
        return every(EXISTS, *(equals(name, there) for name in names), *marks), "present"


def _returns(intent: WriteIntent) -> bool:
    """Whether the call returns an item that its operation does not have."""
    return isinstance(intent, ItemUpdate) and intent.returning != "none"


def companion_writes_of(context: Context, companion: "Companion", effect: Effect[Any]) -> CompanionWrites:
    """The writes of a companion for an item, and its mark."""
    tx = CompanionWrites(context)
    companion.companion_writes(tx, effect)
    return tx


def concerned(intent: WriteIntent) -> "tuple[Companion, ...]":
    """The companions that must write with an operation."""
    # Every companion derives from Companion. The entity's module is below this one, so it only knows BaseCompanion.
    companions = cast("tuple[Companion, ...]", intent.target.entity.companions)
    if not companions or intent.name == "check":
        return ()
    if intent.name == "delete":
        return tuple(companion for companion in companions if companion.deletes)
    if isinstance(intent, Write) or intent.upsert or intent.whole is not None:  # validators may change any field
        return companions
    if not intent.actions:  # only an index entry moves
        return ()
    entity = intent.target.entity
    roots = {action.path.root for action in intent.actions}

    def touched(companion: "Companion") -> bool:
        names = companion.sources(entity.cls)
        return names is None or any(entity.codec.stored[name] in roots for name in names)

    return tuple(filter(touched, companions))


def _marks(entity: EntitySchema, item: Item) -> dict[str, Value]:
    names = [mark_of(companion) for companion in entity.companions]
    return {name: item[name] for name in names if name in item}
