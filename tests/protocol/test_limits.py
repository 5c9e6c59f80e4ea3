"""Sizes as DynamoDB counts them, and the portable limits of keys and items."""

import uuid
from contextlib import suppress
from decimal import Decimal
from typing import Any

import boto3
import pytest

from odm import AccessPattern, Entity, PrimaryKey, Store, Table, set_
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.codec import compile_codec
from odm.errors import ItemTooLarge, KeyValueError
from odm.procedures.context import Context
from odm.procedures.writing.write import put_request
from odm.protocol.limits import TRANSACTION_BYTES, Limits, check_item, check_keys, item_size, stored_size
from odm.schema.entity import Key
from tests.shop import Leaf, Reading, day, leaves, store


@pytest.mark.parametrize(
    ("item", "size"),
    [
        ({}, 0),
        ({"é": "😀a"}, 2 + 5),
        ({"b": b"123"}, 1 + 3),
        ({"t": True, "n": None}, 2 + 2),
        ({"n": 0}, 1 + 1),
        ({"n": 1}, 1 + 2),
        ({"n": 27}, 1 + 2),
        ({"n": -27}, 1 + 3),
        ({"n": 461}, 1 + 3),
        ({"n": 46100}, 1 + 3),
        ({"n": Decimal("0.00461")}, 1 + 3),
        ({"n": Decimal("1E-130")}, 1 + 2),
        ({"n": 10**38 - 1}, 1 + 20),
        ({"l": []}, 1 + 3),
        ({"l": ["ab", 1]}, 1 + 3 + 2 + 4),
        ({"m": {"k": "ab"}}, 1 + 3 + 1 + 1 + 2),
        ({"s": frozenset({"ab", "c"})}, 1 + 3),
    ],
)
def test_item_size(item: dict[str, Any], size: int) -> None:
    assert item_size(item) == size


def test_keys_at_their_limits_pass() -> None:
    key = Key("é" * 1024, "s" * 1024)
    check_keys(Key("p" * 1018), {"by_x": key})


@pytest.mark.parametrize(
    ("key", "message"),
    [
        (Key("é" * 1024 + "p"), "the partition part of the key has 2049 bytes, and 2048 are the most"),
        (Key("p", "s" * 1025), "the sort part of the key has 1025 bytes, and 1024 are the most"),
    ],
)
def test_a_key_over_its_limit_is_refused(key: Key, message: str) -> None:
    with pytest.raises(ItemTooLarge, match=message):
        check_item({}, key, {})
    with pytest.raises(ItemTooLarge, match=message.replace("key", "key of index 'by_x'")):
        check_keys(Key("p"), {"by_x": key})


def test_an_empty_partition_is_refused() -> None:
    with pytest.raises(KeyValueError, match="the partition part of the key is empty"):
        check_keys(Key("", "s"), {})
    with pytest.raises(KeyValueError, match="the partition part of the key of index 'by_x' is empty"):
        check_keys(Key("p"), {"by_x": Key("")})


def test_an_index_key_and_the_key_of_its_item_have_a_limit_together() -> None:
    index_key = Key("x" * 2048, "y" * 1024)
    check_keys(Key("p" * 1018), {"by_x": index_key})
    with pytest.raises(ItemTooLarge, match="key of index 'by_x' and the key of its item have together 4091 bytes"):
        check_keys(Key("p" * 1018, "s"), {"by_x": index_key})


def test_both_parts_of_a_key_have_a_limit_together() -> None:
    limits = Limits(key_bytes=5)
    check_keys(Key("ppp", "ss"), {}, limits=limits)
    with pytest.raises(ItemTooLarge, match="have together 6 bytes, and 5 are the most"):
        check_keys(Key("ppp", "sss"), {}, limits=limits)


def test_an_item_counts_with_its_names_and_keys() -> None:
    key, entries = Key("p" * 10, "s" * 10), {"by_x": Key("x" * 10, "y" * 10)}
    overhead = len("text") + len("pkskby_xpkby_xsk") + 40
    check_item({"text": "x" * (400 * 1024 - overhead)}, key, entries)
    with pytest.raises(ItemTooLarge, match=r"has 409601 bytes .*, and 409600 are the most; .*'text' with 409541 bytes"):
        check_item({"text": "x" * (400 * 1024 - overhead + 1)}, key, entries)


def test_the_entity_and_the_fields_of_a_long_key_are_named() -> None:
    reading = Reading(sensor="s" * 1025, at=day(1))
    db = store()
    with pytest.raises(
        ItemTooLarge, match=r"sort part of the key of index 'by_hour' \(Reading.by_hour, made of at, sensor\)"
    ):
        db.put(reading)
    assert not db.exists(Reading, sensor=reading.sensor, at=reading.at)


@pytest.mark.parametrize(
    "part",
    [
        None,
        10**38 - 1,
        -Decimal("0.11111111111111111111111111111111111111"),
        "😀",
        "a",
        b"",
        [],
        [[]],
        {"": None},
        {"😀": {}},
        frozenset({10**37 + 1, 10**37 + 3}),
    ],
    ids=str,
)
def test_the_quick_look_passes_nothing_over_the_limit(part: Any) -> None:
    enough = 409_600 // (item_size({"l": [part, part]}) - item_size({"l": [part]})) + 1
    for item in ({"l": [part] * enough}, {str(number): part for number in range(enough)}):
        with pytest.raises(ItemTooLarge):
            check_item(item, Key("p"), {})


def test_index_keys_count_in_the_quick_look() -> None:
    entries = {f"{number:0200}": Key("p" * 200, "s" * 56) for number in range(800)}
    with pytest.raises(ItemTooLarge):
        check_item({"n": 1}, Key("p"), entries)
    check_item({"n": 1}, Key("p"), dict(list(entries.items())[:600]))


def test_a_local_index_has_the_partition_key_of_the_item() -> None:
    names = len("pksk") + len("_towner") + len("nametext") + len("by_textsk")
    values = len("Leaf") + 2 * 2000 + 2 * len("n") + len("N#n")  # the owner and the name as fields and in keys
    entry = len("pksk") + 2000 + len("n") + len("by_textsk") + len("N#n")
    _check_largest(Leaf, leaves, Leaf(owner="o" * 2000, name="n", text="x" * (400 * 1024 - names - values - entry)))


def test_an_item_counts_with_what_local_indexes_hold_of_it() -> None:
    table = Table("local")

    class Note(Entity, table=table):
        owner: str
        name: str
        text: str = ""
        more: str = ""
        rank: str | None = None

        primary = PrimaryKey("{owner}", "{name}")
        whole = AccessPattern("{owner}", "W#{name}", local=True)
        part = AccessPattern("{owner}", "P#{name}", local=True, projection=("more",))
        sparse = AccessPattern("{owner}", "{rank}", local=True)

    keys = len("pksk") + len("on") + len("wholesk") + len("W#n") + len("partsk") + len("P#n")
    item = keys + len("_tNote") + len("ownero") + len("namen") + len("text") + len("more") + 1000
    part = len("pksk") + len("on") + len("partsk") + len("P#n") + len("_tNote") + len("more") + 1000
    most = (400 * 1024 - part) // 2 - item
    note = Note(owner="o", name="n", text="x" * most, more="y" * 1000)
    _check_largest(Note, table, note)


def test_dynamodb_counts_what_local_indexes_hold(dynamodb_local: str) -> None:
    table = Table("local")

    class Note(Entity, table=table):
        owner: str
        text: str = ""

        primary = PrimaryKey("{owner}", "NOTE")
        whole = AccessPattern("{owner}", "W", local=True)

    item = len("pksk") + len("oNOTE") + len("wholesk") + len("W") + len("_tNote") + len("ownero") + len("text")
    largest = Note(owner="o", text="x" * (200 * 1024 - item))
    larger = largest.model_copy(update={"text": f"{largest.text}x"})
    session = boto3.Session(aws_access_key_id=uuid.uuid4().hex, aws_secret_access_key="secret", region_name="x-1")
    with Store(table, DynamoDB(session, endpoint_url=dynamodb_local)) as db:
        db.create()
        db.put(largest)
        with pytest.raises(ItemTooLarge, match="409602 bytes"):
            db.put(larger)
        _, _, unchecked = put_request(Context(table.compile(), limits=Limits(item_bytes=None)), larger)
        with pytest.raises(ItemTooLarge, match="Item size has exceeded"):
            db._call()[1](unchecked)


def _check_largest(entity: Any, table: Table, largest: Any) -> None:
    """One character more is too many, in a put as in an update."""
    too_large = r"40960\d bytes .*, \d+ of them in local indexes, and 409600 are"
    db = Store(table, Memory())
    db.create()
    db.put(largest)
    db.update(largest, set_(entity.text, largest.text))
    with pytest.raises(ItemTooLarge, match=too_large):
        db.put(largest.model_copy(update={"text": f"{largest.text}x"}))
    with pytest.raises(ItemTooLarge, match=too_large):
        db.update(largest, set_(entity.text, f"{largest.text}x"))


_ROWS = Table("rows")


class Row(Entity, table=_ROWS):
    """Round numbers, which are shorter in the store than as text."""

    row_id: int
    text: str = ""
    numbers: list[int] = [10**37] * 2000

    primary = PrimaryKey("ROW#{row_id}")


def abandon(store: Store, rows: list[Row]) -> None:
    """Put rows in a transaction that is not committed."""
    with suppress(_Stop), store.transaction() as tx:
        for row in rows:
            tx.put(row)
        raise _Stop


class _Stop(Exception):
    pass


@pytest.mark.parametrize("backend", [Memory(), DynamoDB()], ids=lambda backend: str(backend.name))
def test_a_transaction_is_measured_as_its_items_are_stored(backend: Any) -> None:
    rows = [Row(row_id=number, text="x" * 390_000) for number in range(10, 30)]
    item, key = compile_codec(Row, "Row").encode(rows[0]), Key(*Store(_ROWS, Memory()).key_of(rows[0]))
    size = stored_size(item, key, {})
    fitting = TRANSACTION_BYTES // size
    abandon(Store(_ROWS, backend), rows[:fitting])
    with pytest.raises(ItemTooLarge, match=f"have {(fitting + 1) * size} bytes"):
        abandon(Store(_ROWS, backend), rows[: fitting + 1])


def test_nothing_that_is_put_is_read_from_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.backends.dynamodb.items.codec.read_text", None)
    monkeypatch.setattr("odm.backends.dynamodb.driver.DynamoDBConnection.call", lambda *_: {"Responses": {}})
    db, row = Store(_ROWS, DynamoDB()), Row(row_id=1)
    db.put(row)
    with db.transaction() as tx:
        tx.put(row)
    with db.batch() as batch:
        batch.put(row)


@pytest.mark.parametrize(
    ("numbers", "size"),
    [
        ("0", 1),
        ("1 12 100 15 0.15 0.0000001 1E125 1E-100", 2),
        ("123 1234 1010 1.5 1.2 -42 0.015 110 11000", 3),
        ("123456 1.234 100.5", 4),
        ("3.14159", 5),
        ("12345678901234567890123456789012345678", 20),
        ("-1.2345678901234567890123456789012345678", 22),
    ],
)
def test_the_size_of_a_number_is_that_of_its_pairs_of_digits(numbers: str, size: int) -> None:
    """Measured on AWS by a public conformance suite; 0.015, 110 and 11000 on DynamoDB Local."""
    for number in map(Decimal, numbers.split()):
        canonical: Any = int(number) if number == number.to_integral_value() and number < 10**38 else number
        assert item_size({"": canonical}) == size, number
