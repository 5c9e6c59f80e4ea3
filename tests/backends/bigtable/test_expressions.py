"""The filters of conditions, and the mutations of actions. `test_predicates` tests what the filters match."""

from collections.abc import Callable
from decimal import Decimal

import pytest

from odm.backends.bigtable.client import filters
from odm.backends.bigtable.client.encoding import filter_of
from odm.backends.bigtable.client.filters import (
    Behind,
    Chain,
    Column,
    ColumnRange,
    Filter,
    First,
    Interleave,
    Nothing,
    ValueIs,
    ValueMatches,
    ValueRange,
    chain,
    fits,
    interleave,
    newest,
)
from odm.backends.bigtable.client.native import DeleteColumn, SetCell
from odm.backends.bigtable.client.native import Increment as Add
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.mutations import Blind, blind, increments, settled
from odm.backends.bigtable.rows.predicates import predicate, revision_is, there
from odm.errors import BadValue
from odm.expressions.nodes import (
    Action,
    AddTo,
    And,
    Append,
    Between,
    Compare,
    Condition,
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
    Remove,
    Set,
    SetIfMissing,
    Size,
    StartsWith,
)

FORM = Form({"tags": "columns", "values": "columns", "views": "counter"}, frozenset({"disputed"}), frozenset({"code"}))

EXISTS, ABSENT = Exists(Path(("_t",))), Missing(Path(("_t",)))
FIRST_VERSION = Missing(Path(("_v",)))
X, AT, STATUS, RAW, TAGS, VALUE = (
    Path(names) for names in (("x",), ("at",), ("status",), ("raw",), ("tags",), ("values", "0015"))
)
CODE = Path(("code",))
OPEN = Compare("=", STATUS, Const("open"))
EXPIRED = Compare("<=", Path(("_ttl",)), Const(1_700_000_000))

HERE = "(d:_t | cells-per-column=1 | value in ('', ))"
REVISION = "(d:~r | cells-per-column=1 | value in ('', ))"
FRACTION = r"(\\.[0-9]*[1-9])?'"
IN_TIME = (
    f"(d:_ttl | cells-per-column=1 | (value ~ '(0|[1-9][0-9]{{0,8}}){FRACTION} + (value ~ '[1-9][0-9]{{9}}{FRACTION} | "
    f"value in ['', '1700000000\\x00')) + value ~ '-(0|[1-9][0-9]*){FRACTION}))"
)


@pytest.mark.parametrize(
    ("condition", "holds", "text"),
    [
        (None, False, "block-all"),
        (EXISTS, True, HERE),
        (ABSENT, False, HERE),
        (
            EXISTS & FIRST_VERSION,
            True,
            f"(((d:_v | cells-per-column=1) + {REVISION}) | cells-per-row=1 | d:~r)",
        ),
        (
            EXISTS & FIRST_VERSION & OPEN,
            True,
            (
                "(((d:status | cells-per-column=1 | value = 'open' | cells-per-row=1) + (((d:_v | "
                "cells-per-column=1) + "
                f"{REVISION}) | cells-per-row=1 | d:~r | cells-per-row=1)) | cells-per-row-offset=1)"
            ),
        ),
        (
            EXISTS & FIRST_VERSION & Not(EXPIRED) & Compare("<>", STATUS, Const("open")),
            True,
            (
                f"(((d:_v | cells-per-column=1) + {IN_TIME} + (d:status | cells-per-column=1 | "
                f"(value = 'open' + value = \"'open\")) + {REVISION}) | cells-per-row=1 | d:~r)"
            ),
        ),
        (EXPIRED | ABSENT, False, f"(({IN_TIME} + {REVISION}) | cells-per-row=1 | d:~r)"),
        (
            Missing(X) | StartsWith(X, Const("m")),
            False,
            (
                "(((d:x | cells-per-column=1 | cells-per-row=1) + (((d:x | cells-per-column=1 | value in ['m', 'n')) + "
                f"{REVISION}) | cells-per-row=1 | d:~r | cells-per-row=1)) | cells-per-row-offset=1)"
            ),
        ),
        (
            Compare("=", X, Const(1)) & (ABSENT | OPEN),
            True,
            (
                "(((d:x | cells-per-column=1 | value = '1' | cells-per-row=1) + "
                "(d:status | cells-per-column=1 | value = 'open' | cells-per-row=1)) | "
                "cells-per-row-offset=1)"
            ),
        ),
        (Compare("=", STATUS, Const("12")), True, '(d:status | cells-per-column=1 | value = "\'12")'),
        (Compare("=", Const(Decimal("12.5")), X), True, "(d:x | cells-per-column=1 | value = '12.5')"),
        (Compare("=", RAW, Const(b"\1")), True, r"(d:raw | cells-per-column=1 | value = '\x00\x01')"),
        (
            IsIn(X, (Const("a"), Const(None), Const(True), Const("a"))),
            True,
            "(d:x | cells-per-column=1 | (value = 'a' + value = 'null' + value = 'true'))",
        ),
        (
            Compare(">", X, Const(100)),
            True,
            (
                rf"(d:x | cells-per-column=1 | ((value ~ '[1-9][0-9]{{2}}{FRACTION} | value in ['100\x00', )) + "
                f"value ~ '[1-9][0-9]{{3,}}{FRACTION}))"
            ),
        ),
        (
            Between(X, Const(-5), Const(Decimal("12.5"))),
            True,
            (
                rf"(d:x | cells-per-column=1 | (value ~ '[0-9]{FRACTION} + (value ~ '[1-9][0-9]{{1}}{FRACTION} | "
                rf"value in ['', '12.5\x00')) + (value ~ '-[0-9]{FRACTION} | value in ['', '-5\x00'))))"
            ),
        ),
        (Between(X, Const(3), Const(2)), True, "block-all"),
        (Between(X, Const(3), Const("4")), True, "block-all"),
        (
            Between(AT, Const("2023-01-01"), Const("2023-12-31")),
            True,
            r"(d:at | cells-per-column=1 | value in ['2023-01-01', '2023-12-31\x00'))",
        ),
        (StartsWith(STATUS, Const("op")), True, "(d:status | cells-per-column=1 | value in ['op', 'oq'))"),
        (StartsWith(RAW, Const(b"\xff")), True, r"(d:raw | cells-per-column=1 | value in ['\x00\xff', '\x01'))"),
        (
            EXISTS & Exists(VALUE),
            True,
            (
                "(((d:values#0015 | cells-per-column=1 | cells-per-row=1) + (((d:values | cells-per-column=1 | (value "
                f"in ['', '{{}}') + value in ('{{}}', ))) + {REVISION}) | cells-per-row=1 | d:~r | cells-per-row=1)) | "
                "cells-per-row-offset=1)"
            ),
        ),
        (
            Not(Contains(TAGS, Const("12"))),
            False,
            (
                "((d:tags#'12 | cells-per-column=1) + (d:tags | cells-per-column=1 | (value in ['', '{\"$set\": []}') "
                "+ value in ('{\"$set\": []}', ))))"
            ),
        ),
        (
            Not(OPEN & Exists(X)),
            False,
            (
                "(((d:status | cells-per-column=1 | (value = 'open' + value = \"'open\") | cells-per-row=1) + "
                "(d:x | cells-per-column=1 | cells-per-row=1)) | cells-per-row-offset=1)"
            ),
        ),
        (
            Compare("=", Const(1), Const(2)) | OPEN,
            True,
            "(block-all + (d:status | cells-per-column=1 | value = 'open'))",
        ),
        (Compare("=", CODE, Const("open")), True, "(d:code | cells-per-column=1 | value = 'open')"),
        (Compare("=", CODE, Const(None)), True, "(d:code | cells-per-column=1 | value = 'null')"),
        (Compare("=", CODE, Const("null")), True, '(d:code | cells-per-column=1 | value = "\'null")'),
        (Compare("=", CODE, Const("42")), True, "(d:code | cells-per-column=1 | (value = '42' + value = \"'42\"))"),
        (StartsWith(CODE, Const("m")), True, "(d:code | cells-per-column=1 | value in ['m', 'n'))"),
        (
            StartsWith(CODE, Const("4")),
            True,
            "(d:code | cells-per-column=1 | (value in ['4', '5') + value in [\"'4\", \"'5\")))",
        ),
        (
            Compare("<", CODE, Const("5")),
            True,
            (
                "(d:code | cells-per-column=1 | (value = '' + value in ['\\x01', \"'\") + value in ['(', '5') + "
                'value in ["\'", "\'5")))'
            ),
        ),
        (Compare("<", CODE, Const(5)), True, "block-all"),
    ],
)
def test_the_predicate_of_a_condition(condition: Condition | None, holds: bool, text: str) -> None:
    said = predicate(condition, FORM)
    assert said is not None
    assert said.holds is holds
    assert str(said.filter) == text


@pytest.mark.parametrize(
    "condition",
    [
        Compare("=", X, STATUS),
        Compare(">", Size(X), Const(3)),
        Compare("=", X, Const([1])),
        Compare("=", X, Const(frozenset({"a"}))),
        IsIn(X, (Const(1), Const({"a": 1}))),
        Between(Const(5), X, STATUS) | Compare("<", X, Size(STATUS)),
        Contains(X, Const("a")),
        Contains(TAGS, Const(None)),
        Exists(Path(("x", "name"))),
        Compare("=", Path(("lines", 0)), Const(1)),
        Compare("=", Path(("values", "0015", "peak")), Const(1)),
        Exists(Path(("views",))),
        Compare(">", Path(("views",)), Const(3)),
        Exists(Path(("disputed",))),
        Compare("=", TAGS, Const("a")),
        Exists(Path(("~r",))),
        Exists(Path(("_ix",))),
        EXISTS & Missing(Path(("größe",))) & Missing(Path(("ñ",))),
    ],
    ids=str,
)
def test_conditions_that_need_a_read(condition: Condition) -> None:
    assert predicate(condition, FORM) is None


def deep(levels: int) -> Condition:
    """And in or in and, each of which nests two filters deeper."""
    condition: Condition = OPEN
    for level in range(levels):
        condition = (And if level % 2 else Or)((condition, Compare("=", X, Const(level))))
    return condition


def size_of(said: Filter) -> int:
    return len(filter_of(said))


def test_a_filter_that_no_server_takes_is_not_made() -> None:
    sizes = []
    for count in range(100, 1000, 20):
        said = predicate(IsIn(X, tuple(Const(f"choice {number}") for number in range(count))), FORM)
        sizes += [size_of(said.filter)] if said else []
    assert 12_000 < max(sizes) <= 20_480
    assert len(sizes) < 45
    assert predicate(Compare("=", X, Const("a" * 10_000)), FORM) is not None
    assert predicate(Compare("=", X, Const("a" * 10_300)), FORM) is None
    assert predicate(deep(8), FORM) is not None
    assert predicate(deep(14), FORM) is None


@pytest.mark.parametrize("size", [0, 1, 127, 128, 5000])
@pytest.mark.parametrize(
    "make",
    [
        lambda text: newest("d", text),
        lambda text: chain(newest("d", "x"), ValueIs(text.encode())),
        lambda text: chain(newest("d", "x"), ValueMatches(text.encode())),
        lambda text: chain(newest("d", "x"), ValueRange(text.encode(), text.encode() + b"b")),
        lambda text: chain(newest("d", "x"), ColumnRange("d", text, text + "b"), First(5000), Behind(5000), Nothing()),
    ],
    ids=["column", "value", "match", "range", "others"],
)
def test_the_size_of_a_filter_is_an_upper_bound(size: int, make: Callable[[str], Filter]) -> None:
    said = make("a" * size)
    for _ in range(5):
        said = interleave(chain(said, First(1)), said)
        assert fits(said) is (filters.size(said) <= 20_480)
        assert size_of(said) <= filters.size(said) <= 5 * size_of(said) + 40


def test_the_filters_of_a_row() -> None:
    assert str(there()) == HERE
    assert str(revision_is("id1")) == "(d:~r | cells-per-column=1 | value = 'id1')"


@pytest.mark.parametrize("far", [10**126, 10**4000, Decimal("1E+999999")], ids=["127 digits", "many", "huge"])
def test_a_bound_beyond_all_stored_numbers_bounds_nothing(far: int | Decimal) -> None:
    assert predicate(Compare("<", X, Const(far)), FORM) is not None
    assert len(str(predicate(Compare(">", X, Const(-far)), FORM))) < 2000


PLAIN_SET = (DeleteColumn("x"), SetCell("x", b"12", 1000))
MARKER = (DeleteColumn("tags"), SetCell("tags", b'{"$set": []}', 1000))
IS_MAP = chain(newest("d", "values"), ValueIs(b"{}"))
NOT_OTHER = Chain(
    (
        Interleave(
            (
                chain(
                    newest("d", "tags"),
                    Interleave((ValueRange(b"", b'{"$set": []}'), ValueRange(b'{"$set": []}', open=True))),
                ),
                chain(newest("d", "~r"), ValueRange(open=True)),
            )
        ),
        First(1),
        Column("d", "~r"),
    )
)


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (Set(X, 12), Blind(PLAIN_SET)),
        (Set(X, {"a": [1]}), Blind((DeleteColumn("x"), SetCell("x", b'{"a": [1]}', 1000)))),
        (Remove(Path(("a#b",))), Blind((DeleteColumn("a$Sb"),))),
        (
            Set(Path(("views",)), 3),
            Blind((DeleteColumn("views"), DeleteColumn("views", "c"), SetCell("views", bytes(7) + b"\3", 1000, "c"))),
        ),
        (Remove(Path(("views",))), Blind((DeleteColumn("views"), DeleteColumn("views", "c")))),
        (
            Set(VALUE, Decimal("0.5")),
            Blind((DeleteColumn("values#0015"), SetCell("values#0015", b"0.5", 1000)), (IS_MAP,)),
        ),
        (Remove(VALUE), Blind((DeleteColumn("values#0015"),), (IS_MAP,))),
        (
            AddTo(TAGS, frozenset({"12", "new"})),
            Blind(
                (
                    *MARKER,
                    *(DeleteColumn("tags#'12"), SetCell("tags#'12", b"", 1000)),
                    *(DeleteColumn("tags#new"), SetCell("tags#new", b"", 1000)),
                ),
                (NOT_OTHER,),
            ),
        ),
        (DiscardFrom(TAGS, frozenset({5})), Blind((DeleteColumn("tags#5"),), (NOT_OTHER,))),
    ],
    ids=str,
)
def test_actions_that_need_no_read(action: Action, wanted: Blind) -> None:
    assert blind([action], FORM, 1000) == wanted


def test_several_blind_actions_require_each_thing_once() -> None:
    done = blind(
        [AddTo(TAGS, frozenset({"a"})), Set(X, 12), Set(VALUE, 1), Remove(Path(("values", "0030")))], FORM, 1000
    )
    assert done is not None
    assert done.mutations[4:6] == PLAIN_SET
    assert done.requires == (NOT_OTHER, IS_MAP)
    assert blind([], FORM, 1000) == Blind(())


@pytest.mark.parametrize(
    "action",
    [
        SetIfMissing(X, 1),
        Increment(X, 1),
        Increment(Path(("views",)), 1),
        Append(X, (1,)),
        AddTo(X, frozenset({"a"})),
        Set(Path(("x", "name")), 1),
        Remove(Path(("x", 0))),
        Set(Path(("values", "0015", "peak")), 1),
        Set(TAGS, frozenset({"a"})),
        Remove(TAGS),
        Set(Path(("disputed",)), 1),
        Remove(Path(("disputed",))),
    ],
    ids=str,
)
def test_actions_that_need_a_read(action: Action) -> None:
    assert blind([Set(X, 12), action], FORM, 1000) is None


def test_values_that_cannot_be_stored_are_refused() -> None:
    with pytest.raises(BadValue, match=r"'x' of the item 'hats#1'.*float"):
        blind([Set(X, 1.5)], FORM, 1000, "hats#1")
    with pytest.raises(BadValue, match="64-bit"):
        blind([Set(Path(("views",)), 2**63)], FORM, 1000)


VIEWS = Path(("views",))


@pytest.mark.parametrize(
    ("actions", "wanted"),
    [
        ([Increment(VIEWS, 2)], (Add("views", 2),)),
        ([Increment(VIEWS, 1 - 2**63)], (Add("views", 1 - 2**63),)),
        ([Increment(VIEWS, -(2**63))], None),  # could not be reverted
        ([Increment(VIEWS, 2**63)], None),
        ([Increment(VIEWS, 1, start=5)], None),
        ([Increment(VIEWS, Decimal("0.5"))], None),
        ([Increment(VIEWS, 2), Set(X, 1)], None),
        ([Increment(X, 2)], None),
        ([Increment(Path(("views", "x")), 2)], None),
        ([Increment(Path(("disputed",)), 2)], None),
    ],
)
def test_increments_of_counters(actions: list[Action], wanted: tuple[Add, ...] | None) -> None:
    assert increments(actions, FORM) == wanted


@pytest.mark.parametrize(
    ("action", "wanted"),
    [
        (Increment(X, 2), Set(X, 9)),
        (Increment(X, Decimal("0.5")), Set(X, Decimal("7.5"))),
        (SetIfMissing(X, 1), Set(X, 7)),
        (DiscardFrom(TAGS, frozenset({"a"})), Remove(TAGS)),
        (AddTo(TAGS, frozenset({"b"})), Set(TAGS, frozenset({"a", "b"}))),
        (Append(X, (1,)), Append(X, (1,))),
        (Increment(X, Decimal("1E-40")), Increment(X, Decimal("1E-40"))),
        (Set(X, 1), Set(X, 1)),
        (Remove(X), Remove(X)),
        (Increment(STATUS, 1), Increment(STATUS, 1)),
        (Increment(Path(("x", "y")), 1), Increment(Path(("x", "y")), 1)),
    ],
    ids=str,
)
def test_actions_on_an_attribute_whose_value_the_condition_fixes(action: Action, wanted: Action) -> None:
    fixed = {"x": 7, "tags": frozenset({"a"})}
    assert settled([action, Set(AT, "now")], fixed) == (wanted, Set(AT, "now"))
