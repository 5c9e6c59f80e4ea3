"""What the driver is asked to do: the native requests, as values that print.

Procedures yield them and never do I/O themselves; `odm.backends.dynamodb.driver` performs them.
"""

import logging
import random
import re
import reprlib
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar

from attrs import frozen

from odm.protocol.connection import NativeGen
from odm.protocol.requests import Sleep

# An item may hold 400 KB, so long values are cut. Expressions are not: they have 4 KB at most.
_PRINTER = reprlib.Repr()
_PRINTER.maxstring = _PRINTER.maxother = 120
_WIDTH = 120

R = TypeVar("R")
_PADDING = re.compile("\U0010ffff{4,}")  # the upper bound of a range is padded to 1,024 bytes


@frozen
class Call:
    """One request to DynamoDB: a method of the client and its arguments.

    Attributes:
        once: the client must not send it again by itself: done twice is not the same as done once.
    """

    operation: str
    kwargs: Mapping[str, Any]
    once: bool = False

    def __str__(self) -> str:
        arguments = "".join(f"    {name}={_shown(value, 4, name)},\n" for name, value in self.kwargs.items())
        return f"{self.operation}(\n{arguments})"


def _shown(value: Any, indent: int = 0, name: str = "") -> str:
    """A value on one line if there is room for it behind its name, else an entry a line."""
    if isinstance(value, Mapping):
        ends, entries = "{}", [(f"{key!r}: ", key, entry) for key, entry in value.items()]
    elif isinstance(value, list):
        ends, entries = "[]", [("", "", entry) for entry in value]
    else:
        return repr(value) if name.endswith("Expression") else _scalar(value)
    line = ", ".join(head + _shown(entry, name=key) for head, key, entry in entries)
    if not indent or not entries or indent + len(name) + len(line) < _WIDTH - len("'': {},"):
        return f"{ends[0]}{line}{ends[1]}"
    inner = indent + 4
    lines = "".join(f"{' ' * inner}{head}{_shown(entry, inner, key)},\n" for head, key, entry in entries)
    return f"{ends[0]}\n{lines}{' ' * indent}{ends[1]}"


def _scalar(value: Any) -> str:
    padding = _PADDING.search(value) if isinstance(value, str) else None
    if padding is None:
        return _PRINTER.repr(value)
    start, end = padding.span()
    head, tail = (f"{text!a}" if text else "" for text in (value[:start], value[end:]))
    return " + ".join(filter(None, [head, f"'\\U0010ffff' * {end - start}", tail]))


Native: TypeAlias = Call | Sleep

Steps: TypeAlias = NativeGen[Native, R]
"""Steps of this backend: yields native requests, is sent their responses, and returns a result."""

_LOG = logging.getLogger("odm.dynamodb")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds


def backoff(failures: int) -> Sleep:
    """A pause of random length, whose bound doubles with every failure in a row."""
    # Full jitter: many clients that were throttled together do not come back together.
    pause = Sleep(random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures, 10))))
    _LOG.warning("DynamoDB has not done all (failure %d in a row): trying again in %.2f s", failures, pause.seconds)
    return pause
