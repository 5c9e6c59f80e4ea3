"""The option ``on_invalid`` of stores and stream decoders: what happens to an item that does not fit its model."""

from collections.abc import Callable
from inspect import iscoroutinefunction
from typing import Literal, TypeAlias

from odm.errors import BadValue, ItemInvalid, brief

OnInvalid: TypeAlias = Literal["raise", "skip"] | Callable[[ItemInvalid], object]


def skipping(on_invalid: OnInvalid) -> Callable[[ItemInvalid], object] | None:
    """The function to call with the error of each item that is skipped; None: the error is raised.

    Raises:
        BadValue: the option is not one of these.
    """
    if on_invalid == "raise":
        return None
    if on_invalid == "skip":
        return _ignore
    if not callable(on_invalid):
        raise BadValue(f"on_invalid={brief(on_invalid)}: say 'raise', 'skip' or a function that takes the ItemInvalid")
    if iscoroutinefunction(on_invalid):
        raise BadValue(f"on_invalid={brief(on_invalid)}: give a plain function, also to an AsyncStore")
    return on_invalid


def _ignore(error: ItemInvalid) -> None:
    pass
