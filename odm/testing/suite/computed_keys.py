"""Computed fields in the keys of indexes: every write keeps the entry at what the stored fields make of it."""
# ruff: noqa: D101  # a test's name says what it shows; its data is never changed

from collections.abc import Callable
from datetime import date
from typing import Annotated

import pytest
from pydantic import Field, computed_field

from odm import (
    AccessPattern,
    BadValue,
    Counter,
    Entity,
    KeyValueError,
    PrimaryKey,
    Store,
    Table,
    add_to,
    field,
    increment,
    select,
    set_,
    starts_with,
)
from odm.testing.capabilities import needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill, walk

contacts = Table("contacts")


class Contact(Entity, table=contacts):
    contact_id: str
    first: str
    last: str
    born: date | None = None
    tags: set[str] = Field(default_factory=set)
    calls: Annotated[int, Counter] = 0

    primary = PrimaryKey("CONTACT#{contact_id}", "CONTACT")
    by_initial = AccessPattern("INITIAL#{initial}", "{full_name}#{contact_id}")
    by_birthday = AccessPattern("BIRTHDAYS", "{birthday}#{last}")

    @computed_field  # type: ignore[prop-decorator]
    @property
    def initial(self) -> str:
        return self.last[0].upper()

    @computed_field  # type: ignore[prop-decorator]
    @property
    def full_name(self) -> str:
        return f"{self.last}, {self.first}"

    @computed_field  # type: ignore[prop-decorator]
    @property
    def birthday(self) -> int | None:
        """None keeps the item out of the index."""
        return None if self.born is None else self.born.month * 100 + self.born.day


ANN = Contact(contact_id="a", first="Ann", last="Bach", born=date(1985, 3, 21), tags={"x"})
BO = Contact(contact_id="b", first="Bo", last="Brahms", born=date(1933, 5, 7))
CLEO = Contact(contact_id="c", first="Cleo", last="Chopin")


@pytest.fixture
def directory(stores: Stores) -> Store:
    """A store of contacts with three of them."""
    db = stores.open(contacts)
    fill(db, [ANN, BO, CLEO])
    return db


def names(db: Store, initial: str) -> list[str]:
    """The names and ids of the contacts with this initial."""
    return [f"{contact.full_name} {contact.contact_id}" for contact in db.query(Contact.by_initial(initial=initial))]


@needs("indexes")
class TestComputedKeys:
    def test_are_queried_as_other_fields(self, directory: Store) -> None:
        assert list(directory.query(Contact.by_initial(initial="B"))) == [ANN, BO]
        assert list(directory.query(Contact.by_initial(initial="B", full_name="Brahms, Bo"))) == [BO]
        assert list(directory.query(Contact.by_birthday())) == [ANN, BO]
        assert directory.first(Contact.by_birthday(birthday=507)) == BO
        assert walk(directory, Contact.by_initial(initial="B"), 1) == [[ANN], [BO]]
        with pytest.raises(KeyValueError, match=r"Contact\.initial: 5 is refused: .* string"):
            directory.first(Contact.by_initial(initial=5))  # type: ignore[arg-type]

    def test_are_no_fields_in_conditions_and_updates(self, directory: Store) -> None:
        birthdays, initial = Contact.by_birthday(), field("initial")
        refused: list[Callable[[], object]] = [
            lambda: directory.count(birthdays.where(initial > "B")),
            lambda: directory.count(birthdays.where(starts_with(initial, "B"))),
            lambda: directory.first(select(Contact).where(initial == "B")),
            lambda: list(directory.scan(Contact, initial == "B")),
            lambda: directory.update(ANN, set_(initial, "B")),
            lambda: directory.first(birthdays, only=[initial]),
        ]
        for call in refused:
            with pytest.raises(BadValue, match=r"initial: is a computed field, which is not stored"):
                call()
        with pytest.raises(TypeError, match=r"Contact\.initial is a property or computed field, which is not stored"):
            directory.count(birthdays.where(starts_with(Contact.initial, "B")))  # type: ignore[arg-type]
        with pytest.raises(TypeError, match=r"not False .*or a property or computed field\?"):
            directory.count(birthdays.where(Contact.initial == "B"))  # type: ignore[comparison-overlap]

    def test_follow_a_put_and_a_delete(self, directory: Store) -> None:
        directory.put(ANN.model_copy(update={"last": "Clara"}))
        assert names(directory, "B") == ["Brahms, Bo b"]
        assert names(directory, "C") == ["Chopin, Cleo c", "Clara, Ann a"]
        directory.delete(CLEO)
        assert names(directory, "C") == ["Clara, Ann a"]


@needs("indexes", "updates")
class TestComputedKeysUpdates:
    def test_follow_an_update(self, directory: Store) -> None:
        directory.update(Contact.primary(contact_id="a"), set_(Contact.first, "Zoe"))
        assert names(directory, "B") == ["Bach, Zoe a", "Brahms, Bo b"]
        directory.update(BO, set_(Contact.last, "Chabrier"), set_(Contact.born, None))
        assert names(directory, "B") == ["Bach, Zoe a"]
        assert names(directory, "C") == ["Chabrier, Bo b", "Chopin, Cleo c"]
        assert [contact.contact_id for contact in directory.query(Contact.by_birthday())] == ["a"]
        directory.update(CLEO, set_(Contact.born, date(1810, 3, 1)))
        assert [contact.contact_id for contact in directory.query(Contact.by_birthday())] == ["c", "a"]

    def test_stay_where_other_fields_change(self, directory: Store) -> None:
        directory.update(Contact.primary(contact_id="a"), increment(Contact.calls, 2))
        directory.update(Contact.primary(contact_id="a"), add_to(Contact.tags, "y"))
        bach = directory.first(Contact.by_initial(initial="B", full_name="Bach, Ann"))
        assert bach == ANN.model_copy(update={"calls": 2, "tags": {"x", "y"}})

    def test_are_made_for_a_new_item(self, directory: Store) -> None:
        new = Contact.primary(contact_id="d")
        directory.update(new, set_(Contact.first, "Di"), set_(Contact.last, "Bizet"), upsert=True)
        assert names(directory, "B") == ["Bach, Ann a", "Bizet, Di d", "Brahms, Bo b"]

    def test_that_cannot_be_computed_write_nothing(self, directory: Store) -> None:
        with pytest.raises(KeyValueError, match=r"Contact\.initial could not be computed for a key: IndexError"):
            directory.update(Contact.primary(contact_id="a"), set_(Contact.last, ""))
        with pytest.raises(BadValue):
            directory.put(ANN.model_copy(update={"last": ""}))
        assert list(directory.query(Contact.by_initial(initial="B"))) == [ANN, BO]


@needs("indexes", "updates", "transactions")
class TestComputedKeysTransactions:
    def test_follow_a_transaction(self, directory: Store) -> None:
        with directory.transaction() as tx:
            tx.update(Contact.primary(contact_id="a"), set_(Contact.last, "Cage"))
            tx.put(BO.model_copy(update={"last": "Cui"}))
        assert names(directory, "B") == []
        assert names(directory, "C") == ["Cage, Ann a", "Chopin, Cleo c", "Cui, Bo b"]
