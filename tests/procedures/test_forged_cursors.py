"""Cursors that a client forges: any change of what they hold is refused, or reads what the query may read."""

import base64
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import AccessPattern, BadCursor, Cell, Entity, PrimaryKey, Shards, Store, Table, collection
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.emulator import Emulator
from odm.backends.local import LocalFile, Memory
from odm.protocol.connection import Backend
from tests.effort import times

pytestmark = pytest.mark.slow

forged = Table("forged")


class Note(Entity, table=forged):
    room: str
    number: int
    kind: str = "a"

    primary = PrimaryKey("ROOM#{room}", "NOTE#{number}")
    by_kind = AccessPattern("KIND#{kind}", "{room}#{number}")
    by_shard = AccessPattern("SHARD#{kind}", "{room}#{number}", shards=Shards(3, by="number"))


forged_bytes = Table("forged.bytes", row_style="verbatim", row_key_join="")


class Reading(Entity, table=forged_bytes):
    """Its row keys on Bigtable are bytes."""

    sensor: str
    at: int
    value: Annotated[int, Cell("t:value", "int64be")] = 0

    primary = PrimaryKey("{sensor}#", "{at:int64be:desc}")


READINGS = [Reading(sensor=sensor, at=at) for sensor in ("é", "y") for at in (0, 255, 256, 2**40, 2**63 - 1)]

NOTES = [Note(room=room, number=number, kind="ab"[number % 2]) for room in ("x", "y") for number in range(6)]
MINE = Note.primary(room="x")

QUERIES: dict[str, Any] = {
    "page": MINE,
    "reversed": MINE.reverse(),
    "limited": MINE.limit(4),
    "filtered": MINE.where(Note.kind == "a"),
    "range": MINE.where(Note.number >= 2, Note.number < 5),
    "index": Note.by_kind(kind="a"),
    "sharded": Note.by_shard(kind="a"),
    "sharded, reversed": Note.by_shard(kind="a").reverse().limit(5),
    "collection": collection(MINE),
}


def payload(cursor: str) -> Any:
    raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    return json.loads(raw[16:])


def sealed(body: Any) -> str:
    """A cursor with a right checksum, as any client can make it where there is no secret."""
    text = json.dumps(body).encode()
    return base64.urlsafe_b64encode(hashlib.sha256(text).digest()[:16] + text).rstrip(b"=").decode()


NUMBERS = [-(2**63), -1, 0, 1, 2, 5, 2**31, 2**32, 2**53, 2**63 - 1, 2**63, 2**64, 2**64 + 1, 10**30, 10**4000]
LEAVES = (
    st.none()
    | st.booleans()
    | st.sampled_from(NUMBERS)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from(
        [
            "",
            "-",
            "ROOM#x",
            "ROOM#y",
            "ROOM#x#",
            "NOTE#",
            "KIND#a",
            "~",
            "\0",
            "\xff",
            "\u0100",
            "\ud800",
            "x" * 5000,
            "#",
            "￿",
        ]
    )
    | st.text(max_size=5)
)
VALUES = LEAVES | st.recursive(
    LEAVES, lambda some: st.lists(some, max_size=4) | st.dictionaries(st.text(max_size=2), some), max_leaves=6
)


def places(body: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of each part of a payload."""
    yield path
    if isinstance(body, list):
        for index, part in enumerate(body):
            yield from places(part, (*path, index))


def changed(body: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(body)
    return [changed(part, path[1:], change) if index == path[0] else part for index, part in enumerate(body)]


def _replaced(value: Any, _: Any) -> Any:
    return value


def _shortened(part: Any) -> Any:
    return part[:-1] if isinstance(part, list | str) else part


def _lengthened(value: Any, part: Any) -> Any:
    if isinstance(part, list):
        return [*part, value]
    return part + value if isinstance(part, str) and isinstance(value, str) else part


def _reversed(part: Any) -> Any:
    return part[::-1] if isinstance(part, list | str) else part


def mutated(data: st.DataObject, body: Any) -> Any:
    """The payload with one or two parts replaced, removed, repeated or swapped."""
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from([*places(body)]))
        value = data.draw(VALUES)
        changes: list[Callable[[Any], Any]] = [
            partial(_replaced, value),
            _shortened,
            partial(_lengthened, value),
            _reversed,
        ]
        body = changed(body, path, data.draw(st.sampled_from(changes)))
    return body


@pytest.fixture(scope="module", params=["memory", "file", "bigtable"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    if request.param == "bigtable":
        with Emulator() as running:
            yield Bigtable("p", "i", endpoint=running.address)
        return
    folder: Path = tmp_path_factory.mktemp("forged")
    yield Memory() if request.param == "memory" else LocalFile(folder / "shop.db")


@pytest.fixture(scope="module")
def db(backend: Backend) -> Iterator[Store]:
    with Store(forged, backend) as store:
        store.create()
        for note in NOTES:
            store.put(note)
        yield store


@pytest.fixture(scope="module")
def readings(backend: Backend) -> Iterator[Store]:
    with Store(forged_bytes, backend) as store:
        store.create()
        for reading in READINGS:
            store.put(reading)
        yield store


class Honest(NamedTuple):
    """What a query reads, and cursors of it."""

    items: list[Any]
    cursors: list[str]


@pytest.fixture(scope="module")
def honest(db: Store) -> dict[str, Honest]:
    """By the name of a query; the same for every example, as nothing is written."""
    read = {}
    for name, query in QUERIES.items():
        pages = [page := db.page(query, size=2)]
        pages.append(db.page(query, size=2, after=page.cursor))
        cursors = [cursor for page in pages for cursor in (page.cursor, page.previous) if cursor is not None]
        # A forged cursor begins elsewhere: its page may have items that are behind the limit of the query.
        every = query if query.most is None else query.limit(100)
        read[name] = Honest([*db.query(every)], cursors)
    return read


@pytest.mark.parametrize("name", list(QUERIES))
@settings(max_examples=times(30, 2000), deadline=None)
@given(data=st.data())
def test_a_forged_cursor_of_a_query(db: Store, honest: dict[str, Honest], name: str, data: st.DataObject) -> None:
    query = QUERIES[name]
    cursor = sealed(mutated(data, payload(data.draw(st.sampled_from(honest[name].cursors)))))
    size = data.draw(st.integers(1, 10))
    try:
        page = db.page(query, size=size, after=cursor)
    except BadCursor:
        return
    # It begins elsewhere in the range: its items are some of the query, in its order, and no others.
    allowed = honest[name].items
    positions = [allowed.index(item) for item in page.items]
    assert positions == sorted(positions)
    assert len(page.items) <= (query.most or len(allowed))


@settings(max_examples=times(80, 5000), deadline=None)
@given(data=st.data())
def test_a_forged_cursor_of_a_scan(db: Store, data: st.DataObject) -> None:
    starts = db.parts(3)
    first = db.scan_page(starts[0], size=2)
    cursors = [*starts, *([] if first.cursor is None else [first.cursor])]
    cursor = sealed(mutated(data, payload(data.draw(st.sampled_from(cursors)))))
    try:
        page = db.scan_page(cursor, size=data.draw(st.integers(1, 5)))
    except BadCursor:
        return
    assert all(item in [db.raw_item(note) for note in NOTES] for item in page.items)


@pytest.mark.parametrize("turned", [False, True])
@settings(max_examples=times(30, 2000), deadline=None)
@given(data=st.data())
def test_a_forged_cursor_over_keys_of_bytes(readings: Store, turned: bool, data: st.DataObject) -> None:
    query = Reading.primary(sensor="é")
    query = query.reverse() if turned else query
    allowed = [*readings.query(query)]
    page = readings.page(query, size=2)
    start = readings.parts(2)[0]
    cursors = [cursor for cursor in (page.cursor, readings.page(query, size=2, after=page.cursor).previous) if cursor]
    cursor = sealed(mutated(data, payload(data.draw(st.sampled_from(cursors)))))
    try:
        positions = [allowed.index(item) for item in readings.page(query, size=3, after=cursor).items]
        assert positions == sorted(positions)
    except BadCursor:
        pass
    cursor = sealed(
        mutated(data, payload(data.draw(st.sampled_from([start, readings.scan_page(start).cursor or start]))))
    )
    try:
        items = readings.scan_page(cursor, size=3).items
        assert all(item in [readings.raw_item(one) for one in READINGS] for item in items)
    except BadCursor:
        pass


@pytest.mark.parametrize("number", [2**31, 2**63, 2**64, 10**30])
def test_numbers_of_a_scan_that_are_too_large(db: Store, number: int) -> None:
    for part in ([number, number + 1], [0, number]):
        cursor = sealed([["scan", forged.name, db.backend.name], part, None, None])
        with pytest.raises(BadCursor, match="the cursor"):
            db.scan_page(cursor)


def test_a_limit_of_another_query(db: Store) -> None:
    """A client cannot read more than the query allows."""
    page = db.page(MINE.limit(3), size=1)
    assert page.cursor is not None
    for left in (4, 2**64, None):
        body = payload(page.cursor)
        body[2] = left
        with pytest.raises(BadCursor):
            db.page(MINE.limit(3), after=sealed(body))
