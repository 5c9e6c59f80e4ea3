"""Batches of puts and deletes: collected, the last one on a key wins, sent together without conditions."""

from typing import Any

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue
from odm.operations import ir
from odm.operations.backend import Gen
from odm.operations.context import Context
from odm.operations.left import send_batch
from odm.operations.trim import trim_after
from odm.operations.writes import delete_request, put_request, target_of
from odm.schema.model import EntitySchema, Key

FLUSH_AT = 1000
"""Operations that a batch collects before it sends them."""


class Pending:
    """The operations of a batch that are not sent yet, by key.

    Attributes:
        open: the batch is inside its ``with`` block, at whose end it will be sent.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._operations: dict[Key, ir.Put | ir.Delete] = {}
        self._given: dict[Key, Entity | Query[Any]] = {}
        self.open = False

    def put(self, entity: Entity) -> None:
        """Add a put.

        Raises:
            BadValue: the batch is not open, or the entity has a Revision, which a batch can not check.
        """
        self._check_open()
        target, _, request = put_request(self._context, entity)
        if target.entity.revision is not None:
            raise BadValue(
                f"{target.entity.name} has a Revision, and a batch can not check it, so it could overwrite somebody "
                "else's change: put() it on its own"
            )
        if target.entity.companions:
            raise BadValue(
                f"{target.entity.name} has {_names(target.entity)}, which is written on conditions that a batch does "
                "not have: put() it on its own, or in a transaction"
            )
        self._add(request, entity)

    def delete(self, which: object) -> None:
        """Add a delete of an entity or key.

        Raises:
            BadValue: the batch is not open, or an entity with a Revision is passed, which a batch can not check.
        """
        self._check_open()
        target = target_of(self._context, which)
        if target.revision is not None:
            raise BadValue(
                f"{which!r} has a Revision, which a batch can not check: delete() it on its own, or give its key"
            )
        if any(one.deletes for one in target.entity.companions):
            raise BadValue(
                f"{target.entity.name} has {_names(target.entity)}, which goes with it on conditions that a batch does "
                "not have: delete() it on its own, or in a transaction"
            )
        self._add(delete_request(self._context, which), target.query)

    def _check_open(self) -> None:
        if not self.open:
            raise BadValue(
                "a batch is sent when its block ends, and this one is not in a block: write "
                "with db.batch() as batch: ... (async with, of an AsyncStore)"
            )

    def _add(self, request: ir.Put | ir.Delete, given: Entity | Query[Any]) -> None:
        self._operations.pop(request.key, None)
        self._operations[request.key] = request
        self._given[request.key] = given

    @property
    def full(self) -> bool:
        """Enough has been collected to be sent."""
        return len(self._operations) >= FLUSH_AT

    def close(self) -> None:
        """End the block: what has not been sent is dropped."""
        self.open = False
        self._operations.clear()
        self._given.clear()

    def flush(self) -> Gen[None]:
        """Send what has been collected.

        Raises:
            Throttled: ``left`` has the entities that were not put, and the keys of those that were not deleted.
        """
        operations, given = tuple(self._operations.values()), self._given
        self._operations.clear()
        self._given = {}
        if operations:
            yield from send_batch(ir.BatchWrite(operations), given)
            yield from trim_after(self._context, operations)


def _names(entity: EntitySchema) -> str:
    return " and ".join(f"{entity.name}.{one.name}" for one in entity.companions)
