"""`Awaited`: counts the calls of a block whose ``await`` must not be forgotten."""

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, cast

from odm.errors import BadValue

F = TypeVar("F", bound=Callable[..., Any])


class Awaited:
    """A block of an `odm.AsyncStore` that knows how many of its calls were made, and how many of those began to run."""

    def _begin(self) -> None:
        self._begun = self._awaited = 0

    def _check_awaited(self) -> None:
        """Raise BadValue if a call was not awaited: what it should write would be lost."""
        if lost := self._begun - self._awaited:
            raise BadValue(
                f"{lost} of the calls of this batch {'was' if lost == 1 else 'were'} not awaited, so the rest of the "
                "batch was not sent: write await batch.put(...)"
            )


def begun(method: F) -> F:
    """Count the calls of a coroutine function when they are made; it counts those that are awaited."""

    @wraps(method)
    def call(self: Awaited, *args: Any, **options: Any) -> Any:
        self._begun += 1
        return method(self, *args, **options)

    return cast(F, call)
