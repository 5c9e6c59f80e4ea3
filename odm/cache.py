"""What is compiled once: `Cache` for the shapes of calls, bounded; `pattern` for regular expressions.

Both are thread-safe, as a dict is.
"""

import re
from collections.abc import Callable
from functools import cache, partial
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


def pattern(text: str, flags: int = 0) -> Callable[[], re.Pattern[str]]:
    """A regular expression that its first use compiles; most programs use few of those that they import."""
    return cache(partial(re.compile, text, flags))
