"""Entities of a later version on stored items of an earlier version."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal

import pytest

from odm import (
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemInvalid,
    Store,
    TransactionFailed,
    add_to,
    collection,
    increment,
    missing,
    set_,
)
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.evolving import (
    Bag,
    BagV2,
    LockedMemo,
    Memo,
    Parcel,
    ParcelV2,
    Person,
    PersonV2,
    PersonV3,
    bags,
    bags_v2,
    memos,
    memos_locked,
    parcels,
    parcels_v2,
    people,
    people_v2,
    people_v3,
)
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, fill
from odm.testing.suite.ways import Way, each_way

ANN = Person(person_id="ann", name="Ann Lee", age=7)
ANN_V2 = PersonV2(person_id="ann", first="Ann", last="Lee", age=7)
ANN_V3 = PersonV3(person_id="ann", first="Ann", family="Lee", age=7)
KEY_V2 = PersonV2.primary(person_id="ann")
KEY_V3 = PersonV3.primary(person_id="ann")


class TestUpgradedReads:
    def test_show_the_item_as_the_model_has_it(self, stores: Stores) -> None:
        stores.open(people).put(ANN)
        db = stores.open(people_v2)
        stores.forget()
        assert db.get(KEY_V2) == ANN_V2
        assert db.get_many([KEY_V2]) == [ANN_V2]
        assert list(db.query(PersonV2.primary())) == [ANN_V2]
        assert list(db.query(collection(PersonV2.primary()))) == [ANN_V2]
        assert list(db.page(PersonV2.primary()).items) == [ANN_V2]
        assert db.first(PersonV2.primary()) == ANN_V2
        assert list(db.scan(PersonV2)) == list(db.scan()) == [ANN_V2]
        assert not any(isinstance(request, req.Put | req.Update) for request in stores.requests)
        assert stores.open(people).get(Person, person_id="ann") == ANN

    def test_go_through_every_version(self, stores: Stores) -> None:
        old, middle, new = map(stores.open, (people, people_v2, people_v3))
        old.put(ANN)
        middle.put(PersonV2(person_id="bob", first="Bob", last="Ray"))
        new.put(PersonV3(person_id="cid", first="Cid", family="Fox"))
        assert [(p.first, p.family) for p in new.query(PersonV3.primary())] == [
            ("Ann", "Lee"),
            ("Bob", "Ray"),
            ("Cid", "Fox"),
        ]

    def test_count_an_expired_item_as_absent(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        fill(old, [ANN.model_copy(update={"expires_at": PAST}), ANN.model_copy(update={"person_id": "bob"})])
        assert db.get(KEY_V2) is None
        assert [person.person_id for person in db.query(PersonV2.primary())] == ["bob"]

    def test_refuse_an_item_of_a_later_model(self, stores: Stores) -> None:
        stores.open(people_v3).put(ANN_V3)
        for table, key in ((people, Person.primary(person_id="ann")), (people_v2, KEY_V2)):
            with pytest.raises(ItemInvalid, match=r"version 3, .* later model") as caught:
                stores.open(table).get(key)
            assert caught.value.item["family"] == "Lee"
            assert "ann" in caught.value.key

    def test_say_what_a_failed_upgrade_failed_at(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(Person(person_id="ann", name="?"))
        with pytest.raises(ItemInvalid, match=r"@upgrade\(from_=1\) failed: ValueError: nobody knows") as caught:
            db.get(KEY_V2)
        assert isinstance(caught.value.__cause__, ValueError)
        assert caught.value.item["name"] == "?"

    def test_refuse_an_upgrade_that_moves_the_item(self, stores: Stores) -> None:
        stores.open(people).put(Person(person_id="ann", name="Moved"))
        for read in (
            lambda db: db.get(KEY_V3),
            lambda db: list(db.query(PersonV3.primary())),
        ):
            with pytest.raises(ItemInvalid, match=r"elsewhere.*primary key"):
                read(stores.open(people_v3))

    def test_refuse_what_still_does_not_fit(self, stores: Stores) -> None:
        stores.open(people).put(Person(person_id="ann", name="Ann " + "e" * 21))
        with pytest.raises(ItemInvalid, match="family") as caught:
            stores.open(people_v3).get(KEY_V3)
        assert caught.value.item["name"].startswith("Ann e")


class TestUpgradedWrites:
    @each_way
    def test_a_put_rewrites_the_item(self, stores: Stores, way: Way) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(ANN)
        way(db).put(db.one(KEY_V2))
        with pytest.raises(ItemInvalid, match="later model"):
            old.get(Person, person_id="ann")
        assert db.one(KEY_V2) == ANN_V2

    @needs("conditions")
    def test_a_taken_key_is_reported_with_the_upgraded_item(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(ANN)
        with pytest.raises(ItemExists) as caught:
            db.insert(ANN_V2)
        assert caught.value.item == ANN_V2
        db.delete(KEY_V2)
        db.put(ANN_V2)
        assert db.get(KEY_V2) == ANN_V2


@needs("updates", "conditions")
class TestUpgradedUpdates:
    def test_see_the_item_as_the_model_has_it(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(ANN)
        new = db.update(KEY_V2, set_(PersonV2.last, "Ray"), increment(PersonV2.age), returning="new")
        assert new == PersonV2(person_id="ann", first="Ann", last="Ray", age=8)
        assert db.one(KEY_V2) == new

    @each_way
    def test_judge_conditions_on_it_too(self, stores: Stores, way: Way) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(ANN)
        with pytest.raises(ConditionFailed) as caught:
            way(db).update(KEY_V2, set_(PersonV2.age, 9), when=PersonV2.last == "Ray")
        assert caught.value.item == ANN_V2
        assert old.get(Person, person_id="ann") == ANN
        way(db).update(KEY_V2, set_(PersonV2.age, 9), when=PersonV2.last == "Lee")
        assert db.one(KEY_V2).age == 9

    def test_give_the_old_item_upgraded(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v3)
        old.put(ANN)
        assert db.update(KEY_V3, set_(PersonV3.family, "Fox"), returning="old") == ANN_V3

    @each_way
    def test_do_not_touch_an_item_of_a_later_model(self, stores: Stores, way: Way) -> None:
        new = stores.open(people_v3)
        new.put(ANN_V3)
        for table, key, action in (
            (people, Person.primary(person_id="ann"), set_(Person.name, "x")),
            (people_v2, KEY_V2, set_(PersonV2.last, "x")),
        ):
            with pytest.raises(ItemInvalid, match="later model"):
                way(stores.open(table)).update(key, action)
        assert new.one(KEY_V3) == ANN_V3

    def test_upserts_create_items_of_the_version(self, stores: Stores) -> None:
        db = stores.open(people_v2)
        assert db.update(KEY_V2, set_(PersonV2.first, "Ann"), upsert=True, returning="new") == PersonV2(
            person_id="ann", first="Ann"
        )
        assert db.one(KEY_V2).first == "Ann"
        stores.open(people).put(ANN)
        assert db.update(KEY_V2, set_(PersonV2.first, "An"), upsert=True, returning="new").last == "Lee"

    def test_start_over_when_another_writer_changes_the_old_item(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(ANN)
        # The first rival comes before the update, the second before the item is rewritten.
        stores.rival_puts(ANN.model_copy(update={"age": 8}), ANN.model_copy(update={"name": "Ann Ray"}))
        new = db.update(KEY_V2, increment(PersonV2.age), returning="new")
        assert new == PersonV2(person_id="ann", first="Ann", last="Ray", age=8)

    def test_start_over_when_an_absent_attribute_has_come(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        young = ANN.model_copy(update={"age": None})
        old.put(young)
        stores.rival_puts(young, ANN)
        assert db.update(KEY_V2, set_(PersonV2.last, "Ray"), returning="new").age == 7

    def test_of_an_item_with_values_of_every_kind(self, stores: Stores) -> None:
        old, db = stores.open(bags), stores.open(bags_v2)
        contents = {"text": "", "none": None, "list": [1, {}], "map": {"deep": [Decimal("1.5"), True]}, "a.b": b"\0"}
        old.put(Bag(name="b", contents=contents, words={"a", "b"}, chunks={b"a"}, exact=Decimal("1.25"), null=None))
        old.put(Bag(name="empty"))
        assert db.update(BagV2.primary(name="b"), add_to(BagV2.words, "c"), returning="new") == BagV2(
            name="b", words={"a", "b", "c"}, size=5
        )
        with pytest.raises(ItemInvalid, match="later model") as caught:
            old.get(Bag, name="b")
        assert caught.value.item["contents"] == contents
        assert db.update(BagV2.primary(name="empty"), increment(BagV2.size), returning="new").size == 1

    def test_of_an_item_that_expires(self, stores: Stores) -> None:
        old, db = stores.open(people), stores.open(people_v2)
        old.put(ANN.model_copy(update={"expires_at": FUTURE}))
        assert db.update(KEY_V2, set_(PersonV2.last, "Ray"), returning="new").expires_at == FUTURE


@needs("conditions")
class TestUpgradedRevisions:
    KEY = ParcelV2.primary(parcel_id="p")

    def test_let_what_was_read_be_put_and_deleted(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        old.put(Parcel(parcel_id="p", place="Oslo"))
        assert db.put(db.one(self.KEY)).revision == 2
        assert db.delete(db.one(self.KEY)) is True
        old.put(Parcel(parcel_id="p", place="Oslo"))
        assert db.delete(db.one(self.KEY)) is True
        assert db.get(self.KEY) is None

    def test_refuse_what_is_stale(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        first = old.put(Parcel(parcel_id="p", place="Oslo"))
        stale = db.one(self.KEY)
        old.put(first)
        newest = db.one(self.KEY)
        for write in (db.put, db.delete):
            with pytest.raises(Conflict) as caught:
                write(stale)
            assert caught.value.item == newest
        assert db.one(self.KEY) == newest

    def test_notice_a_rival(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        first = Parcel(parcel_id="p", place="Oslo")
        second = old.put(first).model_copy(update={"place": "Bergen"})
        mine = db.one(self.KEY)
        # The first rival changes nothing; the second comes before the put is tried again.
        stores.rival_puts(first, second)
        with pytest.raises(Conflict) as caught:
            db.put(mine)
        assert caught.value.item.city == "Bergen"
        assert db.one(self.KEY).city == "Bergen"

    def test_judge_a_condition_after_the_upgrade(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        old.put(Parcel(parcel_id="p", place="Oslo", weight=3))
        parcel = db.one(self.KEY)
        with pytest.raises(ConditionFailed) as caught:
            db.put(parcel, when=missing(ParcelV2.grams))
        assert not isinstance(caught.value, Conflict)
        assert db.put(parcel, when=ParcelV2.grams == 3000).revision == 2

    @needs("transactions")
    def test_in_transactions(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        for name in "pqr":
            old.put(Parcel(parcel_id=name, place="Oslo"))
        p, q, r = (db.one(ParcelV2, parcel_id=name) for name in "pqr")
        with db.transaction() as tx:
            tx.put(p)
            tx.delete(q)
            tx.check(r)
        assert (db.one(self.KEY).revision, db.exists(ParcelV2, parcel_id="q")) == (2, False)
        old.put(Parcel(parcel_id="r", place="Oslo", revision=1))
        with pytest.raises(TransactionFailed) as caught, db.transaction() as tx:  # noqa: PT012  # raised at its end
            tx.check(r)
            tx.put(ParcelV2(parcel_id="new", city="Oslo"))
        assert [type(reason) for reason in caught.value.reasons] == [Conflict, type(None)]

    @needs("updates")
    def test_of_items_from_before_there_was_one(self, stores: Stores) -> None:
        old, db = stores.open(memos), stores.open(memos_locked)
        key = LockedMemo.primary(memo_id="m")
        old.put(Memo(memo_id="m"))
        memo = db.one(key)
        assert db.update(memo, set_(LockedMemo.text, "x"), returning="new").revision == 1
        with pytest.raises(Conflict):
            db.update(memo, set_(LockedMemo.text, "y"))
        with pytest.raises(Conflict):
            db.delete(memo)
        old.put(Memo(memo_id="m"))
        assert db.delete(memo) is True


@needs("transactions", "updates", "conditions")
class TestUpgradedTransactions:
    def test_fails_at_an_item_of_a_later_model(self, stores: Stores) -> None:
        new, db = stores.open(people_v3), stores.open(people_v2)
        new.put(ANN_V3)
        with pytest.raises(TransactionFailed, match="later model") as caught, db.transaction() as tx:  # noqa: PT012  # raised at its end
            tx.insert(PersonV2(person_id="bob", first="Bob"))
            tx.update(KEY_V2, set_(PersonV2.last, "x"))
        assert [type(reason) for reason in caught.value.reasons] == [type(None), ItemInvalid]
        assert new.one(KEY_V3) == ANN_V3


@needs("indexes", "updates", "conditions")
class TestUpgradedIndexes:
    PARCEL = Parcel(parcel_id="p", place="Oslo", weight=12, note="fragile")
    KEY = ParcelV2.primary(parcel_id="p")

    def places(self, db: Store) -> tuple[int, int, int]:
        """The number of results for the parcel: by the old index key, by the new one, and as a heavy parcel."""
        stale = ParcelV2.by_place(country="Oslo", city="p")
        new = ParcelV2.by_place(country="NO", city="Oslo")
        return db.count(stale), db.count(new), db.count(ParcelV2.heavy())

    def test_are_right_from_the_next_put_on(self, stores: Stores) -> None:
        stores.open(parcels).put(self.PARCEL)
        db = stores.open(parcels_v2)
        parcel = db.one(self.KEY)
        assert (parcel.city, parcel.grams, parcel.revision) == ("Oslo", 12_000, 1)
        assert self.places(db) == (0, 0, 0)
        db.put(parcel)
        assert self.places(db) == (0, 1, 1)
        assert list(db.query(ParcelV2.by_place(country="NO", city="Oslo"))) == [db.one(self.KEY)]

    def test_are_right_from_the_next_update_on(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        old.put(self.PARCEL)
        parcel = db.one(self.KEY)
        new = db.update(parcel, set_(ParcelV2.country, "SE"), returning="new")
        assert (new.grams, new.revision) == (12_000, 2)
        assert db.first(ParcelV2.by_place(country="SE", city="Oslo")) == new
        assert self.places(db) == (0, 0, 1)
        assert old.count(Parcel.by_place(place="Oslo")) == 0

    def test_unknown_attributes_stay_and_the_revision_counts_once(self, stores: Stores) -> None:
        old, db = stores.open(parcels), stores.open(parcels_v2)
        old.put(self.PARCEL)
        stale = db.one(self.KEY)
        assert db.update(self.KEY, increment(ParcelV2.grams, -5000), returning="new").revision == 2
        assert self.places(db) == (0, 1, 0)
        with pytest.raises(ItemInvalid, match="later model") as caught:
            old.get(Parcel, parcel_id="p")
        assert caught.value.item["note"] == "fragile"
        with pytest.raises(Conflict):
            db.update(stale, set_(ParcelV2.grams, 1))
