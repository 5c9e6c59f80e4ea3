"""Keys as they are: the laws of keys, reading what a key contains, comparing templates, and texts of native keys."""

import functools
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Context, Decimal, Inexact
from enum import StrEnum
from typing import Any, Final, Literal
from uuid import UUID

import pytest
from attrs import frozen
from hypothesis import assume, example, given
from hypothesis import strategies as st

from odm import AccessPattern, Entity, KeyValueError, PrimaryKey, SchemaError, Table
from odm.keys import Op, Span, Template, can_equal, can_overlap, compile_verbatim, number_of, number_text
from odm.schema.described import forms_of
from tests.keys.cases import LAW, OPS, PROPERTY

pytestmark = pytest.mark.slow

plain = Table("plain", key_style="verbatim")


class Color(StrEnum):
    RED = "red"
    DARK_RED = "red dark"
    HASH = "#"


class Everything(Entity, table=plain):
    text: str
    other: str
    status: Literal["open", "open#2", "shipped"]
    color: Color
    level: int
    lot: int
    price: Decimal
    ratio: float
    at: datetime
    day: date
    id: UUID
    blob: bytes
    note: str
    mode: Literal["", "on"]

    primary = PrimaryKey("E#{text}", "X")


FORMS: Final = forms_of(plain.compile().entities["Everything"].codec)

_PIECES: Final = [
    "a",
    "b",
    "#",
    "##",
    "_",
    "|",
    ":",
    "::",
    ".",
    "-",
    " ",
    "%",
    "%s",
    "0",
    "1",
    "User:",
    "é",
    "\U0010ffff",
]
_LITERALS: Final = st.sampled_from(_PIECES) | st.sampled_from(["'", '"', "x#y", "\0", "~", "/", "\ud7ff"])
_TEXTS: Final = st.lists(st.sampled_from(_PIECES), min_size=1, max_size=4).map("".join) | st.text(
    min_size=1, max_size=5
)
_NUMBERS: Final = st.integers(-(10**6), 10**6) | st.integers(-12, 12)
_DECIMALS: Final = st.decimals(-200, 200, places=2) | st.integers(-20, 20).map(Decimal)
_INSTANTS: Final = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))
VALUES: Final[Mapping[str, st.SearchStrategy[Any]]] = {
    "text": _TEXTS,
    "other": _TEXTS,
    "status": st.sampled_from(["open", "open#2", "shipped"]),
    "color": st.sampled_from(Color),
    "level": _NUMBERS,
    "lot:05": st.integers(0, 99_999) | st.integers(0, 120),
    "price": _DECIMALS,
    "ratio": _DECIMALS.map(float),
    "at": _INSTANTS | st.datetimes(datetime(2024, 1, 1), datetime(2024, 1, 3), timezones=st.just(UTC)),
    "day": st.dates() | st.dates(date(2024, 1, 1), date(2024, 1, 3)),
    "id": st.uuids(),
    "note:empty": _TEXTS | st.just(""),
    "mode:empty": st.sampled_from(["", "on"]),
}
_FIXED: Final = ("lot:05", "at", "day", "id")
"""The placeholders behind which no literal is needed, because their texts have one width."""

_ORDERED: Final = ("text", "other", "lot:05", "at", "day", "id", "note:empty")
_FREE: Final = ("text", "other", "note")
"""The fields of any text."""


@functools.cache
def compiled(text: str) -> Template:
    return compile_verbatim(text, Everything.model_fields, FORMS, owner="Everything.p")


@st.composite
def _templates(draw: st.DrawFn) -> Template:
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), max_size=3, unique=True))
    literals = [draw(st.just("") | _LITERALS if name in _FIXED else _LITERALS) for name in ("", *names)]
    if names:
        literals[0], literals[-1] = draw(st.just("") | _LITERALS), draw(st.just("") | _LITERALS)
    text = literals[0] + "".join(f"{{{name}}}{literal}" for name, literal in zip(names, literals[1:], strict=True))
    assume(text not in ("{note:empty}", "{mode:empty}"))  # the whole key, which cannot be empty
    return compiled(text)


TEMPLATES: Final = _templates()


@frozen
class Drawn:
    """A template, and two lists of values that it can write; about half of the values are the same in both."""

    template: Template
    one: dict[str, Any]
    other: dict[str, Any]


@st.composite
def drawn(draw: st.DrawFn) -> Drawn:
    template = draw(TEMPLATES)
    one = _values(draw, template)
    return Drawn(template, one, _values(draw, template, one))


def _values(draw: st.DrawFn, template: Template, like: Mapping[str, Any] | None = None) -> dict[str, Any]:
    found = {}
    for placeholder in VALUES:
        name = placeholder.partition(":")[0]
        if name in template.fields:
            found[name] = like[name] if like and draw(st.booleans()) else draw(VALUES[placeholder], label=name)
    assume(_key(template, found) is not None)
    return found


def _key(template: Template, values: Mapping[str, Any]) -> str | None:
    """The key; None if it is refused."""
    try:
        return template.encode(values)
    except KeyValueError:
        return None


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: FORMS[name].dump(value) for name, value in values.items()}


def _inside(span: Span, key: str | None) -> bool:
    return key is not None and span.lo <= key and (span.hi is None or key < span.hi)


@LAW
@given(drawn())
def test_different_values_give_different_keys(case: Drawn) -> None:
    same = _key(case.template, case.one) == _key(case.template, case.other)
    assert same == (_stored(case.one) == _stored(case.other))


@LAW
@given(drawn(), st.integers(0, 3))
def test_keys_that_share_leading_values_are_one_range(case: Drawn, count: int) -> None:
    leading = case.template.fields[:count]
    span = case.template.span({name: case.one[name] for name in leading})
    shared = all(FORMS[name].dump(case.one[name]) == FORMS[name].dump(case.other[name]) for name in leading)
    assert _inside(span, _key(case.template, case.one))
    assert _inside(span, _key(case.template, case.other)) == shared


@LAW
@given(drawn())
def test_reading_is_the_opposite_of_writing(case: Drawn) -> None:
    key = _key(case.template, case.one)
    assert key is not None
    assert case.template.read(key) == _stored(case.one)
    assert case.template.written(_stored(case.one)) == key


@LAW
@given(drawn(), TEMPLATES)
def test_only_keys_of_the_template_are_read(case: Drawn, other: Template) -> None:
    """What is read gives the same key again, whatever wrote it."""
    key = _key(case.template, case.one)
    assert key is not None
    found = other.read(key)
    if found is not None:
        values = {name: FORMS[name].load(value) for name, value in found.items()}
        assert other.encode(values) == other.written(found) == key


@LAW
@given(TEMPLATES, st.data())
def test_a_value_that_would_forge_is_refused(template: Template, data: st.DataObject) -> None:
    """A key that is written is read as the values that were written, whatever these contain."""
    values = {name: FORMS[name].dump(data.draw(VALUES[_placeholder(name)])) for name in template.fields}
    for name in sorted({*_FREE}.intersection(values)):
        values[name] += data.draw(st.just("") | _LITERALS) + data.draw(st.just("") | _LITERALS)
    loaded = {name: FORMS[name].load(value) for name, value in values.items()}
    key = _key(template, loaded)
    forged = template.read(template.written(values)) != values
    assert (key is None) == forged


def _placeholder(name: str) -> str:
    return next(placeholder for placeholder in VALUES if placeholder.partition(":")[0] == name)


@st.composite
def _bounded(draw: st.DrawFn) -> tuple[Drawn, int, list[tuple[Op, Any]]]:
    case = draw(drawn())
    places = [at for at, name in enumerate(case.template.fields) if _placeholder(name) in _ORDERED]
    assume(places)
    at = draw(st.sampled_from(places))
    name = case.template.fields[at]
    near = st.just(case.one[name]) | VALUES[_placeholder(name)]
    if name in _FREE:
        near |= st.builds(lambda head, tail: head + tail, st.just(case.one[name]), _LITERALS)
        near |= st.integers(0, 9).map(lambda length: str(case.one[name])[:length])
    ops: list[Op] = [*OPS, "prefix"] if name in _FREE else OPS
    return case, at, draw(st.lists(st.tuples(st.sampled_from(ops), near), min_size=1, max_size=2))


def _fits(value: Any, op: Op, bound: Any) -> bool:
    comparisons = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}
    return bool(value.startswith(bound)) if op == "prefix" else bool(comparisons[op])


@LAW
@given(_bounded())
def test_a_span_holds_the_keys_within_the_bounds(drawing: tuple[Drawn, int, Sequence[tuple[Op, Any]]]) -> None:
    """All of them; and no others, if it says so."""
    case, at, bounds = drawing
    names = case.template.fields[:at]
    span = case.template.span({name: case.one[name] for name in names}, bounds)
    field = case.template.fields[at]
    shared = all(FORMS[name].dump(case.one[name]) == FORMS[name].dump(case.other[name]) for name in names)
    wanted = shared and all(_fits(case.other[field], op, bound) for op, bound in bounds)
    inside = _inside(span, _key(case.template, case.other))
    assert inside or not wanted
    if span.exact:
        assert inside == wanted


@pytest.mark.parametrize(
    ("template", "bounds", "exact"),
    [
        ("T#{text}", [(">", "a"), ("<=", "b")], True),
        ("T#{text}#", [(">", "a")], False),
        ("T#{text}#", [("prefix", "a")], True),
        ("T#{text}#", [("prefix", "a#")], True),
        ("T#{text}::", [("prefix", "a:")], False),
        ("T#{at}#{text}", [(">=", datetime(2024, 1, 1, tzinfo=UTC))], True),
        ("T#{lot:05}x", [("<", 70)], True),
        ("T#{lot:05}{text}", [(">", 70)], True),
        ("T#{note:empty}", [(">", "")], True),
        ("T#{note:empty}", [("<=", "")], True),
        ("T#{note:empty}#", [("<=", "")], False),
        ("T#{note:empty}#", [("prefix", "")], True),
    ],
)
def test_a_range_of_values_is_exact_where_their_keys_sort_as_they_do(
    template: str, bounds: Sequence[tuple[Op, Any]], exact: bool
) -> None:
    assert compiled(template).span({}, bounds).exact is exact


@pytest.mark.parametrize(
    ("template", "values"),
    [
        ("{text}#{other}", {"text": "a#b", "other": "c"}),
        ("{text}::{other}", {"text": "a:", "other": "b"}),
        ("{text}::{other}", {"text": "a::b", "other": "c"}),
        ("{text}#", {"text": "#"}),
        ("{text}", {"text": ""}),
        ("a{mode}", {"mode": ""}),
        ("{note:empty}#{text}", {"note": "#", "text": "a"}),
        ("{note:empty}#{text}", {"note": "", "text": ""}),
        ("{color}#", {"color": Color.HASH}),
        ("{lot:05}", {"lot": 100_000}),
        ("{lot:05}", {"lot": -1}),
        ("{price:05}", {"price": Decimal("1.5")}),
        ("{price}.", {"price": Decimal("1.5")}),
        ("{level}-", {"level": -1}),
    ],
)
def test_values_that_a_key_cannot_contain(template: str, values: dict[str, Any]) -> None:
    with pytest.raises(KeyValueError, match=r"cannot stand in the key"):
        compiled(template).encode(values)


@pytest.mark.parametrize(
    ("template", "values", "key"),
    [
        ("User:{text}", {"text": "a:b #'\""}, "User:a:b #'\""),
        ("_{text}__", {"text": "_a"}, "__a__"),
        ("{at}-{text}", {"at": datetime(2024, 1, 2, tzinfo=UTC), "text": "x-y"}, "2024-01-02T00:00:00.000000Z-x-y"),
        ("{day:%Y-%m}-{text}", {"day": date(2024, 1, 2), "text": "x"}, "2024-01-x"),
        ("{id}-{level}", {"id": UUID(int=5), "level": -3}, "00000000-0000-0000-0000-000000000005--3"),
        ("{price}|{ratio}", {"price": Decimal("1.50"), "ratio": -0.0}, "1.5|0"),
        ("{lot:05}0", {"lot": 100}, "001000"),
        ("{lot:05}{text}", {"lot": 100, "text": "1"}, "001001"),
        ("{status}", {"status": "open#2"}, "open#2"),
        ("{text}/{note:empty}", {"text": "org.x", "note": ""}, "org.x/"),
        ("{note:empty}#{text}", {"note": "", "text": "1"}, "#1"),
        ("{text}#{note:empty}#{level}", {"text": "t", "note": "", "level": 1}, "t##1"),
        ("M{mode:empty}", {"mode": ""}, "M"),
        ("M{mode:empty}", {"mode": "on"}, "Mon"),
    ],
)
def test_keys_by_example(template: str, values: dict[str, Any], key: str) -> None:
    assert compiled(template).encode(values) == key
    found = compiled(template).read(key)
    assert found == {name: FORMS[name].dump(value) for name, value in values.items() if name != "day"}


@pytest.mark.parametrize(
    ("template", "key"),
    [
        ("E#{level}", "E#007"),
        ("E#{level}", "E#-0"),
        ("E#{level}", "E#" + "9" * 5000),
        ("E#{level}", "E#٣"),
        ("E#{ratio}", "E#1" + "0" * 400),
        ("E#{level}", "E#1.5"),
        ("E#{lot:05}", "E#0001"),
        ("E#{lot:05}", "E#000001"),
        ("E#{day}", "E#2024-13-01"),
        ("E#{day}", "E#2024-1-1"),
        ("E#{id}", "E#5"),
        ("E#{id}", "E#00000000-0000-0000-0000-00000000000A"),
        ("E#{status}", "E#closed"),
        ("E#{text}", "E#"),
        ("E#{mode}", "E#"),
        ("E#{note:empty}#", "E#"),
        ("E#{text}", "F#a"),
        ("E#{text}#", "E#a#b#"),
        ("E#{text}#", "E#a"),
        ("{day:%Y-%m}#{text}", "hello#x"),
        ("{day:%Y-%m}#{text}", "2024-1#x"),
    ],
)
def test_what_is_not_a_key_of_the_template_is_not_read(template: str, key: str) -> None:
    assert compiled(template).read(key) is None


@PROPERTY
@given(drawn(), st.data())
def test_templates_that_write_one_key_are_found(case: Drawn, data: st.DataObject) -> None:
    key = _key(case.template, case.one)
    assert key is not None
    assume("{" not in key and "}" not in key)
    cut, end = sorted((data.draw(st.integers(0, len(key))), data.draw(st.integers(0, len(key)))))
    others = [compiled(key), compiled(key[:cut] + "{other}"), compiled("{other}" + key[end:])]
    if cut < end:
        others.append(compiled(f"{key[:cut]}{{other}}{key[end:]}"))
    for other in others:
        if other.read(key) is None:
            continue
        for check in (can_equal, can_overlap):
            assert check(case.template, other), other.text
            assert check(other, case.template), other.text


@PROPERTY
@given(drawn(), TEMPLATES)
def test_templates_are_not_alike_if_no_key_is_read_by_both(case: Drawn, other: Template) -> None:
    key = _key(case.template, case.one)
    assert key is not None
    if other.read(key) is not None:
        assert can_equal(case.template, other)
    head = other.span({}).lo
    if key.startswith(head):
        assert can_overlap(other, case.template)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("A#{text}", "B#{text}", False),
        ("A#{text}", "A#{text}#X", True),
        ("A#{text}#", "A#{text}", True),
        ("{text}#X", "{text}#Y", False),
        ("{level}", "{day}", True),
        ("{level}", "{text}x", False),
        ("{lot:05}", "{day}", False),
        ("{id}", "{at}", False),
        ("{status}", "{color}", False),
        ("{text}#{other}#X", "A#B#C#X", True),
        ("{note:empty}#X", "#X", True),
        ("{text}#X", "#X", False),
        ("A{mode:empty}", "A", True),
        ("A{mode}", "A", False),
    ],
)
def test_can_equal(a: str, b: str, expected: bool) -> None:
    assert can_equal(compiled(a), compiled(b)) is expected
    assert can_equal(compiled(b), compiled(a)) is expected


STORED: Final = st.builds(
    lambda sign, digits, exponent: Decimal((sign, tuple(map(int, str(digits))), exponent)),
    st.integers(0, 1),
    st.integers(0, 10**38 - 1) | st.integers(0, 200),
    st.integers(-167, 125) | st.integers(-3, 3),
).filter(lambda number: not number or -130 <= number.adjusted() <= 125)
"""The numbers that DynamoDB stores."""

_EXACT: Final = Context(prec=38, Emin=-130, Emax=125, traps=[Inexact])


@LAW
@given(STORED, STORED)
@example(Decimal("-0"), Decimal(0))
@example(Decimal("9.9999999999999999999999999999999999999E+125"), Decimal("1E-130"))
def test_texts_of_numbers_sort_as_the_numbers_do(one: Decimal, other: Decimal) -> None:
    assert (number_text(one) < number_text(other)) == (one < other)
    assert (number_text(one) == number_text(other)) == (one == other)


@LAW
@given(STORED)
def test_a_number_is_read_from_its_text(number: Decimal) -> None:
    found = number_of(number_text(number))
    assert found == number
    assert isinstance(found, int) == (number == number.to_integral_value())
    _EXACT.create_decimal(found)


@pytest.mark.parametrize("text", ["", "p", "o1", "p201", "p201.", "n798.7", "p201.4~", "42", "p201.4\n"])
def test_other_texts_are_no_numbers(text: str) -> None:
    with pytest.raises(ValueError, match="not the text of a number"):
        number_of(text)


def test_patterns_are_refused_that_have_no_keys_as_they_are() -> None:
    table = Table("odd", key_style="verbatim")

    class Odd(Entity, table=table):
        a: str
        primary = PrimaryKey("O#{a}", "X")
        by_a = AccessPattern("{a}{a}", "X")

    with pytest.raises(SchemaError, match=r"nothing separates \{a\} from \{a\}"):
        table.compile()


@pytest.mark.parametrize(
    ("template", "why"),
    [
        ("{text:empty}", r"\{text:empty\} is the whole of the key, which cannot be empty: drop :empty"),
        ("a{level:empty}", "no value of its type is stored as an empty text; drop :empty"),
        ("a{at:empty}", "no value of its type is stored as an empty text; drop :empty"),
        ("a{status:empty}", "no value of its type is stored as an empty text; drop :empty"),
        ("{text:empty}{other}", r"nothing separates \{text:empty\} from \{other\}"),
    ],
)
def test_formats_are_refused_that_no_value_can_use(template: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        compiled(template)
