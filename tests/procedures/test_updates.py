"""Updates: when the item is read first, the conditions of the write, and which arguments are refused."""

from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from odm import (
    AccessPattern,
    BadValue,
    ConditionFailed,
    Entity,
    PrimaryKey,
    Revision,
    Store,
    Table,
    append,
    exists,
    field,
    increment,
    remove,
    set_,
    set_if_missing,
)
from odm.backends.local import Memory
from odm.expressions.nodes import Action
from tests.shop import Counting, day

table = Table("updates")


class Event(Entity, table=table):
    source: str
    at: datetime
    kind: str = "log"
    level: Annotated[int, Field(ge=0, le=5)] = 0
    note: str = ""
    pairs: Annotated[int, Field(multiple_of=2)] = 0
    price: Annotated[Decimal, Field(decimal_places=2)] = Decimal(0)

    primary = PrimaryKey("SOURCE#{source}", "{at:%Y%m%d}")
    by_kind = AccessPattern("KIND#{kind}", "{at}#{source}")
    by_level = AccessPattern("LEVEL#{level}", "{source}")
    quiet = AccessPattern("QUIET#{source}", when=field("source") == "s")


class Mint(BaseModel):
    city: str = Field(default="Rome", frozen=True)
    masters: list[str] = []


class Coin(Entity, table=table):
    id: str
    made_of: str = Field(default="tin", frozen=True)
    owner: str = ""
    mint: Mint = Mint()
    mints: list[Mint | str] = []

    primary = PrimaryKey("COIN#{id}", "COIN")


class Seal(Entity, table=table):
    model_config = ConfigDict(frozen=True)

    id: str
    owner: str = ""

    primary = PrimaryKey("SEAL#{id}", "SEAL")


class Locked(Entity, table=table):
    id: str
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("LOCKED#{id}", "LOCKED")


NOON = day(3, 12)
EVENT = Event(source="s", at=NOON)
KEY = Event.primary(source="s", at=NOON)


@pytest.fixture
def counting() -> Counting:
    return Counting()


@pytest.fixture
def db(counting: Counting) -> Store:
    store = Store(table, counting)
    store.create()
    store.put(EVENT)
    counting.requests.clear()
    return store


def test_fields_known_from_the_key_are_not_read(db: Store, counting: Counting) -> None:
    db.update(KEY, set_(Event.level, 3))
    db.update(KEY, set_(Event.note, "a"))
    assert counting.requests == ["Update", "Update"]
    assert [event.level for event in db.query(Event.by_level(level=3))] == [3]


def test_fields_that_a_lossy_key_rounds_are_read(db: Store, counting: Counting) -> None:
    morning = Event.primary(source="s", at=day(3, 6))
    db.update(morning, set_(Event.kind, "trace"))
    assert counting.requests == ["Get", "Update"]
    assert [event.at for event in db.query(Event.by_kind(kind="trace", at=NOON))] == [NOON]
    assert list(db.query(Event.by_kind(kind="trace", at=day(3, 6)))) == []


def test_a_stale_entity_is_read_again_and_no_index_key_is_stale(db: Store, counting: Counting) -> None:
    db.put(EVENT.model_copy(update={"at": day(3, 18)}))
    counting.requests.clear()
    assert db.update(EVENT, set_(Event.kind, "trace"), returning="new") == Event(
        source="s", at=day(3, 18), kind="trace"
    )
    assert counting.requests == ["Update", "Update"]
    assert [event.at for event in db.query(Event.by_kind(kind="trace"))] == [day(3, 18)]


def test_an_increment_of_a_template_field_keeps_its_bounds(db: Store) -> None:
    for which in (KEY, EVENT):
        with pytest.raises(ConditionFailed, match=r"adding -1 to level would leave the bounds"):
            db.update(which, increment(Event.level, -1))
    assert db.update(KEY, increment(Event.level, 5), returning="new").level == 5
    with pytest.raises(ConditionFailed, match="bounds"):
        db.update(KEY, increment(Event.level))


def test_an_increment_by_steps_of_the_field(db: Store) -> None:
    event = db.update(KEY, increment(Event.pairs, -4), increment(Event.price, Decimal("0.05")), returning="new")
    assert (event.pairs, event.price) == (-4, Decimal("0.05"))
    assert db.get(KEY) == event


def test_a_stale_entity_does_not_decide_about_bounds(db: Store) -> None:
    db.update(KEY, set_(Event.level, 4))
    assert db.update(EVENT, increment(Event.level, -1), returning="new").level == 3


def test_an_upsert_keeps_bounds(db: Store) -> None:
    absent = Event.primary(source="t", at=NOON)
    with pytest.raises(ConditionFailed, match="bounds"):
        db.update(absent, increment(Event.level, 9), upsert=True)
    assert db.update(absent, increment(Event.level, 2), upsert=True, returning="new").level == 2
    assert [event.source for event in db.query(Event.by_level(level=2))] == ["t"]


REFUSED: list[Any] = [
    pytest.param(list, "update of Event without an action", id="nothing"),
    pytest.param(
        lambda: [exists(Event.note)],
        r"exists\(note\) is not an action: write set_\(Event\.field, value\)",
        id="condition",
    ),
    pytest.param(lambda: [Event.note], r"Event\.note is not an action", id="reference"),
    pytest.param(lambda: [set_(Event.source, "t")], r"Event\.source is part of the primary key.*insert", id="key"),
    pytest.param(lambda: [set_(Event.note, "a"), remove(Event.note)], r"note.*same place.*two updates", id="overlap"),
    pytest.param(lambda: [set_(Event.level, 9)], r"Event\.level: 9 is refused", id="constraint"),
    pytest.param(lambda: [increment(Event.pairs, 3)], r"Event\.pairs: adding 3 leaves the multiples of 2", id="odd"),
    pytest.param(lambda: [increment(Event.price, Decimal("0.005"))], r"adding 0\.005.*multiples of 0\.01", id="places"),
    pytest.param(lambda: [set_if_missing(Event.note, None)], r"Event\.note", id="type"),  # type: ignore[arg-type]
    pytest.param(lambda: [set_(Locked.id, "x")], r"Locked\.id is a field of Locked", id="another entity"),
]


@pytest.mark.parametrize(("actions", "says"), REFUSED)
def test_what_does_not_fit_is_refused_before_anything_is_sent(
    db: Store, counting: Counting, actions: Callable[[], list[Any]], says: str
) -> None:
    with pytest.raises(BadValue, match=says):
        db.update(KEY, *actions())
    assert counting.requests == []


def test_a_revision_counts_by_itself() -> None:
    store = Store(table, Memory())
    store.create()
    stored = store.put(Locked(id="1"))
    with pytest.raises(BadValue, match=r"Locked\.revision is the Revision, which odm counts by itself"):
        store.update(stored, increment(Locked.revision))  # type: ignore[odm]


@pytest.mark.parametrize("returning", ["all", "", None, True])
def test_returning_says_which_item(db: Store, returning: Any) -> None:
    with pytest.raises(BadValue, match="say 'none', 'old' or 'new'"):
        db.update(KEY, set_(Event.note, "a"), returning=returning)


@pytest.mark.parametrize("when", [True, False, "note = 'a'"])
def test_when_takes_only_conditions(db: Store, counting: Counting, when: Any) -> None:
    for call in (
        lambda: db.update(KEY, set_(Event.note, "a"), when=when),
        lambda: db.put(EVENT, when=when),
        lambda: db.delete(KEY, when=when),
        lambda: db.explain(EVENT, when=when),
    ):
        with pytest.raises(TypeError, match="when= takes conditions on fields"):
            call()
    assert counting.requests == []


NO_KEYS: list[Any] = [
    pytest.param(Event.primary(source="s"), "'at' is missing", id="part of a key"),
    pytest.param(
        Event.by_kind(kind="log", at=NOON, source="s"),
        r"is not the key of one item.*, or db\.first\(query\)",
        id="another pattern",
    ),
    pytest.param(KEY.limit(1), "it is a query", id="a limit"),
    pytest.param(Event, "is not a key", id="the class"),
    pytest.param("s", "is not a key", id="text"),
]


@pytest.mark.parametrize(("which", "says"), NO_KEYS)
def test_only_a_whole_key_names_an_item(db: Store, which: Any, says: str) -> None:
    for call in (lambda: db.update(which, set_(Event.note, "a")), lambda: db.get_many([which])):
        with pytest.raises(BadValue, match=says):
            call()


FROZEN: list[tuple[Entity, Action, str]] = [
    (
        Coin(id="a"),
        set_(Coin.made_of, "gold"),
        r"frozen \(frozen=True of the field\).*put\(\) the whole",
    ),
    (Coin(id="a"), set_if_missing(Coin.made_of, "gold"), r"Coin\.made_of is frozen"),
    (Coin(id="a"), remove(Coin.made_of), r"Coin\.made_of is frozen"),
    (Coin(id="a"), set_(Coin.mint.city, "Ostia"), r"Coin\.mint\.city: is frozen"),
    (Coin(id="a"), set_(field("mints")[0].city, "Ostia"), r"Coin\.mints\[0\]\.city: is frozen"),
]


@pytest.mark.parametrize(("which", "action", "says"), FROZEN, ids=[str(action) for _, action, _ in FROZEN])
def test_a_frozen_field_is_not_updated(db: Store, counting: Counting, which: Entity, action: Action, says: str) -> None:
    for call in (db.update, db.merge):
        with pytest.raises(BadValue, match=says):
            call(which, action)
    with db.transaction() as tx, db.batch() as batch:
        for call in (tx.update, batch.merge):
            with pytest.raises(BadValue, match=says):
                call(which, action)
    assert counting.requests == []


def test_other_fields_of_a_frozen_one_are_updated_and_a_put_replaces_all(db: Store) -> None:
    db.put(Coin(id="a", made_of="gold"))
    changed = db.update(Coin.primary(id="a"), set_(Coin.owner, "Ann"), returning="new")
    assert changed == Coin(id="a", made_of="gold", owner="Ann")
    masters = db.update(changed, append(Coin.mint.masters, "Bo"), returning="new").mint
    assert masters == Mint(masters=["Bo"])
    db.put(Seal(id="a"))
    assert db.update(Seal.primary(id="a"), set_(Seal.owner, "Ann"), returning="new").owner == "Ann"
    assert db.put(Coin(id="a", made_of="iron")) == db.one(Coin, id="a")
