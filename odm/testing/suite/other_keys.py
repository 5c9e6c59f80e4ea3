"""Models that say another ``key_style`` than that of a filled table: ``create()`` refuses it."""
# ruff: noqa: D101  # a test's name says what it shows

import pytest

from odm import BackendError, Entity, PrimaryKey, Store, Table
from odm.testing.stores import Stores

escaped = Table("styles")
plain = Table("styles", key_style="verbatim")
strange = Table("styles", key_style="verbatim")


class Escaped(Entity, table=escaped, tag="Styled"):
    owner: str
    number: int
    text: str = ""

    primary = PrimaryKey("OWNER#{owner}", "{number}")


class Plain(Entity, table=plain, tag="Styled"):
    """The same with keys as they are."""

    owner: str
    number: int
    text: str = ""

    primary = PrimaryKey("OWNER#{owner}", "{number}")


class Strange(Entity, table=strange):
    """An entity that the other two tables do not have."""

    owner: str
    number: int

    primary = PrimaryKey("OWNER#{owner}", "{number}")


STYLES = pytest.mark.parametrize(
    ("entity", "before", "other", "after", "has"),
    [(Escaped, escaped, Plain, plain, "escaped"), (Plain, plain, Escaped, escaped, "verbatim")],
    ids=["escaped", "verbatim"],
)


class TestOtherKeys:
    @STYLES
    def test_a_filled_table_is_refused(
        self,
        stores: Stores,
        entity: type[Escaped],
        before: Table,
        other: type[Escaped],
        after: Table,
        has: str,
    ) -> None:
        db = stores.open(before)
        item = entity(owner="a#b", number=7, text="x")
        db.put(item)
        later = stores.offline(after)
        with pytest.raises(BackendError, match=rf'of {other.__name__}, written with key_style="{has}".* as before'):
            later.create()
        later.close()
        db.create()  # the way back
        assert db.get(entity, owner="a#b", number=7) == item

    @STYLES
    def test_an_empty_table_is_not(
        self,
        stores: Stores,
        entity: type[Escaped],
        before: Table,
        other: type[Escaped],
        after: Table,
        has: str,
    ) -> None:
        db = stores.open(before)
        db.put(entity(owner="a#b", number=7))
        db.delete(entity, owner="a#b", number=7)
        later = stores.open(after)
        item = other(owner="a#b", number=8)
        later.put(item)
        assert later.get(other, owner="a#b", number=8) == item

    def test_items_of_entities_that_the_models_do_not_have_are_no_reason(self, stores: Stores) -> None:
        stores.open(strange).put(Strange(owner="a#b", number=7))
        db = stores.open(escaped)
        item = Escaped(owner="a#b", number=8)
        db.put(item)
        db.create()
        assert db.get(Escaped, owner="a#b", number=8) == item

    def test_an_item_under_another_key_of_the_same_style_is_no_reason(self, stores: Stores, db: Store) -> None:
        """As after a template was changed, which `rekey` corrects in place."""
        formerly = Table("styles")

        class Former(Entity, table=formerly, tag="Styled"):
            owner: str
            number: int
            text: str = ""

            primary = PrimaryKey("FORMER#{owner}", "{number}")

        stores.open(formerly).put(Former(owner="a#b", number=7))
        stores.open(escaped)
