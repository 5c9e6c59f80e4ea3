"""`Counter`: a number that is incremented in one atomic request."""
# ruff: noqa: D101  # a test's name says what it shows

import pytest

from odm import ItemNotFound, Store, increment, set_
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.entities import Tally, Ticket
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at

TALLY = Tally(name="t", label="l")


class TestCounterPut:
    def test_is_stored_like_any_number(self, db: Store) -> None:
        tally = Tally(name="t", hits=2**63 - 1, misses=-(2**63))
        db.put(tally)
        assert db.get(Tally, name="t") == tally


@needs("updates")
class TestCounter:
    def test_counts_up_and_down(self, db: Store) -> None:
        db.put(TALLY)
        for by in (1, 5, -10):
            db.update(TALLY, increment(Tally.hits, by))
        db.update(TALLY, increment(Tally.hits), increment(Tally.misses, 2), set_(Tally.label, "m"))
        assert db.one(Tally, name="t") == Tally(name="t", label="m", hits=-3, misses=2)

    def test_is_one_request_also_with_an_index(self, indexed: Store, stores: Stores) -> None:
        ticket = Ticket(member_id="m", ticket_id="t", filed_at=at(1))
        indexed.put(ticket)
        stores.forget()
        assert indexed.update(ticket, increment(Ticket.seen), returning="new").seen == 1
        assert [type(request) for request in stores.requests] == [req.Update]

    def test_loses_no_count_to_a_rival(self, db: Store, stores: Stores) -> None:
        db.put(TALLY)
        stores.rival_puts(Tally(name="t", hits=7))
        assert db.update(TALLY, increment(Tally.hits), returning="new").hits == 8

    def test_makes_no_item(self, db: Store) -> None:
        with pytest.raises(ItemNotFound):
            db.update(TALLY, increment(Tally.hits))
        assert not db.exists(Tally, name="t")

    def test_starts_with_an_upsert(self, db: Store) -> None:
        for count in (1, 2):
            assert db.update(Tally.primary(name="t"), increment(Tally.hits), upsert=True, returning="new").hits == count
