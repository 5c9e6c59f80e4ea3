"""Batches of unconditional puts and deletes, sent in few requests. The last operation on a key wins.

DynamoDB's batches have no conditions. To protect items of other programs, odm first reads the tags of the items under
the keys, unless the table is ``exclusive``. It does not detect an item that another program writes between this read
and the batch.
"""

from collections.abc import Callable, Mapping
from typing import Any

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, Throttled
from odm.procedures.context import Context
from odm.procedures.retention import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.write import delete_request, put_request
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import EntitySchema, Key
from odm.schema.target import Target

FLUSH_AT = 1000
"""The number of collected operations at which a batch is sent before its block ends."""


class Pending:
    """The operations of a batch that are not sent yet, by key.

    Attributes:
        open: the batch is inside its ``with`` block; it is sent when the block ends.
    """

    def __init__(self, current: Callable[[], Context]) -> None:
        self._current = current
        self._operations: dict[Key, req.Put | req.Delete] = {}
        self._given: dict[Key, Entity | Query[Any]] = {}
        self._targets: dict[Key, Target] = {}
        self.open = False

    @property
    def _context(self) -> Context:
        """The current context of the store: entities can join the table inside the block."""
        return self._current()

    def put(self, entity: Entity) -> None:
        """Add a put.

        Raises:
            BadValue: the batch is not open, or the entity has a Revision, which a batch cannot check.
        """
        self._check_open()
        target, _, request = put_request(self._context, entity, batched=True)
        if target.entity.revision is not None:
            raise BadValue(
                f"{target.entity.name} has a Revision, and a batch cannot check it, so it could overwrite another "
                "writer's change: put() it on its own; new ones can be loaded with bulk_load(items, new=True)"
            )
        if request.known is not None:
            raise BadValue(
                f"{target.entity.name}: a batch replaces whole items, and its table has keep_unknown=True: put() it on "
                "its own, or in a transaction"
            )
        if target.entity.companions:
            raise BadValue(
                f"{target.entity.name} has {_names(target.entity)}, which is written on conditions that a batch does "
                "not have: put() it on its own, or in a transaction; new ones can be loaded with bulk_load(items, "
                "new=True)"
            )
        self._add(request, target, entity)

    def delete(self, which: Any, /, **key: Any) -> None:
        """Add a delete of an entity, or of a key.

        Raises:
            BadValue: the batch is not open, or an entity with a Revision is passed, which a batch cannot check.
        """
        schema = self._context.schema
        named = schema.named(which, key)
        self._check_open()
        target = schema.target(named)
        self._context.check_key(target)
        if target.revision is not None:
            raise BadValue(
                f"{which!r} has a Revision, which a batch cannot check: delete() it on its own, or give its key"
            )
        if any(one.deletes for one in target.entity.companions):
            raise BadValue(
                f"{target.entity.name} has {_names(target.entity)}, which is deleted with it on conditions that a "
                "batch does not have: delete() it on its own, or in a transaction"
            )
        self._add(delete_request(target), target, target.query)

    def _check_open(self) -> None:
        if not self.open:
            raise BadValue(
                "a batch is sent when its block ends, and this one is not in a block: write "
                "with db.batch() as batch: ... (async with, of an AsyncStore)"
            )

    def _add(self, request: req.Put | req.Delete, target: Target, given: Entity | Query[Any]) -> None:
        self._operations.pop(request.key, None)
        self._operations[request.key] = request
        self._targets[request.key] = target
        self._given[request.key] = given

    @property
    def full(self) -> bool:
        """Whether enough operations were collected to send them."""
        return len(self._operations) >= FLUSH_AT

    def close(self) -> None:
        """End the block; discards operations that were not sent."""
        self.open = False
        self._operations.clear()
        self._targets.clear()
        self._given.clear()

    def flush(self) -> CoreGen[None]:
        """Send the collected operations.

        Raises:
            Throttled: ``left`` has the entities that were not put, and the keys that were not deleted.
            ItemInvalid: a key holds an item of another program; none of the collected operations was sent.
        """
        operations, targets, given = self._operations, self._targets, self._given
        self._operations, self._targets, self._given = {}, {}, {}
        kept = yield from check_strangers(self._context, operations, targets, given)
        if kept:
            yield from send_batch(req.BatchWrite(kept), given)
            yield from trim_after(self._context, kept)


def check_strangers(
    context: Context,
    operations: Mapping[Key, req.Put | req.Delete],
    targets: Mapping[Key, Target],
    given: Mapping[Key, Any],
) -> CoreGen[tuple[req.Put | req.Delete, ...]]:
    """The operations to send: all except deletes of items that the store skips (``on_unknown="skip"``).

    Raises:
        ItemInvalid: a key holds an item of another program.
        Throttled: the tags could not be read; ``left`` has all entities and keys of the batch.
    """
    kept = tuple(operations.values())
    if not kept or context.schema.exclusive:
        return kept
    patterns = tuple(operation.pattern for operation in kept)
    tags = {targets[key].entity.tag for key in operations}
    expected = tags.pop() if len(tags) == 1 else None
    request = req.BatchGet(tuple(operations), consistent=False, patterns=patterns, tags=True, expected=expected)
    try:
        found = yield request
    except Throttled as error:
        error.left = tuple(given[key] for key in operations if key in given)
        raise
    skipped = set()
    for operation, item in zip(kept, found, strict=True):
        if item is None or (stranger := context.stranger(targets[operation.key], item)) is None:
            continue
        if isinstance(operation, req.Put) or context.living(item) is not None:
            raise stranger
        skipped.add(operation.key)
    return tuple(operation for operation in kept if operation.key not in skipped)


def _names(entity: EntitySchema) -> str:
    return " and ".join(f"{entity.name}.{one.name}" for one in entity.companions)


class BatchSteps:
    """The batch of a procedure: `send` sends all operations once, at the end. The last operation on a key wins."""

    def __init__(self, current: Callable[[], Context]) -> None:
        self._pending = Pending(current)
        self._pending.open = True

    def put(self, entity: Entity) -> None:
        """Write an entity; replaces any item under its key. Raises BadValue if it has a Revision."""
        self._pending.put(entity)

    def delete(self, which: type[Entity] | Entity | Query[Any], /, **key: Any) -> None:
        """Remove an item; no error if it does not exist."""
        self._pending.delete(which, **key)

    def send(self) -> CoreGen[None]:
        """Send all operations.

        Raises:
            Throttled: ``left`` has the entities that were not put, and the keys that were not deleted.
        """
        try:
            yield from self._pending.flush()
        finally:
            self._pending.close()
