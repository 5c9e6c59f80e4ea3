"""`Faults`, with sync and async stores, on both backends."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import Annotated, Any

import pytest

from odm import (
    AsyncStore,
    BackendError,
    BadValue,
    ConditionFailed,
    Conflict,
    Entity,
    ItemExists,
    OutcomeUnknown,
    PrimaryKey,
    Revision,
    Store,
    Table,
    Throttled,
    increment,
    set_,
    upgrade,
)
from odm.backends.local import Faults, Happened, LocalFile, Memory
from odm.protocol.connection import Backend
from odm.schema.entity import Key
from odm.testing import Clock
from odm.testing.bridge import blocking

table = Table("parts")


class Part(Entity, table=table):
    bin: str
    number: str
    stock: int = 0

    primary = PrimaryKey("BIN#{bin}", "{number}")


class Sheet(Entity, table=table):
    sheet: str
    text: str = ""
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("SHEET#{sheet}", "SHEET")


PART = Part(bin="a", number="1", stock=5)
OTHER = Part(bin="a", number="2", stock=7)
KEY = Part.primary(bin="a", number="1")
MANY = [Part(bin="b", number=f"{n:02}") for n in range(10)]
PARTITION = Part.primary(bin="b")


@pytest.fixture
def slept() -> list[float]:
    return []


@pytest.fixture
def faults(slept: list[float]) -> Faults:
    return Faults(sleep=slept.append)


@pytest.fixture(params=["memory", "file"])
def backend(request: pytest.FixtureRequest, faults: Faults, tmp_path: Path) -> Backend:
    return Memory(faults=faults) if request.param == "memory" else LocalFile(tmp_path / "db", faults=faults)


@pytest.fixture(params=["sync", "async"])
def db(request: pytest.FixtureRequest, backend: Backend) -> Iterator[Store]:
    """A store that contains `PART`; the async one is wrapped in a blocking interface."""
    with asyncio.Runner() as runner:
        store = Store(table, backend) if request.param == "sync" else blocking(AsyncStore(table, backend), runner)
        store.create()
        store.put(PART)
        yield store
        store.close()


def stored(backend: Backend) -> list[Any]:
    """The stored entities, read by another store after all faults have happened."""
    with Store(table, backend) as other:
        return sorted(other.scan(Part), key=lambda part: (part.bin, part.number))


def send(db: Store, parts: list[Part]) -> None:
    with db.batch() as batch:
        for part in parts:
            batch.put(part)


def transact(db: Store) -> None:
    with db.transaction() as tx:
        tx.put(OTHER)
        tx.update(KEY, increment(Part.stock))


CALLS: list[tuple[str, Callable[[Store], object]]] = [
    ("get", lambda db: db.get(KEY)),
    ("get", lambda db: db.one(KEY)),
    ("get", lambda db: db.exists(KEY)),
    ("get_many", lambda db: db.get_many([KEY])),
    ("query", lambda db: list(db.query(PARTITION))),
    ("query", lambda db: db.page(PARTITION)),
    ("query", lambda db: db.first(PARTITION)),
    ("query", lambda db: db.count(PARTITION)),
    ("scan", lambda db: list(db.scan(Part))),
    ("put", lambda db: db.put(OTHER)),
    ("put", lambda db: db.put(OTHER, when=Part.stock == 7)),
    ("insert", lambda db: db.insert(OTHER)),
    ("insert", lambda db: db.put(Sheet(sheet="s"))),
    ("update", lambda db: db.update(KEY, set_(Part.stock, 1))),
    ("delete", lambda db: db.delete(KEY)),
    ("batch", lambda db: send(db, [OTHER])),
    ("transaction", transact),
    ("create", lambda db: db.create()),
    ("drop", lambda db: db.drop()),
]
CALL_IDS = [f"{word}{n}" for n, (word, _) in enumerate(CALLS)]


@pytest.mark.parametrize(("word", "call"), CALLS, ids=CALL_IDS)
class TestWords:
    def test_a_fault_applies_to_the_requests_of_its_name(
        self, db: Store, faults: Faults, word: Any, call: Callable[[Store], object]
    ) -> None:
        faults.throttle(word)
        with pytest.raises(Throttled, match=f"^{word} on table 'parts'.*injected"):
            call(db)
        [happened] = faults.happened
        assert (happened.fault, happened.operation, happened.table) == ("throttle", word, "parts")
        assert list(db.scan(Part)) == [PART]

    def test_a_fault_does_not_apply_to_requests_of_another_name(
        self, db: Store, faults: Faults, word: str, call: Callable[[Store], object]
    ) -> None:
        groups = {"put": {"put", "insert"}, "insert": {"put", "insert"}}
        others = {word for word, _ in CALLS} - groups.get(word, {word})
        for other in others:
            faults.fail(other)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with suppress(ConditionFailed):  # raised by the put whose condition fails
            call(db)
        assert faults.happened == ()

    def test_groups(self, db: Store, faults: Faults, word: str, call: Callable[[Store], object]) -> None:
        writes = {"put", "insert", "update", "delete", "batch", "transaction"}
        own = "write" if word in writes else "read" if word not in ("create", "drop") else "any"
        faults.throttle("read" if own == "write" else "write")
        faults.throttle(own)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
        with pytest.raises(Throttled):
            call(db)
        assert [one.operation for one in faults.happened] == [word]


def test_explain_has_no_faults(db: Store, faults: Faults) -> None:
    faults.fail("any", times=None)
    assert db.explain(KEY).native is not None
    assert db.explain(PART).native is not None
    assert faults.happened == ()


def test_an_upgrade_of_an_older_item_is_not_an_insert(backend: Backend, faults: Faults) -> None:
    newer = Table("parts")

    class NewPart(Part, table=newer, tag="Part", version=2):
        primary = PrimaryKey("BIN#{bin}", "{number}")

        @upgrade(from_=1)
        @staticmethod
        def same(item: dict[str, Any]) -> dict[str, Any]:
            return item

    with Store(table, backend) as old, Store(newer, backend) as db:
        old.create()
        old.put(PART)
        faults.throttle("insert")
        faults.delay("put", 0)
        db.update(NewPart.primary(bin="a", number="1"), increment(NewPart.stock))
    assert [fault.operation for fault in faults.happened] == ["put"]


def test_put_includes_inserts_but_insert_does_not_include_puts(db: Store, faults: Faults) -> None:
    faults.throttle("insert")
    db.put(OTHER)
    with pytest.raises(Throttled):
        db.insert(OTHER)
    faults.throttle("put")
    with pytest.raises(Throttled):
        db.insert(OTHER)


class TestThrottle:
    def test_the_application_can_retry(self, db: Store, faults: Faults) -> None:
        faults.throttle("put", times=2)
        for _ in range(2):
            with pytest.raises(Throttled):
                db.put(OTHER)
        assert db.put(OTHER) == OTHER
        assert db.get(Part, bin="a", number="2") == OTHER

    @pytest.mark.parametrize(("done", "count"), [(None, 5), (0, 0), (3, 3), (99, 10)])
    def test_a_batch_is_applied_in_part(
        self, db: Store, faults: Faults, backend: Backend, done: int | None, count: int
    ) -> None:
        faults.throttle("batch", done=done)
        with pytest.raises(Throttled) as caught:
            send(db, MANY)
        assert stored(backend) == [PART, *MANY[:count]]
        assert list(caught.value.left) == MANY[count:]
        send(db, list(caught.value.left))
        assert stored(backend) == [PART, *MANY]

    def test_a_repeated_delete_all_deletes_the_rest(self, db: Store, faults: Faults, backend: Backend) -> None:
        send(db, MANY)
        faults.throttle("batch")
        with pytest.raises(Throttled) as caught:
            db.delete_all(PARTITION)
        assert caught.value.left == ()  # the caller did not pass these one by one
        assert stored(backend) == [PART, *MANY[5:]]
        assert db.delete_all(PARTITION) == 5
        assert stored(backend) == [PART]

    def test_keys_that_were_not_read_are_left(self, db: Store, faults: Faults) -> None:
        faults.throttle("get_many")
        with pytest.raises(Throttled) as caught:
            db.get_many([KEY, Part.primary(bin="a", number="2")])
        assert caught.value.left == (KEY, Part.primary(bin="a", number="2"))
        assert db.get_many(caught.value.left) == [PART, None]

    def test_keys_that_were_not_deleted_are_left(self, db: Store, faults: Faults) -> None:
        for which in (PART, KEY):
            faults.throttle("batch", done=0)
            with pytest.raises(Throttled) as caught, db.batch() as batch:  # noqa: PT012  # sent at the end
                batch.put(OTHER)
                batch.delete(which)
            assert caught.value.left == (OTHER, KEY)
        with db.batch() as batch:
            batch.delete(Part, bin="a", number="1")
        assert not db.exists(KEY)


class TestFail:
    def test_with_a_given_error(self, db: Store, faults: Faults) -> None:
        error = BackendError("it rains")
        faults.fail("query", error, after=1)
        assert list(db.query(PARTITION)) == []
        with pytest.raises(BackendError, match="it rains") as caught:
            list(db.query(PARTITION))
        assert caught.value is error
        assert list(db.query(PARTITION)) == []

    def test_the_hook_of_the_store_sees_it(self, backend: Backend, faults: Faults) -> None:
        seen: list[tuple[str, str]] = []
        hook = lambda info: seen.append((info.operation, type(info.error).__name__))  # noqa: E731
        with Store(table, backend, on_request=hook) as db:
            db.create()
            faults.fail("get")
            with pytest.raises(BackendError):
                db.get(KEY)
        assert seen == [("CreateTables", "NoneType"), ("Get", "BackendError")]

    def test_forever_until_it_is_cleared(self, db: Store, faults: Faults) -> None:
        faults.fail("any", times=None)
        for _ in range(5):
            with pytest.raises(BackendError, match="the service failed"):
                db.get(KEY)
        faults.clear()
        assert db.get(KEY) == PART
        assert len(faults.happened) == 5


class TestLose:
    @pytest.mark.parametrize("applied", [True, False])
    def test_an_update(self, db: Store, faults: Faults, applied: bool) -> None:
        faults.lose("update", applied=applied)
        with pytest.raises(OutcomeUnknown, match=r"update on table 'parts', .*read the item"):
            db.update(KEY, increment(Part.stock))
        assert db.one(KEY).stock == (6 if applied else 5)

    @pytest.mark.parametrize("applied", [True, False])
    def test_a_delete(self, db: Store, faults: Faults, applied: bool) -> None:
        faults.lose("delete", applied=applied)
        with pytest.raises(OutcomeUnknown):
            db.delete(KEY)
        assert db.exists(KEY) is not applied

    @pytest.mark.parametrize("applied", [True, False])
    def test_an_insert(self, db: Store, faults: Faults, applied: bool) -> None:
        faults.lose("insert", applied=applied)
        with pytest.raises(OutcomeUnknown):
            db.insert(OTHER)
        if applied:
            with pytest.raises(ItemExists):
                db.insert(OTHER)
        else:
            db.insert(OTHER)

    @pytest.mark.parametrize("applied", [True, False])
    def test_a_transaction_as_a_whole(self, db: Store, faults: Faults, backend: Backend, applied: bool) -> None:
        faults.lose("transaction", applied=applied)
        with pytest.raises(OutcomeUnknown):
            transact(db)
        assert [part.stock for part in stored(backend)] == ([6, 7] if applied else [5])

    def test_an_idempotent_write_can_be_repeated(self, db: Store, faults: Faults, backend: Backend) -> None:
        faults.lose("put")
        faults.lose("batch", applied=False)
        with pytest.raises(OutcomeUnknown, match="can safely be repeated"):
            db.put(OTHER)
        with pytest.raises(OutcomeUnknown, match="can safely be repeated"):
            send(db, MANY)
        assert stored(backend) == [PART, OTHER]

    def test_a_write_whose_condition_fails(self, db: Store, faults: Faults) -> None:
        faults.lose("update")
        with pytest.raises(OutcomeUnknown):
            db.update(KEY, set_(Part.stock, 0), when=Part.stock == 99)
        assert db.one(KEY) == PART

    @pytest.mark.parametrize("operation", ["get", "query", "scan", "read", "any", "create"])
    def test_only_responses_to_writes_can_be_lost(self, operation: Any) -> None:
        with pytest.raises(BadValue, match="only the response to a write"):
            Faults().lose(operation)


class TestDelay:
    def test_calls_the_given_function(self, db: Store, faults: Faults, slept: list[float]) -> None:
        faults.delay("get", 0.2)
        faults.delay("any", 1)
        assert db.get(KEY) == PART
        db.put(OTHER)
        assert slept == [0.2, 1, 1]

    def test_a_clock_can_replace_waiting(self) -> None:
        clock = Clock()
        faults = Faults(sleep=clock.advance)
        faults.delay("get", 30)
        before = clock()
        with Store(table, Memory(clock=clock, faults=faults)) as db:
            db.create()
            assert db.get(KEY) is None
        assert clock() == before + 30

    def test_waits_by_default(self) -> None:
        faults = Faults()
        faults.delay("any", 0.001)
        with Store(table, Memory(faults=faults)) as db:
            db.create()
            assert db.get(KEY) is None
        assert [one.fault for one in faults.happened] == ["delay", "delay"]

    async def test_does_not_block_the_event_loop(self) -> None:
        faults = Faults()
        faults.delay("get", 3600)
        async with AsyncStore(table, Memory(faults=faults)) as db:
            await db.create()
            slow = asyncio.create_task(db.get(KEY))
            await asyncio.sleep(0)
            assert faults.happened
            await db.put(PART)  # while the delayed request still waits
            assert not slow.done()
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow


class TestBefore:
    def test_a_concurrent_write_takes_the_key(self, db: Store, faults: Faults, backend: Backend) -> None:
        def compete() -> None:
            with Store(table, backend) as rival:
                rival.insert(Part(bin="a", number="2", stock=1))

        faults.before("insert", compete)
        with pytest.raises(ItemExists) as caught:
            db.insert(OTHER)
        assert caught.value.item.stock == 1

    def test_a_concurrent_write_changes_the_revision(self, db: Store, faults: Faults, backend: Backend) -> None:
        sheet = db.put(Sheet(sheet="s"))
        rival = Store(table, backend)
        faults.before("put", lambda: rival.put(sheet.model_copy(update={"text": "theirs"})))
        with pytest.raises(Conflict) as caught:
            db.put(sheet.model_copy(update={"text": "ours"}))
        assert caught.value.item.text == "theirs"
        rival.close()

    def test_requests_of_the_function_have_no_faults(self, db: Store, faults: Faults, backend: Backend) -> None:
        rival = Store(table, backend)
        faults.before("update", lambda: rival.update(rival.one(KEY), increment(Part.stock)), times=None)
        faults.throttle("get")
        for _ in range(2):
            db.update(KEY, increment(Part.stock))
        assert [one.fault for one in faults.happened] == ["before", "before"]
        with pytest.raises(Throttled):
            db.get(KEY)
        assert db.one(KEY).stock == 9
        rival.close()

    def test_exceptions_of_the_function_reach_the_caller(self, db: Store, faults: Faults) -> None:
        def fail() -> None:
            raise AssertionError("never reached, they said")

        faults.before("get", fail)
        with pytest.raises(AssertionError, match="they said"):
            db.get(KEY)
        assert db.get(KEY) == PART

    async def test_an_async_function(self) -> None:
        faults = Faults()
        backend = Memory(faults=faults)
        async with AsyncStore(table, backend) as db, AsyncStore(table, backend) as rival:
            await db.create()
            await db.put(PART)

            async def compete() -> None:
                await rival.delete(KEY)

            faults.before("get", compete)
            assert await db.get(KEY) is None

    def test_an_async_function_needs_an_async_store(self) -> None:
        async def compete() -> None: ...

        faults = Faults()
        faults.before("get", compete)
        with Store(table, Memory(faults=faults)) as db:
            db.create()
            with pytest.raises(BadValue, match="AsyncStore"):
                db.get(KEY)


class TestWhich:
    def test_times_and_after(self, db: Store, faults: Faults) -> None:
        faults.throttle("get", times=2, after=1)
        assert outcomes(db, 5) == [True, False, False, True, True]

    def test_zero_times_is_never(self, db: Store, faults: Faults) -> None:
        faults.throttle("get", times=0)
        assert outcomes(db, 2) == [True, True]

    @pytest.mark.parametrize("on", [KEY, PART, lambda key: key.sort == "1"], ids=["key", "entity", "function"])
    def test_one_item(self, db: Store, faults: Faults, on: Any) -> None:
        db.put(OTHER)
        faults.fail("any", on=on, times=None)
        assert db.get(Part, bin="a", number="2") == OTHER
        assert len(list(db.scan(Part))) == 2
        for touch in (
            lambda: db.get(KEY),
            lambda: db.get_many([Part.primary(bin="a", number="2"), KEY]),
            lambda: db.update(KEY, set_(Part.stock, 1)),
            lambda: db.delete(PART),
            lambda: send(db, [OTHER, PART]),
        ):
            with pytest.raises(BackendError):
                touch()

    def test_a_partition(self, db: Store, faults: Faults) -> None:
        faults.throttle("query", on=lambda key: key.partition == "BIN#b")
        assert len(list(db.query(Part.primary(bin="a")))) == 1
        with pytest.raises(Throttled):
            list(db.query(PARTITION))

    def test_the_same_key_in_another_table_is_another_item(self, faults: Faults) -> None:
        other = Table("others")

        class Same(Part, table=other):
            primary = PrimaryKey("BIN#{bin}", "{number}")

        backend = Memory(faults=faults)
        faults.throttle("get", on=PART)
        with Store(table, backend) as db, Store(other, backend) as others:
            db.create()
            others.create()
            assert others.get(Same, bin="a", number="1") is None
            with pytest.raises(Throttled):
                db.get(KEY)

    def test_chance_is_drawn_from_the_seed(self) -> None:
        def drawn(seed: int) -> list[bool]:
            faults = Faults(seed=seed)
            faults.throttle("get", times=None, chance=0.5)
            with Store(table, Memory(faults=faults)) as db:
                db.create()
                return outcomes(db, 64)

        assert drawn(1) == drawn(1) != drawn(2)
        assert 16 < sum(drawn(1)) < 48

    @pytest.mark.parametrize(("chance", "works"), [(0.0, True), (1.0, False)])
    def test_never_and_always(self, db: Store, faults: Faults, chance: float, works: bool) -> None:
        faults.throttle("get", times=None, chance=chance)
        assert outcomes(db, 4) == [works] * 4

    def test_faults_take_effect_in_the_order_in_which_they_were_set(
        self, db: Store, faults: Faults, slept: list[float]
    ) -> None:
        faults.delay("get", 1)
        faults.throttle("get")
        faults.delay("get", 2)
        faults.fail("get")
        with pytest.raises(Throttled):
            db.get(KEY)
        with pytest.raises(BackendError):
            db.get(KEY)
        assert slept == [1, 1, 2]
        key = (Key("BIN#a", "1"),)
        assert faults.happened[:2] == (
            Happened("delay", "get", "parts", key),
            Happened("throttle", "get", "parts", key),
        )

    def test_a_fault_applies_once_among_threads(self, backend: Backend, faults: Faults) -> None:
        with Store(table, backend) as db:
            db.create()
            faults.throttle("get", times=10)
            refused: list[bool] = []
            threads = [Thread(target=lambda: refused.extend(not ok for ok in outcomes(db, 10))) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sum(refused) == 10


def outcomes(db: Store, calls: int) -> list[bool]:
    """For each of this many gets, whether it succeeded."""

    def works() -> bool:
        try:
            db.get(KEY)
        except Throttled:
            return False
        return True

    return [works() for _ in range(calls)]


MISTAKES: list[tuple[str, Callable[[Faults], None]]] = [
    ("no operation 'puts'.* put, ", lambda faults: faults.throttle("puts")),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ("times=-1", lambda faults: faults.throttle("put", times=-1)),
    ("times=True", lambda faults: faults.throttle("put", times=True)),
    ("after=0.5", lambda faults: faults.fail("put", after=0.5)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ("done=-2", lambda faults: faults.throttle("batch", done=-2)),
    ("chance=1.5", lambda faults: faults.throttle("put", chance=1.5)),
    ("error of odm", lambda faults: faults.fail("put", OSError("disk"))),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ("seconds to wait", lambda faults: faults.delay("put", -1)),
    ("seconds to wait", lambda faults: faults.delay("put", float("nan"))),
    ("a function to call", lambda faults: faults.before("put", "compete")),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ("pass an entity, its key", lambda faults: faults.throttle("put", on="a#1")),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ("pass an entity, its key", lambda faults: faults.throttle("put", on=Part)),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    ("'number' is missing", lambda faults: faults.throttle("get", on=Part.primary(bin="a"))),
    ("not for single items", lambda faults: faults.throttle("scan", on=KEY)),
]


@pytest.mark.parametrize(("message", "mistake"), MISTAKES, ids=[f"{n}: {text}" for n, (text, _) in enumerate(MISTAKES)])
def test_invalid_arguments_are_named(message: str, mistake: Callable[[Faults], None]) -> None:
    faults = Faults()
    with pytest.raises(BadValue, match=message):
        mistake(faults)
    assert repr(faults) == "Faults(0 set, 0 happened)"


@pytest.mark.parametrize("name", ["memory", "file"])
def test_a_short_page_is_followed(name: str, tmp_path: Path) -> None:
    faults = Faults()
    faults.delay("query", 0)  # records how many pages were read
    short: Backend = Memory(faults=faults, page_bytes=1)
    if name == "file":
        short = LocalFile(tmp_path / "db", faults=faults, page_bytes=1)
    with Store(table, short) as db:
        db.create()
        send(db, MANY)
        assert list(db.query(PARTITION)) == MANY
        assert len(faults.happened) == 10
        assert list(db.query(PARTITION.where(Part.stock > 0))) == []
        assert len(faults.happened) == 20
        assert db.count(PARTITION.where(Part.stock == 0)) == 10
        page = db.page(PARTITION, size=4)
        assert (list(page.items), page.cursor is None) == (MANY[:4], False)


@pytest.mark.parametrize("make", [Memory, lambda **options: LocalFile("never-opened.db", **options)])
def test_a_page_of_no_bytes_is_refused(make: Callable[..., Backend]) -> None:
    with pytest.raises(BadValue, match="page_bytes=0"):
        make(page_bytes=0)
