"""What a minor version must not break: the public calls and their arguments, recorded in public_api.txt.

A difference is not a mistake: it must be meant. The deprecation policy of docs/versions.md says which are allowed.
"""

import difflib
import inspect
import os
from collections.abc import Iterator
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import pytest
from pydantic import BaseModel

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "tests" / "public_api.txt"
REWRITE = "ODM_GOLDEN=write pytest tests/test_signatures.py"
PATTERNS = [
    *("adjacency_list", "aggregate", "bulk_load", "copy", "current", "derive", "feed", "follower", "graph", "pointer"),
    *("sharded_counter", "sql", "time_series", "unique", "verify", "versioned", "write_sharding"),
]
HOMES = ["odm.changes", "odm.extend", "odm.results"]
MODULES = [
    "odm",
    *HOMES,
    "odm.backends.local",
    "odm.backends.dynamodb",
    "odm.backends.dynamodb.streams",
    "odm.backends.bigtable",
    "odm.backends.bigtable.emulator",
    *(f"odm.patterns.{name}" for name in PATTERNS),
    "odm.testing",
]


def test_the_public_calls_are_those_of_the_record() -> None:
    present = "".join(f"{line}\n" for name in MODULES for line in calls(import_module(name)))
    if os.environ.get("ODM_GOLDEN") == "write":
        RECORD.write_text(present, encoding="utf-8")
    elif present != (recorded := RECORD.read_text(encoding="utf-8")):
        difference = difflib.unified_diff(recorded.splitlines(), present.splitlines(), "the record", "odm", n=0)
        pytest.fail("\n".join([f"if this is meant: {REWRITE}, and CHANGELOG.md says so", *difference]))


def test_the_record_has_each_pattern_and_backend() -> None:
    files = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "patterns").glob("[!_]*.py")}
    parts = {part for text in files.values() for part in files if f"from odm.patterns.{part} import" in text}
    assert files.keys() - parts - {*PATTERNS} == set()  # a part of other patterns need not have public calls
    backends = {path.parent.name for path in (ROOT / "backends").glob("*/__init__.py")}
    assert {f"odm.backends.{name}" for name in backends} - {*MODULES} == set()


def calls(module: ModuleType) -> Iterator[str]:
    for name in getattr(module, "__all__", None) or defined(module):
        value = getattr(module, name)
        if inspect.isclass(value):
            if issubclass(value, BaseModel):
                value.model_rebuild()  # else its signature depends on whether a test has used it
            made_by_user = not issubclass(value, Enum | BaseException | dict)
            yield f"{module.__name__}.{name}{arguments(value) if made_by_user else ''}"
            yield from (f"    .{line}" for line in members(value))
        elif inspect.isfunction(value):
            yield f"{module.__name__}.{name}{arguments(value)}"
        else:
            yield f"{module.__name__}.{name}"


def defined(module: ModuleType) -> list[str]:
    """The public names of a module that has no __all__."""
    of_module = (name for name, value in vars(module).items() if getattr(value, "__module__", "") == module.__name__)
    return sorted(
        name for name in of_module if not name.startswith("_") and not isinstance(vars(module)[name], TypeVar)
    )


def members(cls: type) -> Iterator[str]:
    """The public attributes that a class has from odm, not from pydantic or Python."""
    for name in dir(cls):
        owner = next(base for base in cls.__mro__ if name in vars(base)) if not name.startswith("_") else object
        if owner.__module__.split(".")[0] == "odm":
            value = inspect.getattr_static(cls, name)
            function = getattr(value, "__func__", value)
            yield f"{name}{arguments(function)}" if inspect.isfunction(function) else name


def arguments(value: object) -> str:
    """The names, kinds and defaults of arguments; mypy and pyright check their types in tests/typing."""
    signature = inspect.signature(value)  # type: ignore[arg-type]  # a class or function
    plain = [
        each.replace(annotation=each.empty, default=each.default if simple(each.default) else ...)
        for each in signature.parameters.values()
    ]
    return str(signature.replace(parameters=plain, return_annotation=signature.empty))


def simple(default: object) -> bool:
    return default is inspect.Parameter.empty or isinstance(default, str | int | float | None)
