"""The page of requests in docs/ is correct: its calls send the requests that it shows, to the emulator."""

import difflib
import os
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from random import Random
from threading import current_thread, main_thread
from typing import Any

import pytest

from odm import Store, Table
from odm.backends.bigtable import Bigtable
from odm.results import RequestInfo
from tests.readme import blocks

PAGE = Path(__file__).parents[3] / "docs" / "bigtable_requests.md"
REWRITE = "ODM_GOLDEN=write pytest tests/backends/bigtable/test_golden.py"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()


class Recorder:
    """Opens stores, and records what they send."""

    def __init__(self, backend: Bigtable) -> None:
        self._backend = backend
        self._sent: list[tuple[bool, str]] = []
        self._ids: dict[str, str] = {}
        self._opened: list[Store] = []

    def open(self, table: Table) -> Store:
        store = Store(table, self._backend, clock=lambda: NOON, random=Random(7), on_request=self._tell)
        self._opened.append(store)
        return store

    def _tell(self, info: RequestInfo) -> None:
        self._sent.append((current_thread() is main_thread(), f"{info.native}\n"))

    def text(self) -> str:
        """What was sent since the previous call of this, with numbers instead of random ids."""
        sent: list[str] = []
        for in_turn, run in groupby(self._sent, itemgetter(0)):
            texts = [text for _, text in run]
            sent += texts if in_turn else sorted(texts)  # the order of several threads varies
        self._sent.clear()
        text = "".join(sent) or "nothing is sent\n"
        text = re.sub(r'"since":\d+', '"since":<time>', re.sub(r"\b[0-9a-f]{20}\b", self._named, text))
        return re.sub(r'"[0-9a-f]{1,19}…', '"<id…', text)

    def _named(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"<id {len(self._ids) + 1}>")

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture
def recorder(google_emulator: str) -> Iterator[Recorder]:
    recorder = Recorder(Bigtable("my-project", "golden", endpoint=google_emulator))
    yield recorder
    recorder.close()


def rewritten(recorder: Recorder) -> str:
    """The page as it should be: each text block holds what the Python code above it sends."""
    lines = PAGE.read_text(encoding="utf-8").splitlines(keepends=True)
    names: dict[str, Any] = {"__name__": "__main__", "open_store": recorder.open}
    texts: list[tuple[int, int, str]] = []
    for block in blocks(PAGE):
        if block.language == "python":
            recorder.text()
            exec(compile("\n" * (block.line - 1) + block.text, str(PAGE), "exec"), names)
        elif block.language == "text":
            start = block.line - 1
            texts.append((start, start + block.text.count("\n"), recorder.text()))
    for start, end, text in reversed(texts):
        lines[start:end] = text.splitlines(keepends=True)
    return "".join(lines)


def test_calls_send_what_stands_below_them(recorder: Recorder) -> None:
    made, written = rewritten(recorder), PAGE.read_text(encoding="utf-8")
    if os.environ.get("ODM_GOLDEN") == "write":
        PAGE.write_text(made, encoding="utf-8")
    elif made != written:
        difference = difflib.unified_diff(written.splitlines(), made.splitlines(), "written", "sent", lineterm="")
        pytest.fail("\n".join([*difference, f"where that is right: {REWRITE}"]), pytrace=False)
