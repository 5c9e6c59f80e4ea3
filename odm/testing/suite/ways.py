"""The two ways to send a write, alone or as a transaction, which have the same results and errors."""

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from msgspec import Struct

from odm import Store, Transaction, TransactionFailed


class InTransaction(Struct, frozen=True):
    """Sends each write as its own transaction, and raises the reason if the transaction fails."""

    db: Store

    def put(self, *args: Any, **options: Any) -> None:
        """As `odm.Store.put`."""
        self._send(lambda tx: tx.put(*args, **options))

    def insert(self, *args: Any, **options: Any) -> None:
        """As `odm.Store.insert`."""
        self._send(lambda tx: tx.insert(*args, **options))

    def update(self, *args: Any, **options: Any) -> None:
        """As `odm.Store.update`, but for ``returning``."""
        self._send(lambda tx: tx.update(*args, **options))

    def save(self, *args: Any) -> None:
        """As `odm.Store.save`, but it returns nothing."""
        self._send(lambda tx: tx.save(*args))

    def delete(self, *args: Any, **options: Any) -> None:
        """As `odm.Store.delete`, but it returns nothing."""
        self._send(lambda tx: tx.delete(*args, **options))

    def _send(self, call: Callable[[Transaction], object]) -> None:
        try:
            with self.db.transaction() as tx:
                call(tx)
        except TransactionFailed as failure:
            (reason,) = failure.reasons
            assert reason is not None
            raise reason from failure


Way: TypeAlias = Callable[[Store], Any]  # Any: a Store, or an object with its write methods

each_way = pytest.mark.parametrize("way", [lambda db: db, InTransaction], ids=["alone", "transaction"])
"""Runs a test once for each way; ``way(db)`` has the write methods of a store."""
