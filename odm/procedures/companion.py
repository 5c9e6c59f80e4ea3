"""`Companion`: what keeps items of its own right by every write of an entity derives from this."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from odm.entities.companions import BaseCompanion, Effect
from odm.protocol.connection import CoreGen

if TYPE_CHECKING:
    from odm.procedures.calls import Calls
    from odm.procedures.companion_writes import CompanionWrites


class Companion(BaseCompanion):
    """A declaration in an entity's body that keeps items of its own right by every write of the entity.

    Its items are written with every put, insert, update or delete by a store or in a transaction; a batch, which has no
    conditions, refuses entities that have one. On the class, ``Order.latest`` is what `of` gives.

    Attributes:
        name: the attribute name.
        reads: a put needs to know the item as it was, so it is read first, and the write is refused and tried again if
            it has changed by then. Updates and deletes always do that, inserts never.
        reads_without_transaction: likewise, where the backend writes one item at a time.
        deletes: it takes part in deletes.
    """

    def companion_writes(self, tx: "CompanionWrites", effect: Effect[Any]) -> None:
        """Say what is written with an item: ``tx.put(...)``, as in a transaction.

        Raises:
            BadValue: a value does not fit; nothing is sent.
        """

    def without_transaction(
        self, do: "Calls", effect: Effect[Any], commit: Callable[..., CoreGen[None]]
    ) -> CoreGen[None]:
        """Write an item on a backend that writes one at a time; by default the companion's writes come after it.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`.
            commit: ``yield from commit()`` writes the item itself, on the condition that it is still as it was read;
                ``commit(mark=...)`` marks it, see `CompanionWrites.mark`; ``commit(until=...)`` writes it before that
                instant, in epoch seconds, or not at all. What it raises must be raised on: an `odm.BadValue`,
                `odm.ConditionFailed`, `odm.ItemExists` or `odm.ItemNotFound` says that it was certainly not written.
                It is written once at most, so its mark is in no item that comes later.
        """
        writes = do.companion_writes(self, effect)
        yield from commit(mark=writes.marked)
        yield from do.write(writes)

    def settle(self, do: "Calls", effect: Effect[Any]) -> CoreGen[None]:
        """Do what need not be done together with a write, once it is done; by default nothing.

        Also by transactions, and after a delete that finds no item (``old`` and ``new`` are None): a program that is
        stopped before it, or within, has left something that does no harm, and that goes by deleting again.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`, but without the mark.
        """
        yield from ()
