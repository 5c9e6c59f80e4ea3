"""How many calls the writes of an application need on the emulator, including the core's own conditions."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from typing import Annotated, Any

import pytest

from odm import (
    TTL,
    AccessPattern,
    Columns,
    Counter,
    Entity,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    PrimaryKey,
    Revision,
    Store,
    Table,
    add_to,
    contains,
    discard_from,
    increment,
    not_,
    remove,
    set_,
    starts_with,
    upgrade,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import AppendValue, Increment, ReadModifyWriteRow
from odm.patterns.unique import Unique
from odm.results import RequestInfo

house = Table("house", row_key_join="##")


class Room(Entity, table=house):
    name: str
    colour: str | None = None
    doors: int = 0
    sizes: list[int] = [1]
    visits: Annotated[int, Counter] = 0
    tags: Annotated[set[str], Columns] = set()
    seats: Annotated[dict[str, int], Columns] = {}

    primary = PrimaryKey("ROOM#{name}")


class Guest(Entity, table=house):
    name: str
    dish: str = ""
    until: Annotated[datetime | None, TTL] = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("GUEST#{name}")


class Book(Entity, table=house, version=2):
    name: str
    read: Annotated[int, Counter] = 0

    primary = PrimaryKey("BOOK#{name}")

    @upgrade(from_=1)
    @staticmethod
    def _rename(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "read": item.pop("opened", 0)}


old_house = Table("house", row_key_join="##")


class OldBook(Entity, table=old_house, tag="Book"):
    name: str
    opened: Annotated[int, Counter] = 0

    primary = PrimaryKey("BOOK#{name}")


HALL = Room.primary(name="hall")
_numbers = count(1)


class House:
    """A store, what it sent, and a store with the previous model."""

    def __init__(self, endpoint: str) -> None:
        self.sent: list[str] = []
        self.endpoint = endpoint
        backend, prefix = Bigtable("project", "instance", endpoint=endpoint), f"calls{next(_numbers)}-"
        self.table = f"{prefix}house"
        self.store = Store(house, backend, prefix=prefix, on_request=self._take)
        self.before = Store(old_house, backend, prefix=prefix)

    def _take(self, info: RequestInfo) -> None:
        self.sent.append(str(info.native).split()[0])

    def calls(self, write: Callable[[Store], object]) -> list[str]:
        self.sent.clear()
        write(self.store)
        return self.sent


@pytest.fixture
def opened(bigtable_emulator: str) -> Iterator[House]:
    opened = House(bigtable_emulator)
    opened.store.create()
    opened.store.put(Room(name="hall", colour="red", tags={"old"}))
    yield opened
    opened.store.close()
    opened.before.close()


IF = ["check-and-mutate"]


@pytest.mark.parametrize(
    ("write", "calls"),
    [
        (lambda db: db.put(Room(name="attic")), IF),
        (lambda db: db.insert(Room(name="attic")), IF),
        (lambda db: db.put(Room(name="hall"), when=Room.doors < 5), IF),
        (lambda db: db.update(HALL, set_(Room.colour, "blue")), IF),
        (lambda db: db.update(HALL, remove(Room.colour), set_(Room.doors, 2), when=Room.colour != "green"), IF),
        (lambda db: db.update(HALL, add_to(Room.tags, "new"), when=not_(contains(Room.tags, "new"))), IF),
        (lambda db: db.update(HALL, discard_from(Room.tags, "old")), IF),
        (lambda db: db.update(HALL, set_(Room.seats["left"], 4)), IF),
        (lambda db: db.update(HALL, increment(Room.visits)), ["read-modify-write"]),
        (lambda db: db.update(HALL, increment(Room.doors)), ["lookup", *IF]),
        (lambda db: db.update(HALL, increment(Room.doors), when=Room.doors == 0), IF),
        (lambda db: db.update(HALL, set_(Room.doors, 9), when=Room.visits < 9), ["lookup", *IF]),
        (lambda db: db.update(HALL, set_(Room.doors, 9), when=Room.sizes == [1]), ["lookup", *IF]),
        (lambda db: db.delete(HALL), IF),
        (lambda db: db.delete(HALL, when=starts_with(Room.colour, "r")), IF),
        (lambda db: db.insert(Guest(name="ann", until=datetime(2100, 1, 1, tzinfo=UTC))), IF),
    ],
)
def test_the_calls_of_a_write(opened: House, write: Callable[[Store], object], calls: list[str]) -> None:
    assert opened.calls(write) == calls


def test_an_update_that_checks_a_revision_and_the_time_is_one_call(opened: House) -> None:
    opened.store.put(Guest(name="ann", until=datetime(2100, 1, 1, tzinfo=UTC)))
    ann = opened.store.one(Guest, name="ann")
    assert opened.calls(lambda db: db.update(ann, set_(Guest.dish, "soup"))) == IF
    assert opened.store.one(Guest, name="ann").revision == ann.revision + 1


def test_an_insert_over_an_item_that_may_expire_is_refused_by_one_call_and_read(opened: House) -> None:
    opened.store.insert(Guest(name="ann"))
    opened.sent.clear()
    with pytest.raises(ItemExists):
        opened.store.insert(Guest(name="ann"))
    assert opened.sent == [*IF, "lookup"]


def test_counters_add_up_the_increments_of_many_threads(opened: House) -> None:
    with ThreadPoolExecutor(8) as pool:
        done = [pool.submit(opened.store.update, HALL, increment(Room.visits, 2)) for _ in range(200)]
        done += [pool.submit(opened.store.update, HALL, set_(Room.doors, number)) for number in range(20)]
    assert [one.exception() for one in done] == [None] * 220
    assert opened.store.one(Room, name="hall").visits == 400


def test_incrementing_a_missing_item_leaves_nothing(opened: House) -> None:
    with pytest.raises(ItemNotFound):
        opened.store.update(Room.primary(name="attic"), increment(Room.visits))
    assert opened.sent[-3:] == ["read-modify-write", "check-and-mutate", "lookup"]
    assert opened.store.get(Room, name="attic") is None
    opened.store.insert(Room(name="attic"))
    assert opened.store.one(Room, name="attic").visits == 0


def test_a_model_with_upgrades_counts_in_items_of_its_version(opened: House) -> None:
    opened.store.put(Book(name="tales", read=3))
    tales = Book.primary(name="tales")
    assert opened.calls(lambda db: db.update(tales, increment(Book.read))) == ["lookup", "read-modify-write"]
    assert opened.store.one(Book, name="tales").read == 4


def test_an_older_item_is_upgraded_before_it_is_incremented(opened: House) -> None:
    opened.before.put(OldBook(name="tales", opened=3))
    tales = Book.primary(name="tales")
    opened.store.update(tales, increment(Book.read))
    assert opened.store.one(Book, name="tales").read == 4
    with pytest.raises(ItemInvalid, match="later model"):
        opened.before.update(OldBook.primary(name="tales"), increment(OldBook.opened))
    assert opened.store.one(Book, name="tales").read == 4


def test_an_update_never_takes_a_ghost_for_an_item(opened: House) -> None:
    """The writer of the increment stopped before it undid it."""
    connection = Bigtable("project", "instance", endpoint=opened.endpoint).connect(house.compile())
    attic = Room.primary(name="attic")
    rules = (Increment("visits", 1), AppendValue("_t", b""), AppendValue("~r", b""))
    connection.call(ReadModifyWriteRow(opened.table, "ROOM#attic", rules))
    with pytest.raises(ItemNotFound):
        opened.store.update(attic, set_(Room.colour, "blue"))
    with pytest.raises(ItemNotFound):
        opened.store.update(attic, set_(Room.colour, "blue"), when=Room.colour != "red")
    assert opened.store.get(attic) is None
    connection.close()


lodge = Table("lodge")


class Cat(Entity, table=lodge):
    """Has an access pattern, so the table has an index."""

    name: str
    colour: str = "red"

    primary = PrimaryKey("CAT#{name}")
    by_colour = AccessPattern("COLOUR#{colour}")


class Dog(Entity, table=lodge):
    """Has none."""

    name: str
    age: int = 0

    primary = PrimaryKey("DOGS", "{name}")


class Owner(Entity, table=lodge):
    """Has a unique field."""

    name: str
    email: str
    age: int = 0

    primary = PrimaryKey("OWNER#{name}")
    unique_email = Unique("email")


REX = Dog.primary(name="rex")
ANN = Owner.primary(name="ann")
CLAIM = ["check-and-mutate"]
OLD_CLAIM = ["lookup", "check-and-mutate"]


@pytest.fixture
def lodged(bigtable_emulator: str) -> Iterator[tuple[Store, list[str]]]:
    """A store with a dog and an owner, and the native calls that it makes after that."""
    sent: list[str] = []
    backend = Bigtable("project", "instance", endpoint=bigtable_emulator)
    prefix = f"calls{next(_numbers)}-"
    with Store(lodge, backend, prefix=prefix, on_request=lambda info: sent.append(str(info.native).split()[0])) as db:
        db.create()
        db.put(Dog(name="rex"))
        db.insert(Owner(name="ann", email="a@x"))
        sent.clear()
        yield db, sent


def delete_both(db: Store) -> None:
    with db.batch() as batch:
        batch.delete(REX)
        batch.delete(Dog, name="lost")


@pytest.mark.parametrize(
    ("write", "calls"),
    [
        (lambda db: db.delete(REX), IF),
        (delete_both, ["lookup", "mutate"]),
        (lambda db: db.delete_all(Dog.primary()), ["read", "mutate"]),
        (lambda db: db.update(Dog.primary(name="new"), set_(Dog.age, 3), upsert=True), [*IF, "lookup", *IF]),
        (lambda db: db.update(REX, set_(Dog.age, 3), upsert=True), IF),
        (lambda db: db.put(Owner(name="bob", email="b@x")), ["lookup", *CLAIM, *IF]),
        (lambda db: db.insert(Owner(name="bob", email="b@x")), [*CLAIM, *IF]),
        (lambda db: db.put(Owner(name="ann", email="a@x", age=1)), ["lookup", *IF]),
        (lambda db: db.put(Owner(name="ann", email="c@x")), ["lookup", *CLAIM, *IF, *OLD_CLAIM]),
        (lambda db: db.update(ANN, set_(Owner.email, "c@x")), ["lookup", *CLAIM, *IF, *OLD_CLAIM]),
        (lambda db: db.update(ANN, set_(Owner.age, 1)), IF),
        (lambda db: db.get(Owner.unique_email(email="a@x")), ["lookup", "lookup"]),
        (lambda db: db.delete(ANN), ["lookup", *IF, *OLD_CLAIM]),
    ],
)
def test_calls_in_a_table_with_an_index(
    lodged: tuple[Store, list[str]], write: Callable[[Store], object], calls: list[str]
) -> None:
    db, sent = lodged
    write(db)
    assert sent == calls


def test_an_insert_of_a_taken_key_reads_the_item(lodged: tuple[Store, list[str]]) -> None:
    db, sent = lodged
    with pytest.raises(ItemExists):
        db.insert(Dog(name="rex"))
    assert sent == [*IF, "lookup"]
