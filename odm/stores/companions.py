"""`Companion`: what keeps items of its own right by every write of an entity derives from this."""

from collections.abc import Callable
from typing import Any

from odm.entities.companions import BaseCompanion, Effect
from odm.procedures.companion_writes import Along
from odm.protocol.connection import CoreGen
from odm.stores.calls import Calls


class Companion(BaseCompanion):
    """A declaration in an entity's body that keeps items of its own right by every write of the entity.

    A put, insert, update or delete by a store or in a transaction takes it along; a batch, which has no conditions,
    refuses entities that have one. On the class, ``Order.latest`` is what `of` gives.

    Attributes:
        name: the attribute name.
        reads: a put needs to know the item as it was, so it is read first, and the write is refused and tried again if
            it has changed by then. Updates and deletes always do that, inserts never.
        reads_apart: likewise, where the backend writes one item at a time.
        deletes: it takes part in deletes.
    """

    def along(self, tx: Along, effect: Effect[Any]) -> None:
        """Say what is written along with an item: ``tx.put(...)``, as in a transaction.

        Raises:
            BadValue: a value does not fit; nothing is sent.
        """

    def apart(self, do: Calls, effect: Effect[Any], commit: Callable[..., CoreGen[None]]) -> CoreGen[None]:
        """Write an item on a backend that writes one at a time; by default what goes along comes after it.

        Args:
            do: the calls of the store.
            effect: as for `along`.
            commit: ``yield from commit()`` writes the item itself, on the condition that it is still as it was read;
                ``commit(mark=...)`` marks it, see `Along.mark`; ``commit(until=...)`` writes it before that moment, in
                epoch seconds, or not at all. What it raises must be raised on: an `odm.BadValue`,
                `odm.ConditionFailed`, `odm.ItemExists` or `odm.ItemNotFound` says that it was certainly not written.
                It is written once at most, so its mark is in no item that comes later.
        """
        along = do.along(self, effect)
        yield from commit(mark=along.marked)
        yield from do.write(along)

    def settle(self, do: Calls, effect: Effect[Any]) -> CoreGen[None]:
        """Do what need not be done together with a write, once it is done; by default nothing.

        Also by transactions, and after a delete that finds no item (``old`` and ``new`` are None): a program that is
        stopped before it, or within, has left something that does no harm, and that goes by deleting again.

        Args:
            do: the calls of the store.
            effect: as for `along`, but without the mark.
        """
        yield from ()
