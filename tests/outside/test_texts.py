"""Text from outside is read, or raises an OdmError: cursors, lock files, state files, stream records, places."""

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from unittest import mock
from uuid import uuid4

import boto3
import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as example_settings
from hypothesis import strategies as st

from odm import OdmError, Store
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.streams import decode, decode_all
from odm.backends.local import LocalFile, Memory
from odm.cli.locations import store_at
from odm.patterns.copy_state import State
from odm.procedures.reading.cursor import sealed
from odm.schema.lockfile import FORMAT, LockFile, TableLock, compare, describe, read_lock, write_lock
from tests.effort import times
from tests.shop import Customer, Order, shop

pytestmark = pytest.mark.slow

DEEP: Final = 100_000
"""Levels of nesting that Python's JSON parser cannot follow."""

QUERY: Final = Order.primary(customer_id="c")

TEXTS = st.text(st.characters(codec=None), max_size=8) | st.sampled_from(["scan", "", "ORDER#o1", "\ud800", "\0", "é"])
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | TEXTS
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=3))


@pytest.fixture(scope="module", params=["memory", "file", "dynamodb", "bigtable"])
def db(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    def dynamodb() -> DynamoDB:
        session = boto3.Session(uuid4().hex, "secret", region_name="eu-west-1")
        return DynamoDB(session, endpoint_url=request.getfixturevalue("dynamodb_local"))

    backends: dict[str, Callable[[], Any]] = {
        "memory": Memory,
        "file": lambda: LocalFile(tmp_path_factory.mktemp("texts") / "shop.db"),
        "dynamodb": dynamodb,
        "bigtable": lambda: Bigtable("texts", "texts", endpoint=request.getfixturevalue("bigtable_emulator")),
    }
    with Store(shop, backends[request.param]()) as store:
        store.create()
        for number in range(4):
            store.put(Order(customer_id="c", order_id=f"o{number}"))
            store.put(Customer(customer_id=f"c{number}"))
        yield store
        store.drop()


def content(cursor: str | None) -> Any:
    """The JSON in an unsigned cursor."""
    assert cursor is not None
    return json.loads(base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))[16:])


def changed(value: Any, data: st.DataObject) -> Any:
    """The value with something else in one place."""
    if isinstance(value, list | dict) and value and data.draw(st.integers(0, 3)):
        at = data.draw(st.sampled_from(sorted(value) if isinstance(value, dict) else range(len(value))))
        value[at] = changed(value[at], data)
        return value
    return data.draw(VALUES)


def survives(call: Callable[[], Any]) -> None:
    """Make a call, which may raise an OdmError and nothing else."""
    with suppress(OdmError):
        call()


fuzzed = example_settings(
    max_examples=times(60, 600), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@fuzzed
@given(st.data())
def test_a_cursor_that_anybody_made(db: Store, data: st.DataObject) -> None:
    first = db.page(QUERY, size=2)
    cursors = [first.cursor, db.page(QUERY, size=2, after=first.cursor).previous]
    body = changed(content(data.draw(st.sampled_from(cursors))), data)
    survives(lambda: db.page(QUERY, size=2, after=sealed(body, None)))


@fuzzed
@given(st.data())
def test_a_cursor_of_a_scan_that_anybody_made(db: Store, data: st.DataObject) -> None:
    cursors = [db.scan_page(size=2).cursor, *db.parts(2)]
    body = changed(content(data.draw(st.sampled_from(cursors))), data)
    survives(lambda: db.scan_page(sealed(body, None), size=2))


def test_a_cursor_that_is_nested_too_deep(db: Store) -> None:
    with mock.patch("odm.procedures.reading.cursor.json.dumps", return_value="[" * DEEP):
        cursor = sealed(None, None)
    survives(lambda: db.page(QUERY, after=cursor))
    survives(lambda: db.scan_page(cursor))


@fuzzed
@given(st.text(st.characters(codec=None)))
def test_a_cursor_that_is_no_cursor(text: str) -> None:
    store = Store(shop, Memory())
    survives(lambda: store.page(QUERY, after=text))
    survives(lambda: store.scan_page(text))


def lock() -> Any:
    """A lock file as JSON."""
    return json.loads(write_lock(LockFile(format=FORMAT, tables={"shop": describe(shop.compile())})))


@fuzzed
@given(st.data())
def test_a_lock_file(data: st.DataObject) -> None:
    text = json.dumps(changed(lock(), data))
    survives(lambda: _compared(read_lock(text, "odm.lock")))


def _compared(found: LockFile) -> None:
    now = describe(shop.compile())
    for held in found.tables.values():
        assert isinstance(held, TableLock)
        list(compare("shop", held, now))
        list(compare("shop", now, held))


def record() -> Any:
    """A record of a stream, as Lambda functions get it."""
    order = {name: {"S": text} for name, text in {"pk": "CUSTOMER#c", "sk": "ORDER#o", "_t": "Order"}.items()}
    fields = {name: {"S": text} for name, text in {"customer_id": "c", "order_id": "o", "status": "open"}.items()}
    image = {**order, **fields, "total": {"N": "1.50"}, "tags": {"L": [{"S": "x"}]}, "weight": {"N": "1"}}
    keys = {name: order[name] for name in ("pk", "sk")}
    what: dict[str, Any] = {"Keys": keys, "OldImage": image, "NewImage": {**image}, "SequenceNumber": "1"}
    arn = "arn:aws:dynamodb:eu-west-1:1:table/shop/stream/1"
    what["ApproximateCreationDateTime"] = 1_700_000_000
    identity = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}
    return {"eventName": "MODIFY", "eventSourceARN": arn, "userIdentity": identity, "dynamodb": what}


def test_the_record_is_one() -> None:
    change = decode(record(), shop)
    assert change is not None
    assert isinstance(change.new, Order)


@fuzzed
@given(st.data())
def test_a_stream_record(data: st.DataObject) -> None:
    survives(lambda: list(decode_all(changed({"Records": [record()]}, data), shop)))


@fuzzed
@given(st.data())
def test_the_state_of_a_copy(tmp_path: Path, data: st.DataObject) -> None:
    body = {"format": 1, "stores": ["a", "b"], "parts": [["x", 1], [None, 2]]}
    (tmp_path / "state").write_text(json.dumps(changed(body, data)), encoding="utf-8")
    survives(lambda: State(tmp_path / "state").load(["a", "b"]))


@pytest.mark.parametrize(
    "text", ["[" * DEEP, "{" * DEEP, "\ufeff{}", "9" * 10_000, '{"format": 1, "stores": 3}', "null"]
)
def test_files_that_are_damaged(tmp_path: Path, text: str) -> None:
    (tmp_path / "state").write_text(text, encoding="utf-8")
    survives(lambda: State(tmp_path / "state").load(["a", "b"]))
    survives(lambda: read_lock(text, "odm.lock"))


PARTS = ["dynamodb", "bigtable", "file", "", "a/b", "eu-west-1", "prefix", "profile", "endpoint_url", "endpoint", "["]
PLACES = st.builds("{}:{}?{}={}".format, *[st.sampled_from([*PARTS, "\0", "\ud800"])] * 4)


@fuzzed
@example("dynamodb:x?endpoint_url=http://[")
@given(st.text(st.characters(codec=None)) | PLACES)
def test_a_place(text: str) -> None:
    survives(lambda: store_at(text, shop)._session)
