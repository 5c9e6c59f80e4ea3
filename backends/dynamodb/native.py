"""What the driver is asked to do: the native requests, as values that print.

Procedures yield them and never do I/O themselves; `odm.backends.dynamodb.driver` performs them.
"""

import logging
import random
import reprlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen

from odm.operations.backend import Sleep


# Names are never cut, only texts: the upper bound of a range is padded to 1,024 bytes, an item may hold 400 KB.
class _Printer(reprlib.Repr):
    def repr_AttributesText(self, value: Mapping[str, Any], level: int) -> str:  # noqa: N802  # so it is found
        return self.repr1(dict(value), level)


_PRINTER = _Printer()
_PRINTER.maxlevel = _PRINTER.maxdict = _PRINTER.maxlist = 100
_PRINTER.maxstring = _PRINTER.maxother = 120


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
        arguments = "".join(f"    {name}={_PRINTER.repr(value)},\n" for name, value in self.kwargs.items())
        return f"{self.operation}(\n{arguments})"


Native: TypeAlias = Call | Sleep

_LOG = logging.getLogger("odm.dynamodb")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds


def backoff(failures: int) -> Sleep:
    """A pause of random length, whose bound doubles with every failure in a row."""
    # Full jitter: many clients that were throttled together do not come back together.
    pause = Sleep(random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2**failures)))
    _LOG.warning("DynamoDB has not done all (failure %d in a row): trying again in %.2f s", failures, pause.seconds)
    return pause
