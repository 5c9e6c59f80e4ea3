"""A call stays short to read: it passes few modules, and seldom changes file."""

import pytest

from benchmarks.contender import Call
from benchmarks.path import BACKENDS, CALLS, Way, main, passed, warm

MOST_MODULES = 12
"""Of a get on Memory."""
MOST_CHANGES = 26
"""Of file, in a get on DynamoDB. Nine of them are in the lean transport, down to the HTTP library; one of these is for
the handler of the session that answers here."""


def way_of(call: Call, backend: str) -> Way:
    with warm(backend) as calls:
        return passed(calls[call])


def numbers(way: Way) -> str:
    return f"{way.calls} calls, {way.modules} modules, {way.changes} changes of file"


def test_a_get_on_memory_passes_few_modules() -> None:
    way = way_of("get", "memory")
    assert way.modules <= MOST_MODULES, numbers(way)


def test_a_get_on_dynamodb_seldom_changes_file() -> None:
    way = way_of("get", "dynamodb")
    assert way.changes <= MOST_CHANGES, numbers(way)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("call", CALLS)
def test_a_way_leads_from_the_store_to_its_backend(call: Call, backend: str) -> None:
    way = way_of(call, backend)
    modules = [step.module for step in way.steps]
    assert "odm.stores.sync_reads" in modules if call in ("get", "query") else "odm.stores.sync" in modules
    assert any(module.startswith("odm.backends.") for module in modules)
    assert way.steps[0].depth == 0


def test_the_same_call_passes_the_same_way_again() -> None:
    with warm("dynamodb") as calls:
        assert passed(calls["get"]) == passed(calls["get"])


def test_what_is_not_of_odm_passes_nothing() -> None:
    way = passed(lambda: sorted([2, 1], key=lambda number: number))
    assert (way.calls, way.modules, way.changes) == (0, 0, 0)


def test_ways_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["get", "--backend", "memory", "--verbose"])
    printed = capsys.readouterr().out
    assert "> odm.stores.sync_reads:Reads.get\n" in printed
    assert "get, memory: " in printed
