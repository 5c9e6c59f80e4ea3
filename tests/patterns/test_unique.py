"""Unique values: invalid declarations, and concurrent writers of one value."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from functools import partial
from pathlib import Path
from types import new_class
from typing import Annotated, Any
from uuid import uuid4

import boto3
import pytest
from pydantic import computed_field

from odm import (
    TTL,
    AsyncStore,
    Backend,
    BadValue,
    Conflict,
    Entity,
    ItemExists,
    ItemInvalid,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.patterns.claims import LEASE
from odm.patterns.unique import Unique
from odm.procedures.calls import Calls
from odm.protocol import requests as req
from odm.protocol.connection import run
from odm.schema.entity import Key
from odm.testing import Clock
from odm.testing.stores import Watched
from odm.testing.suite.unique import Member, check, members
from tests.patterns.interleaving import OneByOne


def entity(unique: Unique, fields: dict[str, Any] | None = None, **options: Any) -> Table:
    """A table of one entity with this pattern."""
    table = Table("users")
    body = {
        "__module__": __name__,
        "__annotations__": {"user_id": str, "email": str, **(fields or {})},
        "primary": PrimaryKey("USER#{user_id}", "USER#{email}"),
        "unique": unique,
        "domain": computed_field(return_type=str)(property(lambda user: user.email.partition("@")[2])),
    }
    new_class("User", (Entity,), {"table": table, **options}, lambda names: names.update(body))
    return table


@pytest.mark.parametrize(
    ("table", "wrong"),
    [
        (entity(Unique()), r"User\.unique: Unique\(\): name the fields"),
        (entity(Unique("email", "email")), "each once"),
        (entity(Unique("mail")), r"User\.unique: User has no field 'mail': did you mean 'email'\?"),
        (entity(Unique("x")), "its fields are user_id, email"),
        (entity(Unique("domain")), "'domain': it is a computed field, which is not stored: declare a field that"),
        (entity(Unique("tags"), {"tags": list[str]}), r"User\.unique.*tags"),
        (entity(Unique("claimed_at"), {"claimed_at": str}), r"rename User\.claimed_at"),
        (entity(Unique("email"), {"until": Annotated[datetime, TTL]}), r"User\.unique: items expire by User\.until"),
        (entity(Unique("email"), keep=3), r"User: keep=3 deletes items"),
    ],
    ids=range(9),
)
def test_an_invalid_unique_value_is_refused_when_it_is_compiled(table: Table, wrong: str) -> None:
    with pytest.raises(SchemaError, match=wrong):
        table.compile()


def test_a_declaration_of_an_abstract_base_holds_for_each_entity_separately() -> None:
    table = Table("people")

    class Person(Entity):
        email: str
        unique_email = Unique("email")

    class Author(Person, table=table):
        primary = PrimaryKey("AUTHOR#{email}")

    class Reader(Person, table=table):
        number: int
        primary = PrimaryKey("READER#{number}")

    with Store(table, Memory()) as db:
        db.create()
        db.put(Author(email="a"))
        db.put(Reader(number=1, email="a"))
        assert db.get(Reader.unique_email(email="a")) == Reader(number=1, email="a")
        assert db.get(Author.unique_email(email="a")) == Author(email="a")
        with pytest.raises(ItemExists):
            db.put(Reader(number=2, email="a"))
    with pytest.raises(SchemaError, match="Person has no table of its own"):
        Person.unique_email(email="a")


def test_a_batch_is_refused() -> None:
    with Store(members, Memory()) as db, db.batch() as batch, pytest.raises(BadValue, match=r"Member\.unique_email"):
        batch.put(Member(member_id="a", email="a@x"))


def test_it_prints() -> None:
    assert repr(Unique("tenant", "name")) == "Unique('tenant', 'name')"
    assert repr(Member.unique_email) == "Member.unique_email"
    assert repr(Member.unique_email(email="A@x")) == "Member.unique_email(email='A@x')"


THREADS = 16


def in_threads(backend: Backend) -> None:
    """One of all writers gets the value; when its item is deleted, the value is free at once."""
    with Store(members, backend) as db:
        db.create()
        part = uuid4().hex  # the services keep items of earlier tests
        email = f"{part}@x"

        def join(number: int) -> Member | None:
            try:
                return db.insert(Member(member_id=f"{part}{number}", email=email))
            except (ItemExists, Conflict):
                return None

        with ThreadPoolExecutor(THREADS) as pool:
            for _ in range(2):
                joined = [member for member in pool.map(join, range(THREADS)) if member is not None]
                assert len(joined) == 1
                assert db.get(Member.unique_email(email=email)) == joined[0]
                assert db.delete(joined[0])
        db.insert(Member(member_id=part, email=email))
        db.delete(Member, member_id=part)
        assert not db.exists(Member.unique_email.claim(email=email))


def test_threads_that_want_one_value_in_memory() -> None:
    in_threads(Memory())


def test_threads_that_want_one_value_in_a_file(tmp_path: Path) -> None:
    in_threads(LocalFile(tmp_path / "members.db"))


def test_threads_that_want_one_value_on_dynamodb_local(dynamodb_local: str) -> None:
    session = boto3.Session(aws_access_key_id="unique", aws_secret_access_key="secret", region_name="eu-west-1")
    in_threads(DynamoDB(session, endpoint_url=dynamodb_local))


def test_threads_that_want_one_value_on_bigtable(bigtable_emulator: str) -> None:
    in_threads(Bigtable("unique", "instance", endpoint=bigtable_emulator))


async def test_tasks_that_want_one_value_on_bigtable(bigtable_emulator: str) -> None:
    async with AsyncStore(members, Bigtable("unique-async", "instance", endpoint=bigtable_emulator)) as db:
        await db.create()
        wanted = [Member(member_id=str(number), email="a@x") for number in range(THREADS)]
        ends = await asyncio.gather(*map(db.insert, wanted), return_exceptions=True)
        joined = [end for end in ends if isinstance(end, Member)]
        assert len(joined) == 1
        assert all(isinstance(end, Member | ItemExists | Conflict) for end in ends)
        assert await db.get(Member.unique_email(email="a@x")) == joined[0]


def test_a_delete_frees_a_value_that_was_set_again_meanwhile() -> None:
    key = Member.primary(member_id="m0")
    with Store(members, Memory()) as db:
        db.create()
        db.put(Member(member_id="m0", email="a@x"))
        asked: list[Any] = []

        def send(request: Any) -> Any:
            asked.append(request)
            if len(asked) == 2:  # replaces the item's mark and its claim, which were read
                db.put(Member(member_id="m0", email="b@x"))
                db.put(Member(member_id="m0", email="a@x"))
            return db._call()[1](request)

        assert run(Calls(db._session).delete(key), send)
        check(db)
        assert db.get(Member.unique_email.claim(email="a@x")) is None


def churn(backend: Backend) -> None:
    """Writers that compete for values: at the end each is held once, and only held values are claimed."""
    with Store(members, backend) as db:
        db.create()

        def work(number: int) -> None:
            for step in range(12):
                member = Member(member_id=f"m{(number + step) % 3}", email=f"{(number * step) % 3}@x")
                calls: list[Callable[[], object]] = [
                    partial(db.put, member),
                    partial(db.insert, member),
                    partial(db.delete, member),
                ]
                try:
                    calls[(number + step * step) % 3]()
                except (ItemExists, Conflict):
                    continue

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        check(db)


@pytest.mark.parametrize("make", [lambda _: Memory(), lambda path: LocalFile(path / "m.db")], ids=["memory", "file"])
def test_writers_that_compete_for_values(make: Callable[[Path], Backend], tmp_path: Path) -> None:
    churn(make(tmp_path))


def test_writers_that_compete_for_values_on_bigtable(bigtable_emulator: str) -> None:
    churn(Bigtable("unique-churn", "instance", endpoint=bigtable_emulator))


def test_a_claim_is_freed_if_another_program_stores_an_unreadable_item() -> None:
    backend = Watched(OneByOne(Memory()), "x")
    with Store(members, backend) as db:
        db.create()
        key = db.key_of(Member(member_id="m1", email="a@x"))
        foreign = req.Put(Key(*key), {"_t": "Member", "member_id": "m1", "email": 5})
        backend.rivals += [req.Delete(Key("nothing", "nothing")), foreign]  # before writes of the claim and the item
        with pytest.raises(ItemInvalid):
            db.put(Member(member_id="m1", email="a@x"))
        assert db.put(Member(member_id="m2", email="a@x")).email == "a@x"


def test_a_claim_that_no_item_holds_ends_after_its_lease() -> None:
    """Until the lease ends, the writer of the claim may still write the item."""
    clock = Clock()
    with Store(members, OneByOne(Memory()), clock=clock) as db:
        db.create()
        db.put(Member(member_id="ann", email="a@x"))
        db._call()[1](req.Delete(Key(*db.key_of(Member(member_id="ann")))))  # without the companion
        clock.advance(LEASE)
        with pytest.raises(Conflict):
            db.insert(Member(member_id="bob", email="a@x"))
        clock.advance(1)
        db.insert(Member(member_id="bob", email="a@x"))
        check(db)
