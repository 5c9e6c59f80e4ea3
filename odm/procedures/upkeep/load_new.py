"""Writes new entities, with the items of their companions, in few requests.

A batch has no conditions. So the stored items are read first, and the conditions of the companions' writes are
evaluated here, for one entity after the other. What they allow is sent in three batches, each after the one before:

1. the items of companions that load *before* the entity's own item, such as the claim on a unique value;
2. the entities' own items;
3. the items of companions that load *after* it, such as a pointer.

So the companions' first items are stored wherever an entity's own item is. If the same load runs again, it leaves both
unchanged, and evaluates only the third batch again. An entity that is not new is inserted by itself after the batches:
its key holds other content, or a companion's write is refused. So it has the errors of an insert.

Nothing detects what another writer changes between the reads and the batches.
"""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from msgspec import Struct, field

from odm.entities.companions import Effect
from odm.entities.entity import Entity
from odm.errors import ItemInvalid, Throttled, Unsupported
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve
from odm.procedures.companions.intent import companion_writes_of
from odm.procedures.companions.writes import CompanionWrites, SideWrite
from odm.procedures.context import Context
from odm.procedures.keep import trim_after
from odm.procedures.writing.automatic import times_of
from odm.procedures.writing.cell_versions import first_put
from odm.procedures.writing.intent import KEEP, mark_of
from odm.procedures.writing.write import Write, put_request
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.predicates import condition_of
from odm.schema.entity import Key, Target

if TYPE_CHECKING:
    from odm.procedures.calls import Calls, Companion


Operations: TypeAlias = dict[Key, req.Put | req.Delete]
Writes: TypeAlias = "Sequence[tuple[Companion, CompanionWrites]]"


class _New(Immutable):
    """An entity to load, with the put of its own item, without marks.

    Attributes:
        entity: the entity with its automatic fields, before its revision is counted.
    """

    entity: Entity
    target: Target
    stored: Entity
    put: req.Put

    @property
    def companions(self) -> "tuple[Companion, ...]":
        return cast("tuple[Companion, ...]", self.target.entity.companions)


def load_new(context: Context, do: "Calls", entities: Iterable[Entity]) -> CoreGen[None]:
    """Write new entities; `Calls.load_new` documents it."""
    instances = tuple(entities)
    load = _Load(context)
    try:
        yield from load.send([_new(context, entity) for entity in instances])
        for entity in load.alone:
            yield from do.insert(entity)
    except Throttled as error:
        error.left = instances
        raise


def _new(context: Context, entity: Entity) -> _New:
    target, stored, put = put_request(context, entity, batched=True)
    assert target.instance is not None
    new = _New(target.instance, target, stored, put)
    if target.entity.blobs:
        raise Unsupported(
            f"{target.entity.name} has large values (Blob), which load_new() cannot upload: put() it in a batch"
        )
    for companion in new.companions:
        if companion.loads is None:
            raise _unsupported(new, companion, "it does not say how its items are loaded (`loads`)")
    return evolve(new, put=first_put(context, target.entity, put)) if target.entity.versioned else new


def _unsupported(new: _New, companion: "Companion", why: str) -> Unsupported:
    name = new.target.entity.name
    return Unsupported(f"{name} has {name}.{companion.name}, which load_new() cannot write, because {why}: insert() it")


class _Load(Struct):
    """The operations of one load, collected from the stored items.

    Attributes:
        known: the items under all keys, as they will be after the collected operations; None: absent.
        before, items, after: the operations of the three batches.
        alone: the entities that are not new.
    """

    context: Context
    known: dict[Key, Item | None] = field(default_factory=dict)
    before: Operations = field(default_factory=dict)
    items: Operations = field(default_factory=dict)
    after: Operations = field(default_factory=dict)
    alone: list[Entity] = field(default_factory=list)

    def send(self, all_: Sequence[_New]) -> CoreGen[None]:
        """Read, collect, and send the batches."""
        yield from self._read(new.put for new in all_)
        writes = [self._writes(new) for new in all_]
        sides = (side for some in writes for _, companion_writes in some or () for side in companion_writes.side_writes)
        yield from self._read(_operation(side) for side in sides)
        for new, some in zip(all_, writes, strict=True):
            if some is None or not self._add(new, some):
                self.alone.append(new.entity)
        for operations in (self.before, self.items, self.after):
            if operations:
                kept = tuple(operations.values())
                yield req.BatchWrite(kept)
                yield from trim_after(self.context, kept)

    def _read(self, operations: Iterable[req.Put | req.Delete]) -> CoreGen[None]:
        keys = {operation.key: operation.pattern for operation in operations if operation.key not in self.known}
        if keys:
            items = yield req.BatchGet(tuple(keys), patterns=tuple(keys.values()))
            self.known.update(zip(keys, items, strict=True))

    def _writes(self, new: _New) -> "Writes | None":
        """The writes of its companions that are still to be made; None: it is not new."""
        there = self.known[new.put.key]
        if self.context.stranger(new.target, there) is not None:
            return None
        stored = self.context.living(there)
        if stored is not None and not self._holds(new):
            return None
        effect: Effect[Entity] = Effect(new.target.query, None, new.stored)
        pairs = [(companion, companion_writes_of(self.context, companion, effect)) for companion in new.companions]
        for companion, writes in pairs:
            if not all(isinstance(side.intent, Write) for side in writes.side_writes):
                raise _unsupported(new, companion, "an update could be applied twice when the load runs again")
        if stored is None:
            return pairs
        if _marks(pairs).keys() - stored.keys():  # it is older than the declaration of a companion
            return None
        return [(companion, writes) for companion, writes in pairs if companion.loads == "after"]

    def _holds(self, new: _New) -> bool:
        """Whether its key holds what would be written."""
        there, entity = self.known[new.put.key], new.target.entity
        assert there is not None
        try:
            stored = entity.codec.encode(self.context.decode(there, new.put.key))
        except ItemInvalid:
            return False
        times = times_of(entity)  # they differ if the load runs again
        expected = entity.codec.encode(new.stored)
        return all(stored.get(name) == expected.get(name) for name in {*stored, *expected} - times)

    def _add(self, new: _New, writes: Writes) -> bool:
        """Collect the operations of an entity; returns False, and collects none, if it is not new."""
        key = new.put.key
        if key in self.items:  # the load has it twice
            return self._holds(new)
        allowed = self._allowed(writes)
        if allowed is None:
            return False
        for first, operation in allowed:
            (self.before if first else self.after)[operation.key] = operation
            self.known[operation.key] = _item(operation)
        if self.context.living(self.known[key]) is None:
            marks = _marks(writes)
            put = evolve(new.put, item={**new.put.item, **marks}) if marks else new.put
            self.items[key], self.known[key] = put, put.item
        return True

    def _allowed(self, writes: Writes) -> list[tuple[bool, req.Put | req.Delete]] | None:
        """The operations of the companions, and whether they precede the item; None: one is refused."""
        changed: dict[Key, Item | None] = {}
        operations = []
        for companion, collected in writes:
            for side in collected.side_writes:
                operation, target = _operation(side), side.intent.target
                there = changed.get(target.key, self.known[target.key])
                if self.context.stranger(target, there) is not None:
                    return None
                condition = condition_of(side.operation(self.context))
                if condition is None or holds(condition, there):
                    operations.append((companion.loads == "before", evolve(operation, tag=None)))
                    changed[target.key] = _item(operation)
                elif not side.lose:
                    return None
        return operations


def _marks(writes: Writes) -> dict[str, str]:
    """The marks of the companions, by stored name."""
    return {
        mark_of(companion): companion_writes.marked
        for companion, companion_writes in writes
        if companion_writes.marked not in (KEEP, None)
    }


def _operation(side: SideWrite) -> req.Put | req.Delete:
    """The write without its condition: `CompanionWrites` makes only puts, deletes and updates."""
    return cast("req.Put | req.Delete", cast("Write", side.intent).operation)


def _item(operation: req.Put | req.Delete) -> Item | None:
    """The item after an operation."""
    return operation.item if isinstance(operation, req.Put) else None
