"""Field references: what ``Order.total`` on the class is, and what can be made of it."""

import copy
import inspect
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import BaseModel, Field

from odm import (
    BadValue,
    Condition,
    Entity,
    PrimaryKey,
    Table,
    add_to,
    append,
    between,
    contains,
    discard_from,
    exists,
    field,
    increment,
    is_in,
    missing,
    not_,
    prepend,
    remove,
    select,
    set_,
    set_fields,
    set_if_missing,
    size,
    some,
    starts_with,
)
from odm.expressions.nodes import (
    AddTo,
    And,
    Append,
    Between,
    Compare,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    Increment,
    IsIn,
    Missing,
    Not,
    Or,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Size,
    StartsWith,
)
from odm.expressions.references import Reference, path_of

table = Table("references")


class Line(BaseModel):
    sku: str
    count: int = 1


class Address(BaseModel):
    name: str
    city: str | None = None


class Order(Entity, table=table):
    order_id: str
    total: int = 0
    paid: bool = False
    note: str | None = None
    address: Address = Address(name="Ann")
    lines: list[Line] = []
    meta: dict[str, Any] = {}
    tags: set[str] = set()
    weight: int = Field(default=1, alias="Weight")

    primary = PrimaryKey("ORDER#{order_id}")


TOTAL = Path(("total",), Order)
NOTE = Path(("note",), Order)

COMPARISONS: list[tuple[object, str]] = [
    (Order.total == 5, "="),
    (Order.total != 5, "<>"),
    (Order.total < 5, "<"),
    (Order.total <= 5, "<="),
    (Order.total > 5, ">"),
    (Order.total >= 5, ">="),
]


@pytest.mark.parametrize(("made", "op"), COMPARISONS, ids=[op for _, op in COMPARISONS])
def test_comparing_a_reference_makes_a_condition(made: object, op: Any) -> None:
    assert made == Compare(op, TOTAL, Const(5))


def test_a_constant_on_the_left_is_turned_round() -> None:
    turned: object = 5 < Order.total  # noqa: SIM300
    assert turned == Compare(">", TOTAL, Const(5))


def test_two_references_can_be_compared() -> None:
    assert (Order.total > Order.lines[0].count) == Compare(  # type: ignore[comparison-overlap]
        ">", TOTAL, Path(("lines", 0, "count"), Order)
    )


def test_comparisons_with_none() -> None:
    assert (Order.note == None) == Compare("=", NOTE, Const(None))  # type: ignore[comparison-overlap]  # noqa: E711
    assert (Order.note != None) == Compare("<>", NOTE, Const(None))  # type: ignore[comparison-overlap]  # noqa: E711
    with pytest.raises(TypeError, match="not a field"):
        assert size(Order.note) == None  # noqa: E711


PATHS: list[tuple[object, tuple[str | int, ...]]] = [
    (Order.address.city, ("address", "city")),
    (Order.address.name, ("address", "name")),
    (Order.lines[0], ("lines", 0)),
    (Order.lines[0].sku, ("lines", 0, "sku")),
    (Order.meta["a.b"], ("meta", "a.b")),
    (Order.meta["_k"]["deep"][3], ("meta", "_k", "deep", 3)),
]


@pytest.mark.parametrize(("reference", "segments"), PATHS, ids=[str(path) for _, path in PATHS])
def test_paths_go_through_models_maps_and_lists(reference: object, segments: tuple[str | int, ...]) -> None:
    assert path_of(reference) == Path(segments, Order)


@pytest.mark.parametrize("key", [-1, True, 1.5, slice(1), None])
def test_a_path_refuses_a_key_that_is_no_map_key_or_position(key: Any) -> None:
    with pytest.raises(TypeError, match=r"map key \(str\) or a list position \(int from 0\)"):
        Order.lines[key]


CONDITIONS: list[tuple[object, object]] = [
    (between(Order.total, 1, 5), Between(TOTAL, Const(1), Const(5))),
    (between(Order.total, 1, Order.total), Between(TOTAL, Const(1), TOTAL)),
    (is_in(Order.total, (1, 2)), IsIn(TOTAL, (Const(1), Const(2)))),
    (starts_with(Order.note, "a"), StartsWith(NOTE, Const("a"))),
    (contains(Order.tags, "a"), Contains(Path(("tags",), Order), Const("a"))),
    (exists(Order.note), Exists(NOTE)),
    (missing(Order.note), Missing(NOTE)),
    (size(Order.lines) > 3, Compare(">", Size(Path(("lines",), Order)), Const(3))),
    (some(Order.note) > "a", Compare(">", NOTE, Const("a"))),
    (not_(Order.total > 5), Not(Compare(">", TOTAL, Const(5)))),
    (field("total") == 5, Compare("=", Path(("total",)), Const(5))),
]


@pytest.mark.parametrize(("made", "node"), CONDITIONS, ids=[str(node) for _, node in CONDITIONS])
def test_conditions(made: object, node: object) -> None:
    assert made == node


ACTIONS: list[tuple[object, object]] = [
    (set_(Order.total, 5), Set(TOTAL, 5)),
    (set_if_missing(Order.total, 5), SetIfMissing(TOTAL, 5)),
    (remove(Order.note), Remove(NOTE)),
    (increment(Order.total), Increment(TOTAL, 1)),
    (increment(Order.total, -2), Increment(TOTAL, -2)),
    (append(Order.lines, Line(sku="a")), Append(Path(("lines",), Order), (Line(sku="a"),))),
    (prepend(Order.lines, Line(sku="a")), Prepend(Path(("lines",), Order), (Line(sku="a"),))),
    (add_to(Order.tags, "a", "b"), AddTo(Path(("tags",), Order), frozenset("ab"))),
    (discard_from(Order.tags, "a"), DiscardFrom(Path(("tags",), Order), frozenset("a"))),
]


@pytest.mark.parametrize(("made", "node"), ACTIONS, ids=[str(node) for _, node in ACTIONS])
def test_actions(made: object, node: object) -> None:
    assert made == node


def condition(made: object) -> Condition:
    """What a comparison is at run time; type checkers take it for the comparison of values."""
    assert isinstance(made, Condition)
    return made


A, B, C = (condition(Order.total == number) for number in range(3))


def test_and_and_or_combine_flat_and_grouped() -> None:
    every, either = A & B & C, A | B | C
    assert every == And((A, B, C))
    assert either == Or((A, B, C))
    assert str((A | B) & not_(A & C)) == "(total = 0 or total = 1) and not (total = 0 and total = 2)"


@pytest.mark.parametrize("kind", [set, frozenset])
def test_the_text_of_a_set_is_sorted(kind: type) -> None:
    assert str(Order.tags == kind(["d", "b", "a", "c"])) == "tags = {'a', 'b', 'c', 'd'}"


def test_conditions_combine_only_with_conditions() -> None:
    with pytest.raises(TypeError):
        _ = A & True
    with pytest.raises(TypeError):
        _ = A | Order.paid


TRUTHS: dict[str, Callable[[], object]] = {
    "and": lambda: Order.total > 5 and Order.paid,
    "or": lambda: Order.total > 5 or Order.paid,
    "not": lambda: not (Order.total > 5),
    "if": lambda: 1 if Order.total > 5 else 0,
    "chain": lambda: 1 < Order.total < 5,
    "in": lambda: Order.total in [1, 2],
}


@pytest.mark.parametrize("use", TRUTHS.values(), ids=TRUTHS)
def test_a_condition_has_no_truth_value_and_says_what_to_write(use: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"(?s)total .*&.*\|.*not_.*between"):
        use()


def test_a_reference_has_no_truth_value() -> None:
    with pytest.raises(TypeError, match=r"Order\.paid is a reference.*compare it"):
        bool(Order.paid)


@pytest.mark.parametrize("value", [True, False, None, "total > 5", lambda o: o.total > 5, Order.total])
def test_only_conditions_are_taken_as_conditions(value: Any) -> None:
    with pytest.raises(TypeError, match=r"where\(\) takes conditions on fields, not "):
        select(Order).where(value)


def test_a_comparison_without_a_field_is_explained() -> None:
    order = Order(order_id="1", total=10)
    with pytest.raises(TypeError, match=r"as in order\.total instead of Order\.total"):
        select(Order).where(order.total > 5)
    with pytest.raises(TypeError, match=r"not_\(\) takes conditions"):
        not_(order.total > 5)


def test_a_reference_can_not_be_looped_over_or_searched() -> None:
    with pytest.raises(TypeError, match="not iterable"):
        list(Order.lines)
    with pytest.raises(TypeError, match=r"write contains\(Order\.tags, \'a\'\)"):
        _ = "a" in Order.tags


def test_a_reference_can_not_be_assigned_to_or_hashed() -> None:
    with pytest.raises(AttributeError, match=r"Order\.address\.city is a path, not a value.*set_"):
        Order.address.city = "Bern"
    with pytest.raises(TypeError, match="unhashable"):
        hash(Order.total)


REFERENCES: dict[str, Any] = {
    "field": Order.total,
    "path": Order.lines[0].sku,
    "size": size(Order.lines),
    "by name": field("total"),
}


@pytest.mark.parametrize("reference", REFERENCES.values(), ids=REFERENCES)
def test_copies_and_pickles_of_a_reference_are_the_same_reference(reference: Any) -> None:
    for other in (copy.copy(reference), copy.deepcopy(reference), pickle.loads(pickle.dumps(reference))):
        assert type(other) is type(reference)
        assert (other > 1) == (reference > 1)


def test_conditions_and_queries_pickle() -> None:
    query = select(Order).where((Order.total > 5) & exists(Order.note)).limit(3)
    assert pickle.loads(pickle.dumps(query)) == query


def test_inspection_of_a_reference_ends() -> None:
    assert repr(Order.lines[0].sku) == "Order.lines[0].sku"
    assert repr(Order.meta["a"]) == "Order.meta.a"
    assert repr(field("total")) == 'field("total")'
    assert repr(size(Order.lines)) == "size(lines)"
    assert not hasattr(Order.total, "__wrapped__")
    assert not hasattr(Order.total, "_anything")
    assert inspect.unwrap(Order.total) is not None  # type: ignore[arg-type]
    assert isinstance(inspect.getmembers(Order.total), list)
    assert inspect.isclass(Order.total) is False


def test_a_reference_has_no_attributes_of_its_own() -> None:
    public = [name for name in dir(Reference) if not name.startswith("_")]
    assert public == []


def test_only_fields_are_references() -> None:
    assert hasattr(Order, "total")
    assert not hasattr(Order, "totl")
    with pytest.raises(AttributeError, match="totl"):
        Order.totl  # type: ignore[attr-defined]  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


NO_FIELDS: dict[str, Callable[[], object]] = {
    "set_": lambda: set_(5, 5),
    "exists": lambda: exists("note"),
    "size of size": lambda: size(size(Order.lines)),
    "size is None": lambda: size(Order.lines) == None,  # noqa: E711
}


@pytest.mark.parametrize("use", NO_FIELDS.values(), ids=NO_FIELDS)
def test_what_needs_a_field_refuses_a_value(use: Callable[[], object]) -> None:
    with pytest.raises(TypeError, match=r"is not a field: write it as Entity\.field"):
        use()


def test_the_fields_of_a_dict_are_set() -> None:
    assert set_fields(Order, {"total": 5, "note": None}) == [set_(Order.total, 5), set_(Order.note, None)]
    assert set_fields(Order, {}) == []


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: set_fields(Order, {"totl": 5}), r"Order has no field 'totl': did you mean 'total'\?"),
    (lambda: set_fields(Order, {"primary": 5}), r"no field 'primary': it has order_id, total"),
    (lambda: set_fields(Order, {"Weight": 5}), r"'Weight' is an alias of 'weight': give field names.*by_alias=False"),
    (lambda: set_fields(Order, {5: 5}), r"no field 5"),  # type: ignore[dict-item]  # pyright: ignore[reportArgumentType]
    (lambda: set_fields(Order, Line(sku="x")), r"write model\.model_dump\(exclude_unset=True\)"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: set_fields({"total": 5}, {}), r"give the entity class first"),  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    (lambda: set_(Order, {"total": 5}), r"for a dict of fields, write \*set_fields\(Order, changes\)"),
]


@pytest.mark.parametrize(("use", "says"), REFUSED, ids=[says for _, says in REFUSED])
def test_what_is_no_dict_of_fields(use: Callable[[], object], says: str) -> None:
    with pytest.raises((BadValue, TypeError), match=says):
        use()


@pytest.mark.parametrize("choices", [[], "open", b"bytes"])
def test_is_in_refuses_no_choices_and_the_characters_of_a_text(choices: Any) -> None:
    with pytest.raises(BadValue, match=r"is_in\(Order\.note"):
        is_in(Order.note, choices)
