"""`Batch` and `AsyncBatch`: blocks that collect unconditional puts, deletes and merges, sent in few requests."""

from collections.abc import Callable
from functools import wraps
from types import TracebackType
from typing import Any, Self, TypeVar, cast, overload

from odm._published import public
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue
from odm.expressions.nodes import Action
from odm.hints import BATCH, Async, Hinted, Sync
from odm.procedures.batch import Pending
from odm.protocol.connection import arun, run
from odm.stores.base import BaseStore

E = TypeVar("E", bound=Entity)
F = TypeVar("F", bound=Callable[..., Any])


@public
class Batch(Hinted, Sync):
    """Collects puts, deletes and merges; sends them when the ``with`` block ends, or sooner when there are many.

    Not atomic. The last operation on a key wins. If the block raises, operations that were not sent are discarded. The
    ``left`` of an error has the entries that are not known to be applied, for the next batch.
    """

    _odm_hints = BATCH

    def __init__(self, store: BaseStore, parallel: int = 1) -> None:
        self._store = store
        self._pending = Pending(lambda: store._session.context, parallel)

    def __enter__(self) -> Self:
        self._pending.open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._pending.close()

    def put(self, entity: E) -> E:
        """Write an entity; replaces any item under its key.

        Returns:
            The entity as it will be stored: the same object, or a copy if it has an automatic field, or a Decimal that
            a read returns with more or fewer decimal places.

        Raises:
            BadValue: it has a Revision or a value that cannot be stored, or the call is outside of the block.
        """
        stored = self._pending.put(entity)
        self._flush_if_full()
        return stored

    @overload
    def delete(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    def delete(self, which: Entity | Query[Any], /) -> None: ...
    def delete(self, which: Any, /, *unnamed: Any, **key: Any) -> None:
        """Remove an item; no error if it does not exist.

        Args:
            which: an entity class with its key fields, an entity, or a key.
            unnamed: not allowed; give the key fields by name.
            key: the key fields.

        Raises:
            BadValue: the entity has a Revision, or the call is outside of the block.
        """
        self._pending.delete(which, *unnamed, **key)
        self._flush_if_full()

    def merge(self, which: E | Query[E], /, *actions: Action) -> None:
        """Write parts of an item without reading it; see `odm.Store.merge`.

        Several merges of one item are one write. A merge after a put or delete of the same item is a part of it.

        Args:
            which: the entity or its key.
            actions: as for `odm.Store.merge`.

        Raises:
            BadValue: the entity or an action cannot be merged, or the call is outside of the block.
        """
        self._pending.merge(which, actions)
        self._flush_if_full()

    def _flush_if_full(self) -> None:
        if self._pending.full:
            self._flush()

    def _flush(self) -> None:
        run(self._pending.flush(), self._send)

    def _send(self, request: Any) -> Any:
        # Asked again for each request: if the store was closed, the error gets the entries that are left.
        return self._store._call()[1](request)


def _begun(method: F) -> F:
    """Count the calls of a coroutine function when they are made; it counts those that are awaited."""

    @wraps(method)
    def call(self: "AsyncBatch", *args: Any, **options: Any) -> Any:
        self._begun += 1
        return method(self, *args, **options)

    return cast(F, call)


@public
class AsyncBatch(Hinted, Async):
    """Collects puts, deletes and merges; sends them when the ``async with`` block ends, or sooner when there are many.

    Not atomic. The last operation on a key wins. If the block raises, operations that were not sent are discarded. The
    ``left`` of an error has the entries that are not known to be applied, for the next batch.
    """

    _odm_hints = BATCH

    def __init__(self, store: BaseStore, parallel: int = 1) -> None:
        self._store = store
        self._pending = Pending(lambda: store._session.context, parallel)
        # Calls made, and those of them that began to run.
        self._begun = self._awaited = 0

    async def __aenter__(self) -> Self:
        self._pending.open = True
        self._begun = self._awaited = 0
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._check_awaited()
                await self._flush()
        finally:
            self._pending.close()

    def _check_awaited(self) -> None:
        """Raise BadValue if a call was not awaited: what it should write would be lost."""
        if lost := self._begun - self._awaited:
            raise BadValue(
                f"{lost} of the calls of this batch {'was' if lost == 1 else 'were'} not awaited, so the rest of the "
                "batch was not sent: write await batch.put(...)"
            )

    @_begun
    async def put(self, entity: E) -> E:
        """Write an entity; replaces any item under its key.

        Returns:
            The entity as it will be stored: the same object, or a copy if it has an automatic field, or a Decimal that
            a read returns with more or fewer decimal places.

        Raises:
            BadValue: it has a Revision or a value that cannot be stored, or the call is outside of the block.
        """
        self._awaited += 1
        stored = self._pending.put(entity)
        await self._flush_if_full()
        return stored

    @overload
    async def delete(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    async def delete(self, which: Entity | Query[Any], /) -> None: ...
    @_begun
    async def delete(self, which: Any, /, *unnamed: Any, **key: Any) -> None:
        """Remove an item; no error if it does not exist.

        Args:
            which: an entity class with its key fields, an entity, or a key.
            unnamed: not allowed; give the key fields by name.
            key: the key fields.

        Raises:
            BadValue: the entity has a Revision, or the call is outside of the block.
        """
        self._awaited += 1
        self._pending.delete(which, *unnamed, **key)
        await self._flush_if_full()

    @_begun
    async def merge(self, which: E | Query[E], /, *actions: Action) -> None:
        """Write parts of an item without reading it; see `odm.Store.merge`.

        Several merges of one item are one write. A merge after a put or delete of the same item is a part of it.

        Args:
            which: the entity or its key.
            actions: as for `odm.Store.merge`.

        Raises:
            BadValue: the entity or an action cannot be merged, or the call is outside of the block.
        """
        self._awaited += 1
        self._pending.merge(which, actions)
        await self._flush_if_full()

    async def _flush_if_full(self) -> None:
        if self._pending.full:
            await self._flush()

    async def _flush(self) -> None:
        await arun(self._pending.flush(), self._send)

    def _send(self, request: Any) -> Any:
        return self._store._call()[1](request)
