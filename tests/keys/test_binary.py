"""Binary parts of row keys: their bytes, and the laws of keys, with text of any language around them."""

import functools
import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, Final
from uuid import UUID

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odm import Cell, Entity, KeyValueError, PrimaryKey, SchemaError, Stored, Table
from odm.keys import Op, Template, compile_verbatim
from odm.schema.described import forms_of
from tests.keys.cases import LAW, OPS

pytestmark = pytest.mark.slow

MOST: Final = 2**63 - 1
table = Table("binary", row_style="verbatim")


class Everything(Entity, table=table):
    text: str
    other: str
    number: int
    small: int
    on: Annotated[bool, Stored(format="number")]
    at: Annotated[datetime, Stored(epoch="ms")]
    hash: bytes
    tail: bytes
    id: Annotated[UUID, Stored(format="bytes")]
    ratio: float
    value: Annotated[int, Cell("d:value", "int64be")] = 0

    primary = PrimaryKey("{text}", "{at:int64be}")


FORMS: Final = forms_of(table.compile().entities["Everything"].codec)


@functools.cache
def compiled(text: str) -> Template:
    return compile_verbatim(text, Everything.model_fields, FORMS, owner="Everything.p", binary=True)


def millis(at: datetime) -> int:
    return round(at.timestamp() * 1000)


TEXTS: Final = st.text(min_size=1, max_size=4) | st.text("aé\xff\0#\ud7ff\U0010ffff", min_size=1, max_size=4)
BYTES: Final = st.binary(min_size=1, max_size=4) | st.text("\0\1aé\xff#", min_size=1, max_size=3).map(
    lambda text: text.encode("latin-1")
)
NUMBERS: Final = st.integers(0, 300) | st.integers(0, MOST)
TIMES: Final = (
    st.integers(0, 4 * 10**12)
    .map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC))
    .filter(lambda at: at.microsecond % 1000 == 0)
)

PARTS: Final[Mapping[str, tuple[st.SearchStrategy[Any], Callable[[Any], bytes]]]] = {
    "text": (TEXTS, str.encode),
    "other:empty": (TEXTS | st.just(""), str.encode),
    "number:int64be": (NUMBERS, struct.Struct(">q").pack),
    "number:int64be:desc": (NUMBERS, lambda number: struct.pack(">q", MOST - number)),
    "number:uint64be": (NUMBERS | st.integers(0, 2**64 - 1), struct.Struct(">Q").pack),
    "number": (NUMBERS, lambda number: str(number).encode()),
    "small:uint8": (st.integers(0, 255), struct.Struct(">B").pack),
    "small:int8": (st.integers(0, 127), struct.Struct(">b").pack),
    "small:uint16be:desc": (st.integers(0, 2**16 - 1), lambda number: struct.pack(">H", 2**16 - 1 - number)),
    "small:int16be": (st.integers(0, 2**15 - 1), struct.Struct(">h").pack),
    "small:int32be": (st.integers(0, 2**31 - 1), struct.Struct(">i").pack),
    "small:uint32be": (st.integers(0, 2**32 - 1), struct.Struct(">I").pack),
    "on:uint8": (st.booleans(), struct.Struct(">B").pack),
    "at:int64be": (TIMES, lambda at: struct.pack(">q", millis(at))),
    "at:int64be:desc": (TIMES, lambda at: struct.pack(">q", MOST - millis(at))),
    "hash:bytes2": (st.binary(min_size=2, max_size=2), bytes),
    "id:bytes16": (st.uuids(), lambda id: id.bytes),
    "tail:bytes": (BYTES, bytes),
}
"""By placeholder: its values, and the bytes of each."""

LITERALS: Final = st.sampled_from(["#", "\0", "é", "::", "a", "\xff", "~é~"])


@st.composite
def templates(draw: st.DrawFn) -> str:
    """A template in which only the last part may be bytes of any number, and a literal follows each text."""
    parts = draw(st.lists(st.sampled_from(sorted({*PARTS} - {"tail:bytes"})), min_size=1, max_size=3))
    names = [part.partition(":")[0] for part in parts]
    assume(len({*names}) == len(names))
    text = draw(st.just("") | LITERALS)
    for part in parts:
        fixed = ":" in part and not part.endswith(":empty")
        text += f"{{{part}}}" + draw(st.just("") | LITERALS if fixed else LITERALS)
    return text + "{tail:bytes}" * draw(st.booleans())


def placeholders(text: str) -> list[str]:
    return [piece.partition("}")[0] for piece in text.split("{")[1:]]


def expected(text: str, values: Mapping[str, Any]) -> bytes:
    """The row key that another program makes."""
    first, *pieces = text.split("{")
    key = first.encode()
    for piece in pieces:
        name, _, literal = piece.partition("}")
        key += PARTS[name][1](values[name.partition(":")[0]]) + literal.encode()
    return key


def drawn_values(data: st.DataObject, text: str) -> dict[str, Any]:
    return {name.partition(":")[0]: data.draw(PARTS[name][0], label=name) for name in placeholders(text)}


def key_of(template: Template, values: Mapping[str, Any]) -> str | None:
    try:
        return template.encode(values)
    except KeyValueError:
        return None


def stored(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: FORMS[name].dump(value) for name, value in values.items()}


@LAW
@given(templates(), st.data())
def test_keys_have_the_bytes_of_other_programs(text: str, data: st.DataObject) -> None:
    """Such a key is read as the values that it was made of; a text that would end too early is refused."""
    template, values = compiled(text), drawn_values(data, text)
    key = key_of(template, values)
    assume(key is not None)
    assert key is not None
    assert key.encode("latin-1") == expected(text, values)
    assert template.read(key) == stored(values)
    assert template.written(stored(values)) == key


@LAW
@given(templates(), st.binary(max_size=24))
def test_any_bytes_are_read_or_are_of_no_entity(text: str, key: bytes) -> None:
    """What is read gives the same key again."""
    template = compiled(text)
    found = template.read(key.decode("latin-1"))
    if found is not None:
        values = {name: FORMS[name].load(value) for name, value in found.items()}
        assert template.encode(values) == key.decode("latin-1")


@LAW
@given(templates(), st.data())
def test_a_range_has_the_values_within_its_bounds(text: str, data: st.DataObject) -> None:
    template = compiled(text)
    one, other = drawn_values(data, text), drawn_values(data, text)
    at = data.draw(st.integers(0, len(template.fields) - 1))
    name = template.fields[at]
    other |= {leading: one[leading] for leading in template.fields[:at]}
    bound = data.draw(st.just(one[name]) | PARTS[placeholders(text)[at]][0])
    ops: Sequence[Op] = [*OPS, "prefix"] if isinstance(bound, str | bytes) else OPS
    op = data.draw(st.sampled_from(ops))
    key = key_of(template, other)
    assume(key is not None and placeholders(text)[at] != "number")  # digits without zeros have no range
    assert key is not None
    if op == "prefix" and isinstance(bound, bytes):
        bound = bound[: data.draw(st.integers(0, len(bound)))]
    span = template.span({leading: one[leading] for leading in template.fields[:at]}, [(op, bound)])
    value = other[name]
    fits = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}
    inside = span.lo <= key and (span.hi is None or key < span.hi)
    assert inside or not (value.startswith(bound) if op == "prefix" else fits[op])
    if span.exact:
        assert inside == (value.startswith(bound) if op == "prefix" else fits[op])


@LAW
@given(st.binary(min_size=2, max_size=2), st.binary(max_size=4), st.sampled_from(OPS))
def test_bounds_of_another_length(value: bytes, bound: bytes, op: Op) -> None:
    template = compiled("{hash:bytes2}#{small:uint8}")
    span = template.span({}, [(op, bound)])
    for small in (0, 255):
        key = template.encode({"hash": value, "small": small})
        assert key is not None
        fits = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[op]
        assert (span.lo <= key and (span.hi is None or key < span.hi)) == fits
        assert span.exact


@pytest.mark.parametrize("template", ["{small:uint8}{tail:bytes}", "{small:uint8:desc}{tail:bytes}"])
@pytest.mark.parametrize("bound", [-(2**70), -1, -0.5, 0, 1.5, 254.5, 255, 255.5, 2**70])
@pytest.mark.parametrize("op", OPS)
def test_bounds_that_are_no_value_of_the_form(template: str, bound: float, op: Op) -> None:
    span = compiled(template).span({}, [(op, bound)])
    for value in (0, 1, 2, 254, 255):
        key = compiled(template).encode({"small": value, "tail": b"\xff"})
        assert key is not None
        fits = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[op]
        assert (span.lo <= key and (span.hi is None or key < span.hi)) == fits


@pytest.mark.parametrize(
    ("template", "values", "fault"),
    [
        ("{number:int64be}", {"number": -1}, "field of type bytes with the format bytes8"),
        ("{number:int32be:desc}", {"number": 2**31}, "not from 0 to 2147483647"),
        ("{at:uint32be}", {"at": datetime(1969, 1, 1, tzinfo=UTC)}, "not from 0 to"),
        ("{hash:bytes4}", {"hash": b"abc"}, "has 3 bytes; give 4"),
        ("{tail:bytes}", {"tail": b""}, "has 0 bytes; give one"),
        ("{text}é{number:uint8}", {"text": "é", "number": 1}, "it contains"),
    ],
)
def test_values_that_have_no_such_bytes(template: str, values: dict[str, Any], fault: str) -> None:
    with pytest.raises(KeyValueError, match=fault):
        compiled(template).encode(values)


@pytest.mark.parametrize(
    ("template", "fault"),
    [
        ("{text:int64be}", "is for an int"),
        ("{ratio:int64be}", "is for an int"),
        ("{number:bytes8}", "a field of type bytes, or a UUID"),
        ("{tail:bytes}#", "say how many"),
        ("{tail:bytes}{number}", "put a literal between them, or give the first a fixed width"),
        ("{hash:bytes5000}", "at most 4096 bytes"),
        ("{hash}", r"bytes as in \{hash:bytes4\}"),
        ("{number:float64be}", "these are int64be"),
        ("{number:int24be}", "these are int64be"),
        ("{number:int64le}", "these are int64be"),
    ],
)
def test_formats_that_a_field_does_not_have(template: str, fault: str) -> None:
    with pytest.raises(SchemaError, match=fault):
        compiled(template)


@pytest.mark.parametrize("key_style", ["verbatim", "escaped"])
def test_only_rows_of_other_programs_have_binary_parts(key_style: Any) -> None:
    own = Table("own", key_style=key_style)

    class Own(Entity, table=own):
        id: int

        primary = PrimaryKey("OWN#{id:int64be}")

    with pytest.raises(SchemaError, match='row_style="verbatim"'):
        own.compile()
