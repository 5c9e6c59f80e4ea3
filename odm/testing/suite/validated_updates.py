"""Updates are validated where they write: what they store can be read, and is what a read shows."""
# ruff: noqa: D101, RUF012  # a test's name says what it shows; defaults of entities are copied

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)

from odm import (
    AccessPattern,
    Action,
    BadValue,
    ConditionFailed,
    Entity,
    ItemNotFound,
    PrimaryKey,
    Revision,
    Store,
    Table,
    add_to,
    append,
    contains,
    discard_from,
    increment,
    is_in,
    prepend,
    remove,
    select,
    set_,
    set_fields,
    set_if_missing,
    starts_with,
)
from odm.results import RawItem
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.ways import Way, each_way

things = Table("things")

Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Part(BaseModel):
    code: Annotated[str, Field(min_length=2)] = "aa"
    size: int = 1
    colour: Colour = Colour.RED
    marks: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=2)] = []


class Rules(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True)

    name: str = ""
    low: int = 0
    high: int = 9

    @model_validator(mode="after")
    def _in_order(self) -> "Rules":
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class Pair(NamedTuple):
    left: Annotated[int, Field(ge=0)]
    right: str


class Thing(Entity, table=things):
    thing_id: str = "1"
    name: Lower = "x"
    part: Part = Part()
    spare: Part | None = None
    parts: list[Part] = []
    by_code: dict[str, Part] = {}
    marks: list[Annotated[int, Field(ge=0)]] = []
    three: Annotated[list[int], Field(min_length=1, max_length=3)] = [0]
    pair: Pair = Pair(0, "r")
    mails: set[Lower] = set()
    two: Annotated[set[str], Field(max_length=2)] = set()
    levels: Annotated[
        dict[Annotated[str, StringConstraints(to_lower=True, max_length=4)], Annotated[int, Field(le=9)]],
        Field(min_length=1, max_length=2),
    ] = {"a": 1}
    digits: Annotated[Decimal, Field(max_digits=3)] = Decimal(0)
    rules: Rules = Rules()
    distinct: list[int] = []
    rounded: Decimal = Decimal(0)

    primary = PrimaryKey("THING", "{thing_id}")
    by_name = AccessPattern("NAME#{name}")
    named = AccessPattern("THINGS", "{name}")

    @field_validator("distinct")
    @classmethod
    def _distinct(cls, value: list[int]) -> list[int]:
        if len(set(value)) < len(value):
            raise ValueError("is there twice")
        return value

    @field_validator("rounded")
    @classmethod
    def _rounded(cls, value: Decimal) -> Decimal:
        return round(value, 2)


class Booking(Entity, table=things):
    """Its validators see more than one field, and one of them changes another field."""

    booking_id: str = "1"
    start: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    end: datetime = datetime(2026, 1, 2, tzinfo=UTC)
    guests: Annotated[list[str], Field(max_length=3)] = []
    limit: int = 2
    days: int = 1

    primary = PrimaryKey("BOOKING", "{booking_id}")
    by_days = AccessPattern("DAYS#{days}")

    @field_validator("limit")
    @classmethod
    def _fits(cls, value: int, info: ValidationInfo) -> int:
        if value < len(info.data.get("guests", ())):
            raise ValueError("there are more guests")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> "Booking":
        if self.end < self.start:
            raise ValueError("it ends before it starts")
        vars(self)["days"] = (self.end - self.start).days
        return self


class Note(Entity, table=things):
    """A field sees those before it; there is a Revision."""

    note_id: str = "1"
    text: str = ""
    spare: Part | None = None
    most: int = 5
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("NOTE", "{note_id}")

    @field_validator("most")
    @classmethod
    def _fits(cls, value: int, info: ValidationInfo) -> int:
        if len(info.data.get("text", "")) > value:
            raise ValueError("the text is longer")
        return value


class Leg(BaseModel):
    """Its default of ``last`` is not validated, but a stored one is."""

    first: int = 0
    last: int = 5

    @field_validator("last")
    @classmethod
    def _in_order(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("first", value):
            raise ValueError("last is less than first")
        return value


class Trip(Entity, table=things):
    trip_id: str = "1"
    leg: Leg = Leg()

    primary = PrimaryKey("TRIP", "{trip_id}")


KEY = Thing.primary(thing_id="1")
TRIP = Trip.primary(trip_id="1")
BOOKING = Booking.primary(booking_id="1")
NOTE = Note.primary(note_id="1")
LATER = datetime(2026, 1, 5, tzinfo=UTC)

ACCEPTED: list[tuple[Sequence[Action], dict[str, Any]]] = [
    ([set_(Thing.name, "  ABC ")], {"name": "abc"}),
    ([set_(Thing.part.code, "bb")], {"part": Part(code="bb")}),
    ([set_(Thing.part.colour, "blue")], {"part": Part(colour=Colour.BLUE)}),  # type: ignore[arg-type]
    ([set_(Thing.part, {"size": "7"})], {"part": Part(size=7)}),  # type: ignore[arg-type]
    ([append(Thing.parts, Part(code="cc"))], {"parts": [Part(code="cc")]}),
    ([append(Thing.parts, {"code": "cc"})], {"parts": [Part(code="cc")]}),  # type: ignore[arg-type]
    ([set_(Thing.by_code["k"], Part(size=3))], {"by_code": {"k": Part(size=3)}}),
    ([append(Thing.part.marks, 1, 2)], {"part": Part(marks=[1, 2])}),
    ([append(Thing.marks, 1)], {"marks": [1]}),
    ([prepend(Thing.three, 1, 2)], {"three": [1, 2, 0]}),
    ([set_(Thing.three[5], 4)], {"three": [0, 4]}),
    ([set_(Thing.pair[0], 5)], {"pair": Pair(5, "r")}),
    ([add_to(Thing.mails, " A@X")], {"mails": {"a@x"}}),
    ([add_to(Thing.mails, "A@X", "a@x ")], {"mails": {"a@x"}}),
    ([add_to(Thing.two, "a", "b")], {"two": {"a", "b"}}),
    ([set_(Thing.levels["B"], 2)], {"levels": {"a": 1, "b": 2}}),
    ([set_(Thing.levels["A"], 2)], {"levels": {"a": 2}}),
    ([set_if_missing(Thing.levels["B"], 3)], {"levels": {"a": 1, "b": 3}}),
    ([set_(Thing.levels["a"], 2), remove(Thing.levels["b"])], {"levels": {"a": 2}}),
    ([increment(Thing.levels["A"], 8)], {"levels": {"a": 9}}),
    ([increment(Thing.digits, Decimal("1.25"))], {"digits": Decimal("1.25")}),
    ([increment(Thing.rounded, Decimal("1.239"))], {"rounded": Decimal("1.24")}),
    ([set_(Thing.rules.name, " n ")], {"rules": Rules(name="n")}),
    ([set_(Thing.rules.low, 9)], {"rules": Rules(low=9)}),
    ([append(Thing.distinct, 1, 2)], {"distinct": [1, 2]}),
    (set_fields(Thing, {"part": {"code": "cc"}, "name": " N"}), {"part": Part(code="cc"), "name": "n"}),
    (set_fields(Thing, {"spare": {"size": 4}}), {"spare": Part(size=4)}),
    (
        set_fields(Thing, {"spare": {"size": 4, "marks": [1]}, "marks": [2]}),
        {"spare": Part(size=4, marks=[1]), "marks": [2]},
    ),
    (set_fields(Thing, {"levels": {"X": 1}}), {"levels": {"x": 1}}),
]

REFUSED: list[tuple[Action, type[Exception], str]] = [
    (set_(Thing.part.code, "x"), BadValue, r"Thing\.part\.code: 'x' is refused: .*at least 2"),
    (set_(Thing.part.colour, "green"), BadValue, r"Thing\.part\.colour: 'green' is refused|not of type Colour"),  # type: ignore[arg-type]
    (set_(Thing.by_code["k"].code, "x"), BadValue, r"Thing\.by_code\.k\.code: 'x'"),
    (append(Thing.marks, 1, -1), BadValue, r"Thing\.marks: -1 is refused: .*greater than or equal to 0"),
    (prepend(Thing.marks, -1), BadValue, r"Thing\.marks: -1"),
    (set_(Thing.marks[0], -1), BadValue, r"Thing\.marks\[0\]: -1"),
    (append(Thing.part.marks, -1), BadValue, r"Thing\.part\.marks: -1"),
    (append(Thing.part.marks, 1, 2, 3), ConditionFailed, "bounds"),
    (set_(Thing.pair[0], -1), BadValue, r"refuses the item after this update: pair\..*greater than or equal to 0"),
    (set_(Thing.levels["long_key"], 1), BadValue, r"Thing\.levels: the key 'long_key' is refused: .*at most 4"),
    (set_(Thing.levels["b"], 10), BadValue, r"Thing\.levels\.b: 10"),
    (set_if_missing(Thing.levels["b"], 10), BadValue, r"Thing\.levels\.b: 10"),
    (increment(Thing.levels["a"], 9), ConditionFailed, "bounds"),
    (remove(Thing.levels["A"]), ConditionFailed, "bounds"),
    (remove(Thing.three[0]), ConditionFailed, "bounds"),
    (append(Thing.three, 1, 2, 3), ConditionFailed, "bounds"),
    (add_to(Thing.two, "a", "b", "c"), BadValue, r"refuses the item after this update: two: .*at most 2"),
    (increment(Thing.digits, Decimal("1.234")), BadValue, r"digits: .*no more than 3 digits"),
    (set_(Thing.rules.low, 10), BadValue, r"rules: .*low is above high"),
    (append(Thing.distinct, 1, 1), BadValue, r"distinct: .*is there twice"),
]


def raw_items(db: Store) -> Iterator[RawItem]:
    """All stored items."""
    page = db.scan_page()
    yield from page.items
    while page.cursor is not None:
        page = db.scan_page(page.cursor)
        yield from page.items


def stored(db: Store, key: Any) -> Any:
    """The item under a key, after a look at whether it is stored as an entity of its values would be."""
    entity = db.one(key)
    (raw,) = [item for item in raw_items(db) if type(item.entity) is type(entity)]
    assert raw.attributes == things.compile().entity(type(entity)).codec.encode(entity)
    assert not raw.stale
    return entity


@pytest.fixture
def thing_store(stores: Stores) -> Store:
    """A store with one item of each entity."""
    db = stores.open(things)
    for entity in (Thing(), Booking(), Note()):
        db.put(entity)
    return db


@needs("updates")
class TestValidatedUpdates:
    @pytest.mark.parametrize(("actions", "changed"), ACCEPTED, ids=[str(n) for n in range(len(ACCEPTED))])
    def test_what_is_stored_is_what_a_read_shows(
        self, thing_store: Store, actions: Sequence[Action], changed: dict[str, Any]
    ) -> None:
        thing_store.update(KEY, *actions)
        assert stored(thing_store, KEY) == Thing(**changed)

    @pytest.mark.parametrize(("action", "error", "message"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
    @each_way
    def test_what_a_read_would_refuse_is_refused(
        self, thing_store: Store, action: Action, error: type[Exception], message: str, way: Way
    ) -> None:
        with pytest.raises(error, match=message):
            way(thing_store).update(KEY, action)
        assert stored(thing_store, KEY) == Thing()

    @each_way
    def test_members_are_discarded_as_the_model_holds_them(self, thing_store: Store, way: Way) -> None:
        thing_store.update(KEY, add_to(Thing.mails, "a@x", "b@x"))
        way(thing_store).update(KEY, discard_from(Thing.mails, " A@X"))
        assert stored(thing_store, KEY).mails == {"b@x"}

    @each_way
    def test_lengths_are_those_of_the_stored_item(self, thing_store: Store, way: Way) -> None:
        way(thing_store).update(KEY, append(Thing.three, 1), set_(Thing.levels["b"], 1), add_to(Thing.two, "a"))
        way(thing_store).update(KEY, append(Thing.three, 2))
        for action in (set_(Thing.three[7], 3), set_(Thing.levels["c"], 1), append(Thing.three, 3)):
            with pytest.raises(ConditionFailed, match="bounds"):
                way(thing_store).update(KEY, action)
        way(thing_store).update(KEY, set_(Thing.three[2], 9), set_(Thing.levels["B"], 5), remove(Thing.three[0]))
        assert stored(thing_store, KEY) == Thing(three=[1, 9], levels={"a": 1, "b": 5}, two={"a"})
        with pytest.raises(BadValue, match="refuses the item after this update: levels"):
            way(thing_store).update(KEY, remove(Thing.levels["a"]), remove(Thing.levels["b"]))

    @each_way
    def test_a_validator_of_the_entity_judges_every_update(self, thing_store: Store, way: Way) -> None:
        way(thing_store).update(BOOKING, set_(Booking.end, LATER))
        assert stored(thing_store, BOOKING) == Booking(end=LATER, days=4)
        assert [booking.days for booking in thing_store.query(Booking.by_days(days=4))] == [4]
        assert list(thing_store.query(Booking.by_days(days=1))) == []
        with pytest.raises(BadValue, match="it ends before it starts"):
            way(thing_store).update(BOOKING, set_(Booking.start, datetime(2026, 2, 1, tzinfo=UTC)))
        way(thing_store).update(BOOKING, append(Booking.guests, "a", "b"))
        with pytest.raises(BadValue, match="there are more guests"):
            way(thing_store).update(BOOKING, append(Booking.guests, "c"))
        assert stored(thing_store, BOOKING).guests == ["a", "b"]

    @each_way
    def test_a_validator_that_sees_other_fields_judges_changes_of_those_before_it(
        self, thing_store: Store, way: Way
    ) -> None:
        way(thing_store).update(NOTE, set_(Note.text, "12345"), when=Note.most == 5)
        for action in (set_(Note.text, "123456"), set_(Note.most, 4)):
            with pytest.raises(BadValue, match="the text is longer"):
                way(thing_store).update(NOTE, action)
        way(thing_store).update(NOTE, set_(Note.text, "123456"), set_(Note.most, 6))
        assert stored(thing_store, NOTE).text == "123456"
        with pytest.raises(ConditionFailed):
            way(thing_store).update(NOTE, set_(Note.text, ""), when=Note.most == 5)

    @each_way
    def test_a_default_that_would_be_stored_is_validated_too(self, thing_store: Store, way: Way) -> None:
        thing_store.put(Trip())
        for key, first in ((TRIP, increment(Trip.leg.first, 6)), (Trip.primary(trip_id="9"), set_(Trip.leg.first, 6))):
            with pytest.raises(BadValue, match="last is less than first"):
                way(thing_store).update(key, remove(Trip.leg.last), first, upsert=True)
        assert [trip.leg for trip in thing_store.scan(Trip)] == [Leg()]

    def test_a_transaction_returns_what_validators_make(self, thing_store: Store) -> None:
        with thing_store.transaction() as tx:
            new = tx.update(thing_store.one(NOTE), *set_fields(Note, {"spare": {"size": 3}}), returning="new")
        assert thing_store.one(NOTE) == new == Note(spare=Part(size=3), revision=2)

    def test_an_entity_that_was_read_needs_no_other_read(self, thing_store: Store) -> None:
        note = thing_store.one(NOTE)
        thing_store.update(NOTE, set_(Note.text, "abc"))
        assert (
            thing_store.update(note.model_copy(update={"revision": 2}), set_(Note.text, "ab"), returning="new").text
            == "ab"
        )
        stale = Booking(end=LATER, days=4)
        thing_store.update(BOOKING, append(Booking.guests, "a"))
        thing_store.update(stale, append(Booking.guests, "b"))  # it was changed since; the stored item decides
        assert stored(thing_store, BOOKING).guests == ["a", "b"]

    def test_values_alone_are_validated_if_asked(self, thing_store: Store) -> None:
        thing_store.update(KEY, set_(Thing.rules.low, 9), append(Thing.distinct, 1, 1), validate="values")
        with pytest.raises(BadValue, match=r"Thing\.rules\.low"):
            thing_store.update(KEY, set_(Thing.rules.low, "x"), validate="values")  # type: ignore[arg-type]
        with pytest.raises(BadValue, match=r"validate='all': say 'item'"):
            thing_store.update(KEY, set_(Thing.name, "x"), validate="all")  # type: ignore[call-overload]

    def test_what_does_not_exist_is_not_validated(self, thing_store: Store) -> None:
        with pytest.raises(ItemNotFound):
            thing_store.update(Booking.primary(booking_id="9"), set_(Booking.end, LATER))
        with pytest.raises(ItemNotFound):
            thing_store.update(Thing.primary(thing_id="9"), *set_fields(Thing, {"spare": {"size": 1}}))
        thing_store.update(Booking.primary(booking_id="9"), set_(Booking.end, LATER), upsert=True)
        assert thing_store.one(Booking.primary(booking_id="9")).days == 4

    def test_nested_fields_keep_what_is_not_named(self, thing_store: Store) -> None:
        thing_store.update(KEY, set_(Thing.part, Part(code="bb", size=9)))
        thing_store.update(KEY, *set_fields(Thing, {"part": {"code": "cc"}, "spare": {"code": "dd"}}))
        thing_store.update(KEY, *set_fields(Thing, {"spare": {"size": 2}}))
        assert stored(thing_store, KEY) == Thing(part=Part(code="cc", size=9), spare=Part(code="dd", size=2))
        new = thing_store.update(
            Thing.primary(thing_id="2"), *set_fields(Thing, {"spare": {"size": 3}}), upsert=True, returning="new"
        )
        assert new == Thing(thing_id="2", spare=Part(size=3))
        for values, message in (({"part": {"cod": 1}}, "has no field 'cod'"), ({"rules": {"low": 99}}, "low is above")):
            with pytest.raises(BadValue, match=message):
                thing_store.update(KEY, *set_fields(Thing, values))


class TestComparedValues:
    def test_are_normalised_as_the_model_does(self, thing_store: Store) -> None:
        thing_store.put(Thing(name="abc def", mails={"a@x"}))
        assert [thing.thing_id for thing in thing_store.query(select(Thing).where(Thing.name == " ABC def "))] == ["1"]
        conditions: list[Any] = [
            Thing.name == " ABC def",
            is_in(Thing.name, ["q", "ABC DEF "]),
            starts_with(Thing.name, " ABC "),
            contains(Thing.name, "C D"),
            contains(Thing.mails, "A@X "),
            Thing.mails == {"A@X"},
            Thing.name >= "ABC",
            Thing.levels["A"] == 1,
            Thing.part.colour == Colour.RED,
        ]
        for condition in conditions:
            assert len(list(thing_store.scan(Thing, condition))) == 1, condition
        ranges: list[Any] = [Thing.name == " ABC def", starts_with(Thing.name, " ABC "), Thing.name >= "ABC"]
        for condition in ranges:
            query = Thing.named().where(condition)
            assert (len(list(thing_store.query(query))), thing_store.count(query)) == (1, 1), condition
        assert list(thing_store.scan(Thing, starts_with(Thing.name, "ABC  "))) == []

    def test_are_never_refused_for_a_limit(self, thing_store: Store) -> None:
        for condition in (Thing.part.code != "x", Thing.levels["a"] < 100, Thing.name != "", Thing.digits < 99999):
            assert len(list(thing_store.scan(Thing, condition))) == 1, condition


class TestAssignedValues:
    def test_are_stored_as_a_read_shows_them(self, stores: Stores) -> None:
        db = stores.open(things)
        thing = Thing()
        thing.name, thing.mails = "  ABC ", {"A@X"}
        assert db.put(thing) == Thing(name="abc", mails={"a@x"})
        assert stored(db, KEY) == Thing(name="abc", mails={"a@x"})
        assert [entity.thing_id for entity in db.query(Thing.by_name(name="Abc"))] == ["1"]
        thing.name = " D"
        with db.batch() as batch:
            batch.put(thing)
        assert stored(db, KEY).name == "d"
