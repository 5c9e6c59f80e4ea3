"""Random tables of other programs, and random models of them: no answer differs from what the entities show.

boto3 writes items to Dynoxide, and Google's client writes rows to the Bigtable emulator, with attributes of all forms.
Of every model, an item is refused (`ItemInvalid`), or each filter, condition and count has the result that Python has
for the entities, and a put after a read leaves the item unchanged, unless the plan named the attribute.
``pytest --full --times 10 tests/sharing/test_forms.py`` tries more tables.
"""

import re
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from functools import cache
from itertools import count
from random import Random
from typing import Annotated, Any, Final, get_args
from uuid import UUID

import boto3
import pytest
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
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import Admin as BigtableAdmin
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin as DynamoDBAdmin
from odm.immutable import evolve
from tests.effort import times
from tests.sharing.forms import ATTRIBUTES, CELLS, random_condition

NUMBER: Final = count()
ENCODINGS: Final = ("text", "text", "json", "bytes", "int64be", "float64be")


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
        names = [name for name in cls.model_fields if name != "id"]
        for _ in range(6):
            condition, holds = random_condition(random, cls, names, list(shown.values()))
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
            if len(names) == 1:
                _refused(db, cls, world, {*range(len(items))} - shown.keys(), condition, note)
        named = world.named()
        for number, one in shown.items():
            before = world.raw(number)
            db.put(one)
            after = world.raw(number)
            changed = {name for name in before.keys() | after.keys() if before.get(name) != after.get(name)}
            assert changed <= named, f"{changed} of {before}: {note}"


def _refused(db: Store, cls: Any, world: Any, numbers: set[int], condition: Any, note: str) -> None:
    """No conditional write is applied to an item that cannot be read, unless there is none."""
    for number in numbers:
        key = cls.primary(id=str(number))
        before = world.raw(number)
        if not before:
            continue
        with pytest.raises((ItemInvalid, ConditionFailed, Unsupported)):
            db.delete(key, when=condition)
        assert world.raw(number) == before, f"{condition}: {note}"


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
