"""The requests shown in docs/ are those that the calls above them send, to moto and to DynamoDB Local."""

import difflib
import os
import re
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from random import Random
from threading import current_thread, main_thread
from typing import Any

import boto3
import pytest
from moto import mock_aws

from odm import Entity, Store, Table
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call, Native
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.schema.model import Schema
from tests.readme import blocks

DOCS = Path(__file__).parents[3] / "docs"
PAGES = sorted(DOCS.glob("dynamodb_*s.md"))
REWRITE = "ODM_GOLDEN=write pytest tests/backends/dynamodb/test_golden.py"
NOON = datetime(2026, 1, 5, 12, tzinfo=UTC).timestamp()


class Recorder(DynamoDB):
    """Records the native requests. ``on_request`` would add ReturnConsumedCapacity to them."""

    def __init__(self, *settings: Any, **more: Any) -> None:
        super().__init__(*settings, **more)
        self._sent: list[tuple[bool, Call]] = []
        self._opened: list[Store] = []

    def connect(self, schema: Schema) -> DynamoDBConnection:
        connection = super().connect(schema)
        send = connection.call

        def call(native: Native) -> Any:
            if isinstance(native, Call):
                self._sent.append((current_thread() is main_thread(), native))
            return send(native)

        connection.call = call  # type: ignore[method-assign]
        return connection

    def open(self, table: Table) -> Store:
        store = Store(table, self, clock=lambda: NOON, random=Random(7))
        self._opened.append(store)
        return store

    def create(self, table: Table, *items: Entity) -> Store:
        """Open a store, create its table and put the items; the requests for that are not shown."""
        store, before = self.open(table), len(self._sent)
        store.create()
        for item in items:
            store.put(item)
        del self._sent[before:]
        return store

    def text(self) -> str:
        """The requests since the last call, without random tokens."""
        sent, self._sent = self._sent, []
        calls: list[str] = []
        for in_turn, run in groupby(sent, lambda pair: pair[0]):
            texts = [f"{call}\n" for _, call in run]
            calls += texts if in_turn else sorted(texts)  # concurrent requests have a random order
        text = "".join(calls) or "nothing is sent\n"
        return re.sub(r"'[0-9a-f]{8}-[0-9a-f-]{27}'", "'<random>'", text)

    def close(self) -> None:
        for store in self._opened:
            store.close()


@pytest.fixture(params=["moto", "local"])
def recorder(request: pytest.FixtureRequest) -> Iterator[Recorder]:
    key = uuid.uuid4().hex  # DynamoDB Local separates the tables by it
    session = boto3.Session(aws_access_key_id=key, aws_secret_access_key="secret", region_name="eu-west-1")
    if request.param == "moto":
        with mock_aws():
            recorder = Recorder(session)
            yield recorder
            recorder.close()
    else:
        recorder = Recorder(session, endpoint_url=request.getfixturevalue("dynamodb_local"))
        yield recorder
        recorder.close()


def rewritten(page: Path, recorder: Recorder) -> str:
    """The page, with each text block replaced by the requests that the Python block above it sends."""
    lines = page.read_text(encoding="utf-8").splitlines(keepends=True)
    names: dict[str, Any] = {"__name__": "__main__", "open_store": recorder.open, "create_store": recorder.create}
    texts: list[tuple[int, int, str]] = []
    for block in blocks(page):
        if block.language == "python":
            recorder.text()
            exec(compile("\n" * (block.line - 1) + block.text, str(page), "exec"), names)
        elif block.language == "text":
            start = block.line - 1
            texts.append((start, start + block.text.count("\n"), recorder.text()))
    for start, end, text in reversed(texts):
        lines[start:end] = text.splitlines(keepends=True)
    return "".join(lines)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_calls_send_the_requests_below_them(page: Path, recorder: Recorder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.backends.dynamodb.tables._PAUSES", (0.0,) * 50)
    made, written = rewritten(page, recorder), page.read_text(encoding="utf-8")
    if os.environ.get("ODM_GOLDEN") == "write":
        page.write_text(made, encoding="utf-8")
    elif made != written:
        difference = difflib.unified_diff(written.splitlines(), made.splitlines(), "written", "sent", lineterm="")
        pytest.fail("\n".join([*difference, f"where that is right: {REWRITE}"]), pytrace=False)


def test_there_are_pages() -> None:
    assert [page.name for page in PAGES] == ["dynamodb_cases.md", "dynamodb_requests.md"]
