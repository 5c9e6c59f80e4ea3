"""The bundled engine as a backend that writes one item at a time, as Bigtable does."""

from collections.abc import Callable, Sequence
from typing import Any

from odm.backends.local import Memory
from odm.schema.model import Key, Schema


class OneAtATime:
    """A `Memory` without transactions of several items."""

    name = "one-at-a-time"

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self._inner = Memory() if clock is None else Memory(clock=clock)
        self.clock = self._inner.clock

    def connect(self, schema: Schema) -> Any:
        return _Connection(self._inner.connect(schema))


class _Connection:
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def apart(self, keys: Sequence[Key]) -> str | None:
        return "one item at a time" if len(keys) > 1 else None
