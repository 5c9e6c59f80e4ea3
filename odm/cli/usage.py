"""The error for a command line that is not valid."""

from odm.errors import BadValue


class BadUsage(BadValue):
    """An argument of a command is not valid; the program ends with exit code 2."""
