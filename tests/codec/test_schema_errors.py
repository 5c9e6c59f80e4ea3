"""Types that cannot be stored are refused when the entity is compiled: class, field, type and fix are named."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, Optional
from uuid import UUID

import pytest
from pydantic import (
    Base64Bytes,
    BaseModel,
    ConfigDict,
    Field,
    Json,
    NaiveDatetime,
    PlainSerializer,
    RootModel,
    SecretStr,
    ValidationInfo,
    create_model,
    field_validator,
)
from pydantic_core import SchemaError as BuildError
from pydantic_core import core_schema
from typing_extensions import TypedDict

from odm.codec import compile_codec
from odm.codec.types.validation import validator_of
from odm.entities.markers import TTL, Stored
from odm.errors import BadValue, SchemaError


class Odd(Enum):
    PAIR = (1, 2)


class Text(Enum):
    A = "a"


class Box(BaseModel):
    x: int


class Crate(BaseModel):
    x: int = 0


class Shape(TypedDict):
    x: int


class Tags(RootModel[set[str]]):
    pass


class Inner(BaseModel):
    tags: set[str] | None = None


REFUSED: list[tuple[Any, str, str]] = [
    (complex, "complex", "declare"),
    (SecretStr, "SecretStr", "declare"),
    (NaiveDatetime, "NaiveDatetime", "AwareDatetime"),
    (Sequence[int], "collections.abc.Sequence[int]", "declare"),
    (Mapping[str, int], "collections.abc.Mapping[str, int]", "declare"),
    (Shape, "Shape", "declare"),
    (Odd, "Odd", "give its members"),
    (Json[int], "Order.value: int with Json", "declare the decoded type"),
    (Base64Bytes, "bytes", "declare the decoded type"),
    (list[Base64Bytes], "bytes", "declare the decoded type"),
    (dict[int, str], "dict[int, str]", "declare the keys as str"),
    (dict[UUID, str], "dict[uuid.UUID, str]", "declare the keys as str"),
    (set[bool], "set[bool]", "declare a list"),
    (set[int | str], "set[int | str]", "declare a list"),
    (frozenset[tuple[int, ...]], "frozenset[tuple[int, ...]]", "declare a list"),
    (set[Any], "set[Any]", "declare a list"),
    (set[str] | None, "set[str] | None", "declare set[...] = set()"),
    (Optional[Annotated[set[str], Field(max_length=3)]], "Annotated", "set()"),  # noqa: UP045  # pyright
    (set[str] | int, "set[str] | int", "set()"),
    (list[set[str] | None], "set[str] | None", "set()"),
    (Tags, "Tags", "declare the field as a set"),
    (str | datetime, "str | datetime.datetime", "stored alike"),
    (UUID | str | None, "uuid.UUID | str | None", "stored alike"),
    (Text | str, "Text and str", "stored alike"),
    (float | Decimal, "float | decimal.Decimal", "stored alike"),
    (timedelta | int, "timedelta and int", "stored alike"),
    (list[int] | list[str], "list[int] | list[str]", "stored alike"),
    (list[int] | tuple[int, ...], "list[int] | tuple[int, ...]", "stored alike"),
    (Box | Crate, "Box and Crate", "Literal field"),
    (Box | dict[str, int], "Box and dict[str, int]", "stored alike"),
    (Literal["a"] | datetime, "datetime", "stored alike"),
]


@pytest.mark.parametrize(("annotation", "shown", "fix"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_a_type_that_can_not_come_back(annotation: Any, shown: str, fix: str) -> None:
    model = create_model("Order", value=(annotation, ...))
    with pytest.raises(SchemaError) as caught:
        compile_codec(model, "Order")
    message = str(caught.value)
    assert "Order.value: " in message
    assert shown in message
    assert fix in message


def test_a_serializer_that_does_not_apply_is_reported() -> None:
    model = create_model("Order", value=(Annotated[int, PlainSerializer(str)], ...))
    with pytest.warns(UserWarning, match=r"Order\.value: PlainSerializer does not apply to stored items"):
        compile_codec(model, "Order")


def test_a_fault_in_a_nested_model_names_that_model() -> None:
    with pytest.raises(SchemaError, match=r"Inner\.tags: set\[str\] \| None .*declare set"):
        compile_codec(create_model("Order", lines=(list[Inner], [])), "Order")


@pytest.mark.parametrize(
    ("annotation", "default", "why"),
    [
        (set[str], {"new"}, "absent set always reads as the empty set"),
        (int, "5", "not of type int"),
        (datetime, datetime(2020, 1, 1), "no time zone"),
        (list[str], [1], "not of type str"),
        (Decimal, 0.5, "not of type Decimal"),
    ],
)
def test_a_default_that_could_not_be_stored(annotation: Any, default: Any, why: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_codec(create_model("Order", value=(annotation, default)), "Order")
    assert "Order.value" in str(caught.value)
    assert why in str(caught.value)


def test_a_validated_default_is_left_to_pydantic() -> None:
    class Order(BaseModel):
        model_config = ConfigDict(validate_default=True)
        total: Decimal = "1.5"  # type: ignore[assignment]

    codec = compile_codec(Order, "Order")
    assert codec.decode(codec.encode(Order())) == Order()


def test_two_fields_of_one_stored_name() -> None:
    class Order(BaseModel):
        a: int
        b: Annotated[int, Stored("a")]

    with pytest.raises(SchemaError, match=r"Order\.b and Order\.a .*'a'"):
        compile_codec(Order, "Order")


def test_ttl_marks_a_datetime() -> None:
    class Order(BaseModel):
        expires: Annotated[int, TTL]

    with pytest.raises(SchemaError, match=r"Order\.expires: TTL marks a datetime"):
        compile_codec(Order, "Order")


def test_an_undefined_name() -> None:
    class Order(BaseModel):
        line: "Nowhere"  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(SchemaError, match=r"Order refers to 'Nowhere'"):
        compile_codec(Order, "Order")


def test_an_own_init_with_aliases_must_take_names() -> None:
    class Order(BaseModel):
        total: int = Field(alias="Total")

        def __init__(self, **data: Any) -> None:
            super().__init__(**data)

    with pytest.raises(SchemaError, match=r"Order\.total: .*validate_by_name=True"):
        compile_codec(Order, "Order")


def test_a_validator_that_needs_other_fields_says_so() -> None:
    class Span(BaseModel):
        start: int
        end: int

        @field_validator("end")
        @classmethod
        def later(cls, value: int, info: ValidationInfo) -> int:
            assert value > info.data["start"]
            return value

    codec = compile_codec(Span, "Span")
    assert codec.decode(codec.encode(Span(start=1, end=2))) == Span(start=1, end=2)
    with pytest.raises(BadValue, match=r"Span\.end: its validator looks up the field 'start'"):
        codec.validate("end", 5)


class Interrupting:
    @property
    def value(self) -> object:
        raise KeyboardInterrupt


def test_an_interrupt_while_a_validator_is_built_is_an_interrupt() -> None:
    with pytest.raises(KeyboardInterrupt):
        validator_of(core_schema.enum_schema(Interrupting, [Interrupting()]))
    with pytest.raises(BuildError):
        validator_of(core_schema.enum_schema(Interrupting, []))
