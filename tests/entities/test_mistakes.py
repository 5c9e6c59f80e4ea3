"""What a user writes by mistake says what to write instead."""

from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import create_model

from odm import (
    TTL,
    AccessPattern,
    AsyncStore,
    BadCursor,
    BadValue,
    Columns,
    Counter,
    Entity,
    KeyValueError,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Stored,
    Table,
    add_to,
    append,
    between,
    collection,
    discard_from,
    increment,
    is_in,
    not_,
    prepend,
    remove,
    select,
    set_,
    set_if_missing,
    starts_with,
)
from odm.backends.local import Memory

library = Table("library")


class Book(Entity, table=library):
    isbn: str
    title: str = "?"
    price: int = 1
    tags: set[str] = set()
    lines: list[str] = []

    primary = PrimaryKey("BOOK#{isbn}")
    by_author = AccessPattern("TITLE#{title}", "{price}")


class Special(Book):
    """A subclass that forgot its table."""


class Elsewhere(Entity, table=Table("lib")):
    id: str

    primary = PrimaryKey("ELSEWHERE#{id}")


class Namesake(Entity, table=Table("library")):
    id: str

    primary = PrimaryKey("NAMESAKE#{id}")


loose: Any = Book  # what type checkers would find as well
book = Book(isbn="1")
key = Book.primary(isbn="1")


@pytest.fixture(params=[Store, AsyncStore])
def db(request: pytest.FixtureRequest) -> Any:
    return request.param(library, Memory())


async def outcome(of: Any) -> object:
    """What a call sync or async gives."""
    return await of if hasattr(of, "__await__") else of


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("titel", r"^Book has no field or pattern 'titel': did you mean 'title'\?$"),
        ("by_autor", r"^Book has no field or pattern 'by_autor': did you mean 'by_author'\?$"),
        ("xyz", r"^Book has no field or pattern 'xyz'; it has isbn, title, price, tags, lines, primary, by_author$"),
    ],
)
def test_a_name_that_the_entity_has_not(name: str, says: str) -> None:
    with pytest.raises(AttributeError, match=says):
        getattr(Book, name)
    assert not hasattr(Book, name)


def test_private_names_are_answered_as_pydantic_does() -> None:
    with pytest.raises(AttributeError, match=r"^_titel$"):
        getattr(Book, "_titel")  # noqa: B009
    with pytest.raises(AttributeError, match=r"^Entity has no field or pattern 'titel'$"):
        getattr(Entity, "titel")  # noqa: B009


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Revision, r"write value: Annotated\[int, Revision\] = 0"),
        (Counter, r"write value: Annotated\[int, Counter\] = 0"),
        (Columns, r"write value: Annotated\[set\[str\], Columns\] = set\(\)"),
        (TTL, r"write value: Annotated\[datetime, TTL\]"),
        (Stored, r'write value: Annotated\[str, Stored\("c"\)\]'),
        (Stored("x"), r'write value: Annotated\[str, Stored\("c"\)\]'),
    ],
    ids=["Revision", "Counter", "Columns", "TTL", "Stored", "Stored(x)"],
)
@pytest.mark.parametrize("config", [{}, {"arbitrary_types_allowed": True}], ids=str)
def test_a_marker_is_no_type(annotation: Any, says: str, config: dict[str, bool]) -> None:
    with pytest.raises(SchemaError, match=says):
        create_model("Wrong", __base__=Entity, __cls_kwargs__=config, value=(annotation, 0))


@pytest.mark.parametrize(
    "marker",
    [TTL, Revision, Counter, Columns, Stored("x")],
    ids=["TTL", "Revision", "Counter", "Columns", "Stored(x)"],
)
def test_a_marker_is_not_called(marker: Any) -> None:
    with pytest.raises(SchemaError, match=r"a marker is not called: write Annotated\["):
        marker()


def test_stored_without_a_name() -> None:
    table = Table("unnamed")

    class Wrong(Entity, table=table):
        email: Annotated[str, Stored]

        primary = PrimaryKey("WRONG#{email}")

    with pytest.raises(
        SchemaError, match=r'^Wrong.email: str is marked by Stored without the name; write Stored\("name'
    ):
        table.compile()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"tabel": library}, "no option 'tabel': did you mean 'table'"),
        ({"table": library, "keeep": 3}, "no option 'keeep': did you mean 'keep'"),
        ({"table": library, "frosen": True}, "no option 'frosen': did you mean 'frozen'"),
        (
            {"table": library, "x": 1},
            "no option 'x': Options are table, tag, version, keep, match, family, gc and those",
        ),
    ],
    ids=str,
)
def test_an_option_that_no_class_has(options: dict[str, Any], says: str) -> None:
    with pytest.raises(SchemaError, match=f"^class Wrong: there is {says}"):
        create_model("Wrong", __base__=Entity, __cls_kwargs__=options, value=(str, ...))


def test_markers_leave_the_type_as_it_is() -> None:
    class Right(Entity):
        id: Annotated[str, Stored("i")]
        count: Annotated[int, Counter] = 0
        version: Annotated[int, Revision] | None = 0

    assert Right(id="1").model_dump() == {"id": "1", "count": 0, "version": 0}
    assert Right.model_json_schema()["properties"]["count"]["type"] == "integer"


def test_a_pattern_takes_no_annotation() -> None:
    with pytest.raises(SchemaError, match=r"write it without an annotation, as in primary = PrimaryKey\(\.\.\.\)"):

        class Wrong(Entity):
            id: str
            primary: PrimaryKey = PrimaryKey("{id}")

    with pytest.raises(SchemaError, match=r"write it without an annotation, as in by = AccessPattern\(\.\.\.\)"):

        class Other(Entity):
            id: str
            by: AccessPattern = AccessPattern("{id}")


def test_a_field_and_a_pattern_of_one_name() -> None:
    with pytest.raises(SchemaError, match=r"Wrong\.id is both a field and a pattern: give the pattern another name"):

        class Wrong(Entity):
            id: str
            id = PrimaryKey("{id}")  # type: ignore[assignment]  # noqa: PIE794  # pyright: ignore[reportAssignmentType]


CALLS: dict[str, tuple[Callable[[Any], Any], type[Exception], str]] = {
    "query of a class": (
        lambda db: db.query(Book),
        BadValue,
        r"Book is an entity class.*Book\.primary.*select\(Book\)",
    ),
    "first of a class": (lambda db: db.first(Book), BadValue, r"Book is an entity class.*select\(Book\)"),
    "page of a class": (lambda db: db.page(Book), BadValue, r"Book is an entity class.*select\(Book\)"),
    "query of a pattern": (lambda db: db.query(Book.by_author), BadValue, r"Book\.by_author is a pattern: call it"),
    "collection of a class": (lambda db: collection(loose), BadValue, r"such as Book\.primary\(\.\.\.\), not Book$"),
    "get by text": (
        lambda db: db.get("Book", isbn="1"),
        BadValue,
        r"'Book' is not an entity class.*get\(Order, order_id=",
    ),
    "get a key and more": (
        lambda db: db.get(key, isbn="2"),
        BadValue,
        r"Book\.primary\(isbn='1'\) is already a whole key",
    ),
    "key by position": (lambda db: loose.primary("1"), TypeError, r"values by name: Book\.primary\(isbn=\.\.\.\)"),
    "pattern by position": (
        lambda db: loose.by_author("1"),
        TypeError,
        r"Book\.by_author\(title=\.\.\., price=\.\.\.\)",
    ),
    "scan a condition": (lambda db: db.scan(Book.price > 1), BadValue, r"entity first: scan\(Book, price > 1\)"),
    "scan an entity": (lambda db: db.scan(book), BadValue, r"scan\(\) takes an entity class, not Book\(isbn="),
    "get by None": (lambda db: db.get(Book, isbn=None), KeyValueError, r"Book\.isbn: None is refused"),
    "get by a wrong type": (lambda db: db.get(Book, isbn=5), KeyValueError, r"Book\.isbn: 5 is refused"),
    "get a part of a key": (lambda db: db.get(Book.by_author(title="x")), KeyValueError, r"write Book\.primary\(isbn="),
    "get a class": (lambda db: db.get_many([Book]), BadValue, r"write Book\.primary\(isbn=\.\.\.\)"),
    "update of a class": (lambda db: db.update(Book, set_(Book.title, "x")), BadValue, r"Book\.primary\(isbn=\.\.\.\)"),
    "put of another table": (
        lambda db: db.put(Elsewhere(id="1")),
        SchemaError,
        r"^Elsewhere belongs to table 'lib', not 'library': use a store of that table$",
    ),
    "put of a table of that name": (
        lambda db: db.put(Namesake(id="1")),
        SchemaError,
        r"^Namesake belongs to another Table\('library'\)",
    ),
    "put of a subclass": (
        lambda db: db.put(Special(isbn="1")),
        SchemaError,
        r"Special .*subclass of Book.*class Special\(Book, table=\.\.\.\) with its own primary key",
    ),
    "query of the base": (
        lambda db: db.query(select(Entity)),
        SchemaError,
        r"^Entity is not an entity.*a base class.*use one of Book$",
    ),
    "empty cursor": (lambda db: db.page(key, after=""), BadCursor, r"'' is not a cursor: pass None for the first page"),
    "cursor of a wrong type": (lambda db: db.page(key, after=5), BadCursor, r"5 is not a cursor"),
    "loop over a query": (lambda db: list(loose.primary(isbn="1")), TypeError, r"in db\.query\(\.\.\.\)"),
    "length of a query": (lambda db: len(loose.primary(isbn="1")), TypeError, r"db\.count\(\.\.\.\)"),
    "index of a query": (lambda db: loose.primary(isbn="1")[0], TypeError, r"db\.first\(\.\.\.\)"),
    "method of text": (lambda db: loose.title.startswith("x"), TypeError, r"starts_with\(Book\.title, \.\.\.\)"),
    "method of a list": (lambda db: loose.lines.append("x"), TypeError, r"append\(Book\.lines, \.\.\.\)"),
    "call of a field": (lambda db: loose.title(), TypeError, r"Book\.title is a reference to a field.*not be called"),
    "member of a field": (lambda db: "a" in Book.tags, TypeError, r"write contains\(Book\.tags, 'a'\)"),
    "field in a list": (lambda db: Book.title in ["a", "b"], TypeError, r"is_in\(field, \[\.\.\.\]\)"),
    "add a list": (lambda db: add_to(loose.tags, ["a"]), TypeError, r"add_to\(Book\.tags, \*members\)"),
    "discard a set": (lambda db: discard_from(loose.tags, {"a"}), TypeError, r"discard_from\(Book\.tags, \*members\)"),
}


@pytest.mark.parametrize(("call", "error", "says"), CALLS.values(), ids=CALLS)
async def test_a_call_says_what_to_write(
    db: Any, call: Callable[[Any], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        await outcome(call(db))


def test_a_query_is_true() -> None:
    assert bool(loose.primary(isbn="1")) is True


def test_a_condition_is_negated_by_a_tilde() -> None:
    condition: Any = Book.price > 5
    assert ~condition == not_(condition)
    assert str(~condition & (Book.title == "x")) == "not price > 5 and title = 'x'"


def test_values_print_as_people_read_them() -> None:
    condition = (Book.price > 5) & is_in(Book.title, ["a"])
    shown = {
        repr(condition): "price > 5 and title in ('a')",
        repr(
            [starts_with(Book.title, "a"), between(Book.price, 1, 2)]
        ): "[starts_with(title, 'a'), price between 1 and 2]",
        repr(key): "Book.primary(isbn='1')",
        repr(select(Book).where(Book.price > 5).limit(2)): "select(Book).where(price > 5).limit(2)",
        repr(set_(Book.title, "x")): "set_(title, 'x')",
        repr(set_if_missing(Book.title, "x")): "set_if_missing(title, 'x')",
        repr(remove(Book.title)): "remove(title)",
        repr(increment(Book.price, -2)): "increment(price, -2)",
        repr(append(Book.lines, "x", "y")): "append(lines, 'x', 'y')",
        repr(prepend(Book.lines, "x")): "prepend(lines, 'x')",
        repr(add_to(Book.tags, "b", "a")): "add_to(tags, 'a', 'b')",
        repr(discard_from(Book.tags, "x")): "discard_from(tags, 'x')",
    }
    assert list(shown) == list(shown.values())
