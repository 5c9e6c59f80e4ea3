"""Where users import the public names from, and how the modules of `odm` load them at their first use."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import FunctionType
from typing import TypeVar

T = TypeVar("T")


def public(defined: T) -> T:
    """Decorates a public class or function: tracebacks, reprs and pickles show the path that users import."""
    defined.__module__ = "odm"
    return defined


def public_in(home: str) -> Callable[[T], T]:
    """The decorator `public` of what users import from another module, such as `odm.extend`."""

    def decorate(defined: T) -> T:
        defined.__module__ = home
        return defined

    return decorate


def lazy_names(home: str, modules: Mapping[str, str]) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """The ``__getattr__`` and ``__dir__`` of a module whose names load at their first use.

    As pydantic does it: a program starts with the cost of what it uses.

    Args:
        home: the module.
        modules: the names by the module that defines them, separated by spaces; ``Gen=CoreGen`` is a
            name and the one that it has there.
    """
    sources = {
        name: (module, defined or name)
        for module, names in modules.items()
        for name, _, defined in (part.partition("=") for part in names.split())
    }

    def load(name: str) -> object:
        if name not in sources:
            raise AttributeError(f"module {home!r} has no attribute {name!r}")
        value: object = getattr(import_module(sources[name][0]), sources[name][1])
        if isinstance(value, type | FunctionType):
            value.__module__ = home  # of most, `public` did it before
        vars(sys.modules[home])[name] = value
        return value

    def names() -> list[str]:
        return sorted({*vars(sys.modules[home]), *sources})

    return load, names
