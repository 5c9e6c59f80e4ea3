"""The error of a command line that cannot be run as it was written."""

from odm.errors import BadValue


class BadUsage(BadValue):
    """An argument of a command cannot be used; the program ends with exit code 2."""
