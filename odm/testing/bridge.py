"""A sync wrapper of `odm.AsyncStore`, so that one test runs sync and async."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextvars import Context, copy_context
from inspect import iscoroutine
from types import TracebackType
from typing import Any, TypeVar, cast

from odm import AsyncBatch, AsyncStore, AsyncTransaction, Store

T = TypeVar("T")


class Runner:
    """As `asyncio.Runner`, but leaves the handler of SIGINT alone, a third of the time of a call in memory."""

    def __init__(self) -> None:
        self._inner = asyncio.Runner()

    def run(self, coroutine: Coroutine[Any, Any, T], *, context: Context | None = None) -> T:
        """Run a coroutine to completion."""
        loop = self._inner.get_loop()
        return loop.run_until_complete(loop.create_task(coroutine, context=context))

    def close(self) -> None:
        """Cancel what still runs, and close the event loop."""
        self._inner.close()


def blocking(store: AsyncStore, runner: asyncio.Runner | Runner) -> Store:
    """The async store with the methods of `odm.Store`: each call runs to completion on the runner's event loop."""
    return cast(Store, _BlockingStore(store, runner))


def blocking_call(call: Callable[..., T], acall: Callable[..., Coroutine[Any, Any, T]]) -> Callable[..., T]:
    """A function with stores among its arguments: the async one, run to completion, if the first one is async."""

    def either(*args: Any, **kwargs: Any) -> T:
        if not isinstance(args[0], _BlockingStore):
            return call(*args, **kwargs)
        named = {name: _inner(value) for name, value in kwargs.items()}
        return args[0]._run(acall(*map(_inner, args), **named))

    return either


def release(store: Store) -> None:
    """Wait for what goes on after answers, and release the connection. The store stays open: it connects again."""
    connection = store._session.connection
    if isinstance(store, _BlockingStore):
        store._run(connection.aclose())
    else:
        connection.close()


def _inner(value: object) -> object:
    return value._inner if isinstance(value, _BlockingStore) else value


class _Blocking:
    """Has the methods of the inner object, and runs coroutines to completion."""

    def __init__(self, inner: Any, runner: asyncio.Runner | Runner) -> None:
        self._inner = inner
        self._runner = runner

    def __getattr__(self, name: str) -> Any:
        attribute = getattr(self._inner, name)
        if not callable(attribute):
            return attribute

        def call(*args: Any, **kwargs: Any) -> Any:
            answer = attribute(*args, **kwargs)
            return self._run(answer) if iscoroutine(answer) else answer

        return call

    def _run(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a call in the caller's context, where a meter may be open; the runner's own context is an older one."""
        return self._runner.run(call, context=copy_context())

    def __enter__(self) -> Any:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, trace))


class _BlockingBatch(_Blocking):
    _inner: AsyncBatch


class _BlockingTransaction(_Blocking):
    _inner: AsyncTransaction


class _BlockingStore(_Blocking):
    _inner: AsyncStore

    def close(self) -> None:
        self._runner.run(self._inner.aclose())

    def query(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return self._each(self._inner.query(*args, **kwargs))

    def scan(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return self._each(self._inner.scan(*args, **kwargs))

    def with_options(self, **options: Any) -> "_BlockingStore":
        return _BlockingStore(self._inner.with_options(**options), self._runner)

    def batch(self, *, parallel: int = 1) -> _BlockingBatch:
        return _BlockingBatch(self._inner.batch(parallel=parallel), self._runner)

    def transaction(self) -> _BlockingTransaction:
        return _BlockingTransaction(self._inner.transaction(), self._runner)

    def _each(self, results: AsyncIterator[T]) -> Iterator[T]:
        async def following() -> T:
            return await anext(results)

        while True:
            try:
                result = self._run(following())
            except StopAsyncIteration:
                return
            yield result
