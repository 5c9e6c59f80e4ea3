"""The suite has all of its tests: a module of conformance tests imports what `odm.testing.suite` exports."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from odm.testing import suite


def collected_names(module: ModuleType) -> Iterator[str]:
    """The names of the test classes and fixtures that a module defines."""
    for name, value in vars(module).items():
        is_test = inspect.isclass(value) and name.startswith("Test") and value.__module__ == module.__name__
        if is_test or type(value).__name__ == "FixtureFunctionDefinition":
            yield name


def test_every_test_and_fixture_of_its_modules_is_exported() -> None:
    modules = [import_module(f"{suite.__name__}.{found.name}") for found in iter_modules(suite.__path__)]
    names = {name: module.__name__ for module in modules for name in collected_names(module)}
    assert {"TestGet", "TestRanges", "orders"} < names.keys()
    assert {name: module for name, module in names.items() if name not in suite.__all__} == {}
