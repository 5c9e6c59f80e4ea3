"""The rule ``unstable-value``: validators run on examples; those that change what they have made are reported."""

from datetime import datetime
from decimal import Decimal
from enum import Enum
from hashlib import sha256
from types import new_class
from typing import Annotated, Any, Literal, Optional, Self
from uuid import UUID

import pytest
from pydantic import (
    AfterValidator,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationInfo,
    WrapValidator,
    field_validator,
    model_validator,
)

from odm import AUTO, CreatedAt, Entity, Id, PrimaryKey, Table
from odm.schema.lint.validators import MOST


def _hashed(value: str) -> str:
    return sha256(value.encode()).hexdigest()


def _refuses(value: Any) -> Any:
    raise ValueError("no such value")


def _table(annotation: Any, default: Any = ..., **names: Any) -> Table:
    table = Table("lint")
    body = {"__module__": __name__, "__annotations__": {"id": str, "value": annotation}, **names}
    body |= {} if default is ... else {"value": default}
    body |= {"primary": PrimaryKey("THING#{id}")}
    new_class("Thing", (Entity,), {"table": table}, lambda space: space.update(body))
    return table


class Inner(BaseModel):
    code: Annotated[str, AfterValidator(_hashed)] = "a"


class Colour(Enum):
    RED = "red"


UNSTABLE: dict[str, Any] = {
    "a hash": Annotated[str, AfterValidator(_hashed)],
    "a hash of what may be absent": Optional[Annotated[str, AfterValidator(_hashed)]],  # noqa: UP045  # pyright takes no | of Annotated
    "a hash in a list": list[Annotated[str, AfterValidator(_hashed)]],
    "a hash in a nested model": Inner,
    "a hash in a dict of models": dict[str, Inner],
    "a prefix": Annotated[str, AfterValidator(lambda value: f"x-{value}")],
    "cents": Annotated[int, AfterValidator(lambda value: value * 100)],
    "a rate": Annotated[Decimal, AfterValidator(lambda value: value / 2)],
    "a wrapper": Annotated[str, WrapValidator(lambda value, handler: handler(value) + "!")],
    "a result that it refuses": Annotated[
        str, Field(max_length=20), AfterValidator(lambda value: f"{value:>20}"[:20] + "x")
    ],
    "a text that becomes a number": Annotated[int, BeforeValidator(len)],
    "an example that only the field has": Annotated[
        str, AfterValidator(lambda value: value + "x" if value.startswith("SKU-") else value), Field(examples=["SKU-1"])
    ],
}

STABLE: dict[str, Any] = {
    "none": str,
    "strip": Annotated[str, AfterValidator(str.strip)],
    "lower": Annotated[str, AfterValidator(str.lower)],
    "constraints": Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True, max_length=5)],
    "round": Annotated[float, AfterValidator(lambda value: round(value, 1))],
    "quantize": Annotated[Decimal, AfterValidator(lambda value: value.quantize(Decimal("0.01")))],
    "cut": Annotated[str, AfterValidator(lambda value: value[:3])],
    "sorted": Annotated[list[str], AfterValidator(sorted)],
    "one that refuses": Annotated[str, AfterValidator(_refuses)],
    "one that fails": Annotated[str, AfterValidator(lambda value: value.nonsense)],
    "a hash that knows its own": Annotated[
        str, AfterValidator(lambda value: value if value.startswith("h:") else f"h:{_hashed(value)}")
    ],
    "a split": Annotated[
        list[str], BeforeValidator(lambda value: value.split(",") if isinstance(value, str) else value)
    ],
    "a moment": Annotated[AwareDatetime, AfterValidator(lambda value: value.replace(microsecond=0))],
    "an id": Annotated[UUID, AfterValidator(lambda value: value)],
    "a choice": Annotated[Literal["a", "b"], AfterValidator(lambda value: "a")],
    "an enum": Annotated[Colour, AfterValidator(lambda value: value)],
    "a set": Annotated[set[int], AfterValidator(lambda value: value | {1})],
    "anything": Annotated[Any, AfterValidator(lambda value: value)],
}


@pytest.mark.parametrize("annotation", UNSTABLE.values(), ids=UNSTABLE)
def test_validators_that_change_their_result_are_reported(annotation: Any) -> None:
    [finding] = _table(annotation).lint()
    assert (finding.rule, finding.severity, finding.where) == ("unstable-value", "error", "Thing.value")


def test_the_finding_names_example_both_results_and_the_fix() -> None:
    [finding] = _table(UNSTABLE["a prefix"]).lint()
    assert finding.what == "the validator makes 'a' 'x-a'; when that is read, it makes 'x-x-a' of it"
    assert '(info.context or {}).get("odm") == "load"' in finding.fix
    [refused] = _table(UNSTABLE["a result that it refuses"]).lint()
    assert "when that is read, it is refused: 1 validation error" in refused.what
    assert "\n" not in refused.what


@pytest.mark.parametrize("annotation", STABLE.values(), ids=STABLE)
def test_others_are_not(annotation: Any) -> None:
    assert _table(annotation).lint() == []


def test_a_validator_that_returns_what_is_loaded_is_not() -> None:
    def once(value: str, info: ValidationInfo) -> str:
        return value if (info.context or {}).get("odm") == "load" else _hashed(value)

    assert _table(Annotated[str, AfterValidator(once)]).lint() == []


def test_validators_that_see_other_fields_and_the_whole_model() -> None:
    table = Table("lint")

    class Thing(Entity, table=table):
        id: str
        salt: str = "s"
        password: str = ""
        total: int = 0
        calm: str = ""
        created: Annotated[datetime, CreatedAt] = AUTO
        number: Annotated[str, Id()] = AUTO

        primary = PrimaryKey("THING#{id}")

        @field_validator("password")
        @classmethod
        def salted(cls, value: str, info: ValidationInfo) -> str:
            return _hashed(info.data.get("salt", "") + value)

        @field_validator("calm")
        @classmethod
        def looks_up(cls, value: str, info: ValidationInfo) -> str:
            return value.strip() if info.data["salt"] else value

        @model_validator(mode="after")
        def counts(self) -> Self:
            object.__setattr__(self, "total", self.total + 1)
            return self

    assert [(one.rule, one.where) for one in table.lint()] == [
        ("unstable-value", "Thing.password"),
        ("unstable-value", "Thing.total"),
    ]


def test_a_comment_or_option_suppresses_it_and_the_option_runs_no_validator() -> None:
    runs: list[str] = []

    def noted(value: str) -> str:
        runs.append(value)
        return value + "x"

    table = _table(Annotated[str, AfterValidator(noted)])
    assert table.lint(ignore=["unstable-value"]) == []
    assert runs == []
    assert [one.rule for one in table.lint()] == ["unstable-value"]
    assert runs == ["a", "ax"]  # it stops at the first


def test_the_number_of_examples_is_bounded() -> None:
    runs: list[Any] = []

    def noted(value: Any) -> Any:
        runs.append(value)
        return value

    text = Annotated[str, AfterValidator(noted), Field(examples=[f"e{n}" for n in range(100)])]
    assert _table(text).lint() == []
    assert len(runs) == 2 * MOST


def test_a_table_runs_no_validator_before_lint_is_called() -> None:
    runs: list[Any] = []

    def noted(value: Any) -> Any:
        runs.append(value)
        return value

    _table(Annotated[str, AfterValidator(noted)]).compile()
    assert runs == []
