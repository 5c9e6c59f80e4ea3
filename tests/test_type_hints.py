"""`typing.get_type_hints` resolves what is public, as frameworks do that inject, document or convert arguments.

Modules load at their first use, so a name may be in an annotation before anything has imported it.
"""

import inspect
import subprocess
import sys
import typing
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_signatures import MODULES, defined

ROOT = Path(__file__).parents[1]
UNRESOLVED = {
    *("boto3", "Credentials"),  # packages that are imported when a store opens
    *("Entity", "Query", "Any"),  # of BaseCompanion, Table, Effect and Query, whose modules Entity imports
    *("Change", "Cloud", "Faults", "Provisioned", "TimeSeries"),
}
"""Names that no module of the annotations imports; the fewer the better."""


def annotated(module: ModuleType) -> Iterator[tuple[str, object]]:
    """The public classes and functions of a module, with the methods that odm gives the classes."""
    for name in getattr(module, "__all__", None) or defined(module):
        value = getattr(module, name)
        if inspect.isfunction(value):
            yield name, value
        elif inspect.isclass(value):
            yield name, value
            for cls in value.__mro__:
                if cls.__module__.split(".")[0] == "odm":
                    yield from methods(f"{name}({cls.__name__})", cls)


def methods(name: str, cls: type) -> Iterator[tuple[str, object]]:
    for attribute, raw in list(vars(cls).items()):
        value = raw.fget if isinstance(raw, property) else getattr(raw, "__func__", raw)
        if inspect.isfunction(value) and (not attribute.startswith("_") or attribute == "__init__"):
            yield f"{name}.{attribute}", value


@pytest.mark.parametrize("module", MODULES)
def test_the_type_hints_of_public_names_resolve(module: str) -> None:
    unresolved = dict[str, str]()
    for name, value in annotated(import_module(module)):
        try:
            typing.get_type_hints(value, include_extras=True)
        except NameError as error:
            if error.name not in UNRESOLVED:
                unresolved[name] = str(error)
    assert unresolved == {}


ALONE = """
import inspect, typing
from odm import Store
for name, value in vars(Store).items():
    if inspect.isfunction(value):
        typing.get_type_hints(value)
print(typing.get_type_hints(Store.backfill)["return"])
"""


def test_they_resolve_in_a_process_that_imported_nothing_else() -> None:
    result = subprocess.run([sys.executable, "-c", ALONE], cwd=ROOT, capture_output=True, text=True, check=True)
    assert result.stdout == "<class 'odm.results.Backfilled'>\n"
