"""Shards and local indexes as declared: what they compile to, and every fault with its fix."""

from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum
from functools import partial
from random import Random
from types import new_class
from typing import Annotated, Any
from zlib import crc32

import pytest
from pydantic import Field

from odm import AccessPattern, Counter, Entity, PrimaryKey, SchemaError, Shards, Store, Table, select
from odm.backends.bigtable import Bigtable
from odm.backends.local import Memory
from odm.keys import suffixes_leaving, suffixes_read
from odm.schema.entity import EntitySchema

PRIMARY = PrimaryKey("CUSTOMER#{customer_id}", "{id}")


class Hue(Enum):
    RED = "red"


def declared(pattern: AccessPattern, table: Table | None = None, **more: AccessPattern) -> EntitySchema:
    """An order with this pattern, compiled; ``more`` are other patterns of it."""
    table = table or Table("shop")

    class Order(Entity, table=table):
        customer_id: str
        id: str
        email: str | None = None
        views: Annotated[int, Counter] = 0
        number: Annotated[int, Field(ge=-5, lt=100)] = 0
        total: Annotated[Decimal, Field(decimal_places=2)] = Decimal(0)
        price: Decimal = Decimal(0)
        at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
        hue: Hue = Hue.RED
        primary = PRIMARY
        one = pattern
        locals().update(more)

    return table.compile().entity(Order)


def rivals(table: Table, numbers: int) -> tuple[type[Entity], type[Entity]]:
    """An entity with one partition in the index ``one``, and an entity with a partition a number there."""

    class Plain(Entity, table=table):
        id: str
        primary = PrimaryKey("PLAIN#{id}")
        one = AccessPattern("OPEN", "{id}")

    class Mark(Entity, table=table):
        number: Annotated[int, Field(ge=0, lt=numbers)] = 0
        primary = PrimaryKey("MARK#{number}")
        one = AccessPattern("OPEN#{number}")

    return Plain, Mark


FAULTS: list[Any] = [
    (AccessPattern("A", shards=8), "shards=8 is not a Shards", "Shards(8, by=...)"),  # type: ignore[arg-type]
    (AccessPattern("A", shards=Shards(1)), "Shards(1)", "from 2 to 1000"),
    (AccessPattern("A", shards=Shards(1001)), "Shards(1001)", "from 2 to 1000"),
    (AccessPattern("A", shards=Shards(True)), "Shards(True)", "from 2 to 1000"),
    (AccessPattern("A", shards=Shards(8, by="idd")), "no field 'idd'", "did you mean id?"),
    (AccessPattern("A", shards=Shards(8, by="email")), "'email' may be None", "make it required"),
    (AccessPattern("A", shards=Shards(8, by="views")), "Order.views", "Counter or Revision", "shards="),
    (AccessPattern("A", shards=Shards(8, by="price")), "Decimal needs a fixed number of places"),
    (AccessPattern("A#{id}", shards=Shards(8, by="id")), "'id' is in the partition key", "random shards"),
    (
        AccessPattern("CUSTOMER#{customer_id}", "{number}", local=True, shards=Shards(8)),
        "cannot have shards",
        "drop local=True or shards=",
    ),
    (AccessPattern("A", shards=Shards(8, was=0)), "Shards(8, was=0)", "an int from 1, for none, to 1000"),
    (AccessPattern("A", shards=Shards(8, was=True)), "Shards(8, was=True)", "an int from 1"),
    (AccessPattern("A", shards=Shards(8, by="id", was=8)), 'Shards(8, by="id", was=8)', "leave it out"),
    (AccessPattern("A", shards=Shards(1000, was=50)), "a query reads 1050 shards", "fewer shards"),
    (AccessPattern("OTHER#{customer_id}", "{number}", local=True), 'write "CUSTOMER#{customer_id}"', "drop local=True"),
    (AccessPattern("CUSTOMER#{customer_id}", local=True), "give it a sort template", "local=True"),
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: repr(fault[1]))
def test_faults_name_the_pattern_and_the_fix(fault: tuple[Any, ...]) -> None:
    pattern, *says = fault
    with pytest.raises(SchemaError) as raised:
        declared(pattern)
    assert str(raised.value).startswith("Order.")
    assert [text for text in says if text not in str(raised.value)] == []


def spread(primary: PrimaryKey, **more: Any) -> EntitySchema:
    """An order with this primary key, compiled; ``more`` are its arguments as a class."""
    table = Table("shop")

    class Order(Entity, table=table, **more):
        day: date = date(2026, 1, 1)
        id: str
        at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
        total: int = 0
        key = primary

    return table.compile().entity(Order)


KEY_FAULTS: list[Any] = [
    (PrimaryKey("{day}", "{id}", shards=Shards(8)), "random shard", 'as in Shards(8, by="...")', "default_factory"),
    (PrimaryKey("{day}", "{id}", shards=Shards(8, by="idd")), "no field 'idd'", "did you mean id?"),
    (
        PrimaryKey("{day}", "{id}", shards=Shards(8, by="total")),
        "'total' is not in the sort key",
        "add {total} to the sort",
    ),
    (PrimaryKey("{day}", "{at:s}#{id}", shards=Shards(8, by="at")), "'at' is not in the sort key", "add {at}"),
    (PrimaryKey("{id}", shards=Shards(8, by="id")), "'id' is not in the sort key", "known from its key"),
    (PrimaryKey("{day}", "{day}#{id}", shards=Shards(8, by="day")), "'day' is in the partition key"),
    (
        PrimaryKey("{day}", "{id}", shards=Shards(16, by="id", was=8)),
        "was= is for access patterns",
        "table of another name",
    ),
    (PrimaryKey("{day}", "{id}", shards=8), "shards=8 is not a Shards"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize("fault", KEY_FAULTS, ids=lambda fault: repr(fault[1]))
def test_faults_of_a_primary_key_name_the_fix(fault: tuple[Any, ...]) -> None:
    primary, *says = fault
    with pytest.raises(SchemaError) as raised:
        spread(primary)
    assert str(raised.value).startswith("Order.key: ")
    assert [text for text in says if text not in str(raised.value)] == []


def test_the_newest_of_a_partition_are_not_kept_over_shards() -> None:
    with pytest.raises(SchemaError, match=r"class Order: keep=3 .*Shards\(8, by=\"id\"\) spreads .*drop keep="):
        spread(PrimaryKey("{day}", "{id}", shards=Shards(8, by="id")), keep=3)


def test_the_key_of_an_item_tells_its_shard() -> None:
    order = spread(PrimaryKey("{day}", "{id}", shards=Shards(200, by="id")))
    assert order.primary.text == 'key = PrimaryKey("{day}", "{id}", shards=Shards(200, by="id"))'
    for number in range(20):
        shard = crc32(f"o{number}".encode()) % 200
        assert order.key({"day": date(2014, 7, 9), "id": f"o{number}"}) == (f"2014-07-09#{shard:03}", f"o{number}")


def test_the_shards_of_a_primary_key_count_where_row_keys_are_compared() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("ORDERS", "{id}", shards=Shards(8, by="id"))

    class Note(Entity, table=table):
        number: Annotated[int, Field(ge=0, lt=10)]
        id: str
        primary = PrimaryKey("ORDERS#{number}", "NOTE#{id}")

    class Total(Entity, table=table):
        name: str
        primary = PrimaryKey("ORDERS", "{name}#TOTAL")

    with pytest.raises(SchemaError, match="different numbers of components"):
        Store(table, Bigtable("p", "i", endpoint="127.0.0.1:1")).create()
    assert table.compile().entity(Order).primary.shared  # Note's partition may be one of its shards
    assert not table.compile().entity(Total).primary.shared


@pytest.mark.parametrize(
    ("shards", "read", "leaving"),
    [
        (Shards(3), "#0 #1 #2", ""),
        (Shards(4, was=2), "#0 #1 #2 #3", "#0 #1"),
        (Shards(2, was=4), "#2 #3 #0 #1", "#2 #3"),
        (Shards(3, was=2), "#0 #1 #2", "#0 #1"),
        (Shards(2, was=3), "#2 #0 #1", "#0 #1 #2"),
        (Shards(11, was=2), f"#0 #1 {' '.join(f'#{number:02}' for number in range(11))}", "#0 #1"),
        (Shards(2, was=1), " #0 #1", ""),
    ],
    ids=repr,
)
def test_the_shards_that_were_are_read_too(shards: Shards, read: str, leaving: str) -> None:
    assert suffixes_read(shards) == tuple(read.split(" "))
    assert suffixes_leaving(shards) == (frozenset() if shards.was is None else frozenset(leaving.split(" ")))


def test_shards_that_were_count_where_patterns_are_compared() -> None:
    found = {}
    for was in (None, 1, 100):
        table = Table("shop")
        others = rivals(table, 100)
        order = declared(AccessPattern("OPEN", "{id}", shards=Shards(8, by="id", was=was)), table).pattern("one")
        found[was] = order.shared, *(table.compile().entity(one).pattern("one").shared for one in others)
    assert found == {None: (False, False, False), 1: (True, True, False), 100: (True, False, True)}


def test_a_local_index_needs_a_table_with_sort_keys() -> None:
    table = Table("shop")

    class Setting(Entity, table=table):
        name: str
        level: int
        primary = PrimaryKey("SETTING#{name}")
        by_level = AccessPattern("SETTING#{name}", "{level}", local=True)

    with pytest.raises(SchemaError, match=r"Setting.by_level: no primary key .* has a sort template"):
        table.compile()


def test_a_table_has_five_local_indexes_at_most() -> None:
    table = Table("shop")
    for number in range(6):
        partition = f"E{number}#{{id}}"
        body = {
            "__annotations__": {"id": str, "number": int},
            "__module__": __name__,
            "primary": PrimaryKey(partition, "{number}"),
            f"by_{number}": AccessPattern(partition, "BY#{number}", local=True),
        }
        new_class(f"Entity{number}", (Entity,), {"table": table}, partial(dict.update, **body))
        if number == 4:
            assert len(table.compile().indexes) == 5
    with pytest.raises(SchemaError, match=r"needs 6 local indexes .*may have 5"):
        table.compile()


def test_an_index_is_local_for_all_or_for_none() -> None:
    table = Table("shop")

    class Basket(Entity, table=table):
        customer_id: str
        number: int
        primary = PrimaryKey("CUSTOMER#{customer_id}", "BASKET#{number}")
        by_number = AccessPattern("B#{number}", index="one")

    with pytest.raises(SchemaError, match=r"Basket.by_number and Order.one share .*'one'.* global .* local .*index="):
        declared(AccessPattern("CUSTOMER#{customer_id}", "{number}", local=True), table)


def test_what_a_pattern_compiles_to() -> None:
    sharded = declared(AccessPattern("OPEN", "{id}", shards=Shards(8, by="id"))).pattern("one")
    assert (sharded.kind, sharded.shards) == ("global", Shards(8, by="id"))
    assert sharded.text == 'one = AccessPattern("OPEN", "{id}", shards=Shards(8, by="id"))'
    table = Table("shop")
    local = declared(AccessPattern("CUSTOMER#{customer_id}", "{number}", local=True), table).pattern("one")
    assert (local.kind, local.shards) == ("local", None)
    assert local.text == 'one = AccessPattern("CUSTOMER#{customer_id}", "{number}", local=True)'
    assert table.compile().indexes["one"].local


VALUES: list[Any] = [
    ("id", "a#b", "a#b"),
    ("id", "é", "é"),
    ("hue", Hue.RED, "red"),
    ("number", 7, "012"),
    ("total", Decimal("1.50"), "b3150"),
    ("at", datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00.000000Z"),
]


@pytest.mark.parametrize(("field", "value", "text"), VALUES)
@pytest.mark.parametrize("count", [2, 10, 11, 1000])
def test_the_shard_is_the_crc32_of_the_text(field: str, value: Any, text: str, count: int) -> None:
    pattern = declared(AccessPattern("OPEN", shards=Shards(count, by=field))).pattern("one")
    key = pattern.key({field: value})
    assert key is not None
    if field == "total":
        text = str(pattern.hashed and pattern.hashed.encode({field: Decimal("1.5")}))
    width = len(str(count - 1))
    assert key.partition == f"OPEN#{crc32(text.encode()) % count:0{width}}"


@pytest.mark.parametrize("count", [2, 10, 11, 1000])
def test_a_random_shard_is_drawn_from_the_source_that_is_given(count: int) -> None:
    pattern = declared(AccessPattern("OPEN", shards=Shards(count))).pattern("one")
    width = len(str(count - 1))
    drawn, same = Random(5), Random(5)
    keys = [key.partition for _ in range(20) if (key := pattern.key({}, drawn))]
    assert keys == [f"OPEN#{same.randrange(count):0{width}}" for _ in range(20)]


def test_the_shard_counts_where_patterns_are_compared() -> None:
    table = Table("shop")
    plain, mark = rivals(table, 10)
    sharded = declared(AccessPattern("OPEN", "{id}", shards=Shards(8, by="id")), table)
    assert sharded.pattern("one").shared
    assert table.compile().entity(mark).pattern("one").shared
    assert not table.compile().entity(plain).pattern("one").shared  # no shard's key is "OPEN" alone


def test_the_planner_prefers_a_pattern_without_shards() -> None:
    spread, plain = AccessPattern("HUE#{hue}", shards=Shards(4)), AccessPattern("HUE#{hue}")
    table = Table("shop")
    order: Any = declared(spread, table, plain=plain).cls
    assert Store(table, Memory()).explain(select(order).where(order.hue == Hue.RED)).index == "plain"


def test_the_planner_prefers_an_index_to_all_shards_of_the_primary_key_but_not_to_one() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        day: str
        id: str
        primary = PrimaryKey("{day}", "{id}", shards=Shards(4, by="id"))
        plain = AccessPattern("DAY#{day}", "{id}")

    db = Store(table, Memory())
    assert db.explain(select(Order).where(Order.day == "d")).index == "plain"
    assert db.explain(select(Order).where(Order.day == "d", Order.id == "o1")).index is None


def test_explain_says_what_is_read_together() -> None:
    table = Table("shop")
    spread = AccessPattern("OPEN", "{number}#{id}", shards=Shards(12, by="id"))
    by_number = AccessPattern("CUSTOMER#{customer_id}", "NUMBER#{number}", local=True)
    order: Any = declared(spread, table, by_number=by_number).cls
    db = Store(table, Memory())
    every = db.explain(order.one())
    assert every.partitions == tuple(f"OPEN#{number:02}" for number in range(12))
    assert every.note == "12 shards read together, merged"
    assert "requests   one a page of each shard\n" in str(every)
    assert "partition  OPEN#00, OPEN#01, OPEN#02, OPEN#03, OPEN#04, … (12 in all)" in str(every)
    one = db.explain(order.one().where(order.id == "o1"))
    assert one.partitions == (f"OPEN#{crc32(b'o1') % 12:02}",)
    assert one.note == "one shard of 12"
    some_of = db.explain(order.one().where(order.number > 5, order.id != "o1").limit(3))
    assert some_of.best.startswith("the first items match: 3 items of each of 12 shards are read")
    assert "the whole range of 12 partitions is read" in some_of.worst
    grown = declared(AccessPattern("OPEN", "{id}", shards=Shards(12, by="id", was=1)))
    moving = Store(grown.cls.__odm_table__, Memory()).explain(grown.cls.one())
    assert moving.note == "13 shards read, first the old shards, merged"
    assert moving.partitions[:2] == ("OPEN", "OPEN#00")
    assert "requests   one a page of results\n" in str(one)
    local = db.explain(order.by_number(customer_id="c"))
    assert "index      by_number, a local index\n" in str(local)
    assert local.native.consistent
