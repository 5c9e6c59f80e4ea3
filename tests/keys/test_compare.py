"""Two templates side by side: equal keys, overlapping ranges, ambiguous heads."""

import re
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import create_model

from odm.keys import Template, can_equal, can_go_on_low, can_overlap, compile_template, heads_can_equal
from tests.keys.cases import PROPERTY, TEMPLATES, compiled, components, values_of


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("CUSTOMER#{text}", "CUSTOMER#{other}", True),
        ("CUSTOMER#{text}", "ORDER#{text}", False),
        ("CUSTOMER#{text}", "CUSTOMER#{text}#{other}", False),
        ("{text}", "PROFILE", True),
        ("{text}", "2024-01-01", True),
        ("{text}", "A#B", False),
        ("PROFILE", "PROFILE", True),
        ("PROFILE", "PROFILES", False),
        ("{symbol:<5}", "AB", False),
        ("{symbol:<5}", "ABCDE", True),
        ("{meter}", "{day}", False),
        ("{day}", "{day:%Y/%m/%d}", False),
        ("{day:%Y%m%d}", "{at:%Y%m%d}", True),
        ("{at:s}", "{at:ms}", False),
        ("{at}", "{text}", True),
        ("{status}", "open", True),
        ("{status}", "OPEN", False),
        ("{status}", "{color}", False),
        ("{status}", "{text}", True),
        ("{mark}", "{text}", True),
        ("{mark}", "{color}", True),
        ("{flag}", "{digit}", True),
        ("{flag}", "2", False),
        ("{flag}", "{id}", False),
        ("{number}", "b42", True),
        ("{number}", "42", False),
        ("{number}", "{level}", False),
        ("v{number}x", "va1x", True),
        ("v{number}x", "v1x", False),
        ("{blob}", "{id}", False),
        ("{blob}", "00ff", True),
        ("{blob}", "a", False),
        ("{blob}", "{ratio}", True),
        ("{ratio}", "{id}", False),
        ("A{level}", "A{balance}", True),
        ("A{level}", "B{balance}", False),
        ("A{text}", "AB{text}", True),
        ("A#{text}", "AB#{text}", False),
        ("{level}{flag}", "{meter}", False),
    ],
)
def test_can_equal(a: str, b: str, expected: bool) -> None:
    assert can_equal(compiled(a), compiled(b)) is expected
    assert can_equal(compiled(b), compiled(a)) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("ORDER#{text}", "ORDER#{text}#ITEM#{level}", True),
        ("ORDER#{text}#ITEM#{level}", "ORDER#{text}", True),
        ("ORDER#{text}", "ORDERS#{text}", False),
        ("ORDER#{text}", "{text}", False),
        ("ORDER#{text}", "{text}#{other}", True),
        ("ORDER#{text}", "ORDER", False),
        ("ORDER", "ORDERS", True),
        ("ORDER", "ORDER#{text}", True),
        ("ORDERS", "ORDER", False),
        ("{text}", "ANYTHING", True),
        ("v{level}", "v{number}", True),
        ("v{level}", "{status}", False),
        ("o{level}", "{status}", True),
        ("20{level}", "{at:s}#{text}", True),
        ("20{level}", "{number}", False),
        ("A#{text}", "{flag}#{text}", False),
    ],
)
def test_can_overlap(a: str, b: str, expected: bool) -> None:
    assert can_overlap(compiled(a), compiled(b)) is expected


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("TENANT#{text}", "TENANT#{text}#USER#{other}", True),
        ("TENANT#{text}", "ORG#{text}#USER#{other}", False),
        ("TENANT#{text}", "TENANT#{other}", False),
        ("{text}", "TENANT#{other}", True),
        ("{level}", "TENANT#{other}", False),
        ("T#{flag}", "T#{text}#X", True),
        ("T#{flag}", "T#{id}#X", False),
    ],
)
def test_heads_can_equal(a: str, b: str, expected: bool) -> None:
    assert heads_can_equal(compiled(a), compiled(b)) is expected
    assert heads_can_equal(compiled(b), compiled(a)) is expected


def test_more_alternatives_than_are_worth_comparing_can_be_anything() -> None:
    names = [f"C{n}" for n in range(300)]
    codes: Any = StrEnum("codes", names)  # type: ignore[misc]
    wide = compile_template("{code}", create_model("Wide", code=codes).model_fields, owner="Wide.p")
    assert can_equal(wide, compiled("PROFILE"))


@st.composite
def twins(draw: st.DrawFn) -> tuple[Template, Template, str]:
    """Two templates that can both write one key."""
    one = draw(TEMPLATES)
    values = values_of(draw, one)
    key = one.key(values)
    pieces = key.split("#")
    texts = one.template.text.split("#")
    other = [draw(st.sampled_from(spellings(piece, text))) for piece, text in zip(pieces, texts, strict=True)]
    return one.template, compiled("#".join(other)), key


def spellings(piece: str, text: str) -> list[str]:
    found = [text]
    if re.fullmatch(r"[!-~]+", piece) and not re.search(r"[${}]", piece):
        found.append(piece)
    if " " not in piece and "!" not in piece and '"' not in piece:
        found.append("{text}")
    return found


@PROPERTY
@given(twins(), components())
def test_templates_that_write_one_key_are_found(
    twin: tuple[Template, Template, str], more: tuple[str, tuple[Any, ...]]
) -> None:
    one, other, _ = twin
    assert can_equal(one, other)
    assert can_equal(other, one)
    assert can_overlap(one, other)
    assert can_overlap(other, one)
    longer = compiled(f"{other.text}#{more[0]}")
    assert heads_can_equal(one, longer)
    assert heads_can_equal(longer, one)
    assert can_overlap(one, longer)
    assert not can_equal(one, longer)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("{text}", "{symbol:<5}", True),
        ("{symbol:<5}", "{text}", False),
        ("{symbol:<5}", "{symbol:<5}", False),
        ("A#{text}", "A#{symbol:<5}#X", True),
        ("A#{text}", "B#{symbol:<5}#X", False),
        ("{text}#X", "{symbol:<5}#X", False),
        ("S", "{symbol:<5}", True),
        ("SYMBOLS", "{symbol:<5}", False),
        ("{symbol:<3}", "{symbol:<5}", True),
        ("{at:%Y%m%d}", "{at:%Y%m%d %H}", True),
        ("{at:%Y%m%d}", "{at:%Y%m%d%H}", False),
        ("{text}", "{other}", False),
        ("{text}", "{status}", False),
    ],
)
def test_can_go_on_low(a: str, b: str, expected: bool) -> None:
    assert can_go_on_low(compiled(a), compiled(b)) is expected


def test_padding_elsewhere_does_not_make_many_alternatives_low() -> None:
    names = [f"C{n}" for n in range(300)]
    codes: Any = StrEnum("codes", names)  # type: ignore[misc]
    wide = compile_template("{code}", create_model("Wide", code=codes).model_fields, owner="Wide.p")
    assert not can_go_on_low(compiled("{text}"), wide)
