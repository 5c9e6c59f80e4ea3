"""Arguments of wrong types, and values that are huge, deep or without a repr: each is an error of odm, and a short one.

A TypeError that odm raises itself is one too: for a call that Python would not accept, such as options by position.
"""

import math
import traceback
from collections.abc import Callable
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pytest

from odm import (
    AccessPattern,
    AsyncStore,
    BadValue,
    Entity,
    PrimaryKey,
    Revision,
    Store,
    Table,
    add_to,
    append,
    between,
    collection,
    contains,
    exists,
    field,
    increment,
    is_in,
    remove,
    select,
    set_,
    set_fields,
    starts_with,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.emulator import Emulator
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.errors import LONGEST_REPR, OdmError, brief

offices = Table("offices")


class Office(Entity, table=offices):
    city: str
    number: int
    at: datetime | None = None
    total: Decimal | None = None
    data: dict[str, Any] | None = None
    names: list[str] | None = None

    primary = PrimaryKey("CITY#{city}", "OFFICE#{number}")
    by_at = AccessPattern("AT#{city}", "{at}")


class Desk(Entity, table=offices):
    city: str
    desk_id: str
    floor: str
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("CITY#{city}", "DESK#{desk_id}")
    by_floor = AccessPattern("FLOOR#{floor}", "{desk_id}")


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("it has no repr")


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth):
        value = [value]
    return value


def nested_map(depth: int) -> Any:
    value: Any = {}
    for _ in range(depth):
        value = {"a": value}
    return value


HUGE = 10**6000
LONG = "x" * 1_000_000

ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    1.5,
    math.nan,
    math.inf,
    HUGE,
    2**64,
    "",
    LONG,
    "\ud800",
    "\0",
    b"x",
    b"\xff" * 10,
    nested(100_000),
    nested_map(5_000),
    [],
    {},
    (),
    set(),
    object,
    object(),
    NoRepr(),
    datetime.min,
    datetime.max,
    datetime.max.replace(tzinfo=timezone(-timedelta(hours=14))),
    datetime.min.replace(tzinfo=timezone(timedelta(hours=14))),
    date.max,
    Decimal("NaN"),
    Decimal("sNaN"),
    Decimal("1e999999"),
    Path("x"),
    timedelta.max,
    1j,
    range(3),
    Office,
    Office.by_at,
    Office.primary,
    Office.number,
    Office.number > 1,
    Office.model_construct(number=5),
    Office.model_construct(city="Rome", number="x"),
    Office.model_construct(),
    Desk.model_construct(city="Rome"),
    Desk.model_construct(city="Rome", desk_id="d"),
    Desk.model_construct(city="Rome", desk_id="d", floor="1", revision="x"),
    Desk.model_construct(),
]

KEY = Office.primary(city="Rome", number=1)
ALL = Office.primary(city="Rome")
OFFICE = Office(city="Rome", number=1)


def in_batch(db: Store, call: Callable[[Any], object]) -> None:
    with db.batch() as batch:
        call(batch)


def in_transaction(db: Store, call: Callable[[Any], object]) -> None:
    with db.transaction() as tx:
        call(tx)


CALLS: dict[str, Callable[[Store, Any], object]] = {
    "put": lambda db, odd: db.put(odd),
    "put when": lambda db, odd: db.put(OFFICE, when=odd),
    "insert": lambda db, odd: db.insert(odd),
    "get": lambda db, odd: db.get(odd),
    "get text": lambda db, odd: db.get(Office, city=odd, number=1),
    "get number": lambda db, odd: db.get(Office, city="Rome", number=odd),
    "get only": lambda db, odd: db.get(KEY, only=odd),
    "get one field": lambda db, odd: db.get(KEY, only=[odd]),
    "one": lambda db, odd: db.one(odd),
    "exists": lambda db, odd: db.exists(odd),
    "get_many": lambda db, odd: db.get_many(odd),
    "get_many of one": lambda db, odd: db.get_many([odd]),
    "update": lambda db, odd: db.update(odd, set_(Office.total, Decimal(1))),
    "update action": lambda db, odd: db.update(KEY, odd),
    "update when": lambda db, odd: db.update(KEY, set_(Office.total, Decimal(1)), when=odd),
    "update returning": lambda db, odd: db.update(KEY, set_(Office.total, Decimal(1)), returning=odd),
    "set number": lambda db, odd: db.update(KEY, set_(Office.total, odd)),
    "set data": lambda db, odd: db.update(KEY, set_(Office.data, odd)),
    "set member": lambda db, odd: db.update(KEY, set_(Office.data, {"a": odd})),
    "set list": lambda db, odd: db.update(KEY, set_(Office.names, odd)),
    "set time": lambda db, odd: db.update(KEY, set_(Office.at, odd)),
    "set path": lambda db, odd: db.update(KEY, set_(odd, 1)),
    "set_fields": lambda db, odd: db.update(KEY, *set_fields(Office, odd)),
    "set_fields of": lambda db, odd: db.update(KEY, *set_fields(odd, {})),
    "increment": lambda db, odd: db.update(KEY, increment(Office.total, odd)),
    "append": lambda db, odd: db.update(KEY, append(Office.names, odd)),
    "add_to": lambda db, odd: db.update(KEY, add_to(field("names"), odd)),
    "remove": lambda db, odd: db.update(KEY, remove(odd)),
    "merge": lambda db, odd: db.merge(odd, set_(Office.total, Decimal(1))),
    "merge action": lambda db, odd: db.merge(KEY, odd),
    "delete": lambda db, odd: db.delete(odd),
    "delete when": lambda db, odd: db.delete(KEY, when=odd),
    "delete key": lambda db, odd: db.delete(Office, city=odd, number=1),
    "delete_all": lambda db, odd: db.delete_all(odd),
    "query": lambda db, odd: list(db.query(odd)),
    "query only": lambda db, odd: list(db.query(ALL, only=odd)),
    "where": lambda db, odd: list(db.query(ALL.where(odd))),
    "where number": lambda db, odd: list(db.query(ALL.where(Office.total > odd))),
    "where data": lambda db, odd: list(db.query(ALL.where(Office.data == odd))),
    "where key": lambda db, odd: list(db.query(ALL.where(Office.number >= odd))),
    "where time": lambda db, odd: list(db.query(Office.by_at(city="Rome").where(Office.at > odd))),
    "between": lambda db, odd: list(db.query(ALL.where(between(Office.number, odd, odd)))),
    "is_in": lambda db, odd: list(db.query(ALL.where(is_in(Office.total, odd)))),
    "is_in one": lambda db, odd: list(db.query(ALL.where(is_in(Office.total, [odd])))),
    "starts_with": lambda db, odd: list(db.query(ALL.where(starts_with(Office.city, odd)))),
    "contains": lambda db, odd: list(db.query(ALL.where(contains(Office.names, odd)))),
    "limit": lambda db, odd: list(db.query(ALL.limit(odd))),
    "pattern": lambda db, odd: list(db.query(Office.by_at(city=odd))),
    "pattern time": lambda db, odd: list(db.query(Office.by_at(city="Rome", at=odd))),
    "collection": lambda db, odd: list(db.query(collection(odd))),
    "collection kinds": lambda db, odd: list(db.query(collection(ALL, odd))),
    "select": lambda db, odd: list(db.query(select(odd))),
    "page": lambda db, odd: db.page(odd),
    "page size": lambda db, odd: db.page(ALL, size=odd),
    "page after": lambda db, odd: db.page(ALL, after=odd),
    "page max_requests": lambda db, odd: db.page(ALL, max_requests=odd),
    "first": lambda db, odd: db.first(odd),
    "count": lambda db, odd: db.count(odd),
    "scan": lambda db, odd: list(db.scan(odd)),
    "scan condition": lambda db, odd: list(db.scan(Office, odd)),
    "scan segments": lambda db, odd: list(db.scan(segments=odd)),
    "scan segment": lambda db, odd: list(db.scan(segment=odd)),
    "scan segment of": lambda db, odd: list(db.scan(segment=(odd, odd))),
    "scan sample": lambda db, odd: list(db.scan(sample=odd)),
    "scan only": lambda db, odd: list(db.scan(Office, only=odd)),
    "scan prefix": lambda db, odd: list(db.scan(Office, prefix=odd)),
    "scan prefix value": lambda db, odd: list(db.scan(Office, prefix={"city": odd})),
    "scan start": lambda db, odd: list(db.scan(Office, start={"city": odd})),
    "scan stop": lambda db, odd: list(db.scan(Office, stop=odd)),
    "scan_page": lambda db, odd: db.scan_page(odd),
    "scan_page size": lambda db, odd: db.scan_page(size=odd),
    "scan_page where": lambda db, odd: db.scan_page(where=odd),
    "parts": lambda db, odd: db.parts(odd),
    "put_raw": lambda db, odd: db.put_raw(odd),
    "put_raw item": lambda db, odd: db.put_raw([odd]),
    "batch": lambda db, odd: db.batch(parallel=odd),
    "batch put": lambda db, odd: in_batch(db, lambda batch: batch.put(odd)),
    "batch delete": lambda db, odd: in_batch(db, lambda batch: batch.delete(odd)),
    "batch merge": lambda db, odd: in_batch(db, lambda batch: batch.merge(odd)),
    "batch merge action": lambda db, odd: in_batch(db, lambda batch: batch.merge(KEY, odd)),
    "transaction put": lambda db, odd: in_transaction(db, lambda tx: tx.put(odd)),
    "transaction insert": lambda db, odd: in_transaction(db, lambda tx: tx.insert(odd)),
    "transaction delete": lambda db, odd: in_transaction(db, lambda tx: tx.delete(odd)),
    "transaction update": lambda db, odd: in_transaction(db, lambda tx: tx.update(odd, set_(Office.total, Decimal(1)))),
    "transaction action": lambda db, odd: in_transaction(db, lambda tx: tx.update(KEY, odd)),
    "transaction check": lambda db, odd: in_transaction(db, lambda tx: tx.check(odd, exists(Office.number))),
    "transaction condition": lambda db, odd: in_transaction(db, lambda tx: tx.check(KEY, odd)),
    "key_of": lambda db, odd: db.key_of(odd),
    "new_id": lambda db, odd: db.new_id(odd),
    "assigned": lambda db, odd: db.assigned(odd),
    "start": lambda db, odd: db.start(odd),
    "seal": lambda db, odd: db.seal(odd),
    "unseal": lambda db, odd: db.unseal(odd),
    "raw_item": lambda db, odd: db.raw_item(odd),
    "explain": lambda db, odd: db.explain(odd),
    "explain action": lambda db, odd: db.explain(KEY, odd),
    "explain write": lambda db, odd: db.explain(OFFICE, write=odd),
    "list_tables": lambda db, odd: db.list_tables(odd),
    "reshard": lambda db, odd: db.reshard(odd),
    "backfill": lambda db, odd: db.backfill(odd),
    "backfill rate": lambda db, odd: db.backfill(Office, rate=odd),
    "backfill after": lambda db, odd: db.backfill(Office, after=odd),
    "backfill size": lambda db, odd: db.backfill(Office, size=odd),
    "sweep grace": lambda db, odd: db.sweep(grace=odd),
    "cell_versions": lambda db, odd: db.cell_versions(odd, Office.total),
    "cell_versions field": lambda db, odd: db.cell_versions(KEY, odd),
    "with_options timeout": lambda db, odd: db.with_options(timeout=odd),
    "with_options retries": lambda db, odd: db.with_options(retries=odd),
    "with_options retry_safe": lambda db, odd: db.with_options(retry_safe=odd),
    "Store table": lambda _, odd: Store(odd, Memory()),
    "Store backend": lambda _, odd: Store(offices, odd),
    "Store prefix": lambda _, odd: Store(offices, Memory(), prefix=odd),
    "Store name": lambda _, odd: Store(offices, Memory(), name=odd),
    "Store cursor_secret": lambda _, odd: Store(offices, Memory(), cursor_secret=odd),
    "Store limits": lambda _, odd: Store(offices, Memory(), limits=odd),
    "Store on_unknown": lambda _, odd: Store(offices, Memory(), on_unknown=odd),
    "Store on_request": lambda _, odd: Store(offices, Memory(), on_request=odd),
    "Store random": lambda _, odd: Store(offices, Memory(), random=odd),
    "Store blobs": lambda _, odd: Store(offices, Memory(), blobs=odd),
    "AsyncStore cursor_secret": lambda _, odd: AsyncStore(offices, Memory(), cursor_secret=odd),
    "Table": lambda _, odd: Table(odd),
    "LocalFile": lambda _, odd: LocalFile(odd),
    "LocalFile timeout": lambda _, odd: LocalFile("x", timeout=odd),
    "LocalFile page_bytes": lambda _, odd: LocalFile("x", page_bytes=odd),
    "Memory index_lag": lambda _, odd: Memory(index_lag=odd),
    "Memory changes": lambda _, odd: Memory(changes=odd),
    "DynamoDB region": lambda _, odd: DynamoDB(region=odd),
    "DynamoDB endpoint_url": lambda _, odd: DynamoDB(endpoint_url=odd),
    "DynamoDB billing": lambda _, odd: DynamoDB(billing=odd),
    "DynamoDB stream": lambda _, odd: DynamoDB(stream=odd),
    "DynamoDB config": lambda _, odd: DynamoDB(config=odd),
    "DynamoDB session": lambda _, odd: DynamoDB(odd),
    "Bigtable project": lambda _, odd: Bigtable(odd, "i"),
    "Bigtable instance": lambda _, odd: Bigtable("p", odd),
    "Bigtable endpoint": lambda _, odd: Bigtable("p", "i", endpoint=odd),
    "Bigtable app_profile": lambda _, odd: Bigtable("p", "i", app_profile=odd),
    "Bigtable layout": lambda _, odd: Bigtable("p", "i", layout=odd),
    "Bigtable stream": lambda _, odd: Bigtable("p", "i", stream=odd),
    "Bigtable abort_after": lambda _, odd: Bigtable("p", "i", abort_after=odd),
    "Bigtable initial_splits": lambda _, odd: Bigtable("p", "i", initial_splits=odd),
    "Bigtable transactions": lambda _, odd: Bigtable("p", "i", transactions=odd),
}


def error_of(call: Callable[[], object]) -> Exception | None:
    try:
        call()
    except Exception as error:  # noqa: BLE001  # the test decides
        return error
    return None


def is_raised_here(error: Exception) -> bool:
    """Whether it is a TypeError that a statement of odm raised, not Python."""
    if not isinstance(error, TypeError):
        return False
    last = traceback.extract_tb(error.__traceback__)[-1]
    return "raise" in (last.line or "") and "/tests/" not in last.filename


@pytest.mark.parametrize("name", list(CALLS))
def test_odd_arguments_raise_short_errors_of_odm(name: str) -> None:
    db = Store(offices, Memory())
    db.create()
    db.put(OFFICE)
    for odd in ODD:
        error = error_of(lambda: CALLS[name](db, odd))  # noqa: B023  # called at once
        assert error is None or isinstance(error, OdmError) or is_raised_here(error), traceback.format_exception(error)
        assert error is None or len(str(error)) < 10 * LONGEST_REPR, (name, str(error)[:200])
    db.close()


@pytest.mark.parametrize(
    "url", ["http://a:99999", "http://a:x", "http://a:-1", "http://a:0", "http://:80", "http://[::1"]
)
def test_a_wrong_port_or_host_is_no_url(url: str) -> None:
    with pytest.raises(BadValue, match=r"endpoint_url=.* is not a URL: write it like 'http://localhost:8000'"):
        DynamoDB(endpoint_url=url)


@pytest.mark.parametrize(
    "address", ["localhost:99999", "localhost:x", "localhost:-1", "localhost:0", "localhost:", ":80"]
)
def test_a_wrong_port_of_an_emulator(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BadValue, match="the port is a number from 1 to 65535"):
        Store(offices, Bigtable("p", "i", endpoint=address)).get(KEY)
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", address)
    with pytest.raises(BadValue, match="the port is a number from 1 to 65535"):
        Store(offices, Bigtable("p", "i")).get(KEY)


@pytest.mark.parametrize("address", ["localhost", "localhost:8086", "[::1]:8086", "[::1]", "unix:/tmp/emulator"])
def test_addresses_of_an_emulator(address: str) -> None:
    assert str(Store(offices, Bigtable("p", "i", endpoint=address)).explain(KEY))


@pytest.mark.parametrize("options", [{"port": 99999}, {"port": "x"}, {"port": -1}, {"host": "\ud800"}, {"host": None}])
def test_a_wrong_port_or_host_of_the_own_emulator(options: dict[str, Any]) -> None:
    with pytest.raises(BadValue, match="pass"):
        Emulator(**options)


def test_a_secret_with_a_surrogate_is_refused_without_showing_it() -> None:
    for store in (Store, AsyncStore):
        with pytest.raises(BadValue, match="cursor_secret= has a lone surrogate") as caught:
            store(offices, Memory(), cursor_secret="hush\ud800")
        assert "hush" not in "".join(traceback.format_exception_only(caught.value))
        assert caught.value.__cause__ is None


@pytest.mark.parametrize("path", [None, 7, b"shop.db", Path, HUGE], ids=["None", "7", "bytes", "a class", "huge"])
def test_a_path_is_a_text_or_a_path(path: Any) -> None:
    with pytest.raises(BadValue, match=r"LocalFile\(.*\): give the path of a file, as str or pathlib.Path"):
        LocalFile(path)


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000 + "x"], ids=["name", "path"])
def test_a_path_that_is_too_long(name: str, tmp_path: Path) -> None:
    with pytest.raises(OdmError, match="file "):
        Store(offices, LocalFile(tmp_path / name)).create()


def test_short_values_have_their_own_repr() -> None:
    for value in (None, 1, "x", b"x", [1, {"a": (2,)}], {1}, Decimal("1.5"), Office.number, math.inf, 10**100):
        assert brief(value) == repr(value)
    assert brief(nested(100_000)) == "[[[[[[[...]]]]]]]"
    assert len(brief(LONG)) < LONGEST_REPR
    assert brief(HUGE) == "<an int of 19932 bits>"
    assert brief(NoRepr()) == "<a NoRepr>"
    assert len(brief([[LONG] * 100] * 100)) <= LONGEST_REPR
