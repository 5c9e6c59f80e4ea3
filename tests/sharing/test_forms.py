"""Random tables of other programs, and random models of them: no answer differs from what the entities show.

boto3 writes items to Dynoxide, and Google's client writes rows to the Bigtable emulator, with attributes of all forms.
Of every model, an item is refused (`ItemInvalid`), or each filter, condition and count has the result that Python has
for the entities, and a put after a read leaves the item unchanged, unless the plan named the attribute.
``pytest --full --times 10 tests/sharing/test_forms.py`` tries more tables.
"""

import operator
import re
import struct
from base64 import b64encode
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import cache
from itertools import count
from random import Random
from typing import Annotated, Any, Final, get_args
from uuid import UUID

import boto3
import pytest
from attrs import evolve
from google.cloud.bigtable.data import BigtableDataClient, SetCell
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from odm import (
    BadValue,
    Cell,
    ConditionFailed,
    Entity,
    ItemInvalid,
    PrimaryKey,
    SchemaError,
    Store,
    Stored,
    Table,
    Unsupported,
    exists,
    is_in,
    missing,
    not_,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin import Admin as BigtableAdmin
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin as DynamoDBAdmin
from tests.effort import times

NUMBER: Final = count()
ENCODINGS: Final = ("text", "text", "json", "bytes", "int64be", "float64be")
NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
TIMES: Final = [NOON + timedelta(microseconds=n) for n in (0, 1, 500_000, 30_000_000, 30_120_000, 86_400_000_000)]
MIDNIGHT: Final = datetime(2026, 1, 5, tzinfo=UTC)
IDS: Final = [UUID(int=n << 64 | 0xABC) for n in (1, 0xFFFF, 2**60)]


class Address(BaseModel):
    town: str
    zip: int = 0


def stored(**how: Any) -> Stored:
    return Stored(**how)


def optional(annotation: Any, *, keep: bool) -> Any:
    """The same field that may be None, and keeps NULL if it is to."""
    of, *marks = get_args(annotation) if hasattr(annotation, "__metadata__") else (annotation,)
    form = next((mark for mark in marks if isinstance(mark, Stored)), Stored())
    others = [mark for mark in marks if not isinstance(mark, Stored)]
    found = [*others, *([evolve(form, null="keep")] if keep else [form] if form != Stored() else [])]
    return Annotated[(of | None, *found)] if found else of | None


def _texts(moment: datetime) -> list[str]:
    """The texts of a time that programs in several languages write."""
    second, micro = moment.strftime("%Y-%m-%dT%H:%M:%S"), moment.strftime("%f")
    digits = "" if not moment.microsecond else f".{micro[:3]}" if micro.endswith("000") else f".{micro}"
    short = second.removesuffix(":00") if not digits else second
    go = f"{second}.{micro.rstrip('0')}Z" if moment.microsecond else f"{second}Z"
    made = [f"{second}Z", f"{second}.{micro[:3]}Z", f"{second}.{micro}Z", f"{second}{digits}Z", f"{short}{digits}Z", go]
    made += [f"{short}{digits}", moment.isoformat(), moment.replace(tzinfo=None).isoformat(), f"{second}.{micro}123Z"]
    return [*made, moment.strftime("%Y-%m-%d %H:%M:%S"), moment.strftime("%Y-%m-%d")]


def _epochs(moment: datetime) -> list[str]:
    micros = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
    parts = [Decimal(micros) / 1_000_000, Decimal(micros) / 1000, Decimal(micros), Decimal(micros) * 1000 + 1]
    return [f"{part.normalize():f}" for part in (*parts, Decimal(micros) * 1000, Decimal(micros // 86_400_000_000))]


TEXTS: Final[dict[str, list[str]]] = {
    "number": ["100", "1.50", "1.5", "0", "-2", "007", "1e3", "12345678901234567890.5"],
    "bool": ["true", "false", "yes", "no", "1", "0", "True"],
    "time": [text for moment in (*TIMES, MIDNIGHT) for text in _texts(moment)],
    "id": [form for one in IDS for form in (str(one), str(one).upper(), one.hex)],
    "bytes": [b64encode(data).decode() for data in (b"", b"hello", b"\xff\xfe\xfd")] + ["aGk", "6869"],
    "nested": ['{"town":"Rome","zip":7}', '{"town": "Rome", "zip": 7}', "[1,2]", '{"zip":1.0}', '"\\u00e9"', "{"],
    "text": ["", "a", "b", "\u00e9", "z"],
}
ATTRIBUTES: Final[dict[str, list[dict[str, Any]]]] = {
    name: [{"S": text} for text in texts] for name, texts in TEXTS.items()
}
ATTRIBUTES["number"] += [{"N": n} for n in ("100", "1.5", "0", "-2", "1E+3", "12345678901234567890.5", "0.1")]
ATTRIBUTES["bool"] += [{"BOOL": True}, {"BOOL": False}, {"N": "1"}, {"N": "0"}, {"N": "2"}]
ATTRIBUTES["time"] += [{"N": n} for moment in (*TIMES, MIDNIGHT) for n in _epochs(moment)]
ATTRIBUTES["id"] += [{"B": one.bytes} for one in IDS]
ATTRIBUTES["bytes"] += [{"B": b"hello"}, {"B": b"\xff\xfe\xfd"}]
ATTRIBUTES["nested"] += [
    {"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}}},
    {"M": {"town": {"S": "Rome"}}},
    {"M": {"town": {"S": "Rome"}, "zip": {"S": "7"}}},
    {"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}, "of": {"NULL": True}}},
    {"L": [{"N": "1"}, {"N": "2"}]},
    {"L": [{"S": "1"}]},
    {"SS": ["a", "b"]},
    {"NS": ["1", "2"]},
    {"L": []},
]
DATETIMES: Final = ("%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%dT%H:%M:%S.%3fZ", "%Y-%m-%d %H:%M:%S", "Instant", "OffsetDateTime")
DATETIMES_2: Final = ("LocalDateTime", "RFC3339Nano", "isoformat", "isoformat naive")
TIME_TYPES: Final = [
    datetime,
    date,
    *(Annotated[datetime, stored(format=form)] for form in (*DATETIMES, *DATETIMES_2)),
    *(Annotated[datetime, stored(epoch=unit)] for unit in ("s", "ms", "us", "ns", "s.f")),
    *(Annotated[date, stored(epoch=unit)] for unit in ("d", "s", "ms")),
]
TYPES: Final[dict[str, list[Any]]] = {
    "number": [
        *(int, float, Decimal, str, Any),
        *(Annotated[of, stored(format="text")] for of in (int, float, Decimal)),
        Annotated[Decimal, Field(decimal_places=2), stored(format="text")],
    ],
    "bool": [bool, int, str, *(Annotated[bool, stored(format=form)] for form in ("number", "true/false", "yes/no"))],
    "time": [*TIME_TYPES, str, int, Decimal],
    "id": [UUID, str, *(Annotated[UUID, stored(format=form)] for form in ("upper", "hex", "bytes"))],
    "bytes": [bytes, str, *(Annotated[bytes, stored(format=form)] for form in ("base64", "base64url", "hex"))],
    "nested": [
        *(Address, dict[str, Any], list[int], list[str], set[str], set[int], str),
        *(Annotated[of, stored(format="JSON.stringify")] for of in (Address, list[int], Any)),
        Annotated[dict[str, Any], stored(format="json.dumps")],
    ],
    "text": [str, bytes, int],
}
CELLS: Final[dict[str, list[bytes]]] = {name: [text.encode() for text in texts] for name, texts in TEXTS.items()}
CELLS["number"] += [struct.pack(">q", 100), struct.pack(">d", 1.5), struct.pack(">d", 0.0)]
CELLS["bool"] += [struct.pack(">q", 1), struct.pack(">q", 2)]
CELLS["time"] += [struct.pack(">q", int(n)) for moment in (*TIMES, MIDNIGHT) for n in _epochs(moment) if n.isdigit()]
CELLS["time"] += [n.encode() for moment in (*TIMES, MIDNIGHT) for n in _epochs(moment)]
CELLS["id"] += [one.bytes for one in IDS]
CELLS["bytes"] += [b"hello", b"\xff\xfe\xfd"]

_OPERATORS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge
}  # fmt: skip
Test = tuple[Any, Callable[[Any, set[str]], bool]]
"""A condition, and its result in Python for an entity and the names that are stored of it."""


@cache
def fits(annotation: Any, *, rows: bool, **default: Any) -> bool:
    """Whether a field can be declared so."""
    style: Any = {"row_style": "verbatim"} if rows else {"keys": ("PK",), "key_style": "verbatim", "tag": None}
    table = Table(f"try-{next(NUMBER)}", **style)
    body = {"__annotations__": {"id": str, "x": annotation}, "primary": PrimaryKey("P/{id}")}
    type("Try", (Entity,), body | ({"x": None} if default else {}), table=table)
    try:
        table.compile()
    except SchemaError:
        return False
    return True


class OnDynamoDB:
    """A table in DynamoDB that boto3 writes."""

    attributes = ATTRIBUTES

    def __init__(self, endpoint: str) -> None:
        self.session = boto3.Session(aws_access_key_id="forms", aws_secret_access_key="x", region_name="eu-west-1")
        self.client = self.session.client("dynamodb", endpoint_url=endpoint)
        self.backend = DynamoDB(self.session, endpoint_url=endpoint)

    def table(self) -> Table:
        self.name = f"forms-{next(NUMBER)}"
        self.client.create_table(
            TableName=self.name,
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.declared = Table(self.name, keys=("PK",), key_style="verbatim", tag=None)
        return self.declared

    def annotation(self, random: Random, group: str, name: str) -> Any:
        return random.choice(TYPES[group])

    def item(self, random: Random, groups: dict[str, str]) -> dict[str, Any]:
        """The attributes of an item; some are NULL or missing, and some have a form of another kind of values."""
        found = {}
        for name, group in groups.items():
            kind = random.random()
            if kind < 0.1:
                found[name] = {"NULL": True}
            elif kind < 0.8:
                found[name] = random.choice(ATTRIBUTES[group if kind < 0.75 else random.choice(list(ATTRIBUTES))])
        return found

    def write(self, items: list[dict[str, Any]]) -> None:
        for number, item in enumerate(items):
            self.client.put_item(TableName=self.name, Item={"PK": {"S": f"P/{number}"}} | item)

    def raw(self, number: int) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_item(TableName=self.name, Key={"PK": {"S": f"P/{number}"}})["Item"]
        for attribute in found.values():
            for kind in attribute.keys() & {"SS", "NS"}:
                attribute[kind] = sorted(attribute[kind])
        return {name: attribute for name, attribute in found.items() if name != "PK"}

    def named(self) -> set[str]:
        findings = DynamoDBAdmin(self.backend, self.declared.compile()).survey(100).findings
        return {one.where.rpartition(": ")[2] for one in findings if one.level == "rewrites"}


class OnBigtable:
    """A table in Bigtable that Google's client writes."""

    attributes = CELLS

    def __init__(self, address: str) -> None:
        self.client = BigtableDataClient(project="project")
        self.backend = Bigtable("project", "instance", endpoint=address)

    def table(self) -> Table:
        self.name = f"forms-{next(NUMBER)}"
        self.declared = Table(self.name, row_style="verbatim")
        return self.declared

    def annotation(self, random: Random, group: str, name: str) -> Any:
        while True:
            of, encoding = random.choice(TYPES[group]), random.choice(ENCODINGS)
            cell = Cell(f"D:{name}", encoding)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
            if of is not Any and fits(Annotated[of, cell], rows=True):
                return Annotated[of, cell]

    def item(self, random: Random, groups: dict[str, str]) -> dict[str, Any]:
        """The cells of a row; some are missing, and some have a form of another kind of values."""
        found = {}
        for name, group in groups.items():
            kind = random.random()
            if kind < 0.8:
                found[name] = random.choice(CELLS[group if kind < 0.75 else random.choice(list(CELLS))])
        return found

    def write(self, items: list[dict[str, Any]]) -> None:
        with Store(self.declared, self.backend) as db:
            db.create()
        with self.client.get_table("instance", self.name) as table:
            for number, item in enumerate(items):
                if item:
                    table.mutate_row(f"P/{number}", [SetCell("D", name, cell) for name, cell in item.items()])

    def raw(self, number: int) -> dict[str, Any]:
        with self.client.get_table("instance", self.name) as table:
            row = table.read_row(f"P/{number}")
        return {} if row is None else {cell.qualifier.decode(): cell.value for cell in row.cells}

    def named(self) -> set[str]:
        findings = BigtableAdmin(self.backend, self.declared.compile()).survey(100).findings
        return {one.where.rpartition(":")[2] for one in findings if one.level == "rewrites"}


def _tests(random: Random, cls: Any, shown: list[Any]) -> Test:
    """A random condition."""
    kind = random.random()
    if kind < 0.15:
        one, other = _tests(random, cls, shown), _tests(random, cls, shown)
        if random.random() < 0.5:
            return one[0] & other[0], lambda e, names: one[1](e, names) and other[1](e, names)
        return one[0] | other[0], lambda e, names: one[1](e, names) or other[1](e, names)
    if kind < 0.2:
        inner = _tests(random, cls, shown)
        return not_(inner[0]), lambda e, names: not inner[1](e, names)
    name = random.choice([name for name in cls.model_fields if name != "id"])
    path = getattr(cls, name)
    if kind < 0.3:
        return missing(path), lambda _, names: name not in names
    if kind < 0.4:
        return exists(path), lambda _, names: name in names
    values = [value for one in shown if (value := getattr(one, name)) is not None]
    if not values or kind < 0.45:
        sought = random.choice(["==", "!="])
        return _OPERATORS[sought](path, None), lambda e, _: _OPERATORS[sought](getattr(e, name), None)
    value = random.choice(values)
    if kind < 0.5:
        few = random.sample(values, min(2, len(values)))
        return is_in(path, few), lambda e, _: getattr(e, name) in few
    sign = random.choice(list(_OPERATORS))

    def result(entity: Any, _: set[str]) -> bool:
        mine = getattr(entity, name)
        if sign in ("==", "!="):
            return bool(_OPERATORS[sign](mine, value))
        try:
            return mine is not None and bool(_OPERATORS[sign](mine, value))
        except TypeError:  # of a field of type Any: values of several types have no order
            return False

    return _OPERATORS[sign](path, value), result


def check(world: Any, random: Random) -> None:
    groups = {f"f{at}": random.choice(list(TYPES)) for at in range(random.randint(1, 3))}
    table = world.table()
    annotations: dict[str, Any] = {}
    defaults: dict[str, None] = {}
    for name, group in groups.items():
        annotations[name] = world.annotation(random, group, name)
        if random.random() < 0.5:
            annotation = optional(annotations[name], keep=random.random() < 0.5)
            if fits(annotation, rows=isinstance(world, OnBigtable), default=None):
                annotations[name], defaults[name] = annotation, None
    body = {"__annotations__": {"id": str, **annotations}, **defaults, "primary": PrimaryKey("P/{id}")}
    cls: Any = type("Item", (Entity,), body, table=table)
    items = [world.item(random, groups) for _ in range(random.randint(1, 5))]
    world.write(items)
    note = f"{annotations} of {items}"
    with Store(table, world.backend) as db:
        shown: dict[int, Any] = {}
        whole = True
        for number in range(len(items)):
            try:
                found = db.get(cls, id=str(number))
            except ItemInvalid:
                whole = False
                continue
            if found is not None:
                shown[number] = found
        stored_names = {number: set(world.raw(number)) for number in shown}
        for _ in range(6):
            condition, holds = _tests(random, cls, list(shown.values()))
            right = sorted(number for number, one in shown.items() if holds(one, stored_names[number]))
            try:
                got = sorted(int(one.id) for one in db.scan(cls, condition))
            except BadValue as refused:
                if not re.search("compare|has no order|has no parts", str(refused)):
                    raise
                continue
            except ItemInvalid:
                assert not whole, note
                continue
            assert got == right, f"{condition}: {note}"
            for number in shown:
                key = cls.primary(id=str(number))
                assert db.count(key.where(condition)) == (number in right), f"{condition}: {note}"
            if whole:
                assert sum(db.count(cls.primary(id=str(n)).where(condition)) for n in range(len(items))) == len(right)
            if shown:
                number = random.choice(list(shown))
                _conditional(db, cls, number, condition, right, note)
        named = world.named()
        for number, one in shown.items():
            before = world.raw(number)
            db.put(one)
            after = world.raw(number)
            changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            assert changed <= named, f"{changed} of {before}: {note}"


def _conditional(db: Store, cls: Any, number: int, condition: Any, right: list[int], note: str) -> None:
    """An update that changes nothing is applied exactly if the condition holds."""
    one: Any = db.get(cls, id=str(number))
    name = next(name for name in cls.model_fields if name != "id")
    if getattr(one, name) is None:
        return
    try:
        db.update(cls.primary(id=str(number)), set_(getattr(cls, name), getattr(one, name)), when=condition)
        applied = True
    except ConditionFailed:
        applied = False
    except Unsupported:  # Bigtable cannot check a missing cell that is the last one
        return
    assert applied == (number in right), f"{condition}: {note}"


@pytest.fixture(scope="module")
def on_dynamodb(dynoxide: str) -> Iterator[OnDynamoDB]:
    made = OnDynamoDB(dynoxide)
    yield made
    made.client.close()


@pytest.fixture(scope="module")
def on_bigtable(bigtable_emulator: str) -> Iterator[OnBigtable]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
        made = OnBigtable(bigtable_emulator)
        yield made
        made.client.close()


@settings(max_examples=times(15, 150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_what_boto3_wrote_is_refused_or_found(on_dynamodb: OnDynamoDB, seed: int) -> None:
    check(on_dynamodb, Random(seed))


@settings(max_examples=times(15, 150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_what_googles_client_wrote_is_refused_or_found(on_bigtable: OnBigtable, seed: int) -> None:
    check(on_bigtable, Random(seed))
