"""An item whose TTL has passed counts as absent in every call, whether or not the service has removed it."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import datetime
from typing import Annotated

import pytest

from odm import TTL, ConditionFailed, Entity, ItemNotFound, PrimaryKey, Store, Table, increment, missing, remove, set_
from odm.testing.capabilities import needs
from odm.testing.entities import Contract, Session
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, fill
from odm.testing.suite.ways import Way, each_way

GONE = Session(user="u", session_id="gone", data="old", expires_at=PAST)
LIVING = Session(user="u", session_id="living", expires_at=FUTURE)
ENDLESS = Session(user="u", session_id="endless")
KEY = Session.primary(user="u", session_id="gone")
ALL = Session.primary(user="u")


badges = Table("badges")
badges_without_ttl = Table("badges")


class Badge(Entity, table=badges):
    holder: str
    until: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("BADGE#{holder}")


class BadgeWithoutTTL(Entity, table=badges_without_ttl, tag="Badge"):
    holder: str
    until: datetime | None = None

    primary = PrimaryKey("BADGE#{holder}")


class TestExpiredReads:
    def test_by_key(self, db: Store) -> None:
        fill(db, [GONE, LIVING, ENDLESS])
        assert db.get(KEY) is None
        assert db.exists(KEY) is False
        with pytest.raises(ItemNotFound):
            db.one(KEY)
        keys = [Session.primary(user="u", session_id=name) for name in ("living", "gone", "endless")]
        assert db.get_many(keys) == [LIVING, None, ENDLESS]

    def test_by_key_after_the_marker_was_taken_away(self, stores: Stores) -> None:
        stores.open(badges).put(Badge(holder="a", until=PAST))
        db, key = stores.open(badges_without_ttl), BadgeWithoutTTL.primary(holder="a")
        assert db.get(key) is None
        assert db.get_many([key]) == [None]
        assert db.exists(key) is False
        with pytest.raises(ItemNotFound):
            db.one(key)

    def test_by_query(self, db: Store) -> None:
        fill(db, [GONE, LIVING, ENDLESS])
        assert list(db.query(ALL)) == [ENDLESS, LIVING]
        assert list(db.query(ALL.where(Session.data == "old"))) == []
        assert db.count(ALL) == 2
        assert db.count(ALL.limit(2)) == 2
        assert db.first(ALL.where(Session.session_id > "f")) == LIVING
        assert db.first(KEY) is None

    def test_by_page(self, db: Store) -> None:
        fill(db, [GONE, LIVING, ENDLESS, Session(user="u", session_id="z", expires_at=PAST)])
        page = db.page(ALL, size=2)
        assert (list(page.items), page.cursor) == ([ENDLESS, LIVING], None)

    @needs("indexes")
    def test_by_index(self, indexed: Store) -> None:
        gone = Contract(contract_id="a", party="p", ends_at=PAST)
        living = Contract(contract_id="b", party="p", ends_at=FUTURE)
        indexed.put(gone)
        stored = indexed.put(living)
        assert list(indexed.query(Contract.by_party(party="p"))) == [stored]
        assert indexed.count(Contract.by_party(party="p")) == 1


class TestExpiredWrites:
    def test_put_and_delete_all(self, db: Store) -> None:
        fill(db, [GONE, LIVING])
        db.put(GONE.model_copy(update={"expires_at": FUTURE}))
        assert db.exists(KEY)
        db.put(GONE)
        assert db.delete_all(ALL) == 2

    @each_way
    @needs("conditions")
    def test_insert_over_it(self, db: Store, way: Way) -> None:
        db.put(GONE)
        new = Session(user="u", session_id="gone", data="new", expires_at=FUTURE)
        way(db).insert(new)
        assert db.get(KEY) == new

    @needs("conditions")
    def test_delete_is_false(self, db: Store) -> None:
        db.put(GONE)
        assert db.delete(KEY) is False
        assert db.delete(GONE, when=Session.data == "new") is False

    @each_way
    @needs("conditions")
    def test_a_condition_judges_an_absent_item(self, db: Store, way: Way) -> None:
        db.put(GONE)
        with pytest.raises(ConditionFailed) as caught:
            way(db).put(LIVING.model_copy(update={"session_id": "gone"}), when=Session.data == "old")
        assert caught.value.item is None
        way(db).put(LIVING.model_copy(update={"session_id": "gone"}), when=missing(Session.data))
        assert db.exists(KEY)

    @each_way
    @needs("updates")
    def test_update_finds_nothing(self, db: Store, way: Way) -> None:
        db.put(GONE)
        for which in (KEY, GONE):
            with pytest.raises(ItemNotFound):
                way(db).update(which, set_(Session.expires_at, FUTURE))
        with pytest.raises(ItemNotFound):
            way(db).update(KEY, set_(Session.data, "x"), when=Session.data == "old")
        assert db.get(KEY) is None

    @each_way
    @needs("updates")
    def test_upsert_creates_it_again(self, db: Store, way: Way) -> None:
        db.put(GONE)
        way(db).update(KEY, increment(Session.hits), upsert=True)
        assert db.get(KEY) == Session(user="u", session_id="gone", hits=1)


@needs("updates")
class TestTTLUpdates:
    def test_can_end_extend_and_remove_the_expiry(self, db: Store) -> None:
        db.put(LIVING)
        key = Session.primary(user="u", session_id="living")
        assert db.update(key, remove(Session.expires_at), returning="new").expires_at is None
        assert db.update(key, set_(Session.expires_at, FUTURE), returning="new") == LIVING
        db.update(key, set_(Session.expires_at, PAST))
        assert db.get(key) is None

    def test_set_to_none_removes_the_expiry(self, db: Store) -> None:
        db.put(LIVING)
        db.update(LIVING, set_(Session.expires_at, None))
        assert db.get(Session, user="u", session_id="living") == Session(user="u", session_id="living")
