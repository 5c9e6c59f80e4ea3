"""The public API of `odm`: its names, that each is documented, and that each shows the import path of users."""

import inspect
import pickle
import subprocess
import sys
import traceback
from importlib import import_module
from pathlib import Path

import pytest

import odm
from odm import _moved, _public
from odm.extend import Calls
from tests.test_signatures import HOMES

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
    "BadCursor",
    "BadValue",
    "Batch",
    "Blob",
    "Blobs",
    "Cell",
    "CellVersions",
    "Columns",
    "Compressed",
    "Condition",
    "ConditionFailed",
    "Conflict",
    "Counter",
    "CreatedAt",
    "Entity",
    "Grouped",
    "Id",
    "ItemExists",
    "ItemInvalid",
    "ItemNotFound",
    "ItemTooLarge",
    "KeyValueError",
    "LazyBytes",
    "Max",
    "MaxAge",
    "MaxVersions",
    "Min",
    "NoAccessPattern",
    "OdmError",
    "OutcomeUnknown",
    "Page",
    "PrimaryKey",
    "Query",
    "Revision",
    "SchemaError",
    "Shards",
    "Store",
    "Stored",
    "Sum",
    "Table",
    "TableNotFound",
    "Throttled",
    "Transaction",
    "TransactionFailed",
    "Unsupported",
    "UpdatedAt",
    "add_to",
    "add_value",
    "append",
    "between",
    "collection",
    "contains",
    "discard_from",
    "exists",
    "field",
    "increment",
    "is_in",
    "missing",
    "not_",
    "prepend",
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

MOVED = {
    "odm.backends.bigtable": ["GCRule"],
    "odm.changes": ["Change", "ChangeShard", "Changed", "Changes", "Inserted", "Removed"],
    "odm.extend": [
        *("Calls", "Companion", "CompanionWrites", "Effect", "EntityView", "Gen", "Limits", "LintFinding"),
        *("PatternView", "PlanView", "Procedure", "SchemaView", "compiled", "planned", "primary_key", "procedure"),
    ],
    "odm.results": [
        *("Backfilled", "CellVersion", "Explanation", "Meter", "Partial", "RawItem", "RequestInfo", "Swept"),
        *("Unfilled", "Usage"),
    ],
}
"""What `odm` had before, by the module that has it now."""

NAMES_BY_MODULE = {"odm": NAMES} | {home: names for home, names in MOVED.items() if home in HOMES}
NAMES_BY_MODULE["odm.extend"] = sorted(
    [*NAMES_BY_MODULE["odm.extend"], "RateLimit", "in_tasks", "in_threads"], key=lambda name: (name.islower(), name)
)
PUBLIC = [(home, name) for home, names in NAMES_BY_MODULE.items() for name in names]


def test_the_public_names() -> None:
    assert odm.__all__ == NAMES
    assert {home: import_module(home).__all__ for home in HOMES} == {home: NAMES_BY_MODULE[home] for home in HOMES}


def test_nothing_else_is_public() -> None:
    assert all(hasattr(odm, name) for name in NAMES)  # names load at their first use
    public = {name for name, value in vars(odm).items() if not name.startswith("_") and not inspect.ismodule(value)}
    assert public - {"TYPE_CHECKING"} == set(NAMES)


@pytest.mark.parametrize(("home", "name"), [each for each in PUBLIC if each[1] != "AUTO"])  # it is None
def test_each_is_documented(home: str, name: str) -> None:
    value = getattr(import_module(home), name)
    documented = value if inspect.isclass(value) or inspect.isfunction(value) else type(value)
    doc = vars(documented).get("__doc__") if inspect.isclass(documented) else documented.__doc__
    assert doc, f"{home}.{name} has no docstring of its own"
    if inspect.isclass(value):
        undocumented = [
            method
            for method, function in inspect.getmembers(value, inspect.isfunction)
            if function.__module__.startswith("odm") and not method.startswith("_") and not inspect.getdoc(function)
        ]
        assert undocumented == []


@pytest.mark.parametrize(("home", "name"), PUBLIC)
def test_each_shows_the_path_that_users_import(home: str, name: str) -> None:
    value = getattr(import_module(home), name)
    if inspect.isclass(value) or inspect.isfunction(value):
        assert (value.__module__, value.__qualname__) == (home, name)
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
    store, calls = methods(odm.Store), methods(Calls)
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
    *("odm._moved", "odm.changes", "odm.extend", "odm.results"),
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
    assert found.stdout == "<class 'odm.results.Swept'> <class 'odm.Throttled'>\n"


def test_the_names_are_those_that_type_checkers_see() -> None:
    assert odm.__all__ == _public.__all__
    assert all(getattr(odm, name) is getattr(_public, name) for name in NAMES)


def test_the_listing_of_the_module_has_every_name() -> None:
    assert set(NAMES) <= set(dir(odm))


@pytest.mark.parametrize(("home", "name"), [(home, name) for home, names in MOVED.items() for name in names])
class TestAMovedName:
    def test_it_has_a_warning_that_names_its_place_and_the_line_of_the_program(self, home: str, name: str) -> None:
        program = compile(f"from odm import {name}", "program.py", "exec")
        with pytest.warns(
            DeprecationWarning, match=f"^{name} is in {home} now: write `from {home} import {name}`$"
        ) as seen:
            exec(program, imported := dict[str, object]())
        assert {warning.filename for warning in seen} == {"program.py"}
        assert imported[name] is getattr(import_module(home), name)

    def test_it_is_no_name_of_odm(self, home: str, name: str) -> None:
        assert name not in odm.__all__
        assert name not in dir(odm)

    def test_it_unpickles(self, home: str, name: str) -> None:
        """What an earlier version pickled has the old path."""
        with pytest.warns(DeprecationWarning, match=name):
            assert pickle.loads(f"codm\n{name}\n.".encode()) is getattr(import_module(home), name)


def test_type_checkers_know_the_moved_names() -> None:
    assert _moved.__all__ == sorted(
        (name for names in MOVED.values() for name in names), key=lambda name: (name.islower(), name)
    )


@pytest.mark.parametrize("home", HOMES)
def test_a_home_imports_nothing_before_its_first_use(home: str) -> None:
    code = (
        f"import sys, {home}; assert 'pydantic' not in sys.modules; import odm; assert odm.{home.removeprefix('odm.')}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=Path(__file__).parent.parent)
