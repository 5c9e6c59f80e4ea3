"""The public API of `odm`: its names, that each is documented, and that each shows the import path of users."""

import inspect
import pickle
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import odm
from odm import _public

NAMES = [
    "AUTO",
    "HLL",
    "TTL",
    "AccessPattern",
    "Action",
    "AsyncBatch",
    "AsyncStore",
    "AsyncTransaction",
    "Backend",
    "BackendError",
    "Backfilled",
    "BadCursor",
    "BadValue",
    "Batch",
    "Blob",
    "Blobs",
    "Calls",
    "Cell",
    "CellVersion",
    "CellVersions",
    "Change",
    "ChangeShard",
    "Changed",
    "Changes",
    "Columns",
    "Companion",
    "CompanionWrites",
    "Compressed",
    "Condition",
    "ConditionFailed",
    "Conflict",
    "Counter",
    "CreatedAt",
    "Effect",
    "Entity",
    "EntityView",
    "Explanation",
    "GCRule",
    "Gen",
    "Grouped",
    "Id",
    "Inserted",
    "ItemExists",
    "ItemInvalid",
    "ItemNotFound",
    "ItemTooLarge",
    "KeyValueError",
    "LazyBytes",
    "Limits",
    "LintFinding",
    "Max",
    "MaxAge",
    "MaxVersions",
    "Meter",
    "Min",
    "NoAccessPattern",
    "OdmError",
    "OutcomeUnknown",
    "Page",
    "Partial",
    "PatternView",
    "PlanView",
    "PrimaryKey",
    "Procedure",
    "Query",
    "RawItem",
    "Removed",
    "RequestInfo",
    "Revision",
    "SchemaError",
    "SchemaView",
    "Shards",
    "Store",
    "Stored",
    "Sum",
    "Swept",
    "Table",
    "TableNotFound",
    "Throttled",
    "Transaction",
    "TransactionFailed",
    "Unfilled",
    "Unsupported",
    "UpdatedAt",
    "Usage",
    "add_to",
    "add_value",
    "append",
    "between",
    "collection",
    "compiled",
    "contains",
    "discard_from",
    "exists",
    "field",
    "increment",
    "is_in",
    "missing",
    "not_",
    "planned",
    "prepend",
    "primary_key",
    "procedure",
    "remove",
    "select",
    "set_",
    "set_fields",
    "set_if_missing",
    "size",
    "some",
    "starts_with",
    "upgrade",
]


def test_the_public_names() -> None:
    assert odm.__all__ == NAMES


def test_nothing_else_is_public() -> None:
    assert all(hasattr(odm, name) for name in NAMES)  # names load at their first use
    public = {name for name, value in vars(odm).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public - {"TYPE_CHECKING"} == set(NAMES)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "AUTO"])  # it is None
def test_each_is_documented(name: str) -> None:
    value = getattr(odm, name)
    documented = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    doc = vars(documented).get("__doc__") if inspect.isclass(documented) else documented.__doc__
    assert doc, f"odm.{name} has no docstring of its own"
    if inspect.isclass(value):
        undocumented = [
            method
            for method, function in inspect.getmembers(value, inspect.isfunction)
            if function.__module__.startswith("odm") and not method.startswith("_") and not inspect.getdoc(function)
        ]
        assert undocumented == []


@pytest.mark.parametrize("name", NAMES)
def test_each_shows_the_path_that_users_import(name: str) -> None:
    value = getattr(odm, name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert (value.__module__, value.__qualname__) == ("odm", name)
        assert pickle.loads(pickle.dumps(value)) is value


def test_a_traceback_names_the_public_error() -> None:
    assert traceback.format_exception_only(odm.ItemNotFound("no order")) == ["odm.ItemNotFound: no order\n"]
    assert repr(odm.Store) == "<class 'odm.Store'>"


def test_every_error_is_an_odm_error() -> None:
    public = [getattr(odm, name) for name in NAMES]
    errors = [value for value in public if inspect.isclass(value) and issubclass(value, Exception)]
    assert all(issubclass(error, odm.OdmError) for error in errors)
    assert [error.__name__ for error in errors if issubclass(error, ValueError)] == [
        "BadCursor",
        "BadValue",
        "ItemTooLarge",
        "KeyValueError",
    ]


def methods(cls: type) -> dict[str, list[str]]:
    """The arguments of each public method."""
    functions = inspect.getmembers(cls, inspect.isfunction)
    return {
        name.replace("aclose", "close"): list(inspect.signature(function).parameters)
        for name, function in functions
        if not name.startswith("_")
    }


def test_both_stores_have_the_same_methods_and_arguments() -> None:
    assert methods(odm.Store) == methods(odm.AsyncStore)


def test_procedures_have_the_calls_of_a_store_with_the_same_arguments() -> None:
    store, calls = methods(odm.Store), methods(odm.Calls)
    of_tables = {"alter", "close", "create", "drop", "list_tables", "measure"}
    assert store.keys() - calls - of_tables == {
        *("explain", "meter", "run", "scan", "seal", "start", "sweep", "unseal", "with_options")
    }
    assert {name: calls[name] for name in calls.keys() & store} == {name: store[name] for name in calls.keys() & store}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'odm' has no attribute 'Stroe'"):
        odm.Stroe  # type: ignore[attr-defined]  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_names_load_at_the_first_use() -> None:
    code = "import sys, odm; assert 'pydantic' not in sys.modules; odm.Entity; assert 'pydantic' in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)


PROGRAM = """
import sys
from odm import Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory

table = Table("shop")

class Order(Entity, table=table):
    order_id: str
    primary = PrimaryKey("ORDER#{order_id}")

with Store(table, Memory()) as db:
    db.create()
    db.put(Order(order_id="o1"))
    assert db.get(Order, order_id="o1") is not None
print(*sys.modules)
"""

UNUSED = {
    *("asyncio", "boto3", "botocore", "gzip", "sqlite3", "ssl"),
    *("odm._public", "odm.backends.local.faults", "odm.backends.local.file", "odm.schema.lint", "odm.schema.lockfile"),
    *("odm.procedures.upkeep.backfill", "odm.procedures.explain", "odm.procedures.raw", "odm.procedures.upkeep.rekey"),
    *("odm.procedures.reading.scan", "odm.procedures.upkeep.sweep", "odm.stores.asynchronous", "odm.stores.blobs"),
    *("pydantic.networks", "pydantic.root_model"),
}


def test_a_program_loads_what_it_uses() -> None:
    """Each of these takes a hundredth of the start of the program, or more."""
    command = [sys.executable, "-c", PROGRAM]
    found = subprocess.run(command, check=True, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    assert set(found.stdout.split()) & UNUSED == set()


def test_names_are_shown_by_their_public_path_whatever_imports_them_first() -> None:
    code = "from odm.procedures.upkeep.sweep import Swept; from odm.errors import Throttled; print(Swept, Throttled)"
    command = [sys.executable, "-c", code]
    found = subprocess.run(command, check=True, cwd=Path(__file__).parent.parent, capture_output=True, text=True)
    assert found.stdout == "<class 'odm.Swept'> <class 'odm.Throttled'>\n"


def test_the_names_are_those_that_type_checkers_see() -> None:
    assert odm.__all__ == _public.__all__
    assert all(getattr(odm, name) is getattr(_public, name) for name in NAMES)


def test_the_listing_of_the_module_has_every_name() -> None:
    assert set(NAMES) <= set(dir(odm))
