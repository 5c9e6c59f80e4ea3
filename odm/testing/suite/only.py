"""``only=``: reads of some fields."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from msgspec.structs import replace as evolve

from odm import BadValue, ItemInvalid, ItemNotFound, Store, collection, increment, set_, some
from odm.extend import Calls, Gen, procedure
from odm.results import Partial
from odm.testing.capabilities import needs
from odm.testing.merging import Day, days
from odm.testing.reading import (
    Grown,
    Judged,
    Lone,
    Meter,
    Moved,
    Owner,
    Reading,
    Seen,
    Site,
    Total,
    fewer,
    indexed_reads,
    metering,
    moving,
    sums,
)
from odm.testing.stores import Stores
from odm.testing.suite.described import Cash, Digest, Game, Player, Visit, digests, existing, visits
from odm.testing.suite.helpers import FUTURE, PAST, fill
from odm.testing.suite.verbatim_rows import KEY, QUOTES, Quote, Talk, quotes, talks

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
FULL = Meter(
    meter="m",
    number=7,
    readings={"0015": 1.5, "0030": 2.0},
    flags={"a", "b"},
    plain={"x": Decimal("2.50"), "y#z": Decimal(1)},
    deep={"a": {"b": 3}},
    full={"z": 9},
    words=["one", "two"],
    site=Site(street="s", city="Rome"),
    price=Decimal("9.99"),
    day=date(2024, 5, 1),
    seen=NOON,
    note="hello",
)
EMPTY = Meter(meter="m", number=8)
KEY_OF_FULL = Meter.primary(meter="m", number=7)

FIELDS: list[Any] = [
    Meter.readings,
    Meter.flags,
    Meter.plain,
    Meter.deep,
    Meter.full,
    Meter.words,
    Meter.site,
    Meter.price,
    Meter.day,
    Meter.seen,
    Meter.hits,
    Meter.note,
]
PARTS: list[tuple[Any, Any]] = [
    (Meter.readings["0015"], 1.5),
    (Meter.plain["y#z"], Decimal(1)),
    (Meter.deep["a"], {"b": 3}),
    (Meter.deep["a"]["b"], 3),
    (Meter.full["z"], 9),
    (Meter.words[1], "two"),
    (some(Meter.site).city, "Rome"),
]
ABSENT: list[Any] = [
    Meter.readings["none"],
    Meter.plain["none"],
    Meter.deep["none"]["b"],
    Meter.deep["a"]["none"],
    Meter.words[2],
    some(Meter.site).street,
]


@pytest.fixture
def meters(stores: Stores) -> Store:
    """A meter with a value in each field, one with none, and an item of another entity."""
    db = stores.open(metering)
    fill(db, [FULL, EMPTY])
    db.put(Owner(meter="m", name="Ann", readings={"0015": 9.0}))
    return db


class TestOnly:
    @pytest.mark.parametrize("at", range(len(FIELDS)))
    def test_of_a_field_is_that_of_the_whole(self, meters: Store, at: int) -> None:
        field, name = FIELDS[at], repr(FIELDS[at]).partition(".")[2]
        for whole in (FULL, EMPTY):
            part = meters.one(Meter, meter="m", number=whole.number, only=[field])
            assert part[field] == getattr(whole, name)
            assert type(part[field]) is type(getattr(whole, name))

    @pytest.mark.parametrize("at", range(len(PARTS)))
    def test_of_a_part_of_a_field(self, meters: Store, at: int) -> None:
        path, value = PARTS[at]
        assert meters.one(KEY_OF_FULL, only=[path])[path] == value

    @pytest.mark.parametrize("at", range(len(ABSENT)))
    def test_of_a_part_that_the_item_does_not_have(self, meters: Store, at: int) -> None:
        path = ABSENT[at]
        part = meters.one(Meter, meter="m", number=8, only=[path])
        assert part.get(path) is None
        with pytest.raises(BadValue, match="has no value"):
            part[path]

    def test_of_several_in_every_read(self, meters: Store) -> None:
        only = [Meter.readings["0015"], Meter.note, Meter.words]
        query = Meter.primary(meter="m")
        parts = list(meters.query(query, only=only))
        assert [(part.get(Meter.readings["0015"]), part[Meter.note], part[Meter.words]) for part in parts] == [
            (1.5, "hello", ["one", "two"]),
            (None, None, []),
        ]
        assert meters.first(query, only=only) == parts[0]
        assert meters.first(query.reverse(), only=only) == parts[1]
        assert meters.get_many([Meter.primary(meter="m", number=n) for n in (8, 1, 7)], only=only) == [
            parts[1],
            None,
            parts[0],
        ]
        page = meters.page(query, size=1, only=only)
        assert page.items == parts[:1]
        assert meters.page(query, size=1, after=page.cursor, only=only).items == parts[1:]
        assert sorted(meters.scan(Meter, only=only), key=lambda part: part[Meter.number]) == parts
        assert list(meters.query(query.where(Meter.price > 9), only=only)) == parts[:1]
        assert list(meters.scan(Meter, Meter.price < 9, only=only)) == parts[1:]

    def test_has_the_key_to_read_and_change_the_item(self, meters: Store) -> None:
        part = meters.one(KEY_OF_FULL, only=[Meter.note])
        assert (part[Meter.meter], part[Meter.number]) == ("m", 7)
        assert meters.get(part.key) == FULL
        meters.update(part.key, set_(Meter.note, "new"))
        assert meters.one(part.key, only=[Meter.note])[Meter.note] == "new"
        assert repr(part) == "Partial(Meter.primary(meter='m', number=7), note='hello')"

    def test_has_parts_of_what_was_asked_for(self, meters: Store) -> None:
        part = meters.one(KEY_OF_FULL, only=[Meter.readings, Meter.site, Meter.readings["0030"]])
        assert part[Meter.readings["0015"]] == 1.5
        assert part[some(Meter.site).city] == "Rome"
        with pytest.raises(BadValue, match="was not asked for"):
            part[Meter.price]
        with pytest.raises(BadValue, match="was not asked for"):
            part.get(Owner.name)
        with pytest.raises(BadValue, match="not a field"):
            part.get("note")
        with pytest.raises(TypeError):
            list(part)

    def test_of_a_missing_item(self, meters: Store) -> None:
        assert meters.get(Meter, meter="none", number=1, only=[Meter.note]) is None
        with pytest.raises(ItemNotFound):
            meters.one(Meter, meter="none", number=1, only=[Meter.note])
        assert list(meters.query(Meter.primary(meter="none"), only=[Meter.note])) == []
        assert meters.first(Meter.primary(meter="none"), only=[Meter.note]) is None
        assert meters.get_many([], only=[Meter.note]) == []

    def test_leaves_out_what_has_expired(self, meters: Store) -> None:
        meters.put(Meter(meter="m", number=7, ends=PAST))
        meters.put(Meter(meter="m", number=8, ends=FUTURE))
        assert meters.get(KEY_OF_FULL, only=[Meter.note]) is None
        assert [part[Meter.number] for part in meters.query(Meter.primary(meter="m"), only=[Meter.note])] == [8]
        assert [part[Meter.number] for part in meters.scan(Meter, only=[Meter.words])] == [8]

    def test_of_counters_and_members_that_were_changed(self, meters: Store) -> None:
        meters.update(KEY_OF_FULL, increment(Meter.hits, 5))
        meters.update(KEY_OF_FULL, set_(Meter.readings["0045"], 4.0))
        part = meters.one(KEY_OF_FULL, only=[Meter.hits, Meter.readings["0045"], Meter.readings["0015"]])
        assert (part[Meter.hits], part[Meter.readings["0045"]], part[Meter.readings["0015"]]) == (5, 4.0, 1.5)

    def test_of_merged_members(self, stores: Stores) -> None:
        db = stores.open(days)
        key = Day.primary(meter="m", day=date(2024, 5, 1))
        db.merge(key, set_(Day.readings["0015"], 1.5), set_(Day.note, "n"))
        part = db.one(key, only=[Day.readings["0015"], Day.flags])
        assert (part[Day.readings["0015"]], part[Day.flags]) == (1.5, set())

    def test_of_aggregates_and_versions(self, stores: Stores) -> None:
        db = stores.open(sums)
        db.put(Total(name="t", views=3, best=5, price=Decimal(2), note="n"))
        db.update(Total.primary(name="t"), set_(Total.price, Decimal(3)))
        part = db.one(Total, name="t", only=[Total.views, Total.best, Total.price])
        assert (part[Total.views], part[Total.best], part[Total.price]) == (3, 5, Decimal(3))

    def test_of_items_that_are_judged_as_a_whole(self, meters: Store) -> None:
        meters.put(Seen.model_construct(name="s", base=5, over=1))
        meters.put(Judged.model_construct(name="j", low=9, high=1))
        assert meters.one(Seen, name="s", only=[Seen.over])[Seen.over] == 5
        assert meters.one(Judged, name="j", only=[Judged.low])[Judged.low] == 1
        meters.put(Grown(name="g", text="abc", length=3))
        assert meters.one(Grown, name="g", only=[Grown.length])[Grown.length] == 3

    def test_of_a_value_that_does_not_fit_the_model(self, meters: Store) -> None:
        meters.put(FULL.model_copy(update={"meter": "bad"}))
        meters.update(Meter.primary(meter="bad", number=7), set_(Meter.note, "n"))
        assert meters.one(Meter, meter="bad", number=7, only=[Meter.note])[Meter.note] == "n"

    @needs("indexes")
    def test_of_items_that_other_programs_wrote(self, stores: Stores) -> None:
        old = stores.open(existing)
        old.put(Player(name="ann", mail="a@b"))
        old.put(Game(player="ann", number=3, at=5, map="m", score=7))
        old.put(Cash(player="ann", amount=4))
        part = old.one(Game, player="ann", number=3, only=[Game.score])
        assert (part[Game.score], part[Game.player], part[Game.number]) == (7, "ann", 3)
        assert [row[Game.score] for row in old.query(Game.by_map(map="m"), only=[Game.score])] == [7]
        assert [row[Player.name] for row in old.query(Player.by_mail(mail="a@b"), only=[Player.mail])] == ["ann"]
        assert old.one(Cash, player="ann", only=[Cash.amount])[Cash.amount] == 4
        kept = stores.open(visits)
        kept.put(Visit(who="w", at=NOON, expires=FUTURE))
        kept.put(Visit(who="x", at=NOON, expires=PAST))
        assert kept.one(Visit, who="w", at=NOON, only=[Visit.expires])[Visit.expires] == FUTURE
        assert [row[Visit.at] for row in kept.scan(Visit, only=[Visit.at])] == [NOON]
        counted = stores.open(digests)
        counted.put(Digest(digest=b"d", text="t"))
        assert counted.one(Digest, digest=b"d", only=[Digest.text])[Digest.text] == "t"

    def test_of_an_item_under_the_key_of_another(self, meters: Store, stores: Stores) -> None:
        stores.open(moving).put(Moved(place="other", meter="m", number=8))
        with pytest.raises(ItemInvalid, match="another key"):
            meters.get(Meter, meter="other", number=8, only=[Meter.note])
        with pytest.raises(ItemInvalid, match="another key"):
            list(meters.scan(Meter, only=[Meter.note]))

    def test_of_an_item_of_a_later_version(self, meters: Store) -> None:
        page = meters.scan_page()
        while not (stored := [item for item in page.items if item.entity == EMPTY]):
            page = meters.scan_page(page.cursor)
        meters.put_raw([evolve(stored[0], attributes={**stored[0].attributes, "_v": 9})])
        for only in (None, [Meter.note]):
            with pytest.raises(ItemInvalid):
                meters.get(Meter, meter="m", number=8, only=only)

    def test_in_a_procedure(self, meters: Store) -> None:
        @procedure
        def notes(do: Calls) -> Gen[list[Any]]:
            full = yield from do.one(KEY_OF_FULL, only=[Meter.note])
            many = yield from do.query(Meter.primary(meter="m"), only=[Meter.note])
            page = yield from do.page(Meter.primary(meter="m"), only=[Meter.note])
            first = yield from do.first(Meter.primary(meter="m"), only=[Meter.note])
            got = yield from do.get_many([KEY_OF_FULL], only=[Meter.note])
            return [full, *many, *page.items, first, *got]

        assert [part[Meter.note] for part in meters.run(notes())] == ["hello", *["hello", None] * 2, "hello", "hello"]

    @needs("indexes")
    def test_of_an_index(self, stores: Stores) -> None:
        db = stores.open(indexed_reads)
        fill(db, [Reading(meter="m", at=n, value=n / 2, text="t") for n in range(3)])
        only = [Reading.value]
        assert [part[Reading.value] for part in db.query(Reading.by_kind(kind="k"), only=only)] == [0.0, 0.5, 1.0]
        parts = db.query(Reading.by_text(text="t").where(Reading.kind == "k").reverse(), only=[Reading.kind])
        assert [(part[Reading.at], part[Reading.kind]) for part in parts] == [(2, "k"), (1, "k"), (0, "k")]

    def test_of_rows_of_other_programs(self, stores: Stores) -> None:
        db = stores.open(quotes)
        fill(db, [*QUOTES, QUOTES[0].model_copy(update={"symbol": "PLAIN", "note": None})])
        part = db.one(KEY, only=[Quote.ask, Quote.venue])
        assert (part[Quote.ask], part[Quote.venue], part[Quote.at]) == (QUOTES[0].ask, QUOTES[0].venue, QUOTES[0].at)
        both = Quote.primary(exchange="NASDAQ", symbol="ZXZZT")
        assert [row[Quote.note] for row in db.query(both, only=[Quote.note])] == [None] * 3
        assert len(list(db.scan(Quote, only=[Quote.note]))) == 4
        assert [row[Quote.last] for row in db.query(both.where(Quote.size < 5), only=[Quote.last])] == [
            QUOTES[1].last,
            QUOTES[2].last,
        ]

    @needs("indexes")
    def test_of_fields_with_families_and_cells(self, stores: Stores) -> None:
        db = stores.open(talks)
        db.put(Talk(room="r", at=1, text="t", stars=5, length=9, author="Ann"))
        part = db.one(Talk, room="r", at=1, only=[Talk.stars, Talk.length, Talk.author])
        assert (part[Talk.stars], part[Talk.length], part[Talk.author]) == (5, 9, "Ann")
        assert db.one(Talk, room="r", at=1, only=[Talk.text])[Talk.text] == "t"
        assert [talk[Talk.length] for talk in db.query(Talk.by_author(author="Ann"), only=[Talk.length])] == [9]

    def test_meets_items_without_an_entity(self, meters: Store, stores: Stores) -> None:
        alone = stores.open(fewer)
        assert alone.one(Lone, meter="m", number=7, only=[Lone.note])[Lone.note] == "hello"
        for read in (lambda: alone.scan(Lone), lambda: alone.scan(Lone, only=[Lone.note])):
            with pytest.raises(ItemInvalid):
                list(read())
        skipping = stores.open(fewer, on_unknown="skip")
        assert sorted(part[Lone.number] for part in skipping.scan(Lone, only=[Lone.note])) == [7, 8]


class TestRefusedOnly:
    @pytest.mark.parametrize("only", [[], (), "note", Meter.note, [1], ["note"], [Owner.name], 5])
    def test_of_what_is_no_list_of_fields(self, stores: Stores, only: Any) -> None:
        db = stores.offline(metering)
        query = Meter.primary(meter="m")
        for call in (
            lambda: db.get(KEY_OF_FULL, only=only),
            lambda: db.one(KEY_OF_FULL, only=only),
            lambda: list(db.query(query, only=only)),
            lambda: db.page(query, only=only),
            lambda: db.first(query, only=only),
            lambda: db.get_many([KEY_OF_FULL], only=only),
            lambda: list(db.scan(Meter, only=only)),
        ):
            with pytest.raises(BadValue):
                call()
        assert stores.requests == []

    def test_of_items_of_any_entity(self, stores: Stores) -> None:
        db: Any = stores.offline(metering)
        for call in (
            lambda: list(db.query(collection(Meter.primary(meter="m")), only=[Meter.note])),
            lambda: list(db.scan(only=[Meter.note])),
            lambda: db.get_many([KEY_OF_FULL, Owner.primary(meter="m")], only=[Meter.note]),
            lambda: db.get(note_of_full(), only=[Meter.note]),
        ):
            with pytest.raises(BadValue):
                call()
        with pytest.raises(TypeError):
            db.count(Meter.primary(meter="m"), only=[Meter.note])
        assert stores.requests == []


@procedure
def note_of_full(do: Calls) -> Gen[Partial[Meter] | None]:
    """Read one field; `get` takes no procedure in place of a key."""
    return (yield from do.get(KEY_OF_FULL, only=[Meter.note]))
