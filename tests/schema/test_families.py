"""Column families in the compiled schema. What is refused is in `test_faults`."""

from typing import Annotated

from odm import Entity, MaxAge, MaxVersions, PrimaryKey, Stored, Table
from odm.backends.bigtable.client.native import COUNTERS, ENTRIES, FAMILY
from odm.patterns.pointer import Pointer
from odm.schema.families import OWN_FAMILIES
from odm.schema.lockfile import compare, describe


def test_families_of_entities_and_fields_are_compiled_with_one_rule_each() -> None:
    shop = Table("shop")

    class Note(Entity, table=shop):
        id: str
        title: Annotated[str, Stored("t", family="stats")] = ""
        views: Annotated[int, Stored(family="stats", gc=MaxVersions(5))] = 0
        likes: Annotated[int | None, Stored(family="plain")] = None

        primary = PrimaryKey("NOTE#{id}")

    class Comment(Entity, table=shop, family="comments", gc=MaxAge(days=90) | MaxVersions(5)):
        id: str

        primary = PrimaryKey("COMMENT#{id}")

    schema = shop.compile()
    note, comment = schema.entity(Note), schema.entity(Comment)
    assert (note.family, note.families) == (None, {"t": "stats", "views": "stats", "likes": "plain"})
    assert (comment.family, comment.families) == ("comments", {})
    assert schema.families == {
        "comments": MaxVersions(5) | MaxAge(days=90),
        "plain": None,
        "stats": MaxVersions(5),
    }


def test_a_subclass_states_its_own_family() -> None:
    shop = Table("shop")

    class Note(Entity, table=shop, family="notes"):
        id: str
        primary = PrimaryKey("NOTE#{id}")

    class Draft(Note, table=shop):
        primary = PrimaryKey("DRAFT#{id}")

    assert shop.compile().entity(Draft).family is None


def test_items_of_companions_are_in_no_family_of_the_entity() -> None:
    shop = Table("shop")

    class Note(Entity, table=shop, family="notes"):
        id: str
        stars: Annotated[int, Stored("s", family="stats", gc=MaxAge(days=1))] = 0
        name: Annotated[str, Stored(family="stats")] = ""

        primary = PrimaryKey("NOTE#{id}")
        best = Pointer("BEST#{name}", tracks="stars")

    best = shop.compile().entities["Note.best"]
    assert (best.family, best.families) == (None, {})
    assert best.codec.stored["stars"] == "s"


def test_odms_own_families_are_those_of_the_backend() -> None:
    assert {FAMILY, COUNTERS, ENTRIES} == OWN_FAMILIES


def test_another_family_orphans_stored_values() -> None:
    def locked(of_entity: str | None, of_field: str | None) -> Table:
        shop = Table("shop")

        class Note(Entity, table=shop, family=of_entity):
            id: str
            text: Annotated[str, Stored("text", family=of_field)] = ""
            primary = PrimaryKey("NOTE#{id}")

        return shop

    old = describe(locked(None, "a").compile())
    for now, where in ((("b", "a"), "Note"), ((None, None), "Note.text"), ((None, "b"), "Note.text")):
        findings = compare("shop", old, describe(locked(*now).compile()))
        assert [(one.level, one.where, one.change) for one in findings] == [("orphans", where, "family")]
