"""Every pair of some types: if `odm check` finds nothing, or only what is safe, then stored values read as before."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, Flag, IntEnum
from functools import cache
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

from annotated_types import Predicate
from pydantic import (
    UUID4,
    AfterValidator,
    AnyUrl,
    BaseModel,
    ByteSize,
    ConfigDict,
    Field,
    FutureDate,
    HttpUrl,
    JsonValue,
    PastDate,
    PastDatetime,
    RootModel,
    StringConstraints,
    create_model,
)

from odm import Compressed, Entity, OdmError, PrimaryKey, Table
from odm.expressions.nodes import Value
from odm.schema.entity import EntitySchema
from odm.schema.lockfile import TableLock, compare, describe


class Line(BaseModel):
    text: str = "Ab"
    number: int = 0


class Longer(BaseModel):
    text: str = "Ab"
    number: int = 0
    more: int = 3


class Small(BaseModel):
    model_config = ConfigDict(str_to_lower=True)

    text: str = "Ab"
    number: int = 0


class Root(RootModel[str]):
    pass


class Short(RootModel[str]):
    model_config = ConfigDict(str_max_length=1)


class Kind(Enum):
    A = "Ab"
    B = "b"


class Number(IntEnum):
    ONE = 1


class Bits(Flag):
    ONE = 1
    TWO = 2


class Pair(NamedTuple):
    text: str
    number: int


@dataclass
class Data:
    text: str = "Ab"
    number: int = 0


NOW = datetime(2001, 1, 1, tzinfo=UTC)
VALUES: list[tuple[Any, list[Any]]] = [
    (str, ["Ab", "b", "2001-01-01", str(UUID(int=1)), "http://a.b/", "-1"]),
    (Annotated[str, Compressed("gzip")], ["Ab", "Ab" * 999]),
    (Annotated[bytes, Compressed("gzip")], [b"Ab", b"Ab" * 999]),
    (Annotated[str, StringConstraints(to_lower=True)], ["ab"]),
    (Annotated[str, StringConstraints(strip_whitespace=True)], ["ab"]),
    (Annotated[str, Field(max_length=1)], ["b"]),
    (Annotated[str, Predicate(str.istitle)], ["Ab"]),
    (Annotated[str, AfterValidator(str.swapcase)], ["aB"]),
    (int, [1, 0, -5, 10**30]),
    (Annotated[int, Field(gt=0)], [1]),
    (Annotated[int, Field(le=0)], [0]),
    (ByteSize, [ByteSize(1)]),
    (bool, [True]),
    (float, [1.5, 1.0]),
    (Decimal, [Decimal("1.5"), Decimal(1)]),
    (Annotated[Decimal, Field(max_digits=3, decimal_places=1)], [Decimal("1.5")]),
    (bytes, [b"ab"]),
    (date, [date(2001, 1, 1), date(9000, 1, 1)]),
    (PastDate, [date(2001, 1, 1)]),
    (FutureDate, [date(9000, 1, 1)]),
    (datetime, [NOW, NOW.replace(year=9000)]),
    (PastDatetime, [NOW]),
    (time, [time(1)]),
    (timedelta, [timedelta(seconds=1)]),
    (UUID, [UUID(int=1)]),
    (UUID4, [UUID("6e1d4a3c-9a0c-4a6b-8b0e-0e7a8f7d1c11")]),
    (Path, [Path("/Ab")]),
    (AnyUrl, [AnyUrl("http://a.b"), AnyUrl("ftp://a.b")]),
    (HttpUrl, [HttpUrl("http://a.b")]),
    (list[int], [[1, 1], []]),
    (list[str], [["Ab"]]),
    (list[Annotated[str, Field(max_length=1)]], [["b"]]),
    (list[date], [[date(9000, 1, 1)]]),
    (list[PastDate], [[date(2001, 1, 1)]]),
    (list[int | None], [[None]]),
    (tuple[int, ...], [(1, 2, 3)]),
    (tuple[int, int], [(1, 2)]),
    (set[int], [{1}]),
    (set[str], [{"Ab"}]),
    (dict[str, int], [{"Ab": 1, "c": 2}]),
    (dict[Kind, int], [{Kind.A: 1}]),
    (dict[str, Any], [{"text": "Ab", "number": 1}, {"x": [1]}]),
    (Any, ["Ab", 1, [1, "Ab", b"x", {"a": None}]]),
    (JsonValue, [{"a": [1, 1.5]}]),
    (Line, [Line(), Line(text="x")]),
    (Longer, [Longer()]),
    (Small, [Small()]),
    (Data, [Data()]),
    (Pair, [Pair("Ab", 1)]),
    (Root, [Root("Ab")]),
    (Short, [Short("b")]),
    (list[Line], [[Line()]]),
    (list[Small], [[Small()]]),
    (list[Line | str], [[Line(), "Ab"]]),
    (Kind, [Kind.A]),
    (list[Kind], [[Kind.A]]),
    (Number, [Number.ONE]),
    (Bits, [Bits.ONE | Bits.TWO, Bits(0)]),
    (list[Bits], [[Bits.ONE | Bits.TWO]]),
    (Literal["Ab", "b"], ["Ab", "b"]),
    (Literal["b"], ["b"]),
    (Literal[1], [1]),
    (int | str, [1, "Ab", "1"]),
    (Annotated[int | str, Field(union_mode="left_to_right")], [1, "Ab"]),
    (str | None, [None, "Ab"]),
    (int | None, [None, 1]),
    (Line | None, [None, Line()]),
]


class Keyed(Entity):
    primary = PrimaryKey("KEY")  # odm: ignore[constant-key]


@cache
def compiled(number: int) -> tuple[EntitySchema, TableLock]:
    """An entity with a field of one of the types, and its description."""
    table = Table("shop")
    cls = create_model("Thing", __base__=Keyed, __cls_kwargs__={"table": table}, value=(VALUES[number][0], ...))
    schema = table.compile()
    return schema.entity(cls), describe(schema)


def losses(old: int, new: int) -> Iterator[str]:
    """Values of the old type that the new one does not read and store again as the old one does."""
    before, after = compiled(old)[0], compiled(new)[0]
    for value in VALUES[old][1]:
        stored = before.codec.encode(before.cls.model_construct(value=value))
        expected = before.codec.encode(before.codec.decode(stored)).get("value")
        try:
            again = after.codec.encode(after.codec.decode(stored))
        except OdmError as error:
            yield f"{VALUES[old][0]} as {VALUES[new][0]}: {error}"
        else:
            if not holds(again.get("value"), expected):
                yield f"{VALUES[old][0]} as {VALUES[new][0]}: {expected} becomes {again}"


def holds(new: Value, old: Value) -> bool:
    """Whether a stored value is as before; a model may have more fields."""
    if isinstance(new, dict) and isinstance(old, dict):
        return all(name in new and holds(new[name], part) for name, part in old.items())
    if isinstance(new, list) and isinstance(old, list):
        return len(new) == len(old) and all(map(holds, new, old))
    return new == old and type(new) is type(old)


def pairs() -> Iterator[tuple[int, int, set[str]]]:
    """Each old and new type, by number, and the levels of the findings."""
    for old, new in product(range(len(VALUES)), repeat=2):
        yield old, new, {finding.level for finding in compare("shop", compiled(old)[1], compiled(new)[1])}


def test_what_is_safe_is_read_and_stored_as_before() -> None:
    safe = [(old, new) for old, new, levels in pairs() if levels <= {"safe"}]
    assert len(VALUES) < len(safe) < len(VALUES) ** 2 / 3  # else this test shows nothing
    assert [loss for old, new in safe for loss in losses(old, new)] == []


def test_most_of_what_orphans_is_lost() -> None:
    """Findings that warn of nothing are few: of what cannot be known from types alone."""
    orphans = [(old, new) for old, new, levels in pairs() if "orphans" in levels]
    assert sum(any(losses(old, new)) for old, new in orphans) > len(orphans) * 0.7
