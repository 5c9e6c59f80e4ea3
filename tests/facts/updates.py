"""What update actions do to the stored value."""

from decimal import Decimal
from typing import Any, Final

from odm import (
    BadValue,
    ConditionFailed,
    ItemNotFound,
    add_to,
    append,
    discard_from,
    increment,
    prepend,
    remove,
    set_,
    set_if_missing,
)
from odm.expressions.nodes import Action
from tests.facts.fact import Case, fact, shown, shown_node
from tests.facts.model import Thing

X, Y, Z = Thing.x, Thing.y, Thing.z
BASIC, PATHS, NUMBERS = "S updateItem/basic", "S updateItem/paths", "S limits/numberPrecision"
D_UPDATES: Final = "D Expressions.UpdateExpressions"
EMPTY: Final = "S limits/emptyValues"
MOST: Final = Decimal("9.9999999999999999999999999999999999999E+125")


def updated(case: Case, x: Any, actions: tuple[Action, ...]) -> Any:
    """The ``x`` after an update of an item with this ``x``, as the update returns it and as it is read afterwards."""
    case.db.put(case.thing(x))
    try:
        returned = case.db.update(case.key, *actions, returning="new")
    except BadValue:
        assert case.db.one(case.key) == case.thing(x)  # nothing was changed
        raise
    assert case.db.one(case.key) == returned
    return returned.x


# The stored x, the action or actions, x after them, the source.
_ROWS: list[tuple[Any, Action | tuple[Action, ...], Any, str]] = [
    # set
    (5, set_(X, 6), 6, BASIC),
    (None, set_(X, 6), 6, BASIC),
    (5, set_(X, "text"), "text", D_UPDATES),
    (5, set_(X, ""), "", EMPTY),
    (5, set_(X, b""), b"", EMPTY),
    (5, set_(X, []), [], D_UPDATES),
    (5, set_(X, {}), {}, D_UPDATES),
    ({"k": 1}, set_(X["k"], 2), {"k": 2}, PATHS),
    ({"k": 1}, set_(X["l"], 2), {"k": 1, "l": 2}, PATHS),
    ({"k": {"l": {"m": 1}}}, set_(X["k"]["l"]["m"], 2), {"k": {"l": {"m": 2}}}, PATHS),
    ({"k": {}}, set_(X["k"]["l"], [1]), {"k": {"l": [1]}}, PATHS),
    ({}, set_(X["k"]["l"], 2), BadValue, PATHS),
    (None, set_(X["k"], 2), BadValue, PATHS),
    (5, set_(X["k"], 2), BadValue, "L"),
    ([1], set_(X["k"], 2), BadValue, "L"),
    ({"k": 1}, set_(X[0], 2), BadValue, "L"),
    ([1, 2, 3], set_(X[1], 9), [1, 9, 3], PATHS),
    ([1], set_(X[1], 9), [1, 9], PATHS),
    ([1], set_(X[7], 9), [1, 9], PATHS),
    ([], set_(X[0], 9), [9], PATHS),
    ([1], (set_(X[9], "b"), set_(X[5], "a")), [1, "a", "b"], "L"),
    ([{"k": 1}], set_(X[0]["k"], 2), [{"k": 2}], PATHS),
    ({"k": 1, "l": 2}, (set_(X["k"], 3), set_(X["l"], 4)), {"k": 3, "l": 4}, PATHS),
    # set if missing
    (None, set_if_missing(X, 6), 6, BASIC),
    (5, set_if_missing(X, 6), 5, BASIC),
    ({"k": None}, set_if_missing(X["k"], 6), {"k": None}, D_UPDATES),
    ({}, set_if_missing(X["k"], 6), {"k": 6}, BASIC),
    ("", set_if_missing(X, 6), "", "L"),
    # remove
    (5, remove(X), None, BASIC),
    (None, remove(X), None, BASIC),
    ({"k": 1, "l": 2}, remove(X["k"]), {"l": 2}, PATHS),
    ({"k": 1}, remove(X["l"]), {"k": 1}, BASIC),
    ({"k": 1}, remove(X["k"]), {}, PATHS),
    ([1, 2, 3], remove(X[0]), [2, 3], PATHS),
    ([1, 2, 3], remove(X[2]), [1, 2], PATHS),
    ([1], remove(X[0]), [], PATHS),
    ([1], remove(X[4]), [1], D_UPDATES),
    ([1, 2, 3, 4], (remove(X[0]), remove(X[2])), [2, 4], D_UPDATES),
    ([1, 2, 3], (remove(X[0]), set_(X[1], 9)), [9, 3], "L"),
    # increment
    (5, increment(X), 6, BASIC),
    (5, increment(X, -7), -2, BASIC),
    (5, increment(X, Decimal("0.25")), Decimal("5.25"), D_UPDATES),
    (Decimal("0.1"), increment(X, Decimal("0.2")), Decimal("0.3"), D_UPDATES),
    (None, increment(X), 1, BASIC),
    (None, increment(X, -3), -3, BASIC),
    (10**37, increment(X), 10**37 + 1, NUMBERS),
    (10**38 - 1, increment(X), 10**38, NUMBERS),
    (Decimal("0.01"), increment(X, Decimal("-0.01")), 0, "L"),
    (10**37, increment(X, Decimal("0.1")), BadValue, "L"),
    (MOST, increment(X, MOST), BadValue, NUMBERS),
    ("5", increment(X), BadValue, D_UPDATES),
    ([5], increment(X), BadValue, D_UPDATES),
    ({"k": 5}, increment(X["k"], 2), {"k": 7}, PATHS),
    ({}, increment(X["k"], 2), {"k": 2}, "L"),
    ([1, 2], increment(X[1]), [1, 3], PATHS),
    ({}, increment(X["k"]["l"]), BadValue, PATHS),
    # lists
    ([1], append(X, 2), [1, 2], BASIC),
    ([1], append(X, 2, 3), [1, 2, 3], BASIC),
    ([1], prepend(X, 2, 3), [2, 3, 1], BASIC),
    ([], append(X, 1), [1], BASIC),
    ([1], append(X, [2]), [1, [2]], D_UPDATES),
    ({"k": [1]}, append(X["k"], 2), {"k": [1, 2]}, D_UPDATES),
    ("ab", append(X, "c"), BadValue, D_UPDATES),
    ({1}, append(X, 2), BadValue, D_UPDATES),
    # sets
    ({"a"}, add_to(X, "b"), {"a", "b"}, BASIC),
    ({"a"}, add_to(X, "a"), {"a"}, D_UPDATES),
    ({"a"}, add_to(X, "b", "c"), {"a", "b", "c"}, BASIC),
    ({1}, add_to(X, 2), {1, 2}, D_UPDATES),
    ({b"a"}, add_to(X, b"b"), {b"a", b"b"}, BASIC),
    (None, add_to(X, "a"), {"a"}, BASIC),
    ({"k": {"a"}}, add_to(X["k"], "b"), {"k": {"a", "b"}}, D_UPDATES),
    ({"a"}, add_to(X, 1), BadValue, D_UPDATES),
    (["a"], add_to(X, "b"), BadValue, D_UPDATES),
    ({"a", "b"}, discard_from(X, "a"), {"b"}, BASIC),
    ({"a"}, discard_from(X, "b"), {"a"}, D_UPDATES),
    ({"a"}, discard_from(X, "a"), None, BASIC),
    ({"a", "b"}, discard_from(X, "a", "b", "c"), None, BASIC),
    ({1, 2}, discard_from(X, 2), {1}, BASIC),
    (None, discard_from(X, "a"), None, "L"),
    ({"a"}, discard_from(X, 1), BadValue, D_UPDATES),
    ({"k": {"a"}}, discard_from(X["k"], "a"), {}, "L"),
    # several attributes
    (5, (set_(Y, 1), remove(Z)), 5, BASIC),
    ({"a"}, (add_to(X, "b"), set_(Y, 1), increment(Z)), {"a", "b"}, BASIC),
]


def _text(actions: tuple[Action, ...]) -> str:
    return shown_node(", ".join(map(str, actions)))


def _upserted(case: Case) -> Any:
    case.db.update(case.key, set_(Thing.x, 1), increment(Thing.y), upsert=True)
    found = case.db.one(case.key)
    return found.x, found.y


def _absent(case: Case) -> Any:
    with_condition = None
    try:
        case.db.update(case.key, set_(Thing.x, 1))
    except ItemNotFound:
        with_condition = case.db.get(case.key)
    return with_condition


def _refused(case: Case) -> Any:
    case.db.put(case.thing(5))
    try:
        case.db.update(case.key, set_(X, 6), when=X == 6)
    except ConditionFailed as failed:
        item: Any = failed.item
        return item.x, case.db.one(case.key).x
    return None


def _returned(case: Case) -> Any:
    case.db.put(case.thing(5))
    old = case.db.update(case.key, increment(X), returning="old")
    new = case.db.update(case.key, increment(X), returning="new")
    return old and old.x, new.x


def _together(case: Case) -> Any:
    """The old value of one attribute decides, whatever the same update does to another."""
    case.db.put(case.thing(5))
    case.db.update(case.key, remove(X), set_(Y, 1), when=X == 5)
    return case.db.one(case.key).x


FACTS = [
    *(
        fact(f"`{shown(x)}`: `{_text(actions)}`", outcome, source, updated, x, actions)
        for x, action, outcome, source in _ROWS
        for actions in [action if isinstance(action, tuple) else (action,)]
    ),
    fact("an update that may create, of what is absent", (1, 1), "S updateItem/basic", _upserted),
    fact("an update of what is absent: ItemNotFound, and no item", None, "S updateItem/conditions", _absent),
    fact(
        "an update whose condition fails: the item comes with the error, unchanged",
        (5, 5),
        "S updateItem/conditions",
        _refused,
    ),
    fact("an update that returns the old item, then one that returns the new", (5, 7), BASIC, _returned),
    fact("the condition of an update sees what its actions remove", None, BASIC, _together),
]
