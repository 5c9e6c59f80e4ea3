"""The lock file as text: the same in every run, complete, and refused when it is not one."""

import copy
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Flag
from functools import partial
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, NamedTuple, Optional, Self, TypeVar
from uuid import UUID

import pytest
from annotated_types import Predicate
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from pydantic import (
    UUID4,
    AfterValidator,
    AnyUrl,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    EmailStr,
    Field,
    PastDate,
    PlainSerializer,
    RootModel,
    SkipValidation,
    StringConstraints,
    Tag,
    UrlConstraints,
    ValidationError,
    WithJsonSchema,
    create_model,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from typing_extensions import TypeAliasType

from odm import BadValue, Entity, PrimaryKey, Table
from odm.keys import compile_template
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.lockfile import FORMAT, LockFile, TableLock, compare, describe, plain, read_lock, write_lock
from odm.schema.lockfile.describe import limits_of
from odm.schema.model import Schema
from tests.schema.lock_models import CUSTOMER, LINE, MODEL, Model, configured, model

ROOT = Path(__file__).parents[2]


def lock_of(of: Model) -> LockFile:
    return LockFile(format=FORMAT, tables={of.table.name: describe(of.table.compile())})


def test_text_and_back() -> None:
    lock = lock_of(model())
    text = write_lock(lock)
    assert read_lock(text, "odm.lock") == lock
    assert write_lock(read_lock(text, "odm.lock")) == text
    assert text.endswith("}\n")
    flagged = write_lock(lock_of(model(configured(CUSTOMER, "str_to_lower=True"))))
    assert '"str_to_lower": true' in write_lock(read_lock(flagged, "odm.lock"))
    assert json.loads(text)["format"] == FORMAT


def test_a_lock_file_names_transactions_only_if_there_are_some() -> None:
    with_ = model(('Table("shop")', 'Table("shop", transactions=True)'))
    text, without = write_lock(lock_of(with_)), write_lock(lock_of(model()))
    assert read_lock(text, "odm.lock").tables["shop"].transactions is True
    assert write_lock(read_lock(text, "odm.lock")) == text
    assert "transactions" not in without
    assert read_lock(without, "odm.lock").tables["shop"].transactions is False


def test_the_text_is_the_same_in_every_run(tmp_path: Path) -> None:
    source = MODEL.replace('field("status") == "open"', 'is_in(field("status"), ["open", "closed"])').replace(
        "    note: str", '    tags: set[str] = set()\n    by_tags = AccessPattern("T#{note}", when=TAGS)\n    note: str'
    )
    program = (
        "from tests.schema import lock_models as m\n"
        'm.HEAD += \'from odm import is_in\\nTAGS = field("tags") == {"a", "b", "c", "d"}\\n\'\n'
        "from odm.schema.lockfile import *\n"
        f"found = m.model(source={source!r})\n"
        "print(write_lock(LockFile(format=1, tables={'shop': describe(found.table.compile())})))"
    )
    texts = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(texts) == 1
    assert "tags = {'a', 'b', 'c', 'd'}" in texts.pop()


def places(value: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The paths of all parts of a JSON value."""
    if isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield (*above, key)
            yield from places(value[key], (*above, key))


def variants(value: Any) -> Iterator[Any]:
    """The JSON value with one part left out, or one scalar altered."""
    for *above, last in places(value):
        for alter in (False, True):
            variant = copy.deepcopy(value)
            parent = variant
            for key in above:
                parent = parent[key]
            if not alter:
                del parent[last]
            elif not isinstance(parent[last], dict | list):
                parent[last] = altered(parent[last])
            yield variant


def altered(value: Any) -> Any:
    return not value if isinstance(value, bool) else value + 1 if isinstance(value, int) else f"{value}x"


def test_no_difference_is_overlooked() -> None:
    """Whatever differs between two descriptions, `compare` says something, in both directions."""
    rich = model(
        ('Table("shop")', 'Table("shop", transactions=True)'),
        ("ends_at: datetime | None", "ends_at: Annotated[datetime | None, TTL]"),
        ("visits: int", "visits: Annotated[int, Counter]"),
        ("    email: str", '    mail: Annotated[str, Stored("email"), AfterValidator(str.lower)]'),
        ("{email}", "{mail}"),
        ("email=", "mail="),
        configured(LINE, "str_max_length=40"),
        configured(CUSTOMER, "str_strip_whitespace=True, use_enum_values=True"),
        ("    lines: list", "    past: PastDate | None = None\n    lines: list"),
        ("    gone_at:", "    tags: Annotated[set[str], Columns] = set()\n    gone_at:"),
        ("    note: str", '    revision: Annotated[int, Revision] = 0\n    note: Annotated[str, Stored("n")]'),
    )
    whole = plain(lock_of(rich))["tables"]["shop"]
    before = TableLock.model_validate(whole)
    changed = 0
    for variant in variants(whole):
        try:
            after = TableLock.model_validate(variant)
        except ValidationError:
            continue  # a part that must be there
        if after != before:
            changed += 1
            assert compare("shop", before, after)
            assert compare("shop", after, before)
    assert changed > 100


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "Expecting value: line 1 column 1"),
        ('{"format": 1,\n<<<<<<< HEAD\n', "line 2"),
        ("[]", "at the top"),
        ("{}", "at format"),
        ('{"format": "new", "tables": {}}', "at format"),
        ('{"format": 1}', "at tables"),
        ('{"format": 1, "tables": {"shop": {"keys": "pk", "entities": {}}}}', "at tables.shop.keys"),
        ('{"format": 1, "tables": {}, "more": 1}', "at more"),
    ],
)
def test_what_is_no_lock_file_is_refused(text: str, why: str) -> None:
    with pytest.raises(BadValue, match=f"^the.lock is not a lock file of odm, or it is damaged: .*{why}.*; restore it"):
        read_lock(text, "the.lock")


def test_a_newer_lock_file_is_refused_whatever_is_in_it() -> None:
    with pytest.raises(BadValue, match=r"the.lock was written by a newer odm: it has format 3, and this odm reads 2"):
        read_lock('{"format": 3, "shards": []}', "the.lock")


class Color(Flag):
    RED = 1
    BLUE = 2


class Point(NamedTuple):
    x: int
    y: Decimal


class Names(RootModel[list[str]]):
    pass


class Node(BaseModel):
    name: str
    children: "list[Node]" = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    tricks: set[str] = set()


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "str"),
        (Optional[int], "int"),  # noqa: UP045  # None has a flag of its own
        (Decimal, "Decimal"),
        (UUID, "UUID"),
        (IPv4Address, "IPv4Address"),
        (list[int | None], "list[int | None]"),
        (tuple[int, ...], "list[int]"),
        (tuple[int, str], "tuple[int, str]"),
        (Point, "tuple[x: int, y: Decimal]"),
        (dict[str, bytes], "dict[str, bytes]"),
        (Names, "list[str]"),
        (Color, "int"),
        (list[Literal["b", "a"]], "list[str of 'a', 'b']"),
        (Literal["a", 1], "int | str"),
        (str | int, "int | str"),
        (Any, "Any"),
        (Cat, "model"),
        (Dog | Cat, "model | model"),
        (list[Node], "list[model]"),
    ],
)
def test_types_are_described_by_what_is_stored(annotation: Any, text: str) -> None:
    described = described_as(annotation)
    assert described["type"] == text


class Keyed(Entity):
    id: str

    primary = PrimaryKey("{id}")


def described_as(annotation: Any, default: Any = ...) -> Any:
    table = Table("shop")
    create_model("Thing", __base__=Keyed, __cls_kwargs__={"table": table}, value=(annotation, default))
    return describe(table.compile()).entities["Thing"].model_dump(exclude_defaults=True)["fields"]["value"]


def test_a_model_within_itself_is_described_once() -> None:
    [node] = described_as(Node)["models"]
    assert node == {
        "name": {"type": "str"},
        "children": {"type": "list[model, as 1 above]", "absent": "default", "default": "[]"},
    }


def test_values_of_an_enum_are_described_and_sorted() -> None:
    assert described_as(Literal["b", "a"] | None)["values"] == ("a", "b")
    assert described_as(Literal["b", "a"] | None)["optional"] is True


T = TypeVar("T", bound=Annotated[int, Field(le=9)])


class Short(RootModel[str]):
    model_config = ConfigDict(str_max_length=3, str_min_length=0, title="Short")


class Fine(NamedTuple):
    name: str
    size: Annotated[int, Field(gt=0)]


class Bounded(RootModel[T], Generic[T]):
    pass


class Web(AnyUrl):
    _constraints = UrlConstraints(allowed_schemes=["http"])


Tree = TypeAliasType("Tree", "list[Tree] | Annotated[int, Field(le=9)]")


@pytest.mark.parametrize(
    ("annotation", "limits"),
    [
        (Annotated[int, Field(le=9)] | None, {"le": 9}),  # pyright: ignore[reportOperatorIssue]  # at run time it is a type
        (list[Annotated[int, Field(le=9)]], {"[0].le": 9}),
        (
            dict[Annotated[str, Field(max_length=9)], list[Annotated[int, Field(le=9)]]],
            {"[0].max_length": 9, "[1][0].le": 9},
        ),
        (Annotated[int, Field(le=9)] | Annotated[str, Field(pattern="x")], {"[0].le": 9, "[1].pattern": "x"}),
        (
            Annotated[Decimal, Field(max_digits=5, decimal_places=2)],
            {"max_digits": 5, "decimal_places": 2, "max_whole_digits": 3},
        ),
        (Annotated[float, Field(ge=float("-inf"), le=float("nan"))], {"ge": "-inf", "le": "nan"}),
        (Literal["a"], None),
        (Tree, {"[1].le": 9}),
        (Annotated[str, StringConstraints(to_lower=True)], {"to_lower": True}),
        (Annotated[int, Predicate(bool)], {"predicate": "bool"}),
        (dict[str, PastDate | None], {"[1].past": True}),
        (Short, {"str_max_length": 3}),
        (list[Short], {"[0].str_max_length": 3}),
        (Fine, {"[1].gt": 0}),
        (Bounded, {"le": 9}),
        (Color, {"boundary": "strict"}),
        (list[Color], {"[0].boundary": "strict", "[0].flags": 3}),
        (Annotated[str | int, Field(union_mode="left_to_right")], {"union_mode": "left_to_right of str, int"}),
        (Annotated[list[int], Field(fail_fast=True, strict=True)], None),
    ],
)
def test_limits_are_described_with_their_places(annotation: Any, limits: Any) -> None:
    assert described_as(annotation).get("limits") == limits


def test_types_that_narrow_a_type_of_the_same_form() -> None:
    """Without the package that an address needs."""
    address: Any = EmailStr
    assert limits_of(FieldInfo.from_annotation(address)) == {"email": True}


def test_the_constraints_of_a_class_of_urls() -> None:
    assert "allowed_schemes=['http']" in described_as(Web)["limits"]["url"]


def small(value: str) -> str:
    return value.lower()


class Pet(BaseModel):
    names: list[Annotated[str, AfterValidator(small)]]

    @field_validator("*", mode="before")
    @classmethod
    def listed(cls, value: Any) -> Any:
        return value

    @model_validator(mode="after")
    def complete(self) -> Self:
        return self

    def model_post_init(self, context: Any) -> None:
        pass


class Name(RootModel[str]):
    @field_validator("root")
    @classmethod
    def short(cls, value: str) -> str:
        return value[:9]


class Hook:
    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return handler(source)


@pytest.mark.parametrize(
    ("annotation", "validators"),
    [
        (str, None),
        (Annotated[str, AfterValidator(partial(small))], ("after small",)),
        (Annotated[str, BeforeValidator(lambda value: value)], ("before <lambda>",)),
        (Annotated[str, PlainSerializer(small), WithJsonSchema({}), Hook()], ("Hook",)),
        (dict[str, SkipValidation[int]], ("[1] SkipValidation",)),
        (list[Pet], ("[0] after complete", "[0] model_post_init")),
        (Name, ("after short",)),
        (list[UUID4], None),
        (Annotated[Cat | Dog, Field(discriminator="kind")], None),
        (
            Annotated[
                Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")],
                Discriminator(lambda found: found.kind),
            ],
            ("discriminator <lambda>",),
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Thing.value")
def test_code_that_runs_when_an_item_is_read_is_described_by_name(annotation: Any, validators: Any) -> None:
    described = described_as(annotation)
    assert described.get("validators") == validators


def test_validators_of_a_field_are_at_the_field() -> None:
    [pet] = described_as(Pet)["models"]
    assert pet["names"]["validators"] == ("[0] after small", "before listed")


@pytest.mark.parametrize(
    ("annotation", "default", "absent", "text"),
    [
        (int, 5, "default", "5"),
        (datetime | None, datetime(2026, 1, 1, tzinfo=UTC), "default", "'2026-01-01T00:00:00.000000Z'"),
        (set[str], set(), "default", "set()"),
        (set[str], Field(default_factory=set), "default", "set()"),
        (str | None, None, "none", None),
        (list[int], Field(default_factory=list), "default", "[]"),
        (str, Field(default_factory=partial(str, "x")), "factory", "str()"),
    ],
)
def test_defaults_are_described_as_stored(annotation: Any, default: Any, absent: str, text: str | None) -> None:
    described = described_as(annotation, default)
    assert (described.get("absent"), described.get("default")) == (absent, text)


whole_numbers = st.integers(-200, 200)


@given(low=whole_numbers, high=whole_numbers, other_low=whole_numbers, other_high=whole_numbers, value=whole_numbers)
def test_equal_encodings_write_values_alike(low: int, high: int, other_low: int, other_high: int, value: int) -> None:
    class First(BaseModel):
        n: Annotated[int, Field(ge=min(low, high), le=max(low, high))]

    class Second(BaseModel):
        n: Annotated[int, Field(ge=min(other_low, other_high), le=max(other_low, other_high))]

    one, other = (compile_template("{n}", cls.model_fields, owner="T") for cls in (First, Second))
    fits = [
        min(low, high) <= value <= max(low, high),
        min(other_low, other_high) <= value <= max(other_low, other_high),
    ]
    if all(fits):
        alike = one.encode({"n": value}) == other.encode({"n": value})
        same = one.slots[0].type.encoding == other.slots[0].type.encoding
        assert alike or not same


KNOWN: dict[type[Struct], set[str]] = {
    Schema: {"name", "prefix", "entities", "indexes", "keys", "hash_only", "row_key_join", "exclusive"}
    | {"verbatim", "tag", "ttl", "types", "keep_unknown", "wide", "families", "verbatim_rows", "transactions"}
    | {"binary_row_keys"},  # the templates say so
    EntitySchema: {
        *("cls", "tag", "primary", "patterns", "codec", "revision", "ttl", "counters", "optional", "version", "keep"),
        *("columns", "versioned", "aggregates", "blobs"),
        "automatic",  # it does not change the stored form
        "companions",
        *("match", "key_only", "family", "families", "cells", "row"),
    },
    PatternSchema: {
        *("entity", "name", "kind", "index", "partition", "sort", "when", "shared", "shards", "hashed"),
        *("projection", "computed", "fields"),
    },
}
"""The attributes that are described, or follow from what is."""


@pytest.mark.parametrize("cls", KNOWN)
def test_every_attribute_of_the_schema_was_thought_of(cls: type[Struct]) -> None:
    assert set(cls.__struct_fields__) <= KNOWN[cls]


FORMS: list[tuple[Any, list[str]]] = [
    (str, ["", ":<4", ":<5"]),
    (datetime, ["", ":s", ":ms", ":us", ":%Y", ":%Y%m", ":%Y-%m", ":desc", ":ms:desc"]),
    (date, ["", ":%Y%m%d", ":%Y", ":desc"]),
    (int, ["", ":desc"]),
    (Annotated[int, Field(ge=0, lt=10)], ["", ":desc"]),
    (Annotated[int, Field(ge=0, lt=100)], ["", ":desc"]),
    (Annotated[int, Field(ge=-5, lt=10)], [""]),
    (Annotated[Decimal, Field(decimal_places=2)], ["", ":desc"]),
    (Annotated[Decimal, Field(decimal_places=1)], [""]),
    (Annotated[Decimal, Field(decimal_places=1, ge=0, lt=10)], [""]),
    (float, ["", ":desc"]),
    (bool, ["", ":desc"]),
    (UUID, ["", ":desc"]),
    (bytes, [""]),
]


def test_different_encodings_have_different_words() -> None:
    found = []
    for annotation, forms in FORMS:
        fields = create_model("T", f=(annotation, ...)).model_fields
        found += [compile_template(f"{{f{form}}}", fields, owner="T").slots[0].type.encoding for form in forms]
    assert len({*found}) == len(found)
