"""What ``db.query(...)`` and ``db.scan(...)`` return: the results, which are read from the service while you loop."""

from collections.abc import AsyncGenerator, AsyncIterator, Generator, Iterator
from typing import TYPE_CHECKING, TypeVar

from odm.hints import RESULTS, Hinted, refuse_use

T = TypeVar("T")

_LENGTH = "the results of a query are read while you loop over them, so they have no {}: "


class Results(Iterator[T], Hinted):
    """The results of a query or scan, once: an iterator."""

    __slots__ = ("_items",)
    _odm_hints = RESULTS

    def __init__(self, items: Generator[T, None, None]) -> None:
        self._items = items

    def __iter__(self) -> Iterator[T]:  # noqa: PYI034  # a loop calls the generator itself, at no cost
        return self._items

    def __next__(self) -> T:
        return next(self._items)

    def close(self) -> None:
        """Read no more."""
        self._items.close()

    if not TYPE_CHECKING:
        __len__ = refuse_use(_LENGTH.format("length") + "write db.count(query), or len(list(...)) of them")
        __getitem__ = refuse_use(
            _LENGTH.format("positions") + "write db.first(query), list(db.query(query.limit(10))), or db.page(query, "
            "size=25).items"
        )
        __bool__ = refuse_use(_LENGTH.format("truth value") + "write db.first(query) is not None")


class AsyncResults(AsyncIterator[T], Hinted):
    """The results of a query or scan of an `odm.AsyncStore`, once: an async iterator."""

    __slots__ = ("_items",)
    _odm_hints = RESULTS

    def __init__(self, items: AsyncGenerator[T, None]) -> None:
        self._items = items

    def __aiter__(self) -> AsyncIterator[T]:  # noqa: PYI034  # as above
        return self._items

    async def __anext__(self) -> T:
        return await anext(self._items)

    async def aclose(self) -> None:
        """Read no more."""
        await self._items.aclose()

    if not TYPE_CHECKING:
        __iter__ = refuse_use("the results of an AsyncStore are read async: write async for, or [x async for x in ...]")
        __len__ = refuse_use(_LENGTH.format("length") + "write await db.count(query)")
        __getitem__ = refuse_use(
            _LENGTH.format("positions") + "write await db.first(query), or (await db.page(query, size=25)).items"
        )
        __bool__ = refuse_use(_LENGTH.format("truth value") + "write await db.first(query) is not None")
