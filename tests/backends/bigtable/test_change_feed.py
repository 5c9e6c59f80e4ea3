"""The change feed of a table on odm's emulator: what it delivers of each kind of write, and from each position."""

from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import count
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import (
    AccessPattern,
    AsyncStore,
    BadCursor,
    Cell,
    Columns,
    Counter,
    Entity,
    PrimaryKey,
    Store,
    Table,
    Unsupported,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import DeleteFamily, Entry, MutateRow, Native, SetCell
from odm.backends.bigtable.emulator import Emulator
from odm.changes import Change, Changes, Removed
from odm.protocol.connection import CoreGen

DAY = timedelta(days=1)
_numbers = count(1)

shop = Table("shop")
locked = Table("locked", transactions=True)
wide = Table("wide", layout="row_per_partition")
wide_locked = Table("wide_locked", layout="row_per_partition", transactions=True)
apart = Table("apart", row_key_join="##")
keyed = Table("keyed", row_style="verbatim")
visits = Table("visits", keys=("who", "at"), key_style="verbatim", tag=None)


class Hat(Entity, table=shop):
    brand: str
    id: int
    price: int = 0
    sold: Annotated[int, Counter] = 0
    sizes: Annotated[dict[str, int], Columns] = {}

    primary = PrimaryKey("BRAND#{brand}", "HAT#{id}")
    by_price = AccessPattern("PRICE#{price}", "{id}")


class Shoe(Entity, table=shop, family="shoes"):
    brand: str
    id: int
    price: int = 0

    primary = PrimaryKey("SHOES#OF#{brand}", "{id}")


def hats(table: Table, **options: Any) -> Any:
    """An entity like Hat, with what all layouts support."""

    class Cap(Entity, table=table, **options):
        brand: str
        id: int
        price: int = 0
        sold: Annotated[int, Counter] = 0

        primary = PrimaryKey("BRAND#{brand}", "HAT#{id}")
        by_price = AccessPattern("PRICE#{price}", "{id}")

    return Cap


LOCKED, WIDE, WIDE_LOCKED, APART = hats(locked), hats(wide), hats(wide_locked, family="caps"), hats(apart)


class Quote(Entity, table=keyed):
    market: str
    symbol: str
    bid: Annotated[int, Cell("md:bid", "int64be")]
    note: Annotated[str | None, Cell("md:note", "text")] = None

    primary = PrimaryKey("{market}", "{symbol}")


class Visit(Entity, table=visits):
    who: str
    at: str
    pages: int = 0

    primary = PrimaryKey("{who}", "{at}")


LAYOUTS: dict[str, tuple[Table, Any]] = {
    "usual": (shop, Hat),
    "family": (shop, Shoe),
    "locks": (locked, LOCKED),
    "wide": (wide, WIDE),
    "wide with locks": (wide_locked, WIDE_LOCKED),
    "apart": (apart, APART),
}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Emulator() as emulator:
        yield emulator.address


class Place(NamedTuple):
    """A new table: a store, how to run a procedure on it, and how another program makes a native call."""

    db: Store
    run: Callable[[Any], Awaitable[Any]]
    call: Callable[[Native], Any]
    prefix: str


@pytest.fixture(params=["sync", "async"])
async def place(request: pytest.FixtureRequest, address: str, transport: Any) -> Any:
    """Opens a table."""
    opened: list[Any] = []

    def open(table: Table, **options: Any) -> Place:
        backend = Bigtable("p", "i", endpoint=address, transport=transport, **{"stream": DAY, **options})
        prefix = f"t{next(_numbers)}"
        db, call = Store(table, backend, prefix=prefix), backend.connect(table.compile()).call
        opened.append(db)
        db.create()
        if request.param == "sync":
            reader = Store(table, backend, prefix=prefix)  # of its own, as the async one: a test may close the other
            opened.append(reader)

            async def run(procedure: Any) -> Any:
                return reader.run(procedure)

            return Place(db, run, call, prefix)
        other = AsyncStore(table, backend, prefix=prefix)
        opened.append(other)
        return Place(db, other.run, call, prefix)

    yield open
    for store in opened:
        if isinstance(store, Store):
            store.close()
        else:
            await store.aclose()


def shard_pages(do: Any, shard: str, after: str | None, size: int) -> CoreGen[list[tuple[Change[Any], str]]]:
    """The rest of a shard that has not ended."""
    found: list[tuple[Change[Any], str]] = []
    while True:
        page: Changes = yield from do.changes(shard, after, size=size)
        found += page.items
        if page.position == after:
            return found
        after = page.position


def everything(size: int = 3) -> Any:
    """All changes of the table, with the shards and positions."""

    def steps(do: Any) -> CoreGen[list[tuple[str, Change[Any], str]]]:
        found: list[tuple[str, Change[Any], str]] = []
        for shard in (yield from do.change_shards()):
            items = yield from shard_pages(do, shard.id, None, size)
            found += [(shard.id, change, position) for change, position in items]
        return found

    return steps


def kinds(found: Any) -> list[tuple[str, tuple[str, str], Any]]:
    return [(type(change).__name__, tuple(change.key), change.new) for _, change, _ in found]


def told(found: Any) -> list[tuple[str, int, Any]]:
    """The kind, the id and the price of each change."""
    return [
        (type(change).__name__, int(change.key[1][-1]), None if change.new is None else change.new.price)
        for _, change, _ in found
    ]


def final(found: Any) -> dict[tuple[str, str], Entity]:
    """The table that the changes make, when they are applied to an empty one."""
    made: dict[tuple[str, str], Entity] = {}
    for _, change, _ in found:
        if isinstance(change, Removed):
            made.pop(change.key, None)
        else:
            made[change.key] = change.new
    return made


def stored(db: Store, table: Table, *models: Any) -> dict[tuple[str, str], Entity]:
    schema = table.compile()
    return {schema.target(one).key: one for model in models for one in db.scan(model)}


@pytest.mark.parametrize("layout", LAYOUTS)
async def test_each_kind_of_write(place: Any, layout: str) -> None:
    table, model = LAYOUTS[layout]
    at = place(table)
    db = at.db
    db.put(model(brand="a", id=1, price=5))
    db.insert(model(brand="a", id=2))
    db.update(model.primary(brand="a", id=1), set_(model.price, 6))
    with db.batch() as batch:
        batch.put(model(brand="b", id=3, price=1))
        batch.put(model(brand="a", id=4, price=1))
        batch.delete(model.primary(brand="a", id=2))
    db.delete(model(brand="b", id=3, price=1))
    found = await at.run(everything())
    # the content is that of the time at which a page is read
    assert told(found)[:3] == [("Changed", 1, 6), ("Removed", 2, None), ("Changed", 1, 6)]
    assert sorted(told(found)[3:]) == [
        ("Changed", 4, 1),
        ("Removed", 2, None),
        ("Removed", 3, None),
        ("Removed", 3, None),
    ]
    assert final(found) == stored(db, table, model)
    orders = [change.order for _, change, _ in found]
    assert orders == sorted(set(orders))
    assert all(change.old is None and change.at is not None and change.sequence for _, change, _ in found)


@pytest.mark.parametrize("layout", ["locks", "wide with locks"])
async def test_a_transaction_is_a_change_of_each_item_and_its_locks_are_none(place: Any, layout: str) -> None:
    table, model = LAYOUTS[layout]
    at = place(table)
    db = at.db
    with db.transaction() as tx:
        tx.put(model(brand="a", id=1, price=1))
        tx.put(model(brand="b", id=2, price=2))
    with db.transaction() as tx:
        tx.update(model.primary(brand="a", id=1), set_(model.price, 3))
        tx.delete(model.primary(brand="b", id=2))
    db.close()
    found = await at.run(everything())
    assert sorted(told(found)) == [("Changed", 1, 3)] * 2 + [("Removed", 2, None)] * 2


async def test_items_of_one_wide_row_change_together(place: Any) -> None:
    """All but the last of them have the position before the change, so that none is lost."""
    at = place(wide)
    with at.db.transaction() as tx:
        for id in (1, 2, 3):
            tx.put(WIDE(brand="a", id=id))
    at.db.put(WIDE(brand="a", id=4))
    found = await at.run(everything(size=1))
    shard = found[0][0]
    positions = [position for *_, position in found]
    assert positions[0] == positions[1] != positions[2] != positions[3]
    for position in positions[:2]:
        rest = await at.run(lambda do, position=position: shard_pages(do, shard, position, 9))
        assert [id for _, id, _ in told([(shard, *one) for one in rest])] == [1, 2, 3, 4]
    rest = await at.run(lambda do: shard_pages(do, shard, positions[2], 9))
    assert [int(change.key[1][-1]) for change, _ in rest] == [4]


async def test_the_deletion_of_a_whole_wide_row_names_no_items(place: Any, caplog: pytest.LogCaptureFixture) -> None:
    at = place(wide)
    at.db.put(WIDE(brand="a", id=1))
    at.call(MutateRow(f"{at.prefix}wide", Entry("BRAND#a", (DeleteFamily("d"), DeleteFamily("c")))))
    assert told(await at.run(everything())) == [("Removed", 1, None)]
    assert "a deletion of a whole row or family was not delivered" in caplog.text


def test_googles_emulator_has_none_and_is_not_asked(google_emulator: str) -> None:
    """The calls of change streams end it."""
    with Store(shop, Bigtable("p", "i", endpoint=google_emulator, stream=DAY), prefix="feed") as db:
        db.create()
        with pytest.raises(Unsupported, match="Google's emulator has no change streams"):
            db.run(lambda do: do.change_shards())
        with pytest.raises(Unsupported, match="Google's emulator has no change streams"):
            db.run(lambda do: do.changes(":"))


async def test_an_increment_is_a_change(place: Any) -> None:
    for layout in ("usual", "wide"):
        table, model = LAYOUTS[layout]
        at = place(table)
        at.db.put(model(brand="a", id=1))
        at.db.update(model.primary(brand="a", id=1), increment(model.sold, 2))
        found = await at.run(everything())
        assert [change.new.sold for _, change, _ in found] == [2, 2], layout


async def test_every_position_continues_without_a_loss(place: Any) -> None:
    at = place(shop)
    for id in range(7):
        at.db.put(Hat(brand="a", id=id))
    found = await at.run(everything(size=2))
    assert [id for _, id, _ in told(found)] == [*range(7)]
    for number, (shard, _, position) in enumerate(found):
        rest = await at.run(lambda do, shard=shard, position=position: shard_pages(do, shard, position, 3))
        assert [change.order for change, _ in rest] == [change.order for _, change, _ in found[number + 1 :]]


async def test_the_parts_of_a_table_are_shards(place: Any) -> None:
    at = place(shop, stream=DAY, initial_splits=["BRAND#b"])
    for brand in "abc":
        at.db.put(Hat(brand=brand, id=1))
    found = await at.run(everything())
    assert [shard for shard, *_ in found] == [":BRAND%23b", "BRAND%23b:", "BRAND%23b:"]
    assert [change.key[0] for _, change, _ in found] == ["BRAND#a", "BRAND#b", "BRAND#c"]


async def test_rows_of_other_programs(place: Any) -> None:
    """Their cells are not delivered; those that a model declares are."""
    at = place(keyed)
    at.db.put(Quote(market="X", symbol="A", bid=5))
    at.db.put(Quote(market="X", symbol="B", bid=6))
    call, table = at.call, f"{at.prefix}keyed"
    call(MutateRow(table, Entry("X#A", (SetCell("odds", b"1", 0, "md"),))))
    call(MutateRow(table, Entry("other", (SetCell("odds", b"1", 0, "md"),))))
    call(MutateRow(table, Entry("X#A", (SetCell("note", b"up", 0, "md"),))))
    at.db.delete(Quote.primary(market="X", symbol="B"))
    call(MutateRow(table, Entry("X#A", (DeleteFamily("md"),))))
    found = await at.run(everything())
    assert [(type(change).__name__, tuple(change.key)) for _, change, _ in found] == [
        ("Removed", ("X", "A")),
        ("Removed", ("X", "B")),
        ("Removed", ("X", "A")),
        ("Removed", ("X", "B")),
        ("Removed", ("X", "A")),
    ]


async def test_keys_as_they_are(place: Any) -> None:
    """The row key has escapes, and the key of a change has none."""
    at = place(visits)
    at.db.put(Visit(who="a#b", at="x y##z"))
    at.db.put(Visit(who="%", at="1"))
    at.db.delete(Visit.primary(who="%", at="1"))
    found = await at.run(everything())
    assert [(type(change).__name__, tuple(change.key)) for _, change, _ in found] == [
        ("Changed", ("a#b", "x y##z")),
        ("Removed", ("%", "1")),
        ("Removed", ("%", "1")),
    ]


async def test_a_table_without_a_change_stream_is_refused_before_any_call_of_it(place: Any) -> None:
    at = place(shop, stream=None)
    with pytest.raises(Unsupported, match=r"has no change stream: open it with Bigtable\(..., stream=timedelta"):
        await at.run(lambda do: do.change_shards())
    with pytest.raises(Unsupported, match="has no change stream"):
        await at.run(lambda do: do.changes(":"))


@pytest.mark.parametrize(
    ("shard", "position", "message"),
    [
        ("log", None, "'log' is not a shard"),
        ("b:a", None, "'b:a' is not a shard"),
        ("%62:", None, "'%62:' is not a shard"),
        (":", "log:5", "'log:5' is not a position"),
        (":", "", "'' is not a position"),
        (":b", "b:=5", "is not a position"),
        (":b", ":c=5", "is not a position"),
        (":", ":=5\n:@7", "is not a position"),
        (":", ":b=5\na:=7", "is not a position"),
        (":", ":b@5", "is not a position"),
        (":", ":=%ff", "is not a position"),
        (":", ":=99", "changes were lost"),
        (":", ":=x", "changes were lost"),
    ],
)
async def test_bad_positions(place: Any, shard: str, position: str | None, message: str) -> None:
    at = place(shop)
    with pytest.raises(BadCursor, match=message):
        await at.run(lambda do: do.changes(shard, position))


WRITES = st.lists(
    st.tuples(
        st.sampled_from(["put", "delete", "update", "batch", "transaction"]), st.integers(0, 3), st.integers(0, 9)
    ),
    max_size=8,
)


def apply(db: Store, model: Any, table: Table, write: tuple[str, int, int]) -> None:
    kind, id, price = write
    one, key = model(brand="ab"[id % 2], id=id, price=price), model.primary(brand="ab"[id % 2], id=id)
    match kind:
        case "put":
            db.put(one)
        case "delete":
            db.delete(key)
        case "update":
            db.update(key, set_(model.price, price), increment(model.sold), upsert=True)
        case "batch":
            with db.batch() as batch:
                batch.put(one)
                batch.put(model(brand="b", id=9, price=price))
        case _:
            with db.transaction() as tx:
                tx.put(one)
                if table in (locked, wide_locked):
                    tx.delete(model.primary(brand="b", id=9))


@pytest.mark.parametrize("layout", ["usual", "locks", "wide", "wide with locks"])
def test_the_feed_applied_to_nothing_is_the_table(address: str, layout: str) -> None:
    table, model = LAYOUTS[layout]

    @settings(max_examples=12, deadline=None)
    @given(WRITES, st.integers(1, 4), st.integers(0, 8))
    def check(writes: list[tuple[str, int, int]], size: int, early: int) -> None:
        backend, prefix = Bigtable("p", "i", endpoint=address, stream=DAY), f"h{next(_numbers)}"
        db = Store(table, backend, prefix=prefix)
        db.create()
        for write in writes[:early]:
            apply(db, model, table, write)
        (shard,) = db.run(lambda do: do.change_shards())
        begun = db.run(lambda do: do.changes(shard.id, size=size))
        found = [(shard.id, *one) for one in begun.items]
        for write in writes[early:]:
            apply(db, model, table, write)
        db.close()  # waits for the removal of locks
        with Store(table, backend, prefix=prefix) as after:
            found += [(shard.id, *one) for one in after.run(lambda do: shard_pages(do, shard.id, begun.position, size))]
            assert final(found) == stored(after, table, model)

    check()
