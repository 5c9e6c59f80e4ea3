"""Marks the public names where they are defined, whatever imports them first."""

from typing import TypeVar

T = TypeVar("T")


def public(defined: T) -> T:
    """Decorates a public class or function: tracebacks, reprs and pickles show the path that users import."""
    defined.__module__ = "odm"
    return defined
