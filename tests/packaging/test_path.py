"""Calls stay short to read: they pass few modules, and seldom change file."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any, Final

import pytest

from benchmarks.path import BACKENDS, CALLS, Way, main, passed, warm

CHANGES: Final[Mapping[str, Mapping[str, int]]] = {
    "memory": {"get": 18, "put": 28, "query": 62, "update": 43, "transaction": 71},
    "dynamodb": {"get": 36, "put": 47, "query": 89, "update": 61, "transaction": 81},
    "bigtable": {"get": 32, "put": 43, "query": 87, "update": 48, "transaction": 142},
}
"""How often each call changes file. Lower a figure when a call gets shorter; raise it only for a reason."""


@pytest.fixture(scope="module")
def calls() -> Iterator[Mapping[str, Mapping[str, Callable[[], Any]]]]:
    with ExitStack() as stack:
        yield {backend: stack.enter_context(warm(backend)) for backend in BACKENDS}


def numbers(way: Way) -> str:
    return f"{way.calls} calls, {way.modules} modules, {way.changes} changes of file"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("call", CALLS)
def test_no_call_changes_file_more_often(
    calls: Mapping[str, Mapping[str, Callable[[], Any]]], call: str, backend: str
) -> None:
    way = passed(calls[backend][call])
    modules = [step.module for step in way.steps]
    assert modules[0].startswith("odm.stores.")
    assert any(module.startswith("odm.backends.") for module in modules)
    assert way.changes <= 1.1 * CHANGES[backend][call], numbers(way)


def test_the_same_call_passes_the_same_way_again(calls: Mapping[str, Mapping[str, Callable[[], Any]]]) -> None:
    get = calls["memory"]["get"]  # over HTTP an answer comes in one segment or two
    assert passed(get) == passed(get)


def test_what_is_not_of_odm_passes_nothing() -> None:
    way = passed(lambda: sorted([2, 1], key=lambda number: number))
    assert (way.calls, way.modules, way.changes) == (0, 0, 0)


def test_ways_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["get", "--backend", "memory", "--verbose"])
    printed = capsys.readouterr().out
    assert "> odm.stores.sync:Store.get\n" in printed
    assert "get, memory: " in printed
