"""`Companion`: a declaration that updates items of its own with every write of its entity."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odm._published import public
from odm.entities.companions import BaseCompanion, Effect
from odm.errors import Unsupported
from odm.procedures.companion_writes import CompanionWrites
from odm.protocol.connection import CoreGen

if TYPE_CHECKING:
    from odm.procedures.calls import Calls


@public
class Companion(BaseCompanion):
    """A declaration in an entity's body that updates items of its own with every write of the entity.

    Its items are written with every put, insert, update or delete by a store or in a transaction. A batch has no
    conditions, so it refuses entities with companions; `Calls.load_new` writes new ones. On the class, ``Order.latest``
    is the result of `of`.

    Attributes:
        name: the attribute name.
        reads: a put reads the previous item first; if another writer changes the item before the write, odm reads and
            writes again. Updates and deletes always do this, inserts never.
        reads_without_transaction: the same, on backends that write one item at a time.
        deletes: the companion also writes when the entity is deleted.
        loads: whether `Calls.load_new` writes its items "before" or "after" the entity's own item; None: it refuses the
            entity. Its writes for a new item must then be puts and deletes that are right when they are collected and
            applied again: "before", while the item is not stored; "after", also when it is.
    """

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        """Collect the writes for an item: ``tx.put(...)``, as in a transaction.

        `odm.Store.backfill` calls it for stored items, and sends what differs from the stored items: with the effect of
        an insert if the item does not have the companion's mark, otherwise with ``old`` and ``new`` the same.

        Raises:
            BadValue: a value does not fit the model; nothing is sent.
        """

    def without_transaction(
        self, do: "Calls", effect: Effect[Any], commit: Callable[..., CoreGen[None]]
    ) -> CoreGen[None]:
        """Write an item on a backend that writes one item at a time; by default, the item first, then the companion's.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`.
            commit: ``yield from commit()`` writes the item itself, if it was not changed since it was read.
                ``commit(mark=...)`` marks it, see `CompanionWrites.mark`; ``commit(until=...)`` only writes it before
                that instant, in epoch seconds. Do not suppress its errors. After an `odm.BadValue`,
                `odm.ConditionFailed`, `odm.ItemExists` or `odm.ItemNotFound`, the item was certainly not written. The
                item is written at most once, so no later item has this mark.
        """
        writes = do.companion_writes(self, effect)
        yield from commit(mark=writes.marked)
        yield from do.write(writes)

    def rekey_writes(
        self, tx: CompanionWrites, freed: CompanionWrites, before: "Companion", old: Effect[Any], new: Effect[Any]
    ) -> None:
        """Collect the writes for an item that `odm.Store.rekey` moves to another key; by default, raise Unsupported.

        Args:
            tx: collects the writes of this companion, and the mark of the new item.
            freed: collects deletes of items that the old companion wrote; one of a key that ``tx`` writes is left out.
            before: the companion of the same name of the old class.
            old: the delete of the old item, with its mark.
            new: the insert of the new item.

        Raises:
            Unsupported: its items cannot follow.
        """
        raise Unsupported(
            f"rekey() to {new.key}: {self.name} does not say how its items follow: define rekey_writes() of "
            f"{type(self).__name__}"
        )

    def settle(self, do: "Calls", effect: Effect[Any]) -> CoreGen[None]:
        """Called after a write was applied, for work that need not be atomic with it; does nothing by default.

        Transactions call it too, and so does a delete that finds no item (``old`` and ``new`` are None). A program may
        stop before or during this call: whatever is left then must be harmless, and a second delete must remove it.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`, but without the mark.
        """
        yield from ()
