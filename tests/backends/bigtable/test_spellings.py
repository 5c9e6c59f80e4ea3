"""Predicates where a value may be stored as different cells.

An attribute that is declared as text may have older cells with an apostrophe. Other programs write cells that odm does
not write: an unneeded apostrophe, ``-0``, and numbers that are read as text, such as ``1.50`` and ``1e3``.
"""

import contextlib
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import odm
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import DeleteColumn, Entry, MutateRow, MutateRows, ReadRows, SetCell
from odm.backends.bigtable.rows.cells import write
from odm.backends.bigtable.rows.codec import decode, replacement
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.backends.bigtable.rows.predicates import predicate
from odm.errors import BackendError
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    And,
    Between,
    Comparator,
    Compare,
    Condition,
    Const,
    Exists,
    IsIn,
    Item,
    Missing,
    Not,
    Or,
    Path,
    StartsWith,
    Value,
)
from odm.protocol.connection import Connection
from tests.backends.bigtable.test_predicates import (
    BYTES,
    EDGES,
    FORM,
    NUMBERS,
    OPERATORS,
    PLAIN,
    SCALARS,
    SIMPLE,
    TABLE,
    TAG,
    TEXTS,
    X,
    answer,
    connected,
    judged,
    many,
)

pytestmark = pytest.mark.slow

TEXT = Path(("text",))


@pytest.fixture(scope="module")
def connection(bigtable_emulator: str) -> Iterator[Connection[Any]]:
    yield from connected(bigtable_emulator, "spellings")


OTHERS = st.sampled_from(
    [
        *(b"1.50", b"+5", b"007", b"1e3", b"-0", b"-0.0", b"-007", b"0x1", b" 1", b"1 ", b"1,5", b"5.", b".5", b"0.50"),
        *(b"'a", b"'", b"''", b"'null", b"'m", b"'2024-01-01", b"'1.50", b"nulls", b"null", b"true", b"True", b"[x]"),
        *(b"-0.5", b"0", b"-1", b"5", b"m", b"a", b"\0", b"\0a", b"[]", b"[1]", b"{}"),
    ]
)
FOREIGN = (
    OTHERS
    | st.builds(lambda text, quote: quote + text.encode(), TEXTS, st.sampled_from([b"", b"'"]))
    | NUMBERS.map(lambda number: str(number).encode())
    | st.from_regex(rb"[-+]?[0-9]{1,3}(\.[0-9]{0,3})?(e[0-9])?", fullmatch=True)
)
NEAR = st.sampled_from([-1, 0, 1, 5, 7, Decimal("1.5"), Decimal("-0.5"), 1000]) | NUMBERS
PLACES = st.sampled_from([X, X, TEXT, TEXT, Path(("map", "k"))])
ASKED = st.one_of(
    st.builds(Compare, OPERATORS, PLACES, (NEAR | TEXTS | OTHERS.map(bytes.decode) | SIMPLE).map(Const)),
    st.builds(lambda path, ends: Between(path, *map(Const, sorted(ends))), PLACES, st.tuples(NEAR, NEAR)),
    st.builds(lambda path, ends: Between(path, *map(Const, sorted(ends))), PLACES, st.tuples(TEXTS, TEXTS)),
    st.builds(IsIn, PLACES, st.lists((NEAR | TEXTS).map(Const), max_size=3).map(tuple)),
    st.builds(StartsWith, PLACES, (TEXTS | BYTES).map(Const)),
    st.builds(Exists, PLACES),
)


@many
@given(
    found=st.fixed_dictionaries({}, optional=dict.fromkeys(["x", "text", "map#k"], FOREIGN)),
    one=ASKED,
    other=ASKED,
)
def test_a_predicate_never_accepts_what_the_evaluator_refuses(
    connection: Connection[Any], found: dict[str, bytes], one: Condition, other: Condition
) -> None:
    """For cells of odm, old cells of odm and cells of other programs. A refusal is evaluated on the item."""
    marks = {"_t": b"Order", "~r": b"id1", "map": b"{}"}
    made = tuple(SetCell(name, cell, 1000) for name, cell in (marks | found).items())
    connection.call(MutateRow(TABLE, Entry("foreign", (*REMOVED, *made))))
    try:
        item = decode(connection.call(ReadRows(TABLE, keys=("foreign",))).rows[0], FORM)
    except BackendError:
        return
    assert item is not None
    own = all(is_own(name, cell) for name, cell in found.items())
    for condition in (one, And((one, other)), Or((one, other)), Or((Missing(TAG), one))):
        for asked in (condition, Not(condition), And((Exists(TAG), condition)), And((Exists(TAG), Not(condition)))):
            said = predicate(asked, FORM)
            assert said is not None
            answered, right = answer(connection, said, "foreign"), holds(asked, item)
            event(f"answered {answered}, right {right}, own {own}")
            assert answered is right or (right and not own), asked


doors = odm.Table("doors")


class Door(odm.Entity, table=doors):
    name: str
    status: str = "open"
    either: Any = 0
    primary = odm.PrimaryKey("DOOR#{name}")


@pytest.mark.parametrize(
    ("found", "condition", "holds"),
    [
        ({"status": b"'open"}, Door.status != "open", False),
        ({"status": b"'open"}, Door.status == "open", True),
        ({"status": b"'42"}, Door.status == "42", True),
        ({"status": b"42"}, Door.status == "42", True),
        ({"either": b"'open"}, odm.not_(Door.either == "open"), False),
        ({"either": b"-0"}, Door.either != 0, False),
        ({"either": b"-0"}, Door.either < 0, False),
        ({"either": b"-0"}, Door.either >= 0, True),
        ({"either": b"1.50"}, Door.either > 1, False),
        ({"either": b"1.50"}, Door.either == "1.50", True),
    ],
    ids=str,
)
def test_an_update_is_applied_if_its_condition_holds(
    bigtable_emulator: str, found: dict[str, bytes], condition: odm.Condition, holds: bool
) -> None:
    """Even if the server refuses it and the item then allows it."""
    backend = Bigtable("project", "doors", endpoint=bigtable_emulator)
    with odm.Store(doors, backend) as db, contextlib.closing(backend.connect(doors.compile())) as connection:
        db.create()
        db.put(Door(name="a"))
        cells = tuple(SetCell(name, cell, 10**15) for name, cell in found.items())
        connection.call(MutateRow("doors", Entry("DOOR#a", (*map(DeleteColumn, found), *cells))))
        with contextlib.nullcontext() if holds else pytest.raises(odm.ConditionFailed):
            db.update(Door.primary(name="a"), odm.set_(Door.status, "shut"), when=condition)


def is_own(name: str, cell: bytes) -> bool:
    """Whether odm writes such a cell, or wrote it before the attribute was declared as text."""
    return cell in (FORM.write(name, value := FORM.read(name, cell)), write(value))


@pytest.fixture(scope="module")
def declared(connection: Connection[Any]) -> tuple[tuple[str, Item], ...]:
    """Rows with every edge case of a text in its current and its old cell, one with None and one
    without it."""
    edges: list[Value] = [None, *(value for value in EDGES if isinstance(value, str))]
    items: list[Item] = [*({"_t": "Edge", "text": value} for value in edges), {"_t": "Edge"}]
    rows: list[tuple[str, Item]] = []
    for form, name in ((FORM, "now"), (PLAIN, "was")):
        made = [(f"{name}{number:03}", item) for number, item in enumerate(items)]
        entries = tuple(Entry(row, replacement(item, form, row, "id1", (), 1000)) for row, item in made)
        connection.call(MutateRows(TABLE, entries))
        rows += made
    return tuple(rows)


@pytest.mark.parametrize("op", ["=", "<>", "<", "<=", ">", ">="])
def test_every_edge_compared_with_every_declared_text(
    connection: Connection[Any], declared: tuple[tuple[str, Item], ...], op: Comparator
) -> None:
    for value in SCALARS:
        for condition in (Compare(op, TEXT, Const(value)), Not(Compare(op, TEXT, Const(value)))):
            said = judged(connection, declared, condition)
            assert said == {row: holds(condition, item) for row, item in declared}, condition


def test_the_beginning_of_every_declared_text(
    connection: Connection[Any], declared: tuple[tuple[str, Item], ...]
) -> None:
    starts = {value[:length] for value in SCALARS if isinstance(value, str | bytes) for length in (1, 2, len(value))}
    for start in starts:
        condition = StartsWith(TEXT, Const(start))
        said = judged(connection, declared, condition)
        assert said == {row: holds(condition, item) for row, item in declared}, condition
