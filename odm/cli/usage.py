"""The error for a command line that is not valid."""

from collections.abc import Iterator
from contextlib import contextmanager

from odm.errors import BadValue


class BadUsage(BadValue):
    """An argument of a command is not valid; the program ends with exit code 2."""


@contextmanager
def checked(before: str = "", after: str = "") -> Iterator[None]:
    """Turn a BadValue for a value from the command line into a BadUsage, with texts that name the option."""
    try:
        yield
    except BadValue as error:
        raise BadUsage(f"{before}{error}{after}") from error
