"""The emulator and the evaluator agree about compiled predicates.

``pytest --full --times 200 tests/backends/bigtable/test_predicates.py`` is the long run.
"""

from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import chained
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    DeleteColumn,
    Entry,
    MutateRow,
    MutateRows,
    ReadRows,
    SetCell,
)
from odm.backends.bigtable.client.native_admin import CreateTable, DeleteTable
from odm.backends.bigtable.rows.codec import Form, cells, decode, replacement
from odm.backends.bigtable.rows.mutations import blind
from odm.backends.bigtable.rows.predicates import Predicate, predicate, there
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import (
    Action,
    AddTo,
    And,
    Between,
    Comparator,
    Compare,
    Condition,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    IsIn,
    Item,
    Missing,
    Not,
    Or,
    Path,
    Remove,
    Set,
    Size,
    StartsWith,
    Value,
    paths,
)
from odm.protocol.connection import Connection
from odm.schema.model import Schema
from tests.backends.bigtable import values as at_large
from tests.backends.bigtable.families import kept
from tests.effort import times

pytestmark = pytest.mark.one_of(2)

EXAMPLES = times(50, 100)

TABLE = "predicates"
PLAIN = Form({})
FORM = Form(
    {"tags": "columns", "map": "columns", "count": "counter"}, frozenset({"disputed"}), frozenset({"text", "a#text"})
)
TAG, X = Path(("_t",)), Path(("x",))
COUNTED = SetCell("count", bytes(8), 1000, "c")
GHOSTS = {
    "ghost": (SetCell("_t", b"", 1000), SetCell("~r", b"", 1000), COUNTED),
    "tag": (SetCell("_t", b"", 1000), COUNTED),
    "counted": (COUNTED,),
}

EDGES: tuple[Value, ...] = (
    *("", "0", "1", "-", "-0", "-1", "1.", "00", "0.", "0.0", ".5", "12.5", "12.50", "-0.5", "1e3", "1\n", "-\n", "1:"),
    *("true", "tru", "true\0", "truer", "false", "fals", "null", "nul", "nulls", "TRUE", "a", "zebra", "é", "𝄞", "\n"),
    *(
        "'",
        "'1",
        "''",
        "(",
        "&",
        "[",
        "[1]",
        "\\",
        "Z",
        "{",
        '{"$set": []}',
        "z",
        "|",
        "~",
        "\0",
        "\0a",
        "\1",
        "/",
        ":",
    ),
    *("2023-09-10T15:21:48.000000Z", "2023-09-11", "2024", 2023, 2024, Decimal("2023.5"), "b'", "abc\ndef"),
    *(0, 1, -1, 9, 10, 11, -9, -10, -11, 99, 100, 12, -12, 5, -5, 7, 10**37, -(10**37), 10**125, -(10**125), 10**30),
    *map(Decimal, ("0.5", "-0.5", "0.05", "12.5", "12.05", "-12.5", "9.9", "99.9", "-99.9", "1E-130", "-1E-130")),
    *(Decimal("1.5E-3"), Decimal(f"{10**37 - 1}.5"), True, False, None, b"", b"\0", b"\xff", b"\xff\xff", b"a", b"1"),
    *([], [1], ["a"], {}, {"a": 1}, frozenset({1, 2}), frozenset({"a"}), frozenset({b"a"})),
)


@pytest.mark.parametrize("op", ["=", "<>", "<"])
def test_equal_values_of_different_types_have_predicates_of_their_own(op: Comparator) -> None:
    """A predicate is kept, and 1, True and Decimal(1) are equal keys of a dict."""
    asked = [Compare(op, X, Const(value)) for value in (1, True, Decimal(1), "1", b"1", 1, True)]
    form = Form({})
    assert [predicate(one, form) for one in asked] == [predicate(one, Form({})) for one in asked]


@pytest.fixture(scope="module")
def connection(bigtable_emulator: str) -> Iterator[Connection[Any]]:
    yield from connected(bigtable_emulator, "predicates")


def connected(address: str, instance: str) -> Iterator[Connection[Any]]:
    """A connection to an instance with the table, which has ghosts."""
    connection = Bigtable("project", instance, endpoint=address).connect(Schema(TABLE, {}, {}))
    connection.call(CreateTable(TABLE, kept({"d": 1, "c": 1})))
    for row, made in GHOSTS.items():
        connection.call(MutateRow(TABLE, Entry(row, made)))
    yield connection
    connection.call(DeleteTable(TABLE))  # a worker that comes back to the module makes it again
    connection.close()


def written(item: Item, form: Form = FORM) -> Entry:
    return Entry("item", replacement(item, form, "item", "id1", (), 1000))


def answer(connection: Connection[Any], said: Predicate, row: str) -> bool:
    """Whether the condition holds according to the server; changes nothing."""
    harmless = (DeleteColumn("nothing"),)
    matched = connection.call(CheckAndMutateRow(TABLE, row, said.filter, harmless, harmless))
    return matched is said.holds


@pytest.fixture(scope="module")
def edges(connection: Connection[Any]) -> tuple[tuple[str, Item], ...]:
    """Rows with every edge case as the attribute x, and one without x."""
    items: list[Item] = [{"_t": "Edge", "x": value} for value in EDGES]
    rows = tuple((f"edge{number:03}", item) for number, item in enumerate([*items, {"_t": "Edge"}]))
    entries = tuple(Entry(row, replacement(item, FORM, row, "id1", (), 1000)) for row, item in rows)
    connection.call(MutateRows(TABLE, entries))
    return rows


def judged(connection: Connection[Any], rows: tuple[tuple[str, Item], ...], condition: Condition) -> dict[str, bool]:
    """The rows that a predicate matches: those that a read with it as its filter returns."""
    said = predicate(condition, FORM)
    assert said is not None, f"{condition} is not compiled"
    found = connection.call(ReadRows(TABLE, keys=tuple(row for row, _ in rows), filter=said.filter))
    assert found.failure is None
    left = {row.text for row in found.rows}
    return {row: (row in left) is said.holds for row, _ in rows}


SCALARS = tuple(value for value in EDGES if not isinstance(value, list | dict | frozenset))


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_every_edge_compared_with_every_other(
    connection: Connection[Any], edges: tuple[tuple[str, Item], ...], op: Comparator
) -> None:
    for value in SCALARS:
        for condition in (Compare(op, X, Const(value)), Compare(op, Const(value), X)):
            said = judged(connection, edges, condition)
            assert said == {row: holds(condition, item) for row, item in edges}, condition


def test_the_beginning_of_every_edge(connection: Connection[Any], edges: tuple[tuple[str, Item], ...]) -> None:
    starts = {value[:length] for value in SCALARS if isinstance(value, str | bytes) for length in (1, 2, len(value))}
    assert {"", b"", "'", "2", "20", "-", "t"} <= starts
    for start in starts:
        condition = StartsWith(X, Const(start))
        said = judged(connection, edges, condition)
        assert said == {row: holds(condition, item) for row, item in edges}, condition


ENDS: tuple[tuple[Value, ...], ...] = (
    (
        -100,
        -11,
        -10,
        Decimal("-9.9"),
        -9,
        Decimal("-0.5"),
        0,
        Decimal("0.05"),
        1,
        9,
        10,
        Decimal("12.5"),
        99,
        100,
        10**125,
    ),
    ("", "\0", "'", "-", "-0", "0", "1", "1:", "2023-09", "2024", "[", "a", "fals", "false", "true", "truer", "{", "𝄞"),
    (b"", b"\0", b"1", b"a", b"\xff"),
)


@pytest.mark.parametrize("ends", ENDS, ids=["numbers", "texts", "bytes"])
def test_every_edge_between_two_others(
    connection: Connection[Any], edges: tuple[tuple[str, Item], ...], ends: tuple[Value, ...]
) -> None:
    for low, high in product(ends, ends):
        condition = Between(X, Const(low), Const(high))
        said = judged(connection, edges, condition)
        assert said == {row: holds(condition, item) for row, item in edges}, condition


def test_and_or_and_not_of_what_is_and_is_not_there(connection: Connection[Any]) -> None:
    items: list[Item] = [{"_t": "Set", **dict.fromkeys(names, 1)} for names in subsets("abc")]
    rows = tuple((f"set{number}", item) for number, item in enumerate(items))
    connection.call(
        MutateRows(TABLE, tuple(Entry(row, replacement(one, FORM, row, "id1", (), 1000)) for row, one in rows))
    )
    a, b, c = ((Exists(Path((name,))), Missing(Path((name,)))) for name in "abc")
    for one, two, three, inner, outer in product(a, b, c, (And, Or), (And, Or)):
        nested = outer((one, inner((two, three))))
        for condition in (nested, Not(nested), And((Exists(TAG), nested)), Or((Missing(TAG), Not(nested)))):
            said = judged(connection, rows, condition)
            assert said == {row: holds(condition, item) for row, item in rows}, condition


def subsets(names: str) -> list[str]:
    return [""] if not names else [more + rest for rest in subsets(names[1:]) for more in ("", names[0])]


@pytest.mark.parametrize("row", ["absent", *GHOSTS])
@pytest.mark.parametrize(
    "condition",
    [
        *(Exists(TAG), Missing(TAG), Compare("=", TAG, Const("")), Compare(">=", TAG, Const("")), Missing(X)),
        *(StartsWith(TAG, Const("")), Compare("<>", TAG, Const("")), Not(StartsWith(TAG, Const("")))),
        *(And((Exists(TAG), Missing(X))), Or((Missing(TAG), Exists(X))), Missing(Path(("tags",)))),
    ],
    ids=str,
)
def test_no_row_without_an_item_matches(connection: Connection[Any], condition: Condition, row: str) -> None:
    said = predicate(condition, FORM)
    assert said is not None
    assert answer(connection, said, row) is holds(condition, None)


TEXTS = st.sampled_from([value for value in EDGES if isinstance(value, str)]) | st.text(
    "0179-.e'[{\0\1\ntruefalsné𝄞~|", max_size=5
)
POWERS = st.builds(
    lambda n, off, sign: sign * (10**n + off), st.integers(0, 37), st.integers(-2, 2), st.sampled_from([-1, 1])
)
NUMBERS = (
    at_large.numbers
    | POWERS
    | st.integers(-30, 30)
    | st.sampled_from([value for value in EDGES if isinstance(value, int | Decimal) and not isinstance(value, bool)])
)
BYTES = st.binary(max_size=3) | st.sampled_from([b"", b"\xff", b"\0", b"\xff\xff"])
ORDERED = NUMBERS | TEXTS | BYTES
PAIRS = st.one_of(*(st.tuples(ends, ends) for ends in (NUMBERS, TEXTS, BYTES)), st.tuples(ORDERED, ORDERED))
SETS = st.one_of(*(st.frozensets(one, min_size=1, max_size=3) for one in (TEXTS, NUMBERS, BYTES)))
SIMPLE = st.none() | st.booleans() | ORDERED
VALUES = SIMPLE | SIMPLE | SETS | at_large.values
KEYS = st.sampled_from(["k", "0015", "#", "", "é"])
ITEMS = st.fixed_dictionaries(
    {"_t": st.sampled_from(["Order", "1", "true", "é"])},
    optional={
        **dict.fromkeys(["x", "y", "_v", "a#b", "größe", "ñ", "disputed"], VALUES),
        **dict.fromkeys(["text", "a#text"], st.none() | TEXTS),
        "tags": SETS,
        "map": st.dictionaries(KEYS, VALUES, max_size=3),
        "count": st.integers(-(2**63), 2**63 - 1),
    },
)
ATTRIBUTES = st.sampled_from(["x", "x", "text", "text", "y", "_v", "_t", "a#b", "a#text", "größe", "ñ"]).map(
    lambda name: Path((name,))
)
SPECIAL = st.sampled_from(
    [Path(("tags",)), Path(("map",)), Path(("count",)), Path(("disputed",)), Path(("x", "k")), Path(("tags", "k"))]
)
PATHS = ATTRIBUTES | ATTRIBUTES | KEYS.map(lambda key: Path(("map", key))) | SPECIAL
CONSTS = VALUES.map(Const)
OPERATORS = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
LEAVES = st.one_of(
    st.builds(Compare, OPERATORS, PATHS, CONSTS),
    st.builds(Compare, OPERATORS, PATHS, ORDERED.map(Const)),
    st.builds(Compare, OPERATORS, ORDERED.map(Const), PATHS),
    st.builds(Compare, OPERATORS, CONSTS, CONSTS),
    st.builds(lambda path, ends: Between(path, *map(Const, ends)), PATHS, PAIRS),
    st.builds(lambda path, ends: Between(path, *map(Const, sorted(ends))), PATHS, st.tuples(NUMBERS, NUMBERS)),
    st.builds(lambda value, low, high: Between(Const(value), low, high), ORDERED, PATHS, PATHS | CONSTS),
    st.builds(IsIn, PATHS, st.lists(SIMPLE.map(Const), max_size=3).map(tuple)),
    st.builds(StartsWith, PATHS, (TEXTS | BYTES).map(Const)),
    st.builds(Contains, PATHS, SIMPLE.map(Const)),
    st.builds(Exists, PATHS),
    st.builds(Missing, PATHS),
    st.builds(Compare, OPERATORS, st.builds(Size, PATHS), CONSTS),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=4).map(tuple)),
        st.builds(Not, inner),
        st.builds(lambda condition: And((Exists(TAG), condition)), inner),
    ),
    max_leaves=5,
)

many = settings(
    max_examples=EXAMPLES,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)


@many
@given(item=ITEMS, conditions=st.lists(CONDITIONS, min_size=1, max_size=6))
def test_a_predicate_agrees_with_the_evaluator(
    connection: Connection[Any], item: dict[str, Any], conditions: list[Condition]
) -> None:
    connection.call(MutateRow(TABLE, written(item)))
    for condition in conditions:
        said = predicate(condition, FORM)
        event("read first" if said is None else f"one call, {said.holds}")
        if said is not None:
            answered, right = answer(connection, said, "item"), holds(condition, item)
            assert answered is right or (right and asks_for_other_members(condition))
            for row in ("absent", *GHOSTS):
                assert answer(connection, said, row) is holds(condition, None), row


def asks_for_other_members(condition: Condition) -> bool:
    """Whether it needs a key of the set, or an element of the map; then the item is read."""
    return Path(("tags", "k")) in paths(condition) or "contains(map," in str(condition)


@many
@given(item=ITEMS, more=st.frozensets(TEXTS, max_size=2), conditions=st.lists(CONDITIONS, min_size=1, max_size=6))
def test_a_predicate_never_mistakes_members_in_the_plain_cell(
    connection: Connection[Any], item: dict[str, Any], more: frozenset[str], conditions: list[Condition]
) -> None:
    """Sets and maps that were stored before their fields were in Columns, and have new members since."""
    members = [cell for cell in cells({"_t": "x", "tags": more}, FORM, "item", 1000) if "#" in cell.qualifier]
    connection.call(MutateRow(TABLE, Entry("item", (*written(item, PLAIN).mutations, *members))))
    stored = connection.call(ReadRows(TABLE, keys=("item",))).rows[0]
    for condition in conditions:
        said = predicate(condition, FORM)
        if said is not None and answer(connection, said, "item"):
            assert holds(condition, decode(stored, FORM))


WHOLE = st.sampled_from(["x", "y", "a#b", "größe"]).map(lambda name: Path((name,)))
ENTRY = KEYS.map(lambda key: Path(("map", key)))
COUNT, TAGS = Path(("count",)), Path(("tags",))


def with_tags(item: dict[str, Any], tags: frozenset[Value] | None) -> dict[str, Any]:
    return {name: value for name, value in {**item, "tags": tags}.items() if value is not None or name != "tags"}


def changes(members: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[dict[str, Any], Sequence[Action]]]:
    """Items and blind actions on them, with sets of these members."""
    given = st.frozensets(members, min_size=1, max_size=3)
    items = st.builds(with_tags, ITEMS, st.none() | given)
    actions = st.one_of(
        st.builds(Set, WHOLE | ENTRY, VALUES),
        st.builds(Remove, WHOLE | ENTRY | st.just(COUNT)),
        st.builds(Set, st.just(COUNT), st.integers(-5, 5)),
        st.builds(AddTo, st.just(TAGS), given),
        st.builds(DiscardFrom, st.just(TAGS), given),
    )
    apart = st.lists(actions, min_size=1, max_size=4, unique_by=lambda action: action.path.segments)
    return st.tuples(items, apart)


@many
@given(
    change=changes(TEXTS) | changes(NUMBERS) | changes(BYTES),
    form=st.sampled_from([FORM, PLAIN]),
    condition=CONDITIONS,
)
def test_blind_actions_agree_with_the_evaluator_or_need_the_item(
    connection: Connection[Any], change: tuple[dict[str, Any], Sequence[Action]], form: Form, condition: Condition
) -> None:
    """Stored as declared, or as before its fields were Counters and in Columns."""
    item, actions = change
    connection.call(MutateRow(TABLE, written(item, form)))
    done = blind(actions, FORM, 1000)
    assert done is not None
    asked = predicate(condition, FORM)
    if asked is None or not asked.holds:
        asked = Predicate(there(), holds=True)
    matched = connection.call(CheckAndMutateRow(TABLE, "item", chained(asked.filter, *done.requires), done.mutations))
    event("written" if matched else "not written")
    left = decode(connection.call(ReadRows(TABLE, keys=("item",))).rows[0], FORM)
    if matched:
        assert left == apply(actions, item)
    else:
        assert left == item
