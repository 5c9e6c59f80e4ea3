"""Merges: parts of an item, written without a read."""
# ruff: noqa: D101  # a test's name says what it shows

from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

import pytest

from odm import (
    Action,
    BadValue,
    ItemExists,
    ItemInvalid,
    Query,
    Store,
    Table,
    add_to,
    append,
    collection,
    discard_from,
    increment,
    prepend,
    remove,
    set_,
    set_if_missing,
    some,
)
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.companions import Player, players
from odm.testing.entities import Document, Member, Session, Tally, indexed, plain
from odm.testing.evolving import Highscore, kept
from odm.testing.merging import Day, Newer, Post, Report, Starting, TheirDay, clashing, days, existing, their_days
from odm.testing.stores import Stores
from odm.testing.suite.described import Digest, Reading, digests, readings

MONDAY = date(2024, 1, 1)
KEY = Day.primary(meter="1", day=MONDAY)


def day(**fields: Any) -> Day:
    """The day of the key."""
    return Day(meter="1", day=MONDAY, **fields)


@pytest.fixture
def metered(stores: Stores) -> Store:
    """A store of the days."""
    return stores.open(days)


class TestMerge:
    def test_creates_the_item(self, metered: Store) -> None:
        metered.merge(KEY, set_(Day.readings["0015"], 1.25))
        assert metered.get(KEY) == day(readings={"0015": 1.25})
        assert list(metered.scan()) == [day(readings={"0015": 1.25})]
        assert list(metered.query(collection(Day.primary(meter="1")))) == [day(readings={"0015": 1.25})]

    def test_changes_nothing_else(self, metered: Store) -> None:
        metered.put(day(readings={"0000": 1.0, "0015": 2.0}, flags={"old"}, note="n", parts=[1], version_of_meter=7))
        metered.merge(KEY, set_(Day.readings["0015"], 3.0), add_to(Day.flags, "new"), set_(Day.version_of_meter, 8))
        assert metered.get(KEY) == day(
            readings={"0000": 1.0, "0015": 3.0}, flags={"old", "new"}, note="n", parts=[1], version_of_meter=8
        )

    @pytest.mark.parametrize(
        ("action", "after"),
        [
            (set_(Day.note, "m"), {"note": "m"}),
            (set_(Day.note, None), {"note": None}),
            (remove(Day.note), {"note": None}),
            (set_(Day.parts, [2, 3]), {"parts": [2, 3]}),
            (set_(Day.words, {"x"}), {"words": {"x"}}),
            (set_(Day.words, set()), {"words": set()}),
            (set_(Day.place, {"a": "b"}), {"place": {"a": "b"}}),
            (remove(Day.readings["0000"]), {"readings": {"#": 2.0}}),
            (remove(Day.readings["absent"]), {}),
            (set_(Day.readings["#"], 5.5), {"readings": {"0000": 1.0, "#": 5.5}}),
            (add_to(Day.numbers, 1, 3), {"numbers": {1, 2, 3}}),
            (discard_from(Day.numbers, 1, 3), {"numbers": {2}}),
            (set_(some(Day.extra)["k"], {"deep": [1, None]}), {"extra": {"k": {"deep": [1, None]}}}),
        ],
        ids=str,
    )
    def test_takes_actions_that_need_no_read(self, metered: Store, action: Action, after: dict[str, Any]) -> None:
        before = {"readings": {"0000": 1.0, "#": 2.0}, "numbers": {1, 2}, "note": "n", "words": {"w"}, "parts": [1]}
        metered.put(day(**before))
        metered.merge(KEY, action)
        assert metered.get(KEY) == day(**before | after)

    @pytest.mark.parametrize(
        "action",
        [
            remove(Day.readings["0000"]),
            remove(Day.note),
            discard_from(Day.flags, "f"),
            add_to(Day.flags, "f"),
            set_(Day.note, "n"),
        ],
        ids=str,
    )
    def test_creates_the_item_with_every_action(self, metered: Store, action: Action) -> None:
        metered.merge(KEY, action)
        stored = metered.one(KEY)
        assert stored.readings == {}
        metered.merge(KEY, set_(Day.readings["0000"], 1.0))
        assert metered.one(KEY) == stored.model_copy(update={"readings": {"0000": 1.0}})

    def test_can_be_repeated(self, metered: Store) -> None:
        actions = (set_(Day.readings["a"], 1.0), remove(Day.readings["b"]), add_to(Day.flags, "f"), remove(Day.note))
        metered.merge(KEY, *actions)
        once = metered.get(KEY)
        metered.merge(KEY, *actions)
        assert metered.get(KEY) == once == day(readings={"a": 1.0}, flags={"f"})

    def test_of_an_entity_takes_its_key(self, metered: Store) -> None:
        metered.merge(day(note="not written"), set_(Day.readings["0015"], 1.25))
        assert metered.get(KEY) == day(readings={"0015": 1.25})

    def test_makes_an_item_for_all_other_calls(self, metered: Store) -> None:
        metered.merge(KEY, set_(Day.readings["0015"], 1.25))
        with pytest.raises(ItemExists):
            metered.insert(day())
        metered.update(KEY, set_(Day.note, "n"), when=Day.readings["0015"] == 1.25)
        metered.merge(KEY, set_(Day.readings["0030"], 2.0))
        assert metered.update(KEY, append(Day.parts, 4), returning="new") == day(
            readings={"0015": 1.25, "0030": 2.0}, note="n", parts=[4]
        )
        assert metered.delete(KEY)
        assert metered.get(KEY) is None
        metered.merge(KEY, set_(Day.readings["0045"], 3.0))
        assert metered.get(KEY) == day(readings={"0045": 3.0})
        metered.put(day(note="whole"))
        assert metered.get(KEY) == day(note="whole")

    def test_keeps_the_key_fields_of_a_stored_item(self, metered: Store) -> None:
        morning, evening = datetime(2024, 1, 1, 8, tzinfo=UTC), datetime(2024, 1, 1, 20, tzinfo=UTC)
        metered.put(Report(meter="1", at=morning, title="t", values={"a": 1}))
        metered.merge(Report.primary(meter="1", at=evening), set_(Report.title, "new"), set_(Report.values["b"], 2))
        expected = Report(meter="1", at=morning, title="new", values={"a": 1, "b": 2})
        assert metered.get(Report.primary(meter="1", at=morning)) == expected

    def test_sets_required_fields(self, metered: Store) -> None:
        key = Report.primary(meter="1", at=datetime(2024, 1, 1, tzinfo=UTC))
        with pytest.raises(BadValue, match="required field 'title' is not set"):
            metered.merge(key, set_(Report.values["a"], 1))
        with pytest.raises(BadValue, match="required field 'values' is not set"):
            metered.merge(key, set_(Report.title, "t"))
        metered.merge(key, set_(Report.title, "t"), set_(Report.values["a"], 1))
        assert metered.one(key).values == {"a": 1}

    def test_of_described_tables(self, stores: Stores) -> None:
        db = stores.open(readings)
        db.merge(Reading.primary(sensor="s", n=4), set_(Reading.text, "warm"))
        assert db.get(Reading, sensor="s", n=4) == Reading(sensor="s", n=4, text="warm")
        db.merge(Reading.primary(sensor="s", n=4), remove(Reading.text))
        assert list(db.query(Reading.primary(sensor="s"))) == [Reading(sensor="s", n=4)]
        by_bytes = stores.open(digests)
        by_bytes.merge(Digest.primary(digest=b"\0#"), set_(Digest.text, "t"))
        assert list(by_bytes.scan()) == [Digest(digest=b"\0#", text="t")]

    def test_of_tables_whose_keys_hold_fields(self, stores: Stores) -> None:
        db = stores.open(existing)
        key = Post.primary(user="Ann Lee", number=7)
        db.merge(key, set_(Post.text, "hello"), set_(Post.likes["Bob"], 1))
        assert db.get(key) == Post(user="Ann Lee", number=7, text="hello", likes={"Bob": 1})
        with db.batch() as batch:
            batch.merge(key, set_(Post.text, "bye"), set_(Post.likes["Eve"], 2))
        assert list(db.query(Post.primary(user="Ann Lee"))) == [
            Post(user="Ann Lee", number=7, text="bye", likes={"Bob": 1, "Eve": 2})
        ]

    @needs("updates")
    def test_is_noticed_by_an_update(self, metered: Store, stores: Stores) -> None:
        metered.put(day(parts=[1]))
        stores.rival_merges(KEY, set_(Day.readings["0015"], 1.25), set_(Day.parts, [2]))
        metered.update(KEY, append(Day.parts, 3), returning="new")
        assert metered.get(KEY) == day(readings={"0015": 1.25}, parts=[2, 3])

    def test_leaves_the_item_of_another_program(self, metered: Store, stores: Stores) -> None:
        theirs = stores.open(their_days)
        theirs.put(TheirDay(meter="1", day=MONDAY, text="theirs"))
        with suppress(ItemInvalid):  # Bigtable does not look at the row
            metered.merge(KEY, set_(Day.note, "n"))
        with suppress(ItemInvalid), metered.batch() as batch:
            batch.merge(KEY, set_(Day.note, "n"))
        assert theirs.get(TheirDay, meter="1", day=MONDAY) == TheirDay(meter="1", day=MONDAY, text="theirs")
        with pytest.raises(ItemInvalid, match="TheirDay"):
            metered.get(KEY)


class TestMergedOnce:
    def test_is_one_request_without_a_read(self, metered: Store, stores: Stores) -> None:
        stores.forget()
        metered.merge(KEY, set_(Day.note, "n"))
        assert [type(request) for request in stores.requests] == [req.Merge]

    def test_is_counted(self, metered: Store, capabilities: Capabilities) -> None:
        with metered.meter() as meter:
            metered.merge(KEY, set_(Day.note, "n"))
            with metered.batch() as batch:
                batch.merge(KEY, set_(Day.note, "m"))
        assert meter.calls == 2 * (1 + capabilities.reads_first)
        assert meter.by_pattern.keys() == {"Day.primary"}

    def test_is_explained(self, metered: Store, stores: Stores, capabilities: Capabilities) -> None:
        stores.forget()
        explained = metered.explain(KEY, set_(Day.note, "n"), write="merge")
        assert explained.call == "merge Day.primary(meter='1', day=2024-01-01)"
        requests = None if capabilities.reads_first or capabilities.locks else 1
        assert (explained.writes, explained.requests, explained.filter) == (True, requests, None)
        assert explained.native is not None
        assert explained.compiled == ("set note",)
        with pytest.raises(BadValue, match="has no condition"):
            metered.explain(KEY, set_(Day.note, "n"), write="merge", when=Day.note == "m")
        assert stores.requests == []


class TestMergeBatches:
    def test_of_many_items(self, metered: Store) -> None:
        with metered.batch() as batch:
            for n in range(120):
                batch.merge(Day.primary(meter=str(n), day=MONDAY), set_(Day.readings["0015"], float(n)))
        assert {stored.meter: stored.readings["0015"] for stored in metered.scan(Day)} == {
            str(n): n for n in range(120)
        }

    def test_of_one_item_are_one_write(self, metered: Store, stores: Stores) -> None:
        stores.forget()
        with metered.batch() as batch:
            for n in range(96):
                batch.merge(KEY, set_(Day.readings[f"{n:03}"], float(n)), set_(Day.note, str(n)))
            assert stores.requests == []
        assert len(stores.requests) == 1
        assert metered.get(KEY) == day(readings={f"{n:03}": float(n) for n in range(96)}, note="95")

    def test_the_last_action_wins(self, metered: Store) -> None:
        metered.put(day(flags={"kept", "gone"}, readings={"a": 1.0, "b": 1.0}))
        with metered.batch() as batch:
            batch.merge(KEY, add_to(Day.flags, "x", "y"), set_(Day.readings["a"], 2.0), remove(Day.readings["b"]))
            batch.merge(KEY, discard_from(Day.flags, "y", "gone"), remove(Day.readings["a"]))
            batch.merge(KEY, add_to(Day.flags, "z"), set_(Day.readings["b"], 3.0))
        assert metered.get(KEY) == day(flags={"kept", "x", "z"}, readings={"b": 3.0})

    def test_with_puts_and_deletes(self, metered: Store) -> None:
        def key(meter: str) -> Query[Day]:
            return Day.primary(meter=meter, day=MONDAY)

        names = ("put", "deleted", "put later", "deleted later", "alone")
        for name in names:
            metered.put(Day(meter=name, day=MONDAY, note="before"))
        with metered.batch() as batch:
            batch.put(Day(meter="put", day=MONDAY, parts=[1]))
            batch.delete(key("deleted"))
            for name in names:
                batch.merge(key(name), set_(Day.readings["a"], 1.0))
            batch.merge(key("put"), set_(Day.readings["b"], 2.0))
            batch.put(Day(meter="put later", day=MONDAY, parts=[2]))
            batch.delete(key("deleted later"))
        assert metered.get_many([key(name) for name in names]) == [
            Day(meter="put", day=MONDAY, parts=[1], readings={"a": 1.0, "b": 2.0}),
            Day(meter="deleted", day=MONDAY, readings={"a": 1.0}),
            Day(meter="put later", day=MONDAY, parts=[2]),
            None,
            Day(meter="alone", day=MONDAY, note="before", readings={"a": 1.0}),
        ]

    def test_with_several_requests_at_once(self, metered: Store, stores: Stores) -> None:
        stores.forget()
        with metered.batch(parallel=4) as batch:
            for n in range(110):
                batch.put(Day(meter=str(n), day=MONDAY))
                batch.merge(Day.primary(meter=f"m{n}", day=MONDAY), set_(Day.note, "n"))
            batch.delete(Day.primary(meter="0", day=MONDAY))
        assert sum(isinstance(request, req.BatchWrite) for request in stores.requests) == 4
        assert metered.count(Day.primary(meter="0")) == 0
        assert len(list(metered.scan())) == 219

    def test_refuses_a_wrong_number_of_requests(self, metered: Store) -> None:
        for parallel in (0, 17, True, 2.5):
            with pytest.raises(BadValue, match="1 to 16"):
                metered.batch(parallel=parallel)  # type: ignore[arg-type]


REFUSED: dict[str, tuple[Table, Any, Action]] = {
    "by_email": (indexed, Member.primary(member_id="m"), set_(Member.name, "n")),
    "Revision": (plain, Document.primary(document_id="d"), set_(Document.text, "t")),
    "TTL": (plain, Session.primary(user="u", session_id="s"), set_(Session.data, "d")),
    "Counter": (plain, Tally.primary(name="t"), set_(Tally.label, "l")),
    "keep=2": (kept, Highscore.primary(game="g", points=1, player="p"), set_(Highscore.player, "p")),
    "highest": (players, Player.primary(name="p"), set_(Player.level, 1)),
    "version=2": (clashing, Newer.primary(name="n"), set_(Newer.text, "t")),
}


class TestRefusedMerges:
    @pytest.mark.parametrize("which", REFUSED)
    def test_of_entities_whose_items_depend_on_what_is_stored(self, stores: Stores, which: str) -> None:
        table, key, action = REFUSED[which]
        db = stores.offline(table)
        with pytest.raises(BadValue, match=rf"has .*{which}.*update\(\)"):
            db.merge(key, action)
        with pytest.raises(BadValue, match=rf"has .*{which}.*update\(\)"), db.batch() as batch:
            batch.merge(key, action)
        assert stores.requests == []

    @pytest.mark.parametrize(
        "action",
        [
            increment(Day.version_of_meter),
            append(Day.parts, 1),
            prepend(Day.parts, 1),
            set_if_missing(Day.note, "n"),
            add_to(Day.words, "w"),
            discard_from(Day.words, "w"),
            set_(Day.place["a"], "b"),
            remove(Day.place["a"]),
            set_(Day.readings, {"a": 1.0}),
            set_(Day.flags, {"f"}),
            remove(Day.readings),
            remove(Day.extra),
            increment(some(Day.extra)["a"], 1),
            set_if_missing(Day.readings["a"], 1.0),
            set_(some(Day.extra)["a"]["b"], 1),
            set_(Day.meter, "2"),
        ],
        ids=str,
    )
    def test_of_actions_that_need_the_stored_item(self, stores: Stores, action: Action) -> None:
        db = stores.offline(days)
        with pytest.raises(BadValue):
            db.merge(KEY, action)
        assert stores.requests == []

    @pytest.mark.parametrize(
        ("action", "said"),
        [
            (set_(Starting.filled["b"], 2), "default is not empty"),
            (set_(some(Starting.nothing)["b"], 2), "may be stored as None"),
            (set_(Starting.shared["b"], 2), r"Plain\.shared has the same stored name"),
        ],
    )
    def test_of_fields_that_may_not_start_empty(self, stores: Stores, action: Action, said: str) -> None:
        with pytest.raises(BadValue, match=said):
            stores.offline(clashing).merge(Starting.primary(name="s"), action)

    def test_of_nothing(self, stores: Stores) -> None:
        with pytest.raises(BadValue, match="merge of Day without an action"):
            stores.offline(days).merge(KEY)
        with pytest.raises(BadValue, match="is not in a block"):
            stores.offline(days).batch().merge(KEY, set_(Day.note, "n"))
