"""The pytest plugin, as a project uses it: in a pytest of its own, and in a process of its own where imports matter."""

from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from pkgutil import walk_packages

import pytest

import odm
from tests.readme import blocks

pytest_plugins = ["pytester"]

# Imported once: pytester forgets what is first imported within a run, and odm imports modules at their first use.
for package in ("backends.local", "observe", "planner", "procedures", "schema", "stores"):
    for module in walk_packages(import_module(f"odm.{package}").__path__, f"odm.{package}."):
        import_module(module.name)
for name in odm.__all__:
    getattr(odm, name)
import_module("odm.testing.opening")

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STRICT = [
    "-W",
    "error",
    "--strict-markers",
    "-p",
    "no:cacheprovider",
    "-o",
    "asyncio_default_fixture_loop_scope=function",
]
# An installed odm brings the plugin along; a mere tree on the path does not.
INSTALLED = bool(entry_points(group="pytest11", name="odm"))
LOADED = [] if INSTALLED else ["-p", "odm.testing.plugin"]
ENTITIES = """
from datetime import UTC, datetime, timedelta
from typing import Annotated

import pytest

from odm import TTL, AccessPattern, AsyncStore, Entity, PrimaryKey, Store, Table, Throttled
from odm.backends.local import LocalFile, Memory

notes = Table("notes")


class Note(Entity, table=notes):
    number: str
    topic: str = "t"
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("NOTE#{number}")
    by_topic = AccessPattern("TOPIC#{topic}", "{number}")


NOTE = Note(number="1")
"""


@pytest.fixture(autouse=True)
def tree(monkeypatch: pytest.MonkeyPatch) -> None:
    """The project finds the odm of this tree, installed or not."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(ENTITIES + source)
    return pytester.runpytest_inprocess(*STRICT, *LOADED, *arguments)


@pytest.mark.parametrize("fixture", ["odm_memory", "odm_file"])
def test_a_store_is_created_and_empty_and_a_tests_own(pytester: pytest.Pytester, fixture: str) -> None:
    result = run(
        pytester,
        f"""
@pytest.mark.parametrize("run", [1, 2])
def test_store({fixture}, run):
    db = {fixture}(notes)
    assert type(db) is Store
    assert list(db.scan()) == []
    db.put(NOTE)
    assert list({fixture}(notes).scan()) == [NOTE]
    assert type({fixture}.backend).__name__.lower() == {fixture[4:]!r}.replace("file", "localfile")


def test_options_are_the_stores({fixture}):
    db = {fixture}(notes, cursor_secret="s")
    for number in "12":
        db.put(Note(number=number))
    cursor = db.page(Note.by_topic(topic="t"), size=1).cursor
    assert {fixture}(notes, cursor_secret="s").page(Note.by_topic(topic="t"), size=1, after=cursor).items
    with pytest.raises(Exception, match="cursor"):
        {fixture}(notes, cursor_secret="other").page(Note.by_topic(topic="t"), size=1, after=cursor)
""",
    )
    result.assert_outcomes(passed=3)


@pytest.mark.parametrize("fixture", ["odm_memory", "odm_file"])
def test_an_async_store(pytester: pytest.Pytester, fixture: str) -> None:
    result = run(
        pytester,
        f"""
@pytest.mark.asyncio
async def test_store({fixture}):
    db = {fixture}(notes, AsyncStore)
    assert type(db) is AsyncStore
    await db.put(NOTE)
    assert {fixture}(notes).get(Note, number="1") == NOTE
""",
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("fixture", ["odm_memory", "odm_file"])
def test_stores_go_by_the_clock_and_faults_that_the_test_asks_for(pytester: pytest.Pytester, fixture: str) -> None:
    result = run(
        pytester,
        f"""
def test_clock({fixture}, odm_clock):
    db = {fixture}(notes)
    db.put(Note(number="1", until=odm_clock.now() + timedelta(hours=1)))
    odm_clock.advance(3599)
    assert db.exists(Note, number="1")
    odm_clock.advance(1)
    assert not db.exists(Note, number="1")


def test_faults({fixture}, odm_faults):
    db = {fixture}(notes)
    odm_faults.throttle("put")
    with pytest.raises(Throttled):
        db.put(NOTE)


@pytest.fixture
def service({fixture}):
    return {fixture}(notes)


def test_behind_a_fixture(service, odm_faults):
    odm_faults.throttle("put")
    with pytest.raises(Throttled):
        service.put(NOTE)


def test_neither({fixture}):
    import time
    assert {fixture}.backend.clock is time.time
""",
    )
    result.assert_outcomes(passed=4)


def test_the_marker_gives_the_backend_options(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
@pytest.mark.odm(index_lag=5)
def test_lag(odm_memory, odm_clock):
    db = odm_memory(notes)
    db.put(NOTE)
    assert db.count(Note.by_topic(topic="t")) == 0
    odm_clock.advance(5)
    assert db.count(Note.by_topic(topic="t")) == 1


@pytest.mark.odm(index_lag=5, page_bytes=7)
class TestMore:
    @pytest.mark.odm(page_bytes=1)
    def test_both(self, odm_memory):
        sent = []
        db = odm_memory(notes, on_request=sent.append)
        for number in "12":
            db.put(Note(number=number))
        assert db.count(Note.by_topic(topic="t")) == 0
        sent.clear()
        assert len(list(db.scan())) == len(sent) == 2


@pytest.mark.odm(index_lag=5)
def test_a_file_has_no_lag(odm_file):
    pass


@pytest.mark.odm(5)
def test_options_have_names(odm_memory):
    pass
""",
    )
    result.assert_outcomes(passed=2, errors=2)
    result.stdout.fnmatch_lines("*TypeError*index_lag*")
    result.stdout.fnmatch_lines("*mark.odm(5)*write*index_lag=5*")


def test_stores_are_closed_when_the_test_ends(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
from odm import BackendError

CONNECTIONS = []


def test_opens(odm_file):
    for store in (odm_file(notes), odm_file(notes, AsyncStore)):
        CONNECTIONS.append(store._session.connection)


def test_are_closed():
    for connection in CONNECTIONS:
        with pytest.raises(BackendError, match="closed"):
            connection.call(None)
""",
    )
    result.assert_outcomes(passed=2)


def test_fixtures_and_marker_are_documented(pytester: pytest.Pytester) -> None:
    fixtures = pytester.runpytest_inprocess(*STRICT, *LOADED, "--fixtures").stdout.str()
    for name in ("memory", "file", "clock", "faults", "bigtable_emulator"):
        assert f"odm_{name} -- " in fixtures
    assert "Opens stores in memory" in fixtures
    assert "@pytest.mark.odm(**options)" in pytester.runpytest_inprocess(*STRICT, *LOADED, "--markers").stdout.str()


@pytest.mark.one_of(3)
def test_it_loads_nothing_that_is_not_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
import sys


def test_not_loaded():
    assert "odm.testing.plugin" in sys.modules
    assert sorted(name for name in sys.modules if name.split(".")[0] == "odm") == [
        "odm", "odm._published", "odm.testing", "odm.testing.plugin"
    ]
    assert not {"attrs", "msgspec", "pydantic"} & sys.modules.keys()
"""
    )
    pytester.runpytest_subprocess(*STRICT, *LOADED).assert_outcomes(passed=1)


def test_the_tests_of_the_page_pass(pytester: pytest.Pytester) -> None:
    shop = next(block.text for block in blocks(DOCS / "model.md") if block.language == "python")
    [tests] = [block.text for block in blocks(DOCS / "test.md") if block.language == "python pytest"]
    pytester.makepyfile(f"{shop}\n{tests}")
    result = pytester.runpytest_inprocess(*STRICT, *LOADED, "-o", "asyncio_mode=auto")
    result.assert_outcomes(passed=2)


@pytest.mark.one_of(3)
def test_the_suite_explains_its_asserts(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
from odm.testing.suite import scans


def test_rewritten():
    assert "@pytest_ar" in vars(scans)
"""
    )
    pytester.runpytest_subprocess(*STRICT, *LOADED).assert_outcomes(passed=1)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("way", ["loaded", "left out"])
def test_the_suite_needs_no_plugin(pytester: pytest.Pytester, way: str) -> None:
    pytester.makepyfile(
        """
import pytest
from odm.testing.suite import *
from odm.testing import Capabilities
from odm.backends.local import Memory


@pytest.fixture
def backend():
    return Memory()


@pytest.fixture
def capabilities():
    return Capabilities()
"""
    )
    without = ["-p", "no:odm"] if INSTALLED else []
    result = pytester.runpytest_subprocess(*STRICT, *(LOADED if way == "loaded" else without), "-k", "TestScan")
    assert result.ret == 0
    assert result.parseoutcomes()["passed"] > 3
