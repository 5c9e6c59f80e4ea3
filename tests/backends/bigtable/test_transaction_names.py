"""A program whose models do not say ``transactions=True`` does not find a table that has transactions."""

from collections.abc import Callable, Iterator
from typing import Annotated

import pytest

from odm import AccessPattern, BackendError, Counter, Entity, PrimaryKey, Store, Table, increment, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.maintenance.scrub import scrub

shop = Table("names")


class Item(Entity, table=shop):
    number: str
    text: str = ""
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("ITEM#{number}", "DATA")
    by_text = AccessPattern("TEXT#{text}", "{number}")


class Plain(Entity, table=shop):
    number: str
    text: str = ""

    primary = PrimaryKey("PLAIN#{number}", "DATA")


ITEM, PLAIN = Item.primary(number="1"), Plain.primary(number="1")


def batch(db: Store) -> None:
    with db.batch() as batch:
        batch.put(Plain(number="1", text="theirs"))
        batch.delete(PLAIN)


CALLS: dict[str, Callable[[Store], object]] = {
    "get": lambda db: db.get(ITEM),
    "query of an index": lambda db: list(db.query(Item.by_text(text="ours"))),
    "scan": lambda db: list(db.scan()),
    "put": lambda db: db.put(Item(number="1", text="theirs")),
    "put without entries": lambda db: db.put(Plain(number="1", text="theirs")),
    "insert": lambda db: db.insert(Item(number="2", text="theirs")),
    "update": lambda db: db.update(PLAIN, set_(Plain.text, "theirs")),
    "increment": lambda db: db.update(ITEM, increment(Item.views, 1)),
    "delete": lambda db: db.delete(PLAIN),
    "delete of a partition": lambda db: db.delete_all(Plain.primary(number="1")),
    "merge": lambda db: db.merge(PLAIN, set_(Plain.text, "theirs")),
    "batch": batch,
    "create": lambda db: db.create(),
    "scrub": lambda db: scrub(Bigtable("project", "instance", endpoint=db.backend.endpoint), shop),  # type: ignore[attr-defined]
}


@pytest.fixture
def ours(bigtable_emulator: str) -> Iterator[Store]:
    with Store(shop, Bigtable("project", "instance", endpoint=bigtable_emulator, transactions=True)) as db:
        db.create()
        db.put(Item(number="1", text="ours", views=3))
        db.put(Plain(number="1", text="ours"))
        yield db
        db.drop()


@pytest.mark.parametrize("call", CALLS)
def test_it_fails_at_its_first_call(ours: Store, bigtable_emulator: str, call: str) -> None:
    theirs = Store(shop, Bigtable("project", "instance", endpoint=bigtable_emulator))
    with theirs, pytest.raises(BackendError, match="does not exist"):
        CALLS[call](theirs)
    assert sorted(map(str, ours.scan())) == sorted(
        map(str, [Item(number="1", text="ours", views=3), Plain(number="1", text="ours")])
    )
