"""What the driver is asked to do: the native requests, as values that print.

Procedures yield them and never do I/O themselves; `odm.backends.dynamodb.driver` performs them.
"""

import reprlib
from collections.abc import Mapping
from typing import Any, TypeAlias

from attrs import frozen

# Names are never cut, only texts: the upper bound of a range is padded to 1,024 bytes, an item may hold 400 KB.
_PRINTER = reprlib.Repr()
_PRINTER.maxlevel = _PRINTER.maxdict = _PRINTER.maxlist = 100
_PRINTER.maxstring = _PRINTER.maxother = 120


@frozen
class Call:
    """One request to DynamoDB: a method of the client and its arguments."""

    operation: str
    kwargs: Mapping[str, Any]

    def __str__(self) -> str:
        arguments = "".join(f"    {name}={_PRINTER.repr(value)},\n" for name, value in self.kwargs.items())
        return f"{self.operation}(\n{arguments})"


@frozen
class Sleep:
    """A pause before the next request."""

    seconds: float


Native: TypeAlias = Call | Sleep
