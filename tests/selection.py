"""Which tests run: by default, with ``--full``, and with ``--full --rest``; see tests/effort.py.

In the conformance suite (tests/conformance):

* on the engine in memory it runs sync and async, which takes seconds;
* on every other backend each test runs once by default. A checksum of its name decides whether sync or async, so that
  each module has both, and a test differs between modules. With ``--full`` most modules run both; those of `ONCE` run
  each test once;
* a module that runs one test of several leaves out whole functions of the suite, before pytest makes tests of their
  parameters (`function_in_use`): every process would else make 30,000 tests and drop them;
* DynamoDB is by default the first that is installed of Dynoxide, which takes two thirds of DynamoDB Local's time,
  DynamoDB Local and moto.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final
from zlib import crc32

import pytest

from tests import dynamodb_local, dynoxide, effort

SUITE_PACKAGE: Final = "odm.testing.suite."
SUITE: Final = Path(__file__).parent / "conformance"
DYNAMODB: Final[dict[str, Callable[[], bool]]] = {
    "test_dynoxide": dynoxide.available,
    "test_dynamodb_local": dynamodb_local.available,
    "test_dynamodb": lambda: True,
    "test_dynamodb_async": lambda: False,
}
"""The modules that run the suite on DynamoDB's stand-ins; by default, the first that can run."""

STEPS: Final = ("TestCurrent", "TestDerive", "TestRawItem", "TestRotation", "TestSeries")
"""The beginnings of classes whose tests run once in each module, also with ``--full``: their steps are the same in both
modes, and each module shows what its backend does with them."""

ONCE: Final = {
    "test_bigtable_transactions",
    "test_bigtable_wide",
    "test_bigtable_wide_transactions",
    "test_dynamodb_local",
    "test_dynoxide",
    "test_file",
    "test_memory_options",
}
"""The modules that run each test once with ``--full``, sync or async. Another module runs each test in both modes: on
the same backend in another layout or with other options, on the same engine, or on another stand-in."""


def in_use(module: Path) -> bool:
    """Whether a module may have tests in this run."""
    return effort.full() or SUITE not in module.parents or not _another_stand_in(module)


def function_in_use(collector: pytest.Collector, name: str, function: object, *, rest: bool) -> bool:
    """Whether a function may have tests in this run; asked before pytest makes tests of its parameters.

    Args:
        collector: the class or the module that defines the function.
        name: the name of the function.
        function: the function, with its marks.
        rest: choose a share of what a run without ``--full`` leaves out.
    """
    if not name.startswith("test"):
        return True
    if not effort.full() and effort.whole() and _is_slow(collector):
        return False
    if not _of_suite(function):
        return True
    own = [mark for mark in getattr(function, "pytestmark", ()) if mark.name == "one_of"]
    mark = own[0] if own else collector.get_closest_marker("one_of")
    nodeid = f"{collector.nodeid}::{name}"
    checksum = _function_checksum(nodeid)
    if not _checksum_chooses(checksum, mark, int(effort.full())):
        return False
    if not rest or checksum // 64 % 7 == 0:
        return True
    return _is_slow(collector) and _checksum_chooses(checksum, mark, 0)


def chosen(item: pytest.Item, *, rest: bool) -> bool:
    """Whether a test is to run.

    Args:
        item: the test.
        rest: choose a share of what a run without ``--full`` leaves out.
    """
    if not effort.full():
        return _by_default(item) and not (effort.whole() and _is_slow(item))
    return _in_full(item) and (not rest or _in_rest(item))


def _is_slow(item: pytest.Item | pytest.Collector) -> bool:
    return item.get_closest_marker("slow") is not None


def _in_rest(item: pytest.Item) -> bool:
    if _tries_more(item):
        return True
    if _by_default(item):
        return _is_slow(item)
    # The bits of the checksum that the other choices do not look at.
    return _of_suite(_function(item)) or not _parameters(item) or (crc32(item.nodeid.encode()) >> 16) % 4 == 0


def _by_default(item: pytest.Item) -> bool:
    if item.get_closest_marker("full") or _on_moto(item) or not _one_of(item, 0):
        return False
    if SUITE not in item.path.parents:
        return True
    return not _another_stand_in(item.path) and (item.path.stem == "test_memory" or _in_its_mode(item))


def _in_full(item: pytest.Item) -> bool:
    if SUITE not in item.path.parents:
        return _one_of(item, 1)
    owner = item.getparent(pytest.Class)
    once = item.path.stem in ONCE or (owner is not None and owner.name.startswith(STEPS))
    return _one_of(item, 1) and (not once or _in_its_mode(item))


def _another_stand_in(module: Path) -> bool:
    """Whether a module runs the suite on another stand-in for DynamoDB than the default run does."""
    return module.stem in DYNAMODB and module.stem != next(name for name, can_run in DYNAMODB.items() if can_run())


def _one_of(item: pytest.Item, run: int) -> bool:
    """Whether the checksum of the test's name chooses it, if it has the mark ``one_of(n)`` or ``one_of(n, m)``.

    ``run`` is 0 for the default run, where one of n tests runs, and 1 for the full one, with one of m.
    """
    nodeid = item.nodeid
    checksum = _function_checksum(nodeid.partition("[")[0]) if _of_suite(_function(item)) else crc32(nodeid.encode())
    return _checksum_chooses(checksum, item.get_closest_marker("one_of"), run)


def _checksum_chooses(checksum: int, mark: pytest.Mark | None, run: int) -> bool:
    return mark is None or checksum % (*mark.args, 1)[run] == 0


def _function_checksum(nodeid: str) -> int:
    """A checksum of a function's name; not the one that chooses between sync and async, as half of them would run."""
    return crc32(f"{nodeid} of the suite".encode())


def _of_suite(function: object) -> bool:
    """Whether a function is a test of `odm.testing.suite`, which runs in many modules."""
    return getattr(function, "__module__", "").startswith(SUITE_PACKAGE)


def _function(item: pytest.Item) -> object:
    return getattr(item, "function", None)


def _on_moto(item: pytest.Item) -> bool:
    """Whether this is the moto run of a test that also runs on DynamoDB Local."""
    return "moto_server" in _parameters(item) and dynamodb_local.available()


def _in_its_mode(item: pytest.Item) -> bool:
    """Whether the test has no modes, or runs in the one, sync or async, that the checksum of its name chooses."""
    modes = {"sync", "async"}.intersection(_parameters(item))
    name = item.nodeid.partition("[")[0]
    return not modes or modes == {("sync", "async")[crc32(name.encode()) % 2]}


def _parameters(item: pytest.Item) -> list[str]:
    parameters = item.nodeid.partition("[")[2].rstrip("]")
    return parameters.split("-") if parameters else []


def _tries_more(item: pytest.Item) -> bool:
    """Whether a test tries something else in a full run: a property, or one whose module asks for the effort."""
    module = item.getparent(pytest.Module)
    names = () if module is None else vars(module.obj).values()
    asks = {id(value) for value in names} & {id(effort), id(effort.full), id(effort.times)}
    return bool(asks) or hasattr(getattr(item, "obj", None), "hypothesis")
