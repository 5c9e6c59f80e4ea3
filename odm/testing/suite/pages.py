"""Pages and their cursors."""
# ruff: noqa: D101  # a test's name says what it shows

from typing import Any

import pytest

from odm import BadCursor, BadValue, Query, Store
from odm.testing.capabilities import needs
from odm.testing.entities import Event, Session, Ticket, plain
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill, walk

ALL = Event.primary(log="l")
RARE = ALL.where(Event.text == "rare")
EVENTS = [Event(log="l", level=n, at=at(1), name=f"n#{n}", text="xy"[n % 2]) for n in range(7)]


class TestPages:
    def test_of_every_size_in_both_directions(self, db: Store) -> None:
        fill(db, EVENTS)
        for query, expected in ((ALL, EVENTS), (ALL.reverse(), EVENTS[::-1])):
            for size in range(1, 9):
                expected_pages = [expected[start : start + size] for start in range(0, 7, size)]
                assert walk(db, query, size) == expected_pages, (query, size)

    def test_are_full_where_a_filter_drops_items(self, db: Store) -> None:
        fill(db, EVENTS)
        query = ALL.where(Event.text == "x")
        assert [[e.level for e in page] for page in walk(db, query, 2)] == [[0, 2], [4, 6]]
        assert [[e.level for e in page] for page in walk(db, query.reverse(), 3)] == [[6, 4, 2], [0]]

    def test_carry_the_rest_of_the_limit(self, db: Store) -> None:
        fill(db, EVENTS)
        assert [len(page) for page in walk(db, ALL.limit(5), 2)] == [2, 2, 1]
        assert [len(page) for page in walk(db, ALL.limit(4), 2)] == [2, 2]
        assert [len(page) for page in walk(db, ALL.limit(3), 5)] == [3]

    def test_of_nothing(self, db: Store) -> None:
        page = db.page(ALL)
        assert (list(page.items), page.cursor) == ([], None)

    def test_show_what_was_written_between_them(self, db: Store) -> None:
        fill(db, EVENTS[::2])
        first = db.page(ALL, size=2)
        db.put(EVENTS[3])
        db.delete(first.items[-1])
        assert [e.level for e in db.page(ALL, after=first.cursor).items] == [3, 4, 6]

    def test_before_others_have_what_is_stored_there_now(self, db: Store) -> None:
        fill(db, EVENTS[1::2])
        last = db.page(ALL, size=2, after=db.page(ALL, size=2).cursor)
        db.put(EVENTS[4])
        db.put(EVENTS[0])
        second = db.page(ALL, size=2, after=last.previous)
        first = db.page(ALL, size=2, after=second.previous)
        assert [list(page.items) for page in (first, second, last)] == [EVENTS[:2], EVENTS[3:5], EVENTS[5:6]]
        assert (first.previous, db.page(ALL, size=2, after=second.cursor).items) == (None, last.items)

    def test_before_others_where_their_items_were_deleted(self, db: Store) -> None:
        fill(db, EVENTS)
        second = db.page(ALL, size=3, after=db.page(ALL, size=3).cursor)
        db.delete_all(ALL.where(Event.level < 6))
        nothing = db.page(ALL, size=3, after=second.previous)
        assert (list(nothing.items), nothing.previous) == ([], None)
        assert list(db.page(ALL, size=3, after=nothing.cursor).items) == EVENTS[6:]
        db.delete(EVENTS[6])
        empty = db.page(ALL, size=3, after=second.cursor)
        assert (list(empty.items), empty.cursor) == ([], None)
        fill(db, EVENTS[:6])
        assert list(db.page(ALL, size=3, after=empty.previous).items) == EVENTS[3:6]

    @pytest.mark.parametrize("size", [0, -1, True, "2"])
    def test_refuse_a_size_out_of_range(self, offline: Store, size: Any) -> None:
        with pytest.raises(BadValue):
            offline.page(ALL, size=size)

    @needs("indexes")
    def test_through_an_index_with_equal_index_keys(self, indexed: Store) -> None:
        tickets = [Ticket(member_id=f"m{n}", ticket_id="same", filed_at=at(1), level=3) for n in range(5)]
        fill(indexed, tickets)
        for query in (Ticket.by_level(status="open"), Ticket.by_level(status="open").reverse()):
            for size in (1, 2, 3, 5):
                listed = [ticket for page in walk(indexed, query, size) for ticket in page]
                assert sorted(listed, key=lambda t: t.member_id) == tickets


def rare(number: int) -> Event:
    """The last one of every 60 events matches `RARE`."""
    return Event(log="l", level=number, at=at(1), name=f"n#{number}", text="rare" if number % 60 == 59 else "x")


def steps(db: Store, query: Query[Any], size: int, most: int) -> list[list[Any]]:
    """The items of each page of at most so many requests, up to the end; going back has all of them too."""
    pages: list[list[Any]] = []
    items: list[Any] = []
    cursor: str | None = None
    while True:
        with db.meter() as meter:
            page = db.page(query, size=size, after=cursor, max_requests=most)
        assert meter.calls <= most
        assert len(page.items) <= size
        pages.append(list(page.items))
        items += page.items
        assert len(pages) < 200, "a page must get on"
        if (cursor := page.cursor) is None:
            break
    before = list(page.items)
    while page.previous is not None:
        page = db.page(query, size=size, after=page.previous, max_requests=most)
        before[:0] = page.items
    assert before == items
    return pages


class TestPagesOfFewRequests:
    def test_end_early_and_together_have_every_result(self, db: Store) -> None:
        events = fill(db, map(rare, range(240)))
        expected = [event for event in events if event.text == "rare"]
        for query, results in ((RARE, expected), (RARE.reverse(), expected[::-1])):
            for size, most in ((1, 1), (3, 1), (3, 2), (25, 1), (25, 3)):
                pages = steps(db, query, size, most)
                assert [event for page in pages for event in page] == results, (query, size, most)
        # Backwards, a backend whose partition is one row reads it to its end.
        assert steps(db, RARE, 3, 1) != walk(db, RARE, 3), "one request finds fewer"

    def test_are_whole_where_the_requests_suffice(self, db: Store) -> None:
        fill(db, EVENTS)
        for query in (ALL, ALL.reverse(), ALL.where(Event.text != "none"), ALL.limit(5)):
            for size in (1, 3, 6, 7, 8):
                assert steps(db, query, size, 9) == walk(db, query, size), (query, size)
        assert steps(db, ALL, 3, 1) == walk(db, ALL, 3)

    def test_of_nothing(self, db: Store) -> None:
        assert steps(db, RARE, 3, 1) == [[]]
        nothing = ALL.where(Event.level > 3, Event.level < 2)
        assert steps(db, nothing, 3, 1) == [[]]

    def test_carry_the_rest_of_the_limit(self, db: Store) -> None:
        events = fill(db, map(rare, range(240)))
        assert [event for page in steps(db, RARE.limit(3), 2, 1) for event in page] == [events[59], *events[119:180:60]]

    def test_leave_out_what_has_expired(self, db: Store) -> None:
        ends = [PAST if n % 10 else FUTURE for n in range(100)]
        sessions = [Session(user="u", session_id=f"{n:03}", expires_at=end) for n, end in enumerate(ends)]
        fill(db, sessions)
        for size, most in ((2, 1), (3, 2), (25, 1)):
            assert [
                session for page in steps(db, Session.primary(user="u"), size, most) for session in page
            ] == sessions[::10]

    @pytest.mark.parametrize("most", [0, -1, True, "2", 1.5])
    def test_refuse_a_number_out_of_range(self, offline: Store, most: Any) -> None:
        for query in (ALL, ALL.where(Event.level > 3, Event.level < 2)):
            with pytest.raises(BadValue, match="max_requests"):
                offline.page(query, max_requests=most)

    def test_as_a_step_of_a_procedure(self, db: Store) -> None:
        fill(db, map(rare, range(120)))
        page = db.run(lambda do: do.page(RARE, size=1, max_requests=1))
        assert page.cursor is not None

    @needs("indexes")
    def test_through_an_index(self, indexed: Store) -> None:
        tickets = [Ticket(member_id=f"m{n:03}", ticket_id="t", filed_at=at(1), level=n % 50) for n in range(150)]
        fill(indexed, tickets)
        query = Ticket.by_level(status="open").where(Ticket.member_id >= "m145")
        listed: list[Ticket] = []
        cursor: str | None = None
        for _ in range(100):
            page = indexed.page(query, size=2, after=cursor, max_requests=1)
            listed += page.items
            cursor = page.cursor
            if cursor is None:
                break
        assert sorted(ticket.member_id for ticket in listed) == [f"m{n}" for n in range(145, 150)]
        assert cursor is None


class TestCursors:
    def cursor(self, db: Store, query: Query[Any] = ALL, size: int = 3) -> str:
        fill(db, EVENTS)
        cursor = db.page(query, size=size).cursor
        assert cursor is not None
        return cursor

    def previous(self, db: Store, query: Query[Any] = ALL, size: int = 3) -> str:
        previous = db.page(query, size=size, after=self.cursor(db, query, size)).previous
        assert previous is not None
        return previous

    def test_serve_another_store_of_the_table(self, db: Store, stores: Stores) -> None:
        cursor = self.cursor(db)
        assert list(stores.open(plain).page(ALL, after=cursor).items) == EVENTS[3:]

    def test_are_refused_by_another_query(self, db: Store) -> None:
        others = {
            "partition": Event.primary(log="m"),
            "direction": ALL.reverse(),
            "filter": ALL.where(Event.text == "x"),
            "lower bound": ALL.where(Event.level >= 5),
            "upper bound": ALL.where(Event.level < 2),
            "key": Event.primary(log="l", level=5),
        }
        for cursor in (self.cursor(db), self.previous(db)):
            for change, other in others.items():
                with pytest.raises(BadCursor):
                    pytest.fail(f"another {change}: {db.page(other, after=cursor)}")

    def test_go_on_in_a_range_whose_bound_has_moved(self, db: Store) -> None:
        cursor = self.cursor(db, ALL.where(Event.level <= 5))
        assert [e.level for e in db.page(ALL.where(Event.level <= 6), after=cursor).items] == [3, 4, 5, 6]
        assert [e.level for e in db.page(ALL.where(Event.level >= 1), after=cursor).items] == [3, 4, 5, 6]
        previous = self.previous(db)
        assert [e.level for e in db.page(ALL.where(Event.level >= 1), after=previous).items] == [1, 2]

    def test_are_refused_when_damaged(self, db: Store) -> None:
        damaged = ["", "x", "?", "ä"]
        for cursor in (self.cursor(db), self.previous(db)):
            last = "A" if cursor[-2] != "A" else "B"
            damaged += [cursor[:-4], cursor[1:], cursor[:-2] + last + cursor[-1]]
        for text in damaged:
            with pytest.raises(BadCursor):
                db.page(ALL, after=text)

    def test_are_signed_with_the_secret(self, db: Store, stores: Stores) -> None:
        unsigned = self.cursor(db)
        signing, other = stores.open(plain, cursor_secret="s1"), stores.open(plain, cursor_secret="s2")
        signed = self.previous(signing)
        assert list(signing.page(ALL, after=signed).items) == EVENTS[:3]
        signed = self.cursor(signing)
        assert list(signing.page(ALL, after=signed).items) == EVENTS[3:]
        for store, cursor in ((signing, unsigned), (other, signed), (db, signed)):
            with pytest.raises(BadCursor):
                store.page(ALL, after=cursor)
