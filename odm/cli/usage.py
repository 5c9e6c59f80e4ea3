"""The error of a command line that can not be run as it was written."""

from odm.errors import BadValue


class BadUsage(BadValue):
    """An argument of a command can not be used; the program ends with exit code 2."""
