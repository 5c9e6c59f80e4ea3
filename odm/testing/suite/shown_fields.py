"""Conditions and actions on what the entity shows: defaults of absent fields, and items of an older version."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from typing import Any

import pytest

from odm import (
    Condition,
    ConditionFailed,
    ItemInvalid,
    Store,
    append,
    collection,
    contains,
    increment,
    is_in,
    not_,
    prepend,
    remove,
    set_,
)
from odm.testing.capabilities import needs
from odm.testing.evolving import (
    Gadget,
    GrownGadget,
    Made,
    Person,
    PersonV2,
    Screw,
    gadgets,
    gadgets_grown,
    people,
    people_v2,
)
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill
from odm.testing.suite.ways import Way, each_way

KEY = GrownGadget.primary(gadget_id="old")

# Each holds for the stored item that lacks the fields, as it shows their defaults.
SHOWN: list[Condition | bool] = [
    GrownGadget.n == 5,
    GrownGadget.n > 4,
    is_in(GrownGadget.n, [1, 5]),
    not_(GrownGadget.n != 5),
    not_(GrownGadget.n == 4),
    GrownGadget.top != None,  # noqa: E711
    contains(GrownGadget.words, "x"),
    GrownGadget.n == GrownGadget.top,
    GrownGadget.build.size == "M",
]
# Each holds for an item that has other values in the fields.
OTHER: list[Condition | bool] = [
    GrownGadget.n != 5,
    GrownGadget.top == None,  # noqa: E711
    not_(contains(GrownGadget.words, "x")),
    not_(GrownGadget.n == GrownGadget.top),
    GrownGadget.build.size != "M",
]


@pytest.fixture
def grown(stores: Stores) -> Store:
    """Holds an item of the model without the fields, and one that has other values in them."""
    stores.open(gadgets).put(Gadget(gadget_id="old"))
    db = stores.open(gadgets_grown)
    fill(db, [GrownGadget(gadget_id="other", n=4, top=None, words=["y"], build=Made(size="L"))])
    return db


@needs("conditions")
class TestAbsentFields:
    @pytest.mark.parametrize(("conditions", "expected"), [(SHOWN, "old"), (OTHER, "other")], ids=["shown", "other"])
    def test_filters_count_them_as_their_defaults(
        self, grown: Store, conditions: list[Condition], expected: str
    ) -> None:
        query = GrownGadget.primary()
        for condition in conditions:
            assert [item.gadget_id for item in grown.query(query.where(condition))] == [expected], condition
            assert list(grown.query(collection(query).where(condition))) == [
                grown.one(GrownGadget, gadget_id=expected)
            ], condition
            assert grown.count(query.where(condition)) == 1, condition
        assert [item.gadget_id for item in grown.scan(GrownGadget, *conditions)] == [expected]

    def test_other_entities_of_a_collection_have_no_such_default(self, grown: Store) -> None:
        grown.put(Screw(gadget_id="screw"))
        entities = grown.query(collection(GrownGadget.primary()).where(GrownGadget.n == 5))
        assert list(entities) == [grown.one(KEY)]

    @each_way
    def test_writes_count_them_as_their_defaults(self, grown: Store, way: Way) -> None:
        item = grown.one(KEY)
        writes: list[Callable[[Any], object]] = [
            lambda when: way(grown).update(KEY, set_(GrownGadget.kind, "b"), when=when),
            lambda when: way(grown).put(item, when=when),
            lambda when: way(grown).delete(item, when=when),
        ]
        for write, condition in zip([*writes, *writes, *writes], SHOWN, strict=True):
            with pytest.raises(ConditionFailed):
                write(not_(condition))
        for condition in SHOWN:
            writes[0](condition)
        writes[2](SHOWN[0])
        assert not grown.exists(KEY)

    @each_way
    def test_an_absent_item_has_no_defaults(self, grown: Store, way: Way) -> None:
        with pytest.raises(ConditionFailed):
            way(grown).put(GrownGadget(gadget_id="new"), when=GrownGadget.n == 5)
        way(grown).put(GrownGadget(gadget_id="new"), when=GrownGadget.n != 5)
        assert grown.exists(GrownGadget, gadget_id="new")

    @needs("updates")
    def test_a_removed_field_counts_as_its_default(self, grown: Store) -> None:
        key = GrownGadget.primary(gadget_id="other")
        grown.update(key, remove(GrownGadget.n), remove(GrownGadget.words))
        assert grown.count(GrownGadget.primary().where(GrownGadget.n == 5)) == 2
        grown.update(key, increment(GrownGadget.n), when=(GrownGadget.n == 5) & contains(GrownGadget.words, "x"))
        assert grown.one(key).n == 6

    @needs("updates")
    @pytest.mark.parametrize(("action", "words"), [(append, ["x", "y"]), (prepend, ["y", "x"])])
    def test_a_list_grows_from_its_default(self, grown: Store, action: Any, words: list[str]) -> None:
        assert grown.update(KEY, action(GrownGadget.words, "y"), returning="new").words == words
        assert grown.one(KEY).words == words


@needs("conditions")
class TestConditionsOnOlderItems:
    KEY = PersonV2.primary(person_id="ann")

    @pytest.fixture
    def db(self, stores: Stores) -> Store:
        """Holds two people of version 1, and one of version 2."""
        ann, bob = Person(person_id="ann", name="Ann Lee", age=7), Person(person_id="bob", name="Bob Ray")
        fill(stores.open(people), [ann, bob])
        db = stores.open(people_v2)
        db.put(PersonV2(person_id="cid", first="Cid", last="Lee"))
        return db

    def test_filters_see_them_upgraded(self, db: Store) -> None:
        query = PersonV2.primary().where(PersonV2.last == "Lee")
        assert [person.person_id for person in db.query(query)] == ["ann", "cid"]
        assert [person.person_id for person in db.query(query.limit(2).reverse())] == ["cid", "ann"]
        assert sorted(person.person_id for person in db.scan(PersonV2, PersonV2.last == "Lee")) == ["ann", "cid"]
        assert list(db.query(collection(PersonV2.primary()).where(PersonV2.last == "Lee"))) == list(db.query(query))
        assert (db.count(query), db.count(query.limit(1))) == (2, 1)
        assert db.first(PersonV2.primary().where(PersonV2.last == "Ray")) == db.one(PersonV2, person_id="bob")
        page = db.page(query, size=1)
        assert [item.person_id for item in page.items] == ["ann"]
        assert [item.person_id for item in db.page(query, size=1, after=page.cursor).items] == ["cid"]

    def test_delete_all_sees_them_upgraded(self, db: Store) -> None:
        assert db.delete_all(PersonV2.primary().where(PersonV2.last == "Lee")) == 2
        assert [person.person_id for person in db.query(PersonV2.primary())] == ["bob"]

    @each_way
    def test_writes_see_them_upgraded(self, db: Store, way: Way) -> None:
        ann = db.one(self.KEY)
        for write in (way(db).put, way(db).delete):
            with pytest.raises(ConditionFailed) as caught:
                write(ann, when=PersonV2.last == "Ray")
            assert caught.value.item == ann
        way(db).put(ann, when=PersonV2.last == "Lee")
        way(db).delete(PersonV2.primary(person_id="bob"), when=PersonV2.first == "Bob")
        assert [person.person_id for person in db.query(PersonV2.primary())] == ["ann", "cid"]

    def test_an_item_that_cannot_be_upgraded_is_an_error(self, db: Store, stores: Stores) -> None:
        stores.open(people).put(Person(person_id="ann", name="?"))
        person = PersonV2(person_id="ann", first="Ann")
        for call in (
            lambda: list(db.query(PersonV2.primary().where(PersonV2.last == "Lee"))),
            lambda: db.put(person, when=PersonV2.last == "Lee"),
        ):
            with pytest.raises(ItemInvalid, match="nobody knows"):
                call()
