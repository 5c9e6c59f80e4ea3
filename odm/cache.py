"""`Cache`: what was compiled for the shapes of calls, bounded. Thread-safe, as a dict is."""

from typing import Final, TypeVar

K = TypeVar("K")
V = TypeVar("V")

MOST: Final = 1024
"""So many shapes are kept; programs have tens of them."""


class Cache(dict[K, V]):
    """Values by the shape that they were compiled for."""

    __slots__ = ()

    def keep(self, shape: K, compiled: V) -> V:
        """Keep a value, and return it.

        At the limit the oldest quarter goes, so that a program with more shapes than fit still finds most of them.
        """
        if len(self) >= MOST:
            for old in list(self)[: MOST // 4]:
                self.pop(old, None)
        self[shape] = compiled
        return compiled
