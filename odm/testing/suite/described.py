"""Models of tables that other programs made give the same results on every backend as odm's own."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import datetime
from typing import Annotated, Any, Literal

import pytest
from pydantic import StringConstraints, computed_field

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    Condition,
    ConditionFailed,
    Entity,
    ItemInvalid,
    ItemNotFound,
    KeyValueError,
    PrimaryKey,
    Store,
    Stored,
    Table,
    between,
    collection,
    exists,
    field,
    increment,
    missing,
    remove,
    set_,
    some,
    starts_with,
)
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill

existing = Table(
    "existing",
    keys=("PK", "SK"),
    index_keys={"GSI1": ("GSI1-PK", "at"), "inverted": ("SK", "PK"), "mails": ("mail",)},
    key_style="verbatim",
    tag=None,
)
visits = Table("visits", keys=("who", "at"), key_style="verbatim", tag=None, ttl="expires")
documents = Table("documents", keys=("_pk", "_sk"), key_style="verbatim", tag=None)
readings = Table("readings", keys=("sensor", "n"))
pairs = Table("pairs", keys=("PK", "SK"), key_style="verbatim", tag=None)
digests = Table("digests", keys=("digest",), tag="kind")
checkpoints = Table(
    "checkpoints",
    keys=("PK", "SK"),
    index_keys={"latest": ("latest_pk", "latest_sk")},
    key_style="verbatim",
    tag=None,
)
locks = Table("locks", keys=("LockID",), key_style="verbatim", tag=None)
locks_of_others = Table("locks", keys=("LockID",), key_style="verbatim", tag=None)
tasks = Table(
    "tasks", keys=("pk", "sk"), index_keys={"gsi1": ("gsi1pk", "gsi1sk")}, key_style="verbatim", tag="__edb_e__"
)


drafts = Table("drafts")
drafts_kept = Table("drafts", keep_unknown=True)


class Draft(Entity, table=drafts):
    name: str
    text: str = ""
    mark: str | None = None
    note: str | None = None

    primary = PrimaryKey("DRAFT#{name}")


class KeptDraft(Entity, table=drafts_kept, tag="Draft"):
    name: str
    text: str = ""
    mark: str | None = None

    primary = PrimaryKey("DRAFT#{name}")


class Player(Entity, table=existing):
    name: str
    mail: Annotated[str | None, Stored("mail")] = None

    primary = PrimaryKey("P#{name}", '"info" of #')
    inverted = AccessPattern('"info" of #', "P#{name}", index="inverted")
    by_mail = AccessPattern("{mail}", index="mails")


class Game(Entity, table=existing):
    player: str
    number: int
    at: Annotated[int, Stored("at")]
    map: str | None = None
    score: int = 0

    primary = PrimaryKey("P#{player}", "G|{number}")
    inverted = AccessPattern("G|{number}", "P#{player}", index="inverted")
    by_map = AccessPattern("MAP: {map}", "{at}", index="GSI1")


class Cash(Entity, table=existing, match=field("kind") == "cash"):
    player: str
    kind: Literal["cash"] = "cash"
    amount: int = 0

    primary = PrimaryKey("P#{player}", "PAY")
    inverted = AccessPattern("PAY", "P#{player}", index="inverted")


class Card(Entity, table=existing, match=field("kind") == "card"):
    player: str
    kind: str = "card"
    digits: str = ""

    primary = PrimaryKey("P#{player}", "PAY")
    inverted = AccessPattern("PAY", "P#{player}", index="inverted")


class Visit(Entity, table=visits):
    who: str
    at: Annotated[datetime, Stored(epoch="ms")]
    expires: Annotated[datetime | None, TTL, Stored("expires", epoch="s")] = None

    primary = PrimaryKey("{who}", "{at}")


class Document(Entity, table=documents):
    name: str
    version: Annotated[int, Stored("_v")]
    kind: Annotated[str, Stored("_t")] = "memo"
    kept: Annotated[int | None, Stored("_ttl")] = None

    primary = PrimaryKey("DOC#{name}", "META")


class Reading(Entity, table=readings):
    sensor: str
    n: int
    text: str = ""

    primary = PrimaryKey("{sensor}", "{n}")


class Digest(Entity, table=digests, tag="digest"):
    digest: bytes
    text: str = ""

    primary = PrimaryKey("{digest}")


class Pair(Entity, table=pairs):
    left: str
    right: str

    primary = PrimaryKey("{left}#{right}", "pair")


prices = Table("prices", keys=("PK",), key_style="verbatim", tag=None)
prices_of_others = Table("prices", keys=("PK",), key_style="verbatim", tag=None)


class Price(Entity, table=prices):
    name: str
    price: int | None = None
    at: Annotated[datetime | None, Stored(format="RFC3339Nano")] = None
    on: Annotated[bool | None, Stored(format="number")] = None
    note: Annotated[str | None, Stored(null="keep")] = None

    primary = PrimaryKey("PRICE/{name}")


class PriceOfOthers(Entity, table=prices_of_others, tag="Price"):
    name: str
    price: Any
    at: str = "2026-01-05T12:00:00Z"
    on: int = 1

    primary = PrimaryKey("PRICE/{name}")


class Checkpoint(Entity, table=checkpoints):
    thread: str
    namespace: str
    number: int
    path: str
    owner: str | None = None
    text: str = ""

    primary = PrimaryKey("THREAD_{thread}", "{namespace:empty}#{number}/{path:empty}")
    latest = AccessPattern("OWNER#{owner:empty}", "LATEST", index="latest")


class Writing(Entity, table=checkpoints):
    thread: str
    namespace: str
    number: int
    path: str

    primary = PrimaryKey("WRITES_{thread}_{namespace:empty}", "{number}_{path}")


class Lock(Entity, table=locks, match=exists(field("info"))):
    id: Annotated[str, Stored("LockID")]
    info: Annotated[str | None, Stored("Info")] = None
    version: int = 0

    primary = PrimaryKey("{id}")


class State(Entity, table=locks, match=exists(field("digest"))):
    id: Annotated[str, Stored("LockID")]
    digest: Annotated[str | None, Stored("Digest")] = None
    version: int = 0

    primary = PrimaryKey("{id}")


class Both(Entity, table=locks_of_others):
    """An item of another program, which fits both."""

    id: Annotated[str, Stored("LockID")]
    info: Annotated[str, Stored("Info")]
    digest: Annotated[str, Stored("Digest")]
    version: int = 0

    primary = PrimaryKey("{id}")


BOTH = Both(id="b", info="i", digest="d", version=1)
LOCK, STATE = Lock(id="a", info="i", version=1), State(id="a-md5", digest="d", version=1)
OF_BOTH: dict[str, tuple[Callable[[Store], object], object]] = {
    "get": (lambda db: db.get(Lock, id="b"), None),
    "get the other": (lambda db: db.get(State, id="b"), None),
    "get many": (lambda db: db.get_many([Lock.primary(id="b"), State.primary(id="a-md5")]), [None, STATE]),
    "exists": (lambda db: db.exists(Lock, id="b"), False),
    "query": (lambda db: list(db.query(State.primary(id="b"))), []),
    "query with a filter": (lambda db: list(db.query(Lock.primary(id="b").where(Lock.version > 5))), []),
    "count": (lambda db: db.count(Lock.primary(id="b")), 0),
    "count with a filter": (lambda db: db.count(Lock.primary(id="b").where(Lock.version > 5)), 0),
    "only": (lambda db: db.get(Lock, id="b", only=[Lock.version]), None),
    "scan": (lambda db: sorted(db.scan(), key=str), sorted([LOCK, STATE], key=str)),
    "scan of one": (lambda db: list(db.scan(Lock)), [LOCK]),
    "scan with a filter": (lambda db: list(db.scan(State, State.version > 5)), []),
    "scan with another filter": (lambda db: list(db.scan(State, State.version == 1)), [STATE]),
    "update": (lambda db: db.update(Lock.primary(id="b"), set_(Lock.version, 2)), ItemNotFound),
    "update on a condition": (
        lambda db: db.update(State.primary(id="b"), set_(State.version, 2), when=State.version == 1),
        ItemNotFound,
    ),
    "delete": (lambda db: db.delete(Lock, id="b"), False),
    "delete on a condition": (lambda db: db.delete(Lock.primary(id="b"), when=Lock.version == 1), False),
    "put": (lambda db: db.put(Lock(id="b", info="mine")), ItemInvalid),
    "insert": (lambda db: db.insert(State(id="b", digest="mine")), ItemInvalid),
}

InKey = Annotated[str, StringConstraints(to_lower=True)]


class Task(Entity, table=tasks, tag="task"):
    number: int
    team: str
    status: str | None = "open"
    points: int = 0

    primary = PrimaryKey("$app#number_{number}", "$task_1")
    backlog = AccessPattern("$app#team_{team_key}", "$task_1#status_{status_key}#number_{number}", index="gsi1")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def team_key(self) -> InKey:
        return self.team.lower()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def status_key(self) -> InKey | None:
        return None if self.status is None else self.status.lower()


TASK = Task(number=1, team="Core A", status="Open")

ANN = Player(name="Ann Lee", mail="ann@example.com")
GAMES = [
    Game(player="Ann Lee", number=n, at=at, map=where)
    for n, at, where in ((1, 10, "x #1"), (2, 9, "x #1"), (10, -5, None))
]
KEY = Game.primary(player="Ann Lee", number=1)


class TestDescribed:
    @pytest.fixture
    def games(self, stores: Stores) -> Store:
        db = stores.open(existing)
        fill(db, [ANN, *GAMES, Cash(player="Ann Lee", amount=5), Card(player="Bo", digits="1")])
        return db

    def test_items_are_read_as_they_were_written(self, games: Store) -> None:
        assert games.get(Player.primary(name="Ann Lee")) == ANN
        assert games.get_many([KEY, Game.primary(player="Ann Lee", number=3)]) == [GAMES[0], None]
        assert games.get(Card.primary(player="Bo")) == Card(player="Bo", digits="1")
        assert {type(entity).__name__ for entity in games.scan()} == {"Player", "Game", "Cash", "Card"}
        assert games.count(collection(Player.primary(name="Ann Lee"))) == 5
        assert list(games.query(collection(Player.primary(name="Ann Lee"), Player))) == [ANN]
        assert sorted(game.number for game in games.scan(Game)) == [1, 2, 10]

    def test_text_orders_keys_as_they_are(self, games: Store) -> None:
        query = Game.primary(player="Ann Lee")
        assert [game.number for game in games.query(query)] == [1, 10, 2]
        assert [game.number for game in games.query(query.reverse().limit(2))] == [2, 10]
        page = games.page(query, size=2)
        assert [item.number for item in games.page(query, size=2, after=page.cursor).items] == [2]
        with pytest.raises(KeyValueError, match=r"number=5.*do not sort"):
            list(games.query(query.where(Game.number > 5)))

    def test_a_value_that_would_forge_a_key_is_refused(self, stores: Stores) -> None:
        db = stores.open(pairs)
        db.put(Pair(left="a", right="b#c"))
        assert db.get(Pair.primary(left="a", right="b#c")) == Pair(left="a", right="b#c")
        with pytest.raises(KeyValueError, match=r"left='a#b' .* contains '#'"):
            db.put(Pair(left="a#b", right="c"))

    @needs("indexes")
    def test_fields_of_index_keys_only(self, games: Store) -> None:
        query = Game.by_map(map="x #1")
        assert [game.number for game in games.query(query)] == [2, 1]
        assert [game.number for game in games.query(query.where(between(Game.at, 10, 11)))] == [1]
        games.update(KEY, set_(Game.map, "y"), when=Game.map == "x #1")
        assert [game.number for game in games.query(query)] == [2]
        assert games.get(KEY) == GAMES[0].model_copy(update={"map": "y"})
        games.update(KEY, remove(Game.map), set_(Game.at, 7))
        assert list(games.query(Game.by_map(map="y"))) == []
        assert games.get(KEY) == GAMES[0].model_copy(update={"map": None, "at": 7})

    @needs("indexes")
    def test_an_inverted_index_and_one_without_sort_key(self, games: Store) -> None:
        assert list(games.query(Player.by_mail(mail="ann@example.com"))) == [ANN]
        assert list(games.query(Game.inverted(number=10))) == [GAMES[2]]

    def test_conditions_on_parts_of_keys(self, games: Store) -> None:
        games.update(KEY, increment(Game.score), when=(Game.player == "Ann Lee") & (Game.score == 0))
        with pytest.raises(ConditionFailed):
            games.update(KEY, increment(Game.score), when=Game.number == 2)
        with pytest.raises(BadValue, match="compare it with a value for equality"):
            games.update(KEY, increment(Game.score), when=starts_with(Game.map, "x"))
        query = Game.primary(player="Ann Lee")
        assert [game.number for game in games.query(query.where(Game.number != 10))] == [1, 2]
        assert games.count(query.where(Game.map == "x #1")) == 2

    def test_two_entities_under_one_key(self, games: Store) -> None:
        assert games.get(Cash.primary(player="Ann Lee")) == Cash(player="Ann Lee", amount=5)
        card = Card.primary(player="Ann Lee")
        assert (games.get(card), games.exists(card), games.get_many([card])) == (None, False, [None])
        assert games.exists(Cash.primary(player="Ann Lee"))
        with pytest.raises(ItemInvalid, match="not one of Card"):
            games.put(Card(player="Ann Lee"))
        with pytest.raises(BadValue, match="does not fit match="):
            games.put(Card(player="Bo", kind="cheque"))
        with pytest.raises(BadValue, match="part of match="):
            games.update(Card.primary(player="Bo"), set_(Card.kind, "cash"))

    def test_two_entities_that_need_other_attributes(self, stores: Stores) -> None:
        db = stores.open(locks)
        fill(db, [LOCK, STATE])
        assert (db.get(Lock, id="a"), db.get(State, id="a-md5")) == (LOCK, STATE)
        assert (db.get(State, id="a"), db.exists(Lock, id="a-md5")) == (None, False)
        assert db.count(Lock.primary(id="a").where(Lock.version == 1)) == 1
        db.update(LOCK, set_(Lock.version, 2), when=Lock.version == 1)
        assert (list(db.scan(Lock)), list(db.scan(State))) == ([LOCK.model_copy(update={"version": 2})], [STATE])
        with pytest.raises(ItemInvalid, match="not one of State"):
            db.put(State(id="a", digest="x"))
        with pytest.raises(BadValue, match="does not fit match="):
            db.put(Lock(id="c"))
        with pytest.raises(BadValue, match="part of match="):
            db.update(Lock.primary(id="a"), remove(Lock.info))
        assert db.delete(Lock, id="a")

    @pytest.mark.parametrize("call", OF_BOTH)
    def test_an_item_of_two_entities_is_of_none(self, stores: Stores, call: str) -> None:
        others = stores.open(locks_of_others)
        fill(stores.open(locks), [LOCK, STATE])
        others.put(BOTH)
        do, skipped = OF_BOTH[call]
        # Where items have tags, and a call reads nothing but the tag, it is an item of an unknown tag.
        tagged = "|the tag 'Both'" if call in ("only", "delete") else ""
        with pytest.raises(ItemInvalid, match=f"fit match= of Lock and State{tagged}"):
            do(stores.open(locks))
        skipping = stores.open(locks, on_unknown="skip")
        if isinstance(skipped, type) and issubclass(skipped, Exception):
            with pytest.raises(skipped):
                do(skipping)
        else:
            assert do(skipping) == skipped
        assert stores.open(locks_of_others, on_unknown="skip").get(Both, id="b") == BOTH

    def test_attributes_of_other_programs_with_names_of_odm(self, stores: Stores) -> None:
        """What another program calls _v is not the version of a model, nor is its _ttl an expiry."""
        db = stores.open(documents)
        items = [
            Document(name="a", version=7, kept=1),
            Document(name="b", version=8, kind="note"),
            Document(name="c", version=9, kind="note", kept=2),
        ]
        for item in items:
            db.put(item)
        assert sorted(db.scan(Document), key=lambda document: document.name) == items
        assert db.get(Document, name="a") == items[0]
        assert [document.name for document in db.scan(Document, Document.version > 7, Document.kept == 2)] == ["c"]
        assert db.count(db_query := Document.primary(name="b").where(Document.kind == "note")) == 1
        assert list(db.query(db_query)) == [items[1]]
        db.update(items[0], increment(Document.version, 1), remove(Document.kept), when=Document.kind == "memo")
        assert db.get(Document, name="a") == Document(name="a", version=8)
        with pytest.raises(ConditionFailed):
            db.put(items[1], when=Document.version == 1)
        part = db.get(Document, name="c", only=[Document.version])
        assert part is not None
        assert part[Document.version] == 9
        db.delete(items[1], when=missing(Document.kept))
        assert sorted(document.name for document in db.scan(Document)) == ["a", "c"]

    def test_number_keys(self, stores: Stores) -> None:
        db = stores.open(readings)
        fill(db, [Reading(sensor="s#1", n=n, text=str(n)) for n in (-20, -3, 0, 5, 40, 300)])
        query = Reading.primary(sensor="s#1")
        assert [reading.n for reading in db.query(query)] == [-20, -3, 0, 5, 40, 300]
        assert [reading.n for reading in db.query(query.where((Reading.n > -3) & (Reading.n < 40)))] == [0, 5]
        assert [reading.n for reading in db.query(query.where(between(Reading.n, -20, 0)).reverse())] == [0, -3, -20]
        db.update(Reading.primary(sensor="s#1", n=5), set_(Reading.text, "five"))
        assert db.one(Reading.primary(sensor="s#1", n=5)).text == "five"

    def test_times_in_the_form_of_other_programs(self, stores: Stores) -> None:
        db = stores.open(visits)
        fill(db, [Visit(who="a", at=at(day), expires=FUTURE) for day in (1, 2, 3)])
        db.put(Visit(who="a", at=at(4), expires=PAST))
        assert [visit.at for visit in db.query(Visit.primary(who="a").where(Visit.at > at(1)))] == [at(2), at(3)]
        db.update(Visit.primary(who="a", at=at(2)), set_(Visit.expires, PAST))
        assert db.get(Visit.primary(who="a", at=at(2))) is None
        db.update(Visit.primary(who="a", at=at(3)), remove(Visit.expires))
        assert db.get(Visit.primary(who="a", at=at(3))) == Visit(who="a", at=at(3))

    def test_a_field_reads_one_stored_form(self, stores: Stores) -> None:
        others, db = stores.open(prices_of_others), stores.open(prices)
        others.put(PriceOfOthers(name="a", price=100))
        key, noon = Price.primary(name="a"), at(12, day=5).replace(year=2026)
        price = db.one(key)
        assert price == Price(name="a", price=100, at=noon, on=True)
        for held in (Price.price == 100, Price.at == noon, Price.on == True):  # noqa: E712  # conditions
            assert list(db.scan(Price, held)) == [price]
            assert db.count(key.where(held)) == 1
            db.update(key, set_(Price.price, 100), when=held)
        with pytest.raises(BadValue, match="sorts differently"):
            list(db.scan(Price, some(Price.at) <= noon))
        db.put(price)
        assert others.one(PriceOfOthers.primary(name="a")) == PriceOfOthers(name="a", price=100)
        for other, says in (
            (PriceOfOthers(name="a", price="100"), r'price is stored as text .*Stored\(format="text"\)'),
            (PriceOfOthers(name="a", price=1, at="2026-01-05T12:00:00.000Z"), r"at is stored as text .*%3fZ"),
            (
                PriceOfOthers(name="a", price=1, at="2026-01-05T12:00:00.123456789Z"),
                r"at .* nanoseconds.* declare it as str",
            ),
            (PriceOfOthers(name="a", price=1, on=2), r"on is stored as a number .*, 2"),
        ):
            others.put(other)
            with pytest.raises(ItemInvalid, match=f"a stored Price under .* does not fit the model: {says}"):
                db.get(key)
            with pytest.raises(ItemInvalid, match=says):
                list(db.scan(Price))
            with pytest.raises(ItemInvalid, match=says):
                db.get(key, only=[Price.price, Price.at, Price.on])

    def test_null_is_kept_apart_from_an_absent_attribute(self, stores: Stores) -> None:
        db = stores.open(prices)
        db.put(Price(name="null", note=None))
        db.put(Price(name="absent"))
        has_note = {price.name: "note" in price.model_fields_set for price in db.scan(Price, Price.note == None)}  # noqa: E711
        assert has_note == {"null": True, "absent": False}
        assert [price.name for price in db.scan(Price, missing(Price.note))] == ["absent"]
        null, absent = Price.primary(name="null"), Price.primary(name="absent")
        for entity in list(db.scan(Price)):
            db.put(entity)
        assert [db.count(key.where(missing(Price.note))) for key in (null, absent)] == [0, 1]
        db.update(absent, set_(Price.note, None))
        db.update(null, remove(Price.note))
        assert [db.count(key.where(missing(Price.note))) for key in (null, absent)] == [1, 0]

    def test_empty_parts_of_keys(self, stores: Stores) -> None:
        db = stores.open(checkpoints)
        every = [
            Checkpoint(thread="t", namespace=namespace, number=1, path=path, text=namespace + path)
            for namespace, path in (("", ""), ("", "org.x"), ("!", ""), ("a", ""), ("a", "org.x"))
        ]
        fill(db, every[::-1])
        for checkpoint in every:
            key = Checkpoint.primary(thread="t", namespace=checkpoint.namespace, number=1, path=checkpoint.path)
            assert (db.get(key), db.exists(key)) == (checkpoint, True)
        whole = Checkpoint.primary(thread="t")
        assert db.count(whole) == db.count(collection(whole)) == 5
        assert [checkpoint.text for checkpoint in db.query(Checkpoint.primary(thread="t", namespace=""))] == [
            "",
            "org.x",
        ]

        def texts(condition: Condition | bool) -> list[str]:
            assert db.count(whole.where(condition)) == len(list(db.query(whole.where(condition))))
            return sorted(checkpoint.text for checkpoint in db.query(whole.where(condition)))

        assert texts(Checkpoint.namespace > "") == ["!", "a", "aorg.x"]
        assert texts(Checkpoint.namespace >= "") == ["", "!", "a", "aorg.x", "org.x"]
        assert texts(Checkpoint.namespace <= "") == texts(Checkpoint.namespace == "") == ["", "org.x"]
        assert texts(Checkpoint.namespace < "") == []
        assert texts(Checkpoint.namespace <= "!") == ["", "!", "org.x"]
        assert texts(between(Checkpoint.namespace, "", "!")) == ["", "!", "org.x"]
        assert texts(starts_with(Checkpoint.namespace, "")) == ["", "!", "a", "aorg.x", "org.x"]
        last = Checkpoint.primary(thread="t", namespace="", number=1)
        assert [checkpoint.path for checkpoint in db.query(last.where(Checkpoint.path > ""))] == ["org.x"]
        assert [checkpoint.path for checkpoint in db.query(last.where(Checkpoint.path >= "").reverse())] == [
            "org.x",
            "",
        ]
        assert [checkpoint.path for checkpoint in db.query(last.where(Checkpoint.path <= ""))] == [""]
        assert list(db.query(last.where(Checkpoint.path < ""))) == []
        db.update(Checkpoint.primary(thread="t", namespace="", number=1, path=""), set_(Checkpoint.text, "new"))
        assert db.delete(Checkpoint.primary(thread="t", namespace="", number=1, path=""), when=Checkpoint.path == "")
        with pytest.raises(KeyValueError, match=r"namespace='a#b' .* contains '#'"):
            db.put(Checkpoint(thread="t", namespace="a#b", number=1, path=""))
        writing = Writing(thread="t", namespace="", number=1, path="p")
        db.put(writing)
        assert list(db.query(Writing.primary(thread="t", namespace=""))) == [writing]
        with pytest.raises(KeyValueError, match=r"path='' .* it is empty.*\{field:empty\}"):
            db.put(Writing(thread="t", namespace="", number=1, path=""))

    @needs("indexes")
    def test_an_empty_part_of_an_index_key_is_not_none(self, stores: Stores) -> None:
        db = stores.open(checkpoints)
        owners = ["", "ann", None]
        every = [Checkpoint(thread="t", namespace="", number=n, path="", owner=owner) for n, owner in enumerate(owners)]
        fill(db, every)
        assert list(db.query(Checkpoint.primary(thread="t"))) == every
        assert list(db.query(Checkpoint.latest(owner=""))) == every[:1]
        key = Checkpoint.primary(thread="t", namespace="", number=2, path="")
        db.update(key, set_(Checkpoint.owner, ""))
        assert [checkpoint.number for checkpoint in db.query(Checkpoint.latest(owner=""))] == [0, 2]
        db.update(key, remove(Checkpoint.owner))
        assert list(db.query(Checkpoint.latest(owner=""))) == every[:1]
        assert db.get(key) == every[2]

    @needs("indexes")
    def test_computed_fields_of_index_keys(self, stores: Stores) -> None:
        db = stores.open(tasks)
        fill(db, [TASK, Task(number=2, team="CORE A", status="closed"), Task(number=3, team="Web", status=None)])

        def numbers(team: str, **status: str) -> list[int]:
            query = Task.backlog(team_key=team, **status)
            assert db.count(query) == len(list(db.query(query)))
            return [task.number for task in db.query(query)]

        assert (numbers("Core A"), numbers("core a", status_key="Open"), numbers("web")) == ([2, 1], [1], [])
        db.update(Task.primary(number=1), set_(Task.team, "WEB"))
        db.update(Task.primary(number=3), set_(Task.status, "OPEN"))
        assert (numbers("core a"), numbers("web")) == ([2], [1, 3])
        db.update(Task.primary(number=3), increment(Task.points, 5), set_(Task.status, None))
        assert (numbers("web"), db.one(Task.primary(number=3)).points) == ([1], 5)
        db.put(TASK)
        assert (numbers("core a"), numbers("web")) == ([2, 1], [])
        with db.batch() as batch:
            batch.put(TASK.model_copy(update={"team": "x"}))
            batch.delete(Task.primary(number=2))
        assert (numbers("core a"), numbers("X")) == ([], [1])
        with pytest.raises(KeyValueError, match=r"status_key='a#number_' .* contains '#number_'"):
            db.update(TASK, set_(Task.status, "A#Number_"))

    @needs("indexes", "updates", "transactions")
    def test_computed_fields_of_index_keys_follow_a_transaction(self, stores: Stores) -> None:
        db = stores.open(tasks)
        db.put(TASK)
        with db.transaction() as tx:
            tx.update(Task.primary(number=1), set_(Task.team, "Web"))
            tx.put(Task(number=2, team="WEB"))
        assert [task.number for task in db.query(Task.backlog(team_key="web"))] == [1, 2]
        assert list(db.query(Task.backlog(team_key="core a"))) == []

    def test_binary_keys(self, stores: Stores) -> None:
        db = stores.open(digests)
        db.insert(Digest(digest=b"\x00\xff", text="x"))
        assert db.get(Digest.primary(digest=b"\x00\xff")) == Digest(digest=b"\x00\xff", text="x")
        assert db.delete(Digest.primary(digest=b"\x00\xff")) is True

    def test_a_put_keeps_what_the_model_does_not_have(self, stores: Stores) -> None:
        stores.open(drafts).put(Draft(name="a", text="old", mark="m", note="n"))
        db = stores.open(drafts_kept)
        db.put(KeptDraft(name="a", text="new"))
        assert stores.open(drafts).get(Draft.primary(name="a")) == Draft(name="a", text="new", note="n")
        db.put(KeptDraft(name="a"), when=KeptDraft.text == "new")
        assert stores.open(drafts).get(Draft.primary(name="a")) == Draft(name="a", note="n")
        db.put(KeptDraft(name="b"))
        assert db.get(KeptDraft.primary(name="b")) == KeptDraft(name="b")
        with pytest.raises(BadValue, match="a batch replaces whole items"), db.batch() as batch:
            batch.put(KeptDraft(name="a"))
