"""Writes what the current model would write for a stored item: its form, its index entries, its companions' items.

`due` compares stored items with what the model makes of them; only the difference is written. Each write has the
condition that the item is unchanged, so it never undoes the write of another program: if the item was changed, the
write is planned again from the stored item, and if it was deleted, nothing is written.

A companion marks the items that it knows (see `CompanionWrites.mark`). For an item with its mark, it gets an `Effect`
that changes nothing; for any other item, the effect of an insert.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from odm.codec import TAG
from odm.codec.types.blobs import kept_inline
from odm.entities.companions import BaseCompanion, Effect
from odm.errors import BadValue, ConditionFailed, ItemExists, ItemInvalid, ItemNotFound, OdmError, Unsupported
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve, field
from odm.procedures.companions.commit import ALONE, InTransaction, Sender, commit
from odm.procedures.companions.intent import companion_writes_of
from odm.procedures.companions.one_by_one import InSteps
from odm.procedures.companions.writes import CompanionWrites, SideWrite
from odm.procedures.context import Context
from odm.procedures.unprocessed import send_batch
from odm.procedures.writing.intent import Planned, mark_of
from odm.procedures.writing.update import ItemUpdate, attempt, new_entries, whole_put
from odm.procedures.writing.upgrades import unchanged, unknown, up_to_date
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.predicates import condition_of
from odm.schema.entity import EntitySchema, Key, PatternSchema, Target
from odm.schema.evidence import same_entry

if TYPE_CHECKING:
    from odm.procedures.calls import Calls, Companion


REFUSALS: Final = (BadValue, ConditionFailed, ItemExists, ItemInvalid, ItemNotFound)
"""Errors that concern one item: it was not written, and the others still can be."""


class Gone(ItemNotFound):
    """The item was deleted, or replaced by an item of another entity, since it was read."""


class Scope(Immutable):
    """What to write for the items of one entity.

    Attributes:
        patterns: the access patterns whose entries to write.
        companions: the companions whose items to write.
        whole: write the whole item, with all entries, if the model would store another one.
    """

    entity: EntitySchema
    patterns: tuple[PatternSchema, ...] = ()
    companions: "tuple[Companion, ...]" = ()
    whole: bool = False


class Row(Immutable):
    """A stored item of an entity, as a scan found it.

    Attributes:
        target: its key, made of its fields.
        item: the object that the backend returned.
        instance: the decoded item.
        stale: the patterns whose entry is not the one that the model makes.
        whole: the whole item must be written.
    """

    target: Target
    item: Item = field(repr=False)
    instance: Any = field(repr=False)
    stale: tuple[PatternSchema, ...] = ()
    whole: bool = False


class Fill(Immutable):
    """The intent: write what is not as the model would write it.

    Attributes:
        row: the item.
        companions: the companions that have something to write.
        ranks: the keys of their items, with the ranks of the writes.
    """

    row: Row
    companions: "tuple[Companion, ...]" = ()
    ranks: Mapping[Key, Any] = field(factory=dict)

    name: ClassVar[str] = "backfill"

    @property
    def target(self) -> Target:
        """The item."""
        return self.row.target

    @property
    def intent(self) -> Any:
        """This object, as the pipeline needs only its name and target."""
        return self

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first: it has been read by the scan."""
        return False

    def plan(self, context: Context, item: Any) -> "FillPlan | OdmError":
        """The plan for the stored item.

        Raises:
            BadValue: the item cannot be stored as the model would store it.
            ItemInvalid: the stored item cannot be read.
        """
        target, there = self.target, context.living(item)
        entity = target.entity
        if there is None or there.get(TAG) != entity.tag:
            return Gone(f"{target} does not exist")
        instance = context.decode(there, target.key)
        plan = FillPlan(
            self, req.Check(target.key), there, Effect(target.query, instance, instance), _marks(entity, there)
        )
        due = tuple(
            companion
            for companion in self.companions
            if something(companion_writes_of(context, companion, plan.seen_by(companion)))
        )
        operation = self._operation(context, there, due)
        return evolve(plan, operation=operation, due=due, lone_check=context.transactions)

    def _operation(self, context: Context, there: Item, due: "Sequence[Companion]") -> req.Operation:
        target = self.target
        if self.row.whole:
            there_now = up_to_date(context, target.entity, there, target.key)
            return whole_put(context, target, there_now, unchanged(target.entity, there), "own")
        if not self.row.stale and not due:
            return req.Check(target.key)  # another writer has written it: nothing is left to do
        change = new_entries(target, self.row.stale)
        return attempt(context, evolve(change, needed=_needed(change, due)), there)

    def outranks(self, other: "Fill") -> bool:
        """Whether it must be written before another one that writes an item of the same key."""
        shared = [key for key in self.ranks if key in other.ranks]
        ranks = [(self.ranks[key], other.ranks[key]) for key in shared]
        return all(None not in pair and pair[0] > pair[1] for pair in ranks)


class FillPlan(Planned):
    """The plan of a `Fill`.

    Attributes:
        due: the companions that write with it.
        lone_check: an item that need not change is only checked, in the transaction of its companions' writes.
    """

    due: "tuple[Companion, ...]" = ()
    lone_check: bool = False

    @property
    def companions(self) -> tuple[Any, ...]:
        """The companions that write with it."""
        return self.due

    def seen_by(self, companion: BaseCompanion) -> Effect[Any]:
        """The effect: none on an item with the companion's mark, that of an insert on any other."""
        assert self.effect is not None
        mark = self.marks.get(mark_of(companion))
        return evolve(self.effect, old=None) if mark is None else evolve(self.effect, mark=str(mark))

    def marked(self, marks: Mapping[str, Any]) -> req.Operation:
        """The operation, which also sets these marks."""
        operation = super().marked(marks)
        empty = isinstance(operation, req.Update) and not operation.actions and not operation.entries
        if empty and self.lone_check:
            return req.Check(operation.key, condition_of(operation), pattern=self.target.entity.primary.full_name)
        return operation


def due(context: Context, scope: Scope, rows: Sequence[Row]) -> CoreGen[list[Fill]]:
    """What is to be written for these items; companions' items are read to see which of them are as they should be.

    Raises:
        Unsupported: the writes of a companion do not show whether they have been applied.
    """
    writes = [[(companion, _writes(context, row, companion)) for companion in scope.companions] for row in rows]
    stored = yield from _stored(
        side for write in writes for _, companion_writes in write for side in companion_writes.side_writes
    )
    fills: list[Fill] = []
    for row, pairs in zip(rows, writes, strict=True):
        lacking = [
            (companion, companion_writes)
            for companion, companion_writes in pairs
            if _lacks(context, companion_writes, stored)
        ]
        if row.stale or row.whole or lacking:
            sides = [side for _, companion_writes in lacking for side in companion_writes.side_writes]
            ranks = {side.intent.target.key: side.rank for side in sides}
            fills.append(Fill(row, tuple(companion for companion, _ in lacking), ranks))
    return fills


def row_of(context: Context, scope: Scope, item: Item, stored: Key, entries: Mapping[str, Key]) -> Row:
    """A stored item of the entity, compared with what the model makes of it.

    Raises:
        ItemInvalid: the item cannot be read, or is stored under another key than its model computes.
        BadValue: a value cannot be part of an index key.
    """
    entity, instance = scope.entity, context.decode(item, stored)
    values = vars(instance)
    key = entity.key(values)
    if key != stored and (stored.sort or context.schema.hash_only):  # "" otherwise: a row key that cannot be split
        raise ItemInvalid(
            f"a {entity.name} is stored under {stored}, but its model computes the key {key}: read it with the model "
            "that wrote it",
            str(stored),
            item,
        )
    encoded = kept_inline(entity.blobs, item, entity.codec.encode(instance))
    target = Target(entity, key, values)
    if scope.whole:
        superfluous = entries.keys() - {str(pattern.index) for pattern in entity.patterns.values()}
        written = unknown(entity, up_to_date(context, entity, item, key)) | encoded
        stale = _stale(context, scope.entity.patterns.values(), values, encoded, entries)
        return Row(target, item, instance, whole=bool(superfluous or stale) or written != dict(item))
    return Row(target, item, instance, _stale(context, scope.patterns, values, encoded, entries))


def filled(context: Context, do: "Calls", fill: Fill) -> CoreGen[bool | OdmError]:
    """Write what is due; returns whether anything was written, or the error of this item."""
    sender: Sender = ALONE
    if fill.companions:
        sender = InTransaction(context, lone=True) if context.transactions else InSteps(context, do)
    try:
        (plan,), answer = yield from commit(context, (fill,), sender, {fill.target.key: fill.row.item})
        for companion in plan.companions:
            yield from companion.settle(do, evolve(plan.seen_by(companion), mark=None))
    except Gone:
        return False
    except REFUSALS as error:
        return error
    return answer.existed  # False: a check alone is not sent


def apart(fills: Sequence[Fill]) -> tuple[list[Fill], list[Fill]]:
    """Those to write now, whose companions' items have different keys, and the rest; the highest rank is first."""
    now: dict[int, Fill] = {}
    by_key: dict[Key, int] = {}
    for at, fill in enumerate(fills):
        rivals = {by_key[key] for key in fill.ranks if key in by_key}
        if all(fill.outranks(now[rival]) for rival in rivals):
            for rival in rivals:
                by_key = {key: other for key, other in by_key.items() if other != rival}
                del now[rival]
            now[at] = fill
            by_key |= dict.fromkeys(fill.ranks, at)
    return list(now.values()), [fill for at, fill in enumerate(fills) if at not in now]


def something(writes: CompanionWrites) -> bool:
    """Whether a companion has anything to write."""
    return bool(writes.side_writes) or writes.sets_mark


def _stale(
    context: Context,
    patterns: Iterable[PatternSchema],
    values: Mapping[str, Any],
    item: Item,
    stored_entries: Mapping[str, Key],
) -> tuple[PatternSchema, ...]:
    """The patterns whose stored entry is not the one that the model makes."""
    stale = []
    for pattern in patterns:
        there = pattern.when is None or holds(pattern.when, item)
        expected = pattern.key(values, context.random) if there else None
        if not same_entry(pattern, stored_entries.get(str(pattern.index)), expected):
            stale.append(pattern)
    return tuple(stale)


def _needed(change: ItemUpdate, due: "Sequence[Companion]") -> tuple[str, ...]:
    """The attributes, by stored name, that must be unchanged: for the entries and the companions, and the marks."""
    entity = change.target.entity
    names = list(change.needed)
    for companion in due:
        sources = companion.sources(entity.cls)
        names += [entity.codec.stored[name] for name in (entity.codec.stored if sources is None else sorted(sources))]
    names += [mark_of(companion) for companion in entity.companions] if due else []
    return tuple(dict.fromkeys(names))


def _marks(entity: EntitySchema, item: Item) -> dict[str, Any]:
    names = [mark_of(companion) for companion in entity.companions]
    return {name: item[name] for name in names if name in item}


def _writes(context: Context, row: Row, companion: "Companion") -> CompanionWrites:
    """The writes of a companion for an item.

    Raises:
        Unsupported: an update of the companion's item, such as an increment, would be applied by each backfill.
    """
    mark = row.item.get(mark_of(companion))
    old = None if mark is None else row.instance
    effect: Effect[Any] = Effect(row.target.query, old, row.instance, None if mark is None else str(mark))
    writes = companion_writes_of(context, companion, effect)
    if not writes.sets_mark and any(isinstance(side.intent, ItemUpdate) for side in writes.side_writes):
        raise Unsupported(
            f"backfill of {row.target.entity.name}.{companion.name}: it updates its items, and nothing in the item "
            "shows whether that was done, so a second backfill would do it again: let companion_writes() mark the item "
            "with tx.mark(...)"
        )
    return writes


def _stored(sides: Iterable[SideWrite]) -> CoreGen[dict[Key, Item | None]]:
    """The stored items that companions would write."""
    patterns = {side.intent.target.key: side.intent.target.entity.primary.full_name for side in sides}
    if not patterns:
        return {}
    request = req.BatchGet(tuple(patterns), patterns=tuple(patterns.values()))
    return dict(zip(patterns, (yield from send_batch(request, {})), strict=True))


def _lacks(context: Context, writes: CompanionWrites, stored: Mapping[Key, Item | None]) -> bool:
    """Whether an item or a mark of the companion is not as it should be."""
    if writes.sets_mark:
        return True
    return any(_changes(context, side, stored[side.intent.target.key]) for side in writes.side_writes)


def _changes(context: Context, side: SideWrite, item: Item | None) -> bool:
    """Whether a write would change the stored item."""
    there, operation = context.living(item), side.operation(context)
    if side.lose and (condition := condition_of(operation)) is not None and not holds(condition, there):
        return False
    if isinstance(operation, req.Delete):
        return there is not None
    stored = getattr(side.intent, "stored", None)
    return there is None or stored is None or side.intent.target.entity.codec.encode(stored) != dict(there)
