"""Backfills: new patterns, pointers, unique values, versions and forms of stored items, next to other writers."""
# ruff: noqa: D101  # a test's name says what it shows

from functools import partial
from typing import Any

import pytest

from odm import BadCursor, BadValue, ItemExists, ItemInvalid, Store, collection, set_
from odm.extend import Calls, Gen, procedure
from odm.protocol import requests as req
from odm.results import Backfilled, Unfilled
from odm.testing.capabilities import needs
from odm.testing.filling import (
    Job,
    Machine,
    Member,
    OldJob,
    OldMember,
    OldSheet,
    OldText,
    Sheet,
    Text,
    jobs,
    jobs_now,
    members,
    members_now,
    pages,
    pages_now,
)
from odm.testing.stores import WRITES, Stores
from odm.testing.suite.helpers import FUTURE, PAST

OLD_JOBS = [OldJob(job_id=f"j{n}", state=("new", "done", None)[n % 3], note="x" * (n % 2)) for n in range(7)]
STATES = {"new": ["j0", "j3", "j6"], "done": ["j1", "j4"]}
OLD_MEMBERS = [OldMember(team="ab"[n % 2], number=n, email=f"{n % 4}@x") for n in range(5)]
OLD_SHEETS = [OldSheet(sheet_id=name, name=names) for name, names in (("1", "Ann Lee"), ("2", "Bo"), ("3", "Cy Lee"))]

REFUSED = [{"rate": 0}, {"rate": float("inf")}, {"rate": True}, {"size": 0}, {"size": 2.0}, {"on_progress": 1}]


def jobs_by_state(db: Store) -> dict[str, list[str]]:
    """The jobs in each state, as the new pattern finds them."""
    return {state: [job.job_id for job in db.query(Job.by_state(state=state))] for state in ("new", "done")}


def counts(done: Backfilled) -> tuple[int, int, int, int]:
    """How many items were seen, written, skipped and not written."""
    assert done.cursor is None
    return done.seen, done.written, done.skipped, done.failed


def wrote(stores: Stores) -> list[req.Request]:
    """The writes since the last `Stores.forget`."""
    return [request for request in stores.requests if isinstance(request, WRITES)]


def kinds(done: Backfilled) -> list[tuple[str, type[Exception]]]:
    """The keys of the items that were not written, with the kinds of their errors."""
    return [(failure.partition + failure.sort, type(failure.error)) for failure in done.failures]


@needs("indexes", "updates", "conditions")
class TestBackfill:
    @pytest.fixture
    def stored(self, stores: Stores) -> Store:
        """A store whose items are from before the new pattern."""
        db = stores.open(jobs_now)
        old = stores.open(jobs)
        for job in OLD_JOBS:
            old.put(job)
        old.put(Machine(name="j1"))
        stores.forget()
        return db

    @pytest.fixture
    def sheets(self, stores: Stores) -> Store:
        """A store of items of version 1."""
        db = stores.open(pages_now)
        old = stores.open(pages)
        for sheet in OLD_SHEETS:
            old.put(sheet)
        return db

    def test_fills_a_new_pattern(self, stored: Store, stores: Stores) -> None:
        before = {job.job_id: job for job in stored.scan(Job)}
        assert jobs_by_state(stored) == {"new": [], "done": []}
        stores.forget()
        assert counts(stored.backfill(Job.by_state)) == (7, 5, 2, 0)  # two jobs have no state, so no entry
        assert [type(request) for request in stores.requests] == [req.Scan, *[req.Update] * 5]
        assert jobs_by_state(stored) == STATES
        assert {job.job_id: job for job in stored.scan(Job)} == before  # with their revisions
        assert [job.job_id for job in stored.query(Job.by_note(note="x"))] == ["j1", "j3", "j5"]

    def test_costs_no_write_where_all_is_right(self, stored: Store, stores: Stores) -> None:
        stored.backfill(Job.by_state)
        stores.forget()
        assert counts(stored.backfill(Job.by_state)) == (7, 0, 7, 0)
        assert counts(stored.backfill(Job)) == (7, 0, 7, 0)
        assert wrote(stores) == []
        assert len(stores.requests) == 2

    def test_a_loop_of_puts_loses_the_update_of_another_program(self, sheets: Store, stores: Stores) -> None:
        """Why there is a backfill."""
        (first,) = [sheet for sheet in sheets.scan(Sheet) if sheet.sheet_id == "1"]
        stores.rival_puts(first.model_copy(update={"color": "red"}))
        sheets.put(first)
        assert sheets.one(Sheet, sheet_id="1").color == "white"

    @pytest.mark.parametrize("target", [Sheet.by_last, Sheet], ids=str)
    def test_keeps_the_update_of_another_program(self, sheets: Store, stores: Stores, target: object) -> None:
        rivals = [Sheet(sheet_id="1", first="Di", last="Roy", color="red"), Sheet(sheet_id="3", first="Ed", last="Lee")]
        stores.rival_puts(*rivals)  # of two items, because the backfill writes concurrently, so its rivals do
        assert sheets.backfill(target).failed == 0
        assert sheets.one(Sheet, sheet_id="1") == rivals[0]
        assert sheets.one(Sheet, sheet_id="3") == rivals[1]
        assert sorted(sheet.sheet_id for sheet in sheets.query(Sheet.by_last(last="Lee"))) == ["3"]
        assert list(sheets.query(Sheet.by_last(last="Roy"))) == [sheets.one(Sheet, sheet_id="1")]

    @pytest.mark.parametrize("target", [Sheet.by_last, Sheet], ids=str)
    def test_an_item_that_is_deleted_stays_deleted(self, sheets: Store, stores: Stores, target: object) -> None:
        stores.rival_deletes(Sheet(sheet_id="1", first="Ann"))
        stores.rival_deletes(Sheet(sheet_id="3", first="Cy"))
        done = sheets.backfill(target)
        assert (done.failed, done.seen) == (0, 3)
        assert [sheet.sheet_id for sheet in sheets.scan(Sheet)] in (
            ["2"],
            ["2", "3"],
            ["2", "1"],
            ["3", "2"],
            ["1", "2"],
        )
        remaining = {sheet.sheet_id for sheet in sheets.scan(Sheet)} - {"2"}
        assert {sheet.sheet_id for sheet in sheets.query(Sheet.by_last(last="Lee"))} == remaining

    def test_rewrites_items_of_an_older_version(self, sheets: Store, stores: Stores) -> None:
        stores.open(pages).put(OldSheet(sheet_id="4", name="Di Lee", expires=FUTURE))
        stores.open(pages).put(OldSheet(sheet_id="5", name="Ed Lee", expires=PAST))
        assert counts(sheets.backfill(Sheet)) == (5, 5, 0, 0)
        raw = {item.partition: item for item in sheets.scan_page(expired=True).items}
        assert {item.attributes["_v"] for item in raw.values()} == {2}
        assert raw["SHEET#1"].attributes["color"] == "white"
        assert raw["SHEET#4"].expires == int(FUTURE.timestamp())
        assert sorted(sheet.sheet_id for sheet in sheets.query(Sheet.by_last(last="Lee"))) == ["1", "3", "4"]
        assert sheets.get(Sheet, sheet_id="5") is None  # it has a TTL now, which has passed
        assert counts(sheets.backfill(Sheet)) == (4, 0, 4, 0)

    def test_a_pattern_of_a_new_version(self, sheets: Store) -> None:
        assert counts(sheets.backfill(Sheet.by_last)) == (3, 2, 1, 0)
        assert sorted(sheet.sheet_id for sheet in sheets.query(Sheet.by_last(last="Lee"))) == ["1", "3"]

    def test_reports_an_item_that_does_not_fit_the_model(self, sheets: Store, stores: Stores) -> None:
        stores.open(pages).put(OldSheet(sheet_id="0", name="?"))
        done = sheets.backfill(Sheet)
        assert counts(done) == (4, 3, 0, 1)
        ((unfilled),) = done.failures
        assert isinstance(unfilled, Unfilled)
        assert isinstance(unfilled.error, ItemInvalid)
        assert unfilled.partition.startswith("SHEET#0")
        assert "nobody knows" in str(unfilled)

    def test_ends_after_any_stop_as_without_one(self, stored: Store, stores: Stores) -> None:
        old = stores.open(jobs)
        for after in range(40):
            for job in OLD_JOBS:
                stored.delete(Job, job_id=job.job_id)
                old.put(job)
            far: list[Backfilled] = []
            work = partial(stored.backfill, Job.by_state, size=2, on_progress=far.append)
            if not stores.stopped(work, after=after):
                assert jobs_by_state(stored) == STATES
                break
            stored.backfill(Job.by_state, size=2, after=far[-1].cursor if far else None)
            assert jobs_by_state(stored) == STATES
        else:
            raise AssertionError("it never ends")
        assert after >= 8

    def test_continues_from_a_cursor(self, stored: Store, stores: Stores) -> None:
        far: list[Backfilled] = []
        whole = stored.backfill(Job.by_state, size=3, on_progress=far.append)
        assert [progress.seen for progress in far] == sorted(progress.seen for progress in far)
        assert far[-1] == whole
        assert all(progress.cursor is not None for progress in far[:-1])
        stores.forget()
        rest = stored.backfill(Job.by_state, after=far[0].cursor)
        assert rest.seen == 7 - far[0].seen
        with pytest.raises(BadCursor):
            stored.backfill(Job.by_state, after="x")

    def test_in_parts(self, stored: Store) -> None:
        done = [stored.backfill(Job.by_state, after=part) for part in stored.parts(3)]
        assert sum(progress.seen for progress in done) == 7
        assert jobs_by_state(stored) == STATES

    def test_in_a_procedure(self, stored: Store) -> None:
        @procedure
        def both(do: Calls) -> Gen[int]:
            done = yield from do.backfill(Job.by_state, rate=1e9)
            return done.written

        assert stored.run(both()) == 5

    def test_corrects_an_entry(self, stored: Store, stores: Stores) -> None:
        stored.backfill(Job.by_state)
        stores.open(jobs).update(OldJob.primary(job_id="j0"), set_(OldJob.state, "done"))  # knows of no such entry
        assert counts(stored.backfill(Job.by_state)) == (7, 1, 6, 0)
        assert jobs_by_state(stored) == {"new": ["j3", "j6"], "done": ["j0", "j1", "j4"]}

    @pytest.mark.parametrize(
        ("target", "says"),
        [
            (Job.primary, "the primary key of stored items does not change"),
            (Job.by_state(state="new"), "without a call"),
            (collection(Job.by_state(state="new")), "without a call"),
            ("Job.by_state", "without a call"),
            (Job(job_id="j"), "without a call"),
        ],
        ids=str,
    )
    def test_refuses_what_it_cannot_fill(self, stored: Store, target: object, says: str) -> None:
        with pytest.raises(BadValue, match=says):
            stored.backfill(target)

    @pytest.mark.parametrize("options", REFUSED, ids=str)
    def test_refuses_options_that_it_cannot_use(self, stored: Store, stores: Stores, options: Any) -> None:
        with pytest.raises(BadValue, match="backfill"):
            stored.backfill(Job.by_state, **options)
        assert stores.requests == []


@needs("updates", "conditions")
class TestBackfillCompanions:
    @pytest.fixture
    def team(self, stores: Stores) -> Store:
        """A store whose items are from before the pointer and the unique value."""
        db = stores.open(members_now)
        old = stores.open(members)
        for member in OLD_MEMBERS:
            old.put(member)
        stores.forget()
        return db

    def test_fills_pointers(self, team: Store, stores: Stores) -> None:
        assert counts(team.backfill(Member.newest)) == (5, 2, 3, 0)
        assert [team.one(Member.newest(team=name)).number for name in "ab"] == [4, 3]
        stores.forget()
        assert counts(team.backfill(Member.newest)) == (5, 0, 5, 0)
        assert wrote(stores) == []

    def test_never_moves_a_pointer_back(self, team: Store) -> None:
        team.put(Member(team="a", number=9))
        team.backfill(Member.newest)
        assert [team.one(Member.newest(team=name)).number for name in "ab"] == [9, 3]

    def test_fills_unique_values_and_reports_those_that_are_taken(self, team: Store, stores: Stores) -> None:
        done = team.backfill(Member.unique_email)
        assert counts(done) == (5, 4, 0, 1)
        assert {kind for _, kind in kinds(done)} == {ItemExists}
        holders = [team.one(Member.unique_email(email=f"{n}@x")).number for n in range(4)]
        assert holders in ([0, 1, 2, 3], [4, 1, 2, 3])
        with pytest.raises(ItemExists):
            team.put(Member(team="b", number=8, email="1@x"))
        team.update(Member.primary(team="a", number=4 - holders[0]), set_(Member.email, "4@x"))
        stores.forget()
        assert counts(team.backfill(Member.unique_email)) == (5, 0, 5, 0)
        assert wrote(stores) == []

    def test_a_value_that_another_writer_takes(self, team: Store) -> None:
        team.put(Member(team="b", number=7, email="2@x"))
        done = team.backfill(Member.unique_email)
        assert counts(done) == (6, 3, 1, 2)
        assert team.one(Member.unique_email(email="2@x")).number == 7

    def test_a_change_between_read_and_write(self, team: Store, stores: Stores) -> None:
        """The rivals do not know of unique values: the claims are of what they wrote, or made by the next backfill."""
        changed = [
            OldMember(team=member.team, number=member.number, email=f"{member.number}@y") for member in OLD_MEMBERS
        ]
        stores.rival_puts(*changed)
        team.backfill(Member.unique_email)
        assert counts(team.backfill(Member.unique_email))[-1] == 0
        assert [team.one(Member.unique_email(email=member.email)).number for member in changed] == [0, 1, 2, 3, 4]

    def test_keeps_the_first_version_of_stored_items(self, stores: Stores) -> None:
        db = stores.open(pages_now)
        old = stores.open(pages)
        for name in "abc":
            old.put(OldText(text_id=name, body=name))
        assert counts(db.backfill(Text.history)) == (3, 3, 0, 0)
        assert counts(db.backfill(Text.history)) == (3, 0, 3, 0)
        assert [version.body for version in db.query(Text.history(text_id="b"))] == ["b"]
        db.put(db.one(Text, text_id="b").model_copy(update={"body": "B"}))
        assert db.run(Text.history.compare(1, 2, text_id="b")) == {"body": ("b", "B")}

    def test_a_whole_entity(self, team: Store, stores: Stores) -> None:
        team.update(Member.primary(team="a", number=0), set_(Member.email, "9@x"))
        assert counts(team.backfill(Member)) == (5, 4, 1, 0)
        assert [team.one(Member.newest(team=name)).number for name in "ab"] == [4, 3]
        assert [team.one(Member.unique_email(email=f"{n}@x")).number for n in (0, 1, 2, 3, 9)] == [4, 1, 2, 3, 0]
        stores.forget()
        assert counts(team.backfill(Member)) == (5, 0, 5, 0)
        assert wrote(stores) == []
