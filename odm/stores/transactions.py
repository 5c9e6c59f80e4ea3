"""`Transaction` and `AsyncTransaction`: blocks that write several items at their end, all or none.

Operations are collected without I/O, so their methods have no ``await``, in sync and async alike: an operation whose
``await`` was forgotten would be missing from the transaction without an error. Only the ends of the blocks differ.
"""

from types import TracebackType
from typing import Self

from odm._published import public
from odm.hints import Async, Sync
from odm.procedures.transaction import Operations
from odm.protocol.connection import arun, run
from odm.stores.base import BaseStore


@public
class Transaction(Operations, Sync):
    """The transaction of an `odm.Store`: ``with db.transaction() as tx:``; committed when the block ends."""

    def __init__(self, store: BaseStore) -> None:
        calls = store._current_calls()
        super().__init__(lambda: store._session.context, calls.commit)
        self._store = store

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                run(self._commit(), self._store._call()[1])
        finally:
            self._close()


@public
class AsyncTransaction(Operations, Async):
    """The transaction of an `odm.AsyncStore`: ``async with db.transaction() as tx:``; committed when the block ends."""

    def __init__(self, store: BaseStore) -> None:
        calls = store._current_calls()
        super().__init__(lambda: store._session.context, calls.commit)
        self._store = store

    async def __aenter__(self) -> Self:
        self._begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await arun(self._commit(), self._store._call()[1])
        finally:
            self._close()
