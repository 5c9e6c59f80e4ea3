"""Defects that were reproduced in another mapper, one test each: none of them is here.

Numbers that are missing are defects that the conformance suite rules out with the same assertions.
"""

import ast
import os
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import Field

import odm
from odm import (
    AccessPattern,
    BackendError,
    BadValue,
    Conflict,
    Entity,
    ItemNotFound,
    KeyValueError,
    PrimaryKey,
    Revision,
    Store,
    Table,
    increment,
    set_,
)
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory

table = Table("defects")


class User(Entity, table=table):
    org: str
    user_id: str
    email: str | None = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("ORG#{org}", "USER#{user_id}")
    by_email = AccessPattern("EMAIL#{email}", "{user_id}")


class Invoice(Entity, table=table):
    org: str
    number: Annotated[int, Field(ge=0, lt=10**6)]
    serial: int = 0
    paid: bool = False

    primary = PrimaryKey("ORG#{org}", "INVOICE#{number}")
    by_serial = AccessPattern("SERIAL#{org}", "{serial}")


class Part(Entity, table=table):
    a: str
    b: str

    primary = PrimaryKey("PART#{a}#{b}")


class Blob(Entity, table=table):
    blob_id: str
    data: bytes = b""
    digests: set[bytes] = set()
    nested: dict[str, Any] = {}

    primary = PrimaryKey("BLOB#{blob_id}")


@pytest.fixture
def db(memory: Memory) -> Store:
    store = Store(table, memory)
    store.create()
    return store


@pytest.fixture
def each(backend: Memory | DynamoDB) -> Store:
    """A store on memory, and one on DynamoDB."""
    store = Store(table, backend)
    store.create()
    return store


def test_1_hash_in_a_value_does_not_collide_two_entities(db: Store) -> None:
    one, other = Part(a="x#y", b="z"), Part(a="x", b="y#z")
    db.insert(one)
    db.insert(other)
    assert db.get(Part, a="x#y", b="z") == one
    assert db.get(Part, a="x", b="y#z") == other


def test_3_ints_sort_as_numbers(db: Store) -> None:
    for number in (9, 10, 1, 100):
        db.put(Invoice(org="o", number=number, serial=-number))
    assert [invoice.number for invoice in db.query(Invoice.primary(org="o"))] == [1, 9, 10, 100]
    assert [invoice.serial for invoice in db.query(Invoice.by_serial(org="o"))] == [-100, -10, -9, -1]


def test_6_an_update_of_an_index_field_moves_the_entry_and_counts_the_revision(each: Store) -> None:
    user = each.put(User(org="o", user_id="u", email="old"))
    new = each.update(User.primary(org="o", user_id="u"), set_(User.email, "new"), returning="new")
    assert list(each.query(User.by_email(email="old"))) == []
    assert list(each.query(User.by_email(email="new"))) == [new]
    with pytest.raises(Conflict):
        each.put(user)


def test_7_an_update_of_a_missing_key_makes_no_ghost(each: Store) -> None:
    with pytest.raises(ItemNotFound):
        each.update(Invoice.primary(org="o", number=1), increment(Invoice.serial))
    assert list(each.scan()) == []


def test_8_bytes_come_back_as_bytes(each: Store) -> None:
    blob = Blob(blob_id="b", data=b"\x00\xff", digests={b"a", b"\x80"}, nested={"x": [b"y"]})
    each.put(blob)
    found = each.one(Blob, blob_id="b")
    assert found == blob
    assert type(found.data) is bytes
    assert type(found.nested["x"][0]) is bytes


def test_9_a_nested_empty_set_is_refused_before_it_is_sent(each: Store) -> None:
    with pytest.raises(BadValue, match=r"Blob\.nested\.x"):
        each.put(Blob(blob_id="b", nested={"x": set()}))
    assert not each.exists(Blob, blob_id="b")


def test_10_no_vendors_error_reaches_the_user(dynamodb: DynamoDB) -> None:
    db = Store(table, dynamodb)  # not created
    key = Invoice.primary(org="o", number=1)
    for use in (
        lambda: db.get(key),
        lambda: db.get_many([key]),
        lambda: list(db.query(Invoice.primary(org="o"))),
        lambda: db.count(Invoice.by_serial(org="o")),
        lambda: list(db.scan()),
        lambda: db.put(Invoice(org="o", number=1)),
        lambda: db.update(key, set_(Invoice.paid, True)),
        lambda: db.delete(key),
        lambda: db.delete_all(Invoice.primary(org="o")),
    ):
        with pytest.raises(BackendError) as caught:
            use()
        assert type(caught.value.__cause__).__module__.startswith("botocore")


def test_11_unknown_key_names_are_refused(db: Store) -> None:
    with pytest.raises(KeyValueError, match="nope"):
        User.primary(nope=1)  # type: ignore[call-arg]
    with pytest.raises(KeyValueError, match="nope"):
        User.primary(org="o", nope=1)  # type: ignore[call-arg]


@pytest.mark.slow
def test_12_no_private_module_of_a_vendor_is_imported() -> None:
    assert odm.__file__ is not None
    imported: set[str] = set()
    folders = os.walk(Path(odm.__file__).parent, followlinks=True)
    sources = [Path(folder, name) for folder, _, names in folders for name in names if name.endswith(".py")]
    for source in sources:
        for node in ast.walk(ast.parse(source.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module:
                imported |= {f"{node.module}.{alias.name}" for alias in node.names}
            elif isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
    assert "boto3" in imported  # the backends were read too
    vendors = [name for name in imported if not name.startswith("odm.")]
    assert [
        name for name in vendors if any(part.startswith("_") and not part.endswith("__") for part in name.split("."))
    ] == []
