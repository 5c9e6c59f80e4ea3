"""Merges: the mutations they send, retries, and rows that other writers and programs write."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from typing import Annotated, Any

import pytest

from odm import Cell as InCell
from odm import (
    Columns,
    Entity,
    ItemInvalid,
    MaxAge,
    MaxVersions,
    PrimaryKey,
    Store,
    Stored,
    Table,
    add_to,
    append,
    discard_from,
    remove,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client import retry
from odm.backends.bigtable.client.native import DeleteColumn, Entry, Mutated, MutateRow, MutateRows, SetCell, Status
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.mutations import OLDEST, merging
from odm.errors import BackendError, Throttled
from odm.expressions.nodes import AddTo, DiscardFrom, Path, Remove, Set
from odm.immutable import evolve
from odm.protocol.connection import perform
from odm.protocol.requests import BatchMerge, Merge, Written
from odm.schema.entity import Key
from tests.backends.bigtable.playing import BUSY, Clock, google, play

meters = Table("merge-meters")
meters_before = Table("merge-meters")
theirs = Table("merge-meters")


class Day(Entity, table=meters):
    meter: str
    readings: Annotated[dict[str, int], Columns] = {}  # pydantic copies defaults
    flags: Annotated[set[str], Columns] = set()
    steps: list[int] = []
    note: str | None = None

    primary = PrimaryKey("METER#{meter}", "Day")


class DayBefore(Entity, table=meters_before, tag="Day"):
    """The same entity before its fields were in Columns."""

    meter: str
    readings: dict[str, int] = {}
    flags: set[str] = set()

    primary = PrimaryKey("METER#{meter}", "Day")


class Theirs(Entity, table=theirs):
    meter: str
    text: str = ""

    primary = PrimaryKey("METER#{meter}", "Day")


wide = Table("merge-wide", layout="row_per_partition")


class Note(Entity, table=wide):
    pad: str
    name: str
    text: str = ""

    primary = PrimaryKey("PAD#{pad}", "{name}")


placed = Table("merge-placed")


class Sensor(Entity, table=placed, family="sensors", gc=MaxAge(days=3)):
    name: str
    place: str
    readings: Annotated[dict[str, int], Columns] = {}
    note: Annotated[str | None, Stored(family="notes")] = None
    level: Annotated[float | None, InCell("raw:LEVEL", "float64be")] = None

    primary = PrimaryKey("SENSOR#{name}", "Sensor")


KEY = Day.primary(meter="1")
MARKS = {"_t": "Day", "meter": "1"}
ROW = "METER#1#Day"
NEW = (SetCell("_t", b"Day", OLDEST), SetCell("meter", b"1", OLDEST))


def procedures(clock: Clock | None = None) -> Procedures:
    ids = count(1)
    retry = Retry(clock=clock or Clock(), jitter=lambda: 1.0)
    return Procedures(meters.compile(), retry, lambda: 5000, lambda: f"id{next(ids)}")


def merge(*actions: Any, meter: str = "1") -> Merge:
    return Merge(Key(f"METER#{meter}", "Day"), actions, MARKS)


def revised(number: int) -> tuple[Any, ...]:
    return DeleteColumn("~r"), SetCell("~r", f"id{number}".encode(), 5000)


NOTE = merge(Set(Path(("note",)), "n"))
NOTED = (*NEW, DeleteColumn("note"), SetCell("note", b"n", 5000))


class TestMutations:
    def test_what_a_new_item_needs_does_not_replace_stored_cells(self) -> None:
        sent, answer = play(NOTE, None, on=procedures())
        assert sent == [MutateRow("merge-meters", Entry(ROW, (*NOTED, *revised(1))))]
        assert answer == Written()

    def test_of_members(self) -> None:
        request = merge(
            Set(Path(("readings", "a#")), 1),
            Remove(Path(("readings", "b"))),
            AddTo(Path(("flags",)), frozenset({"x"})),
            DiscardFrom(Path(("flags",)), frozenset({"y"})),
        )
        ((call,), _) = play(request, None, on=procedures())
        assert call.entry.mutations == (
            *NEW,
            DeleteColumn("readings#b"),
            DeleteColumn("flags#y"),
            SetCell("readings", b"{}", OLDEST),
            DeleteColumn("readings#a#"),
            SetCell("readings#a#", b"1", 5000),
            SetCell("flags", b'{"$set": []}', OLDEST),
            DeleteColumn("flags#x"),
            SetCell("flags#x", b"", 5000),
            *revised(1),
        )

    def test_in_a_family_that_deletes_cells_by_age_all_cells_are_new(self) -> None:
        form = Form({"readings": "columns"}, aged_families=frozenset({"d"}))
        made = merging(merge(Set(Path(("readings", "a")), 1)), form, ROW, "r", 5000)
        assert {cell.timestamp for cell in made if isinstance(cell, SetCell)} == {5000}
        rules = {"old": MaxAge(days=1), "few": MaxVersions(2), "both": MaxAge(days=1) & MaxVersions(2), "none": None}
        assert Form.of(evolve(meters.compile(), families=rules)).aged_families == {"old"}


class TestRetries:
    def test_each_attempt_has_its_own_revision(self) -> None:
        clock = Clock()
        sent, answer = play(NOTE, BUSY, google.DeadlineExceeded("slow"), None, on=procedures(clock), clock=clock)
        calls = [one for one in sent if isinstance(one, MutateRow)]
        assert [call.entry.mutations for call in calls] == [(*NOTED, *revised(n)) for n in (1, 2, 3)]
        assert answer == Written()

    def test_what_will_not_pass_is_raised(self) -> None:
        with pytest.raises(BackendError):
            play(NOTE, google.PermissionDenied("no"), on=procedures())

    def test_of_a_batch_only_the_rows_that_are_not_written_are_sent_again(self) -> None:
        request = BatchMerge(tuple(merge(Set(Path(("note",)), "n"), meter=meter) for meter in ("b", "a", "c")))
        first = Mutated({0: Status(0), 1: Status(14, "busy")}, BUSY)  # 2: no answer
        clock = Clock()
        sent, answer = play(request, first, Mutated({0: Status(0), 1: Status(0)}), on=procedures(clock), clock=clock)
        calls = [one for one in sent if isinstance(one, MutateRows)]
        assert [[entry.key for entry in call.entries] for call in calls] == [
            ["METER#a#Day", "METER#b#Day", "METER#c#Day"],
            ["METER#b#Day", "METER#c#Day"],
        ]
        revisions = [str(entry.mutations[-1]) for call in calls for entry in call.entries]
        assert len(set(revisions)) == 5
        assert answer == (Written(),) * 3

    def test_nothing_of_a_batch_is_dropped(self) -> None:
        clock = Clock()
        request = BatchMerge(tuple(merge(Set(Path(("note",)), "n"), meter=meter) for meter in "ab"))
        answers = [Mutated({1: Status(0)}), *[Mutated({0: Status(14, "busy")})] * 50]
        with pytest.raises(Throttled) as raised:
            play(request, *answers, on=procedures(clock), clock=clock)
        assert [one.key.partition for one in raised.value.left] == ["METER#a"]

    def test_many_rows_are_divided(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retry, "WRITE_BYTES", 900)
        request = BatchMerge(tuple(merge(Set(Path(("note",)), "n"), meter=meter) for meter in "cab"))
        sent, _ = play(request, *[lambda: Mutated({0: Status(0), 1: Status(0)})] * 3, on=procedures(), rest=True)
        assert [entry.key for call in sent for entry in call.entries] == [f"METER#{one}#Day" for one in "abc"]
        assert len(sent) > 1


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("project", "merges", endpoint=bigtable_emulator)


@pytest.fixture
def db(backend: Bigtable) -> Iterator[Store]:
    with Store(meters, backend) as store:
        store.drop()
        store.create()
        yield store


def test_attributes_are_merged_where_their_cells_stand(backend: Bigtable) -> None:
    key = Sensor.primary(name="s")
    with Store(placed, backend) as db:
        db.drop()
        db.create()
        db.merge(key, set_(Sensor.place, "p"), set_(Sensor.readings["a"], 1), set_(Sensor.level, 1.5))
        db.merge(key, set_(Sensor.place, "q"), set_(Sensor.readings["b"], 2), set_(Sensor.note, "n"))
        expected = Sensor(name="s", place="q", readings={"a": 1, "b": 2}, note="n", level=1.5)
        assert db.get(key) == expected
        db.update(key, set_(Sensor.note, "m"), when=Sensor.level == 1.5)
        db.put(expected)
        with db.batch() as batch:
            batch.merge(key, set_(Sensor.place, "r"), remove(Sensor.level), remove(Sensor.readings["a"]))
        assert list(db.scan()) == [Sensor(name="s", place="r", readings={"b": 2}, note="n")]
    made = merging(Merge(Key("SENSOR#s", "Sensor"), (), {"_t": "Sensor"}), Form.of(placed.compile()), "s", "r", 5000)
    assert [str(one).split(":")[0] for one in made] == ["sensors", "deletecolumn 'sensors", "sensors"]
    assert {one.timestamp for one in made if isinstance(one, SetCell)} == {5000}


def test_items_of_one_cell_are_read_and_written(backend: Bigtable) -> None:
    key = Note.primary(pad="p", name="n")
    with Store(wide, backend) as db:
        db.create()
        db.merge(key, set_(Note.text, "t"))
        with db.batch() as batch:
            batch.merge(key, set_(Note.text, "u"))
        assert db.get(key) == Note(pad="p", name="n", text="u")
        db.drop()


class TestRows:
    def test_members_from_before_the_declaration_stay(self, db: Store, backend: Bigtable) -> None:
        with Store(meters_before, backend) as before:
            before.put(DayBefore(meter="1", readings={"a": 1, "b": 2}, flags={"x"}))
        db.merge(KEY, set_(Day.readings["b"], 3), add_to(Day.flags, "y"))
        assert db.get(KEY) == Day(meter="1", readings={"a": 1, "b": 3}, flags={"x", "y"})

    def test_items_of_other_programs_stay_theirs(self, db: Store, backend: Bigtable) -> None:
        with Store(theirs, backend) as other:
            other.put(Theirs(meter="1", text="t"))
            perform(other._session.connection, Merge(Key("METER#1", "Theirs"), NOTE.actions, MARKS))
            assert other.get(Theirs, meter="1") == Theirs(meter="1", text="t")
        with pytest.raises(ItemInvalid):
            list(db.scan())

    def test_a_repeated_merge_gives_the_same_row(self, db: Store) -> None:
        db.put(Day(meter="1", readings={"a": 0}, steps=[1]))
        for _ in range(2):
            db.merge(KEY, set_(Day.readings["b"], 1), remove(Day.note), discard_from(Day.flags, "x"))
            assert db.get(KEY) == Day(meter="1", readings={"a": 0, "b": 1}, steps=[1])

    def test_concurrent_updates_and_merges_are_all_kept(self, db: Store) -> None:
        db.put(Day(meter="1"))

        def work(number: int) -> None:
            for step in range(5):
                name = f"{number}-{step}"
                if number % 2:
                    db.update(KEY, append(Day.steps, number * 10 + step))
                    continue
                with db.batch() as batch:
                    batch.merge(KEY, set_(Day.readings[name], step), add_to(Day.flags, name))
                db.merge(KEY, set_(Day.note, name))

        with ThreadPoolExecutor(6) as pool:
            list(pool.map(work, range(6)))
        found = db.one(KEY)
        assert found.readings == {f"{number}-{step}": step for number in (0, 2, 4) for step in range(5)}
        assert found.flags == found.readings.keys()
        assert sorted(found.steps) == [number * 10 + step for number in (1, 3, 5) for step in range(5)]
