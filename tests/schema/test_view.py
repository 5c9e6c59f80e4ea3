"""`odm.extend.compiled`: what patterns and tools may know of a compiled entity."""

from datetime import date, datetime
from typing import Annotated

import pytest

from odm import TTL, AccessPattern, BadValue, Entity, KeyValueError, PrimaryKey, Revision, SchemaError, Table
from odm.entities.views import EntityView, PatternView
from odm.extend import compiled

library = Table("library")


class Loan(Entity, table=library):
    reader: str
    book: str
    due: date
    until: Annotated[datetime | None, TTL] = None
    version: Annotated[int, Revision] = 0
    marks: list[str] = []
    code: int | str = 0

    primary = PrimaryKey("READER#{reader}", "BOOK#{book}")
    by_due = AccessPattern("DUE#{due:%Y%m}", "{due}#{book}")


class Plain(Entity):
    name: str


def test_an_entity_shows_its_tag_roles_and_patterns() -> None:
    loan: EntityView = compiled(Loan)
    by_due: PatternView = loan.patterns["by_due"]
    assert (loan.tag, loan.revision, loan.ttl) == ("Loan", "version", "until")
    assert (loan.primary.name, loan.primary.index, loan.primary.fields) == ("primary", None, ("reader", "book"))
    assert (by_due.name, by_due.index, by_due.partition_fields) == ("by_due", "by_due", ("due",))
    assert (by_due.fields, by_due.lossy) == (("due", "book"), frozenset({"due"}))
    assert loan.ordered_by("book", ["reader"]) == (loan.primary, False)
    assert loan.ordered_by("due", ["reader"]) is None


def test_a_value_is_validated_as_by_the_model() -> None:
    assert compiled(Loan).validate("due", "2026-11-23") == date(2026, 11, 23)
    with pytest.raises(BadValue, match=r"Loan\.due: 'soon' is refused"):
        compiled(Loan).validate("due", "soon")


def test_the_text_of_a_field_in_a_key() -> None:
    loan = compiled(Loan)
    key = Loan(reader="Ann B", book="b#1", due=date(2026, 11, 23))
    text = loan.primary.key_text("reader", key.reader)
    assert f"READER#{text}" == library.compile().entity(Loan).key(vars(key)).partition
    assert loan.patterns["by_due"].key_text("due", key.due) == "202611"  # as the partition has it
    with pytest.raises(KeyValueError, match=r"Loan\.primary has no field 'due'; it has reader, book"):
        loan.primary.key_text("due", key.due)
    with pytest.raises(KeyValueError, match="reader=''"):
        loan.primary.key_text("reader", "")


@pytest.mark.parametrize("field", ["reader", "due", "version"])
def test_fields_that_have_an_order(field: str) -> None:
    compiled(Loan).check_ordered(field)


@pytest.mark.parametrize("field", ["marks", "code"])
def test_fields_that_have_none(field: str) -> None:
    with pytest.raises(BadValue, match=rf"Loan\.{field}"):
        compiled(Loan).check_ordered(field)


def test_a_class_without_a_table_has_no_view() -> None:
    with pytest.raises(SchemaError, match="Plain has no table of its own: declare class Plain"):
        compiled(Plain)
