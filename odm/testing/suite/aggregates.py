"""`Sum`, `Min` and `Max`: fields to which values are added without reading them."""
# ruff: noqa: D101  # a test's name says what it shows

from typing import Annotated

import pytest

from odm import (
    BadValue,
    ConditionFailed,
    Entity,
    ItemNotFound,
    Max,
    Min,
    PrimaryKey,
    Revision,
    Store,
    Sum,
    Table,
    add_value,
    increment,
    remove,
    set_,
    some,
)
from odm.testing.capabilities import needs
from odm.testing.stores import Stores

campaign = Table("campaign")


class Ad(Entity, table=campaign):
    """What happened to an advertisement, in numbers that no writer needs to read."""

    name: str
    text: str = ""
    views: Annotated[int, Sum] = 0
    clicks: Annotated[int, Sum] = 0

    primary = PrimaryKey("AD#{name}")


class Bid(Entity, table=campaign):
    """The range of the bids for a place."""

    place: str
    bids: int = 0
    least: Annotated[int | None, Min] = None
    best: Annotated[int | None, Max] = None

    primary = PrimaryKey("BID#{place}")


class Lot(Entity, table=campaign):
    """An aggregate next to a Revision."""

    name: str
    best: Annotated[int | None, Max] = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("LOT#{name}")


AD, BID = Ad.primary(name="a"), Bid.primary(place="p")


@pytest.fixture
def campaigns(stores: Stores) -> Store:
    """A store of advertisements and bids."""
    return stores.open(campaign)


@needs("updates")
class TestSums:
    def test_adds_values_up(self, campaigns: Store) -> None:
        campaigns.put(Ad(name="a"))
        for value in (3, -1, 10):
            campaigns.update(AD, add_value(Ad.views, value))
        campaigns.update(AD, increment(Ad.views), add_value(Ad.clicks, 2), set_(Ad.text, "b"))
        assert campaigns.get(AD) == Ad(name="a", text="b", views=13, clicks=2)

    def test_a_put_replaces_the_sum(self, campaigns: Store) -> None:
        for views in (2**63 - 1, -(2**63), 5, 0):
            campaigns.put(Ad(name="a", views=views))
            assert campaigns.one(AD).views == views
        campaigns.update(AD, add_value(Ad.views, 1))
        campaigns.update(AD, set_(Ad.views, 7), remove(Ad.clicks))
        campaigns.update(AD, add_value(Ad.views, 1), add_value(Ad.clicks, 1))
        assert campaigns.one(AD) == Ad(name="a", views=8, clicks=1)

    def test_makes_no_item_except_with_upsert(self, campaigns: Store) -> None:
        with pytest.raises(ItemNotFound):
            campaigns.update(AD, add_value(Ad.views, 1))
        assert not campaigns.exists(AD)
        for views in (1, 2):
            campaigns.update(AD, add_value(Ad.views, 1), upsert=True)
            assert campaigns.one(AD) == Ad(name="a", views=views)
        campaigns.delete(AD)
        campaigns.put(Ad(name="a"))
        assert campaigns.one(AD).views == 0

    def test_a_sum_is_compared(self, campaigns: Store) -> None:
        campaigns.put(Ad(name="a", views=9))
        campaigns.update(AD, add_value(Ad.views, 1), when=Ad.views < 10)
        with pytest.raises(ConditionFailed):
            campaigns.update(AD, add_value(Ad.views, 1), when=Ad.views < 10)
        assert [ad.views for ad in campaigns.scan(Ad, Ad.views >= 10)] == [10]
        assert list(campaigns.scan(Ad, Ad.views > 10)) == []

    def test_an_update_returns_the_sum(self, campaigns: Store) -> None:
        campaigns.put(Ad(name="a", views=1))
        assert campaigns.update(AD, add_value(Ad.views, 2), returning="new").views == 3
        assert campaigns.update(AD, add_value(Ad.views, 2), returning="old") == Ad(name="a", views=3)

    def test_is_added_in_a_transaction(self, campaigns: Store) -> None:
        campaigns.put(Ad(name="a", views=1))
        with campaigns.transaction() as tx:
            tx.update(AD, add_value(Ad.views, 2))
        assert campaigns.one(AD).views == 3

    def test_what_cannot_be_added(self, campaigns: Store) -> None:
        with pytest.raises(BadValue, match=r"Ad\.text.*mark the field with Sum, Min or Max"):
            campaigns.update(AD, add_value(Ad.text, 1))  # type: ignore[arg-type]
        with pytest.raises(BadValue, match="64 bits"):
            campaigns.update(AD, add_value(Ad.views, 2**63))
        with pytest.raises(BadValue, match="64 bits"):
            campaigns.put(Ad(name="a", views=2**63))


@needs("updates")
class TestExtremes:
    def test_keeps_the_least_and_the_greatest_value(self, campaigns: Store) -> None:
        campaigns.put(Bid(place="p"))
        for value in (5, 5, 3, 9, -4, 8):
            campaigns.update(BID, add_value(Bid.least, value), add_value(Bid.best, value), increment(Bid.bids))
        assert campaigns.get(BID) == Bid(place="p", bids=6, least=-4, best=9)

    def test_a_lesser_value_changes_only_the_rest(self, campaigns: Store) -> None:
        campaigns.put(Bid(place="p", best=7))
        campaigns.update(BID, add_value(Bid.best, 6), set_(Bid.bids, 2))
        campaigns.update(BID, add_value(Bid.best, 5))
        assert campaigns.get(BID) == Bid(place="p", bids=2, best=7)

    def test_an_update_returns_it(self, campaigns: Store) -> None:
        campaigns.put(Bid(place="p", best=7))
        assert campaigns.update(BID, add_value(Bid.best, 6), returning="new") == Bid(place="p", best=7)
        assert campaigns.update(BID, add_value(Bid.best, 8), returning="new").best == 8

    def test_a_put_replaces_it_and_it_can_be_removed(self, campaigns: Store) -> None:
        campaigns.put(Bid(place="p", best=7, least=7))
        campaigns.put(Bid(place="p", best=5))
        assert campaigns.get(BID) == Bid(place="p", best=5)
        campaigns.update(BID, remove(Bid.best), set_(Bid.least, -3))
        assert campaigns.get(BID) == Bid(place="p", least=-3)
        campaigns.update(BID, add_value(Bid.best, -9))
        assert campaigns.one(BID).best == -9

    def test_an_upsert_begins_with_the_first_value(self, campaigns: Store) -> None:
        with pytest.raises(ItemNotFound):
            campaigns.update(BID, add_value(Bid.best, 1))
        for value in (1, 2, 1):
            campaigns.update(BID, add_value(Bid.best, value), upsert=True)
        assert campaigns.get(BID) == Bid(place="p", best=2)

    def test_a_condition_precedes_an_added_value(self, campaigns: Store) -> None:
        campaigns.put(Bid(place="p", bids=1, best=7))
        for value in (6, 8):
            with pytest.raises(ConditionFailed):
                campaigns.update(BID, add_value(Bid.best, value), when=Bid.bids > 1)
            with pytest.raises(ConditionFailed):
                campaigns.update(BID, add_value(Bid.best, value), when=some(Bid.best) > 7)
        campaigns.update(BID, add_value(Bid.best, 6), set_(Bid.bids, 3), when=Bid.bids == 1)
        assert campaigns.get(BID) == Bid(place="p", bids=3, best=7)

    def test_keeps_what_a_rival_added(self, campaigns: Store, stores: Stores) -> None:
        campaigns.put(Bid(place="p", best=7))
        stores.rival_puts(Bid(place="p", best=9))
        campaigns.update(BID, add_value(Bid.best, 8), increment(Bid.bids))
        assert campaigns.get(BID) == Bid(place="p", bids=1, best=9)

    def test_next_to_a_revision(self, campaigns: Store) -> None:
        lot = campaigns.put(Lot(name="l", best=7))
        for value in (6, 8):
            campaigns.update(lot := campaigns.one(Lot.primary(name="l")), add_value(Lot.best, value))
        assert campaigns.one(Lot.primary(name="l")) == Lot(name="l", best=8, revision=lot.revision + 1)

    def test_is_added_in_a_transaction(self, campaigns: Store) -> None:
        campaigns.put(Bid(place="p", best=7))
        for value in (6, 8):
            with campaigns.transaction() as tx:
                tx.update(BID, add_value(Bid.best, value), increment(Bid.bids))
        assert campaigns.get(BID) == Bid(place="p", bids=2, best=8)


@needs("updates")
class TestMergedSums:
    def test_are_added_with_or_without_an_item(self, campaigns: Store) -> None:
        for value in (3, -1, 10):
            campaigns.merge(AD, add_value(Ad.views, value))
        campaigns.merge(AD, add_value(Ad.clicks, 2), set_(Ad.text, "b"))
        assert campaigns.get(AD) == Ad(name="a", text="b", views=12, clicks=2)
        campaigns.update(AD, add_value(Ad.views, 1))
        campaigns.put(Ad(name="a", views=5))
        campaigns.merge(AD, add_value(Ad.views, 1))
        assert list(campaigns.scan(Ad)) == [Ad(name="a", views=6)]
        campaigns.delete(AD)
        campaigns.merge(AD, increment(Ad.views, 4))
        assert campaigns.get(AD) == Ad(name="a", views=4)

    def test_a_merge_can_set_and_remove_them(self, campaigns: Store) -> None:
        campaigns.merge(AD, add_value(Ad.views, 3), add_value(Ad.clicks, 3))
        campaigns.merge(AD, set_(Ad.views, 7), remove(Ad.clicks))
        campaigns.merge(AD, add_value(Ad.views, 1), add_value(Ad.clicks, 1))
        assert campaigns.get(AD) == Ad(name="a", views=8, clicks=1)

    def test_of_a_batch_are_added_up(self, campaigns: Store, stores: Stores) -> None:
        campaigns.put(Ad(name="a", views=1, clicks=1))
        stores.forget()
        with campaigns.batch() as batch:
            for name in ("a", "b"):
                for value in (3, -1, 10):
                    batch.merge(Ad.primary(name=name), add_value(Ad.views, value))
        assert len(list(stores.requests)) <= 2
        assert {ad.name: ad.views for ad in campaigns.scan(Ad)} == {"a": 13, "b": 12}

    def test_of_a_batch_follow_what_comes_before(self, campaigns: Store) -> None:
        campaigns.put(Ad(name="a", views=100, clicks=100))
        with campaigns.batch() as batch:
            batch.merge(AD, set_(Ad.views, 7), remove(Ad.clicks))
            batch.merge(AD, add_value(Ad.views, 1), add_value(Ad.clicks, 1))
            batch.merge(AD, add_value(Ad.views, 1))
        assert campaigns.get(AD) == Ad(name="a", views=9, clicks=1)
        with campaigns.batch() as batch:
            batch.merge(AD, add_value(Ad.views, 1), add_value(Ad.clicks, 1))
            batch.merge(AD, set_(Ad.views, 2))
        assert campaigns.get(AD) == Ad(name="a", views=2, clicks=2)
        with campaigns.batch() as batch:
            batch.put(Ad(name="a", views=20))
            batch.merge(AD, add_value(Ad.views, 1), add_value(Ad.clicks, 1))
        assert campaigns.get(AD) == Ad(name="a", views=21, clicks=1)

    def test_keep_what_a_rival_added(self, campaigns: Store, stores: Stores) -> None:
        campaigns.put(Ad(name="a", views=1))
        for action in (set_(Ad.text, "b"), add_value(Ad.views, 3)):
            stores.rival_merges(AD, add_value(Ad.views, 2))
            campaigns.merge(AD, action)
        assert campaigns.get(AD) == Ad(name="a", text="b", views=8)

    def test_of_a_batch_have_64_bits_together(self, campaigns: Store) -> None:
        with campaigns.batch() as batch:
            batch.merge(AD, add_value(Ad.views, 2**63 - 1))
            with pytest.raises(BadValue, match=r"views.*64 bits"):
                batch.merge(AD, set_(Ad.text, "not written"), add_value(Ad.views, 1))
        assert campaigns.get(AD) == Ad(name="a", views=2**63 - 1)


@needs("updates")
class TestMergedExtremes:
    def test_merges_keep_the_least_and_the_greatest_value(self, campaigns: Store) -> None:
        for value in (5, 5, 3, 9, -4, 8):
            campaigns.merge(BID, add_value(Bid.least, value), add_value(Bid.best, value), set_(Bid.bids, value))
        assert campaigns.get(BID) == Bid(place="p", bids=8, least=-4, best=9)
        with campaigns.batch() as batch:
            for value in (7, 10, 9):
                batch.merge(BID, add_value(Bid.best, value))
                batch.merge(Bid.primary(place="q"), add_value(Bid.least, value))
        assert campaigns.get(BID) == Bid(place="p", bids=8, least=-4, best=10)
        assert campaigns.get(Bid, place="q") == Bid(place="q", least=7)

    def test_merges_keep_the_extreme_of_a_rival(self, campaigns: Store, stores: Stores) -> None:
        campaigns.put(Bid(place="p", best=7))
        stores.rival_puts(Bid(place="p", least=1, best=9))
        campaigns.merge(BID, add_value(Bid.best, 8), add_value(Bid.least, 2), set_(Bid.bids, 1))
        assert campaigns.get(BID) == Bid(place="p", bids=1, least=1, best=9)
