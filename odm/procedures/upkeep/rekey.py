"""`Store.rekey`: moves stored items to the primary key of another class, while other programs read and write.

A scan reads the items page by page. Each item moves in one transaction: its new item is inserted, its old item is
deleted on the condition that it is unchanged since the read, and the items of its companions follow. So whenever a
program stops, an item is under one key and never under two, and another call moves the rest.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from pydantic import ValidationError

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.codec.types.blobs import Pointer, kept_inline, placeholders, pointer_of
from odm.entities.companions import Effect
from odm.entities.entity import Entity
from odm.errors import BadValue, Conflict, ItemExists, ItemInvalid, OdmError, Unsupported, brief
from odm.expressions.nodes import Condition, Item
from odm.immutable import Immutable, evolve, field
from odm.procedures.companions.writes import CompanionWrites, SideWrite
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.session import Session
from odm.procedures.upkeep.backfill import MOST_FAILURES, Backfilled, Tell, Unfilled, paced
from odm.procedures.writing.intent import mark_of
from odm.procedures.writing.upgrades import unchanged
from odm.procedures.writing.write import Write
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.contention import Contention
from odm.protocol.limits import check_item, check_transaction, stored_size
from odm.protocol.predicates import EXISTS, equals, every, revision_is
from odm.schema.entity import EntitySchema, Key, Target

if TYPE_CHECKING:
    from odm.procedures.calls import Companion


CONCURRENT: Final = 32
"""The number of items moved concurrently; those with companions, which may share an item, one after another."""

Make: TypeAlias = Callable[[Any], Any]


class _BadMake(BadValue):
    """``make=`` returned something else: an error of the call, and not of one item."""


def rekey(
    session: Session,
    old: object,
    new: object,
    make: Make | None,
    *,
    rate: float | None,
    after: str | None,
    size: int,
    on_progress: Tell | None,
) -> CoreGen[Backfilled]:
    """Move the items of one class to the key of another; see `odm.Store.rekey`.

    Raises:
        BadValue: the classes or another argument cannot be used.
        BadCursor: the cursor is damaged or belongs to another table.
        Unsupported: the backend has no transactions, or the items cannot be moved.
    """
    if on_progress is not None and (not callable(on_progress) or iscoroutinefunction(on_progress)):
        raise BadValue(f"rekey(on_progress={brief(on_progress)}): give a plain function, also to an AsyncStore")
    mover = _mover(session.context, old, new, make)
    segment, pace = session.segment(after), paced("rekey", rate, size)
    done = Backfilled(cursor=after)
    while True:
        page: req.Page = yield req.Scan(
            limit=pace.page(size), after=segment.after, segment=segment.number, part=segment.part, pattern="scan()"
        )
        if wait := pace.take(len(page.items)):
            yield req.Sleep(wait)
        done = yield from _page(mover, page, done)
        segment = evolve(segment, after=page.next)
        done = evolve(done, cursor=None if page.next is None else session.place(segment))
        if on_progress is not None:
            on_progress(done)
        if page.next is None:
            return done


def _mover(context: Context, old: object, new: object, make: Make | None) -> "Mover":
    for cls in (old, new):
        if not (isinstance(cls, type) and issubclass(cls, Entity)) or cls.__odm_table__ is None:
            raise BadValue(
                f"rekey({brief(old)}, {brief(new)}): give the old and the new entity class, each with its table="
            )
    if make is not None and (not callable(make) or iscoroutinefunction(make)):
        raise BadValue(f"rekey(make={brief(make)}): give a plain function from old to new, also to an AsyncStore")
    source, to = cast("type[Entity]", old), context.schema.entity(cast("type[Entity]", new))
    table = cast("Any", source.__odm_table__).compile()
    name = context.schema.name
    if context.schema.prefix + table.name != name:
        raise BadValue(
            f"rekey({source.__name__}, {to.name}) moves items within one table: declare {source.__name__} on a second "
            f"Table({name.removeprefix(context.schema.prefix)!r}), not on Table({table.name!r})"
        )
    schema = evolve(table, name=name, prefix=context.schema.prefix)
    before = evolve(context, schema=schema, skip_unknown=False, bind=None)
    mover = Mover(context, before, table.entity(source), to, make)
    mover.check()
    return mover


class Mover(Immutable):
    """Moves items of one entity to the keys of another.

    Attributes:
        context: of the store.
        before: the same with the table of the old class.
        old, new: the entities.
        make: from an old to a new entity; None: by the names of their fields.
    """

    context: Context
    before: Context
    old: EntitySchema
    new: EntitySchema
    make: Make | None

    def check(self) -> None:
        """Refuse what cannot be moved, or not safely."""
        old, new, both = self.old, self.new, f"rekey({self.old.name}, {self.new.name})"
        schemas = (self.before.schema, self.context.schema)
        if any(schema.tag is None for schema in schemas) or old.key_only or new.key_only:
            raise Unsupported(
                f"{both}: items of this table show by their keys alone of which entity they are, or hold fields there: "
                "copy them to another table, see odm.patterns.copy"
            )
        if schemas[0].hash_only and not schemas[1].hash_only and old.primary.sort is None:
            raise BadValue(
                f"{both}: declare on the table of {old.name} an entity with a sort template too, because the items of "
                f"table {schemas[1].name!r} have a sort key"
            )
        if schemas[0].hash_only != schemas[1].hash_only or schemas[0].keys != schemas[1].keys:
            raise BadValue(f"{both}: the two tables have other key attributes: a table's key cannot be changed")
        if old.tag == new.tag and _templates(old) == _templates(new):
            raise BadValue(f"{both}: both have the primary key {new.primary.partition.text!r}: nothing would move")
        if old.versioned or new.versioned:
            raise Unsupported(
                f"{both}: former values (CellVersions) stay under the old key: remove CellVersions, or read them first"
            )
        if self.make is not None and any(old.blobs.values()):
            raise Unsupported(
                f"{both}: make= would get {old.name} without the bytes of its blobs: declare the field as "
                "Annotated[LazyBytes, Blob(...)], or leave make= out"
            )
        if not self.context.transactions:
            raise Unsupported(
                f"{both} moves each item in a transaction, which this table lacks: copy it with odm copy to one of "
                "Table(transactions=True), and call rekey() there"
            )

    def pending(self, item: Item, stored: Key) -> Key | None:
        """The old key of an item of the scan; None: it has its new key already.

        Raises:
            ItemInvalid: neither class reads it under this key.
        """
        if self.new.tag == item[TAG] and self._fits(self.context, self.new, item, stored):
            return None
        instance = self._decoded(item, stored)
        key = self.old.key(vars(instance))
        if not self.before.schema.is_under(key, stored):
            raise ItemInvalid(
                f"a {self.old.name} is stored under {stored}; {self.old.name} computes the key {key}, and "
                f"{self.new.name} another one: read it with the model that wrote it",
                str(stored),
                item,
            )
        return key

    def _fits(self, context: Context, entity: EntitySchema, item: Item, stored: Key) -> bool:
        try:
            instance = context.schema.decode(placeholders(entity.blobs, dict(item)), stored)
            return context.schema.is_under(entity.key(vars(instance)), stored)
        except (ItemInvalid, BadValue):
            return False

    def _decoded(self, item: Item, stored: Key) -> Any:
        # As a dict: the backend may have read the item with the models of the store.
        return self.before.decode(placeholders(self.old.blobs, dict(item)), stored)

    def moved(self, item: Item, stored: Key) -> CoreGen[bool | OdmError]:
        """Move an item; returns whether it did, or the error of this item."""
        others: dict[Key, req.Operation | None] = {}
        there: Item | None = item
        contention: Contention | None = None
        while True:
            if contention is not None:  # another writer was faster
                if contention.over:
                    return contention.conflict(f"the {self.old.name} under {stored}")
                yield contention.pause(self.context.random)
            if there is None or there.get(TAG) != self.old.tag:
                return False  # it was deleted, or another worker has moved it
            try:
                plan = self._plan(there, stored)
                operations, sides = plan.operations(others)
                puts = [operation for operation in operations if isinstance(operation, req.Put)]
                size = sum(stored_size(put.item, put.key, put.entries) for put in puts)
                check_transaction(len(operations), size, self.context.limits)
            except _BadMake:
                raise
            except (BadValue, ItemInvalid) as error:
                return error
            answer: req.Written | req.Refusals = yield req.Transact(operations, self.context.limits)
            if isinstance(answer, req.Written):
                return True
            contention = contention or Contention()
            contention.tries += 1
            put, gone, *rest = answer.reasons
            if isinstance(gone, req.Refused):
                there, others = self.before.living(gone.item), {}
                continue
            if gone is not None:
                return gone
            if isinstance(put, OdmError):
                return put
            if put is not None:
                return self._exists(plan, put)
            for (side, context), reason in zip(sides, rest, strict=True):
                replacement = None if reason is None else side.instead(context, reason)
                if isinstance(replacement, OdmError):
                    return replacement
                if reason is not None:
                    others[side.intent.target.key] = replacement

    def _exists(self, plan: "_Plan", put: req.Refused) -> OdmError:
        error = plan.write.next(self.context, put.item)
        if not isinstance(error, ItemExists):
            return error if isinstance(error, OdmError) else Conflict(f"{plan.write.target} was changed meanwhile")
        return ItemExists(
            f"{plan.write.target} exists already, so the {self.old.name} under {plan.gone.key} stays where it is: "
            "delete one of the two",
            error.item,
        )

    def _plan(self, item: Item, stored: Key) -> "_Plan":
        """The operations that move an item.

        Raises:
            BadValue, ItemInvalid: it cannot be moved.
        """
        before = self._decoded(item, stored)
        after = self._converted(before)
        target = Target(self.new, self.new.key(vars(after)), vars(after), after)
        source = Target(self.old, stored, vars(before))
        if target.key == stored:
            raise BadValue(f"{target} has the key that it had before: let make= return one of another key")
        plan = _Plan(self, source, target, CompanionWrites(self.before))
        marks = plan.follow(item, before, after)
        attributes = {**self._attributes(item, after), **marks}
        entries = self.new.entries(vars(after), attributes, self.context.random) if self.new.patterns else {}
        check_item(attributes, target.key, entries, self.new, self.context.limits, self.new.local)
        guard = self.context.writes(self.new).guard
        put = req.Put(target.key, attributes, entries, pattern=self.new.primary.full_name, tag=guard)
        condition, presence = self._unchanged(item)
        gone = req.Delete(
            stored,
            condition,
            pattern=self.new.primary.full_name,
            tag=None if guard is None else self.old.tag,
            presence=presence,
        )
        return evolve(plan, write=Write("insert", target, put, present=False, stored=after), gone=gone)

    def _converted(self, before: Any) -> Any:
        """The new entity, with the revision, the times and the id of the old one."""
        cls, old, new = self.new.cls, self.old, self.new
        values = vars(before)
        try:
            if self.make is None:
                known = {name: value for name, value in values.items() if name in cls.model_fields}
                after = cls.model_validate(known, by_name=True)
            else:
                after = self.make(before)
        except ValidationError as error:
            raise ItemInvalid(
                f"{old.name} {brief(values)} does not fit {new.name}: give rekey() a make= that fills it: {error}",
                str(old.key(values)),
                values,
            ) from error
        if type(after) is not cls:
            raise _BadMake(f"rekey(make={brief(self.make)}) returned {brief(after)}: let it return a {new.name}")
        kept: dict[str, Any] = {}
        if new.revision is not None:
            kept[new.revision] = 1 if old.revision is None else values[old.revision]
        if old.automatic is not None and new.automatic is not None:
            for role in ("created", "updated"):
                was, now = getattr(old.automatic, role), getattr(new.automatic, role)
                if was is not None and now is not None:
                    kept[now] = values[was]
            if old.automatic.id and new.automatic.id and vars(after)[new.automatic.id] is None:
                kept[new.automatic.id] = values[old.automatic.id]
        return after.model_copy(update=kept) if kept else after

    def _attributes(self, item: Item, after: Any) -> dict[str, Any]:
        """The attributes of the new item, with those of the old one that neither model knows, and with its blobs."""
        attributes = dict(kept_inline(self.new.blobs, item, self.new.codec.encode(after)))
        for name in self.new.blobs:
            pointer = pointer_of(item.get(name))
            if pointer is not None and attributes.get(name) is not None:
                attributes[name] = dict(pointer)
            if isinstance(attributes.get(name), Pointer):
                raise BadValue(
                    f"{self.new.name}.{name} has bytes that are not those of the stored item, and rekey() uploads no "
                    "blobs: keep the value, and set it after the move"
                )
        known = {*self.old.codec.stored.values(), *self.new.codec.stored.values(), TAG, VERSION, TTL_ATTRIBUTE}
        known |= {mark_of(companion) for companion in (*self.old.companions, *self.new.companions)}
        self.new.codec.check(attributes)
        return {name: value for name, value in item.items() if name not in known} | attributes

    def _unchanged(self, item: Item) -> tuple[Condition | None, req.Presence]:
        """The condition that nobody has changed the old item: by its Revision, or by all attributes."""
        old = self.old
        if old.revision is None or old.version > 1:  # an older version may have the revision under another name
            return every(EXISTS, unchanged(old, item)), "own"
        number = item.get(old.codec.stored[old.revision], 0)
        return every(
            revision_is(old, number), *(equals(mark_of(companion), item) for companion in old.companions)
        ), "present"


class _Plan(Immutable):
    """The operations that move one item.

    Attributes:
        freed: collects the writes of companions of the old class.
        written: the writes of companions of the new class.
    """

    mover: Mover
    source: Target
    target: Target
    freed: CompanionWrites
    written: list[SideWrite] = field(factory=list)
    write: Any = field(default=None)
    gone: Any = field(default=None)

    def follow(self, item: Item, before: Any, after: Any) -> dict[str, Any]:
        """Collect the writes of the companions; returns their marks on the new item."""
        marks: dict[str, Any] = {}
        former = {
            companion.name: companion for companion in cast("tuple[Companion, ...]", self.source.entity.companions)
        }
        for companion in cast("tuple[Companion, ...]", self.target.entity.companions):
            was = former.pop(companion.name, None)
            mine = CompanionWrites(self.mover.context)
            new: Effect[Any] = Effect(self.target.query, None, after)
            if was is None:
                companion.companion_writes(mine, new)
            else:
                companion.rekey_writes(mine, self.freed, was, self._old(was, item, before), new)
            self.written.extend(mine.side_writes)
            if mine.sets_mark and mine.marked is not None:
                marks[mark_of(companion)] = mine.marked
        for was in former.values():
            if was.deletes:
                was.companion_writes(self.freed, self._old(was, item, before))
        return marks

    def _old(self, companion: "Companion", item: Item, before: Any) -> Effect[Any]:
        """The delete of the old item, for a companion of its class."""
        mark = item.get(mark_of(companion))
        return Effect(self.source.query, before, None, None if mark is None else str(mark))

    def operations(
        self, others: Mapping[Key, req.Operation | None]
    ) -> tuple[tuple[req.Operation, ...], list[tuple[SideWrite, Context]]]:
        """The operations of the transaction, and the companions' writes, which are its last ones."""
        own, before = self.mover.context, self.mover.before
        replaced = {side.intent.target.key for side in self.written}
        freed = [write for write in self.freed.side_writes if write.intent.target.key not in replaced]
        candidates = [*((side, own) for side in self.written), *((side, before) for side in freed)]
        sides = [
            (side, context) for side, context in candidates if others.get(side.intent.target.key, side) is not None
        ]
        writes = [others.get(side.intent.target.key) or side.operation(context) for side, context in sides]
        return (self.write.first(own), self.gone, *writes), sides


def _templates(entity: EntitySchema) -> tuple[str, str | None]:
    sort = entity.primary.sort
    return entity.primary.partition.text, None if sort is None else sort.text


def _page(mover: Mover, page: req.Page, done: Backfilled) -> CoreGen[Backfilled]:
    """Move the items of a page; returns the progress after it."""
    failures: list[Unfilled] = []
    moves: list[tuple[Item, Key]] = []
    seen = written = 0
    for item, position in zip(page.items, page.positions, strict=True):
        if item.get(TAG) != mover.old.tag or mover.before.living(item) is None:
            continue
        seen += 1
        try:
            if (key := mover.pending(item, position.key)) is not None:
                moves.append((item, key))
        except (BadValue, ItemInvalid) as error:
            failures.append(Unfilled(*position.key, error))
    together = 1 if mover.old.companions or mover.new.companions else CONCURRENT
    for start in range(0, len(moves), together):
        some = moves[start : start + together]
        outcomes: Sequence[bool | OdmError] = yield from concurrent([mover.moved(*row) for row in some])
        for (_, key), outcome in zip(some, outcomes, strict=True):
            if isinstance(outcome, OdmError):
                failures.append(Unfilled(*key, outcome))
            else:
                written += outcome
    remaining = MOST_FAILURES - len(done.failures)
    return Backfilled(
        done.seen + seen,
        done.written + written,
        done.failed + len(failures),
        (*done.failures, *failures[:remaining]) if failures and remaining else done.failures,
    )
