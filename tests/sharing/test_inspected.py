"""Random tables of other programs, with the models that `odm inspect` writes for them: nothing is lost or misread.

boto3 writes items to Dynoxide, and Google's client writes rows to the Bigtable emulator. Columns coincide with parts of
keys in all items that are inspected, and no longer in those that are written afterwards; these also have other forms.

* The models read every item that was inspected, and each entity has the key of its own item.
* Every query, also by an index, scan, filter, condition and count has the result that Python has for the entities, or
  an item is refused (`ItemInvalid`).
* A put after a read leaves the item as it is, unless the plan named the attribute before.
* A put of an entity whose other fields have changed never replaces an item of another key.

``pytest --full --times 10 tests/sharing/test_inspected.py`` tries more tables.
"""

import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from random import Random
from types import ModuleType
from typing import Annotated, Any, Final, Protocol
from uuid import UUID

import boto3
import pytest
from attrs import frozen
from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery, SetCell
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from odm import (
    BadValue,
    Cell,
    ConditionFailed,
    Entity,
    ItemInvalid,
    KeyValueError,
    OdmError,
    PrimaryKey,
    Store,
    Table,
    Unsupported,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.commands import Admin as BigtableAdmin
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin as DynamoDBAdmin
from odm.cli.inspect.live import source_in
from odm.codec import attribute_name
from odm.expressions.nodes import paths
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import Schema
from tests.effort import times
from tests.sharing.forms import ATTRIBUTES, CELLS, OPERATORS, compared, random_condition

pytestmark = pytest.mark.slow

NUMBER: Final = count()
NAMES_OF_KEYS: Final = {
    "USER": ("user_id", "userId", "id"),
    "ORDER": ("orderNo", "order_id", "id"),
    "INVOICE": ("invoice_id", "invoiceNumber"),
    "SKU": ("sku",),
    "ORG": ("org_id", "organisation_id"),
}
"""Words in keys, and the names of attributes that say that the part behind the word is made of them."""

OTHER_NAMES: Final = (
    *("created_by", "parent", "rank", "owner_id", "category_id", "previousNo", "amount", "shelf", "x", "status"),
    *("list", "type", "class", "Any", "kind", "data", "_t", "_v", "_ttl", "ttl"),
)
"""Names that say nothing about keys."""

FORMS: Final[Mapping[int, Sequence[str]]] = {
    1: ("{one}", "{word}{mark}{one}", "{word}{mark}{one}{mark}{word2}{mark}{two}", "{word}{mark}{name}{mark}{one}"),
    2: (
        "{word}{mark}{one} META",
        "{word}{mark}{one} #META#",
        "{word}{mark}{one} settings",
        "{word}{mark}{one} {word2}{mark}{two}",
        "{word}{mark}{one} {word2}{mark}{name}{mark}{two}",
        "{word}{mark}{one} {two}",
        "{word}{mark}{one} {word}{mark}{one}",
        "{one} {two}",
    ),
}
"""Forms of keys, by the number of key attributes. ``name`` is sometimes empty."""

IDS: Final[Mapping[str, Callable[[int], str]]] = {
    "number": str,
    "padded": "{:05}".format,
    "word": lambda n: f"{'abcdefghij'[n % 10]}{n}x",
    "mail": "u{}@x.org".format,
    "uuid": lambda n: str(UUID(int=n << 64 | 7)),
    "path": "a/b{}".format,
    "time": lambda n: f"2026-01-{n % 28 + 1:02}T12:00:00Z",
}
_NUMBER: Final = re.compile(r"0|[1-9][0-9]*")


@frozen
class Column:
    """An attribute.

    Attributes:
        of: what its values are: "one" and "two", the parts of the key; "few" of them; or values of one `form`.
        form: the form of values that are no part of the key; see `World.values`.
        text: numbers are written as text.
    """

    of: str
    form: str
    text: bool


@frozen
class Kind:
    """Items of one type.

    Attributes:
        form: of `FORMS`.
        words, mark: what stands in keys besides values.
        ids: what the two values in keys are.
        own: the attributes that the two values are, if they are any.
        tag: the attribute that names the type; None: there is none.
        columns: other attributes.
        index: the forms of the keys of the index; None: the items are not in it.
    """

    form: str
    words: tuple[str, str]
    mark: str
    ids: tuple[str, str]
    own: tuple[str | None, str | None]
    tag: str | None
    columns: Mapping[str, Column]
    index: tuple[str, str] | None


def random_kind(random: Random, world: "World", parts: int, mark: str, tag: str | None) -> Kind:
    words = random.sample([*NAMES_OF_KEYS], 2)
    own = [random.choice([None, *NAMES_OF_KEYS[word]]) for word in words]
    kinds = ("one", "two", "few", "form", "form")
    columns = {
        name: Column(random.choice(kinds), random.choice(world.forms), random.random() < 0.5)
        for name in random.sample(OTHER_NAMES, random.randint(1, 4))
    }
    indexes = (
        None,
        ("CUSTOMER{mark}{few}", "{word}{mark}{one}"),
        ("{word}{mark}{one}", "{word2}{mark}{two}"),
        ("{few}", "{two}"),
    )
    return Kind(
        random.choice(FORMS[parts]),
        (words[0], words[1]),
        mark,
        (random.choice(["number", "number", *IDS]), random.choice(["number", "padded", "time", "word"])),
        (own[0], own[1] if own[1] != own[0] else None),
        tag,
        columns,
        random.choice(indexes) if world.indexed else None,
    )


class World(Protocol):
    """A table of another program.

    Attributes:
        forms: the names of forms of values.
        indexed: the table has an index.
        note: what failures show.
    """

    forms: tuple[str, ...]
    indexed: bool
    backend: Any

    def create(self, random: Random) -> int:
        """Create a table; returns the number of its key attributes."""
        ...

    def value(self, random: Random, column: Column, text: str | None, *, later: bool) -> Any:
        """The value of an attribute; None: it is absent."""
        ...

    def write(self, key: Sequence[str], index: Sequence[str], values: Mapping[str, Any], mark: str) -> str:
        """Write an item; returns its key, as `key` does."""
        ...

    def inspect(self) -> str:
        """The source of the models."""
        ...

    def raw(self) -> dict[str, dict[str, Any]]:
        """The attributes of all items, by key."""
        ...

    def key(self, schema: Schema, entity: Any) -> str:
        """The key of the item that an entity would be written as."""
        ...

    def stored(self, schema: EntitySchema, field: str) -> str:
        """The attribute of a field; "" for a part of the primary key."""
        ...

    def named(self, schema: Schema) -> set[str]:
        """The attributes that the plan says a put would change."""
        ...


_TEXT: Final = Column("", "", text=True)


def write_items(world: World, random: Random, kind: Kind, numbers: Sequence[int], *, later: bool) -> list[str]:
    keys = []
    for number in numbers:
        other = random.randint(0, 6)
        name = random.choice(["", "ns", "b-c"])
        parts = {
            "word": kind.words[0],
            "word2": kind.words[1],
            "mark": kind.mark,
            "one": IDS[kind.ids[0]](number),
            "two": IDS[kind.ids[1]](other),
            "few": str(number % 3),
            "name": name,
        }
        values = {} if kind.tag is None else {kind.tag: world.value(random, _TEXT, kind.words[0], later=False)}
        for label, own in zip(("one", "two"), kind.own, strict=True):
            if own is not None and f"{{{label}}}" in kind.form:
                values[own] = world.value(random, _TEXT, parts[label], later=False)
        for column, how in kind.columns.items():
            # What was equal to a part of the key in the sample is equal no longer.
            text = None if how.of == "form" else str(random.randint(1, 9)) if later else parts[how.of]
            value = world.value(random, how, text, later=later)
            if value is not None:
                values[column] = value
        key = [part.format(**parts) for part in kind.form.split(" ")]
        index = [part.format(**parts) for part in kind.index or ()]
        keys.append(world.write(key, index, values, kind.mark))
    return keys


class OnDynamoDB:
    """A table in DynamoDB that boto3 writes."""

    forms = (*ATTRIBUTES, "iso", "epoch", "millis", "flag", "whole", "fraction", "set", "null", "map")
    uniform: Final[Mapping[str, Sequence[dict[str, Any]]]] = {
        "iso": [{"S": f"2026-01-0{n}T12:00:00Z"} for n in (1, 2, 5)],
        "millis": [{"S": f"2026-01-0{n}T12:00:00.123Z"} for n in (1, 2, 5)],
        "epoch": [{"N": str(1767600000 + n)} for n in (1, 2, 5)],
        "flag": [{"BOOL": True}, {"BOOL": False}],
        "whole": [{"N": "1"}, {"N": "-2"}, {"N": "10"}],
        "fraction": [{"N": "1.5"}, {"N": "2"}, {"N": "0.25"}],
        "set": [{"SS": ["a"]}, {"SS": ["a", "b"]}, {"SS": ["b"]}],
        "null": [{"NULL": True}],
        "map": [{"M": {"a": {"N": "1"}, "b": {"S": "x"}}}, {"M": {}}],
    }

    def __init__(self, endpoint: str) -> None:
        self.session = boto3.Session(aws_access_key_id="inspected", aws_secret_access_key="x", region_name="eu-west-1")
        self.client = self.session.client("dynamodb", endpoint_url=endpoint)
        self.backend = DynamoDB(self.session, endpoint_url=endpoint)

    def create(self, random: Random) -> int:
        names = ("PK", "pk", "id"), (("PK", "SK"), ("pk", "sk"), ("user_id", "range_key"))
        self.keys = (random.choice(names[0]),) if random.random() < 0.35 else random.choice(names[1])
        self.index = random.choice([(), ("GSI1PK", "GSI1SK"), ("owner", "at")])
        self.indexed = bool(self.index)
        self.name = f"inspected-{next(NUMBER)}"
        indexes = [{"IndexName": "GSI1", "KeySchema": _schema(self.index), "Projection": {"ProjectionType": "ALL"}}]
        self.client.create_table(
            TableName=self.name,
            AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in (*self.keys, *self.index)],
            KeySchema=_schema(self.keys),
            BillingMode="PAY_PER_REQUEST",
            **({"GlobalSecondaryIndexes": indexes} if self.index else {}),
        )
        return len(self.keys)

    def value(self, random: Random, column: Column, text: str | None, *, later: bool) -> Any:
        if text is not None:
            return {"N": text} if not column.text and _NUMBER.fullmatch(text) else {"S": text}
        chance = random.random()
        if chance < 0.1:
            return {"NULL": True}
        if chance < 0.25:
            return None
        form = random.choice(self.forms) if later and chance < 0.35 else column.form
        return random.choice(self.uniform.get(form) or ATTRIBUTES[form])

    def write(self, key: Sequence[str], index: Sequence[str], values: Mapping[str, Any], mark: str) -> str:
        keys = dict(zip((*self.keys, *self.index), (*key, *index), strict=False))
        item = {**values, **{name: {"S": text} for name, text in keys.items()}}
        self.client.put_item(TableName=self.name, Item=item)
        return " ".join(key)

    def inspect(self) -> str:
        return source_in(self.backend, self.name, 1000)

    def raw(self) -> dict[str, dict[str, Any]]:
        items = self.client.scan(TableName=self.name)["Items"]
        for item in items:
            for attribute in item.values():
                for kind in attribute.keys() & {"SS", "NS"}:
                    attribute[kind] = sorted(attribute[kind])
        return {" ".join(item[key]["S"] for key in self.keys): item for item in items}

    def key(self, schema: Schema, entity: Any) -> str:
        return " ".join(schema.entity(type(entity)).key(vars(entity))[: len(self.keys)])

    def stored(self, schema: EntitySchema, field: str) -> str:
        stored = schema.codec.stored[field]
        part = schema.key_only.get(stored)
        if part is not None:
            return "" if part.primary else part.attribute
        return "" if stored in self.keys else attribute_name(stored)

    def named(self, schema: Schema) -> set[str]:
        findings = DynamoDBAdmin(self.backend, schema).survey(1000).findings
        return {one.where.rpartition(": ")[2] for one in findings if one.level == "rewrites"}


def _schema(names: Sequence[str]) -> list[Any]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, ("HASH", "RANGE"), strict=False)]


class OnBigtable:
    """A table in Bigtable that Google's client writes."""

    forms = (*CELLS, "iso", "epoch", "whole", "fraction", "real", "json")
    indexed = False
    uniform: Final[Mapping[str, Sequence[bytes]]] = {
        "iso": [f"2026-01-0{n}T12:00:00Z".encode() for n in (1, 2, 5)],
        "epoch": [(1767600000 + n).to_bytes(8, "big") for n in (1, 2, 5)],
        "whole": [n.to_bytes(8, "big", signed=True) for n in (1, -2, 10)],
        "fraction": [b"1.5", b"2", b"0.25"],
        "real": [b"\x3f\xf8\0\0\0\0\0\0", b"\x40\0\0\0\0\0\0\0"],
        "json": [b'{"a": 1}', b"{}"],
    }

    def __init__(self, address: str) -> None:
        self.client = BigtableDataClient(project="project")
        self.backend = Bigtable("project", "instance", endpoint=address)

    def create(self, random: Random) -> int:
        self.name = f"inspected-{next(NUMBER)}"
        with Store(_families(self.name), self.backend) as db:
            db.create()
        return random.choice([1, 2, 2])

    def value(self, random: Random, column: Column, text: str | None, *, later: bool) -> Any:
        if text is not None:
            number = not column.text and _NUMBER.fullmatch(text)
            return int(text).to_bytes(8, "big", signed=True) if number else text.encode()
        chance = random.random()
        if chance < 0.2:
            return None
        form = random.choice(self.forms) if later and chance < 0.3 else column.form
        return random.choice(self.uniform.get(form) or CELLS[form])

    def write(self, key: Sequence[str], index: Sequence[str], values: Mapping[str, Any], mark: str) -> str:
        text = mark.join(key)
        cells = [SetCell("D", name, value) for name, value in values.items()]
        with self.client.get_table("instance", self.name) as table:
            table.mutate_row(text, [SetCell("D", "z", "row"), *cells])
        return text

    def inspect(self) -> str:
        return source_in(self.backend, self.name, 1000)

    def raw(self) -> dict[str, dict[str, Any]]:
        with self.client.get_table("instance", self.name) as table:
            rows = table.read_rows(ReadRowsQuery())
        return {row.row_key.decode(): {f"D:{one.qualifier.decode()}": one.value for one in row.cells} for row in rows}

    def key(self, schema: Schema, entity: Any) -> str:
        made = schema.entity(type(entity)).key(vars(entity))
        own = schema.entity(type(entity)).primary
        return made[0] if own.sort is None else schema.row_key_join.join(made)

    def stored(self, schema: EntitySchema, field: str) -> str:
        at = schema.cells.get(schema.codec.stored[field])
        return "" if at is None else f"{at.family}:{at.qualifier}"

    def named(self, schema: Schema) -> set[str]:
        findings = BigtableAdmin(self.backend, schema).survey(1000).findings
        return {one.where.rpartition(": ")[2] for one in findings if one.level == "rewrites"}


def _families(name: str) -> Table:
    table = Table(name, row_style="verbatim")

    class Row(Entity, table=table):
        id: str
        z: Annotated[str, Cell("D:z", "text")]

        primary = PrimaryKey("{id}")

    return table


def imported(source: str) -> Table:
    """The table of a module of models."""
    module = ModuleType(f"inspected_{next(NUMBER)}")
    sys.modules[module.__name__] = module
    exec(source, module.__dict__)
    return next(value for value in vars(module).values() if isinstance(value, Table))


REFUSED: Final = re.compile("compare|has no order|has no parts|no range|is a part of the key attribute|cannot be empty")
"""What the messages say about a condition that cannot be asked for."""


@frozen
class Class:
    """The entities of one class that were read, by key.

    Attributes:
        stored: the fields that are stored of each, by key.
        others: some items of the table cannot be read.
    """

    db: Store
    schema: Schema
    world: World
    own: EntitySchema
    entities: Mapping[str, Any]
    stored: Mapping[str, set[str]]
    others: bool

    @property
    def cls(self) -> Any:
        return self.own.cls

    def query(self, entity: Any) -> Any:
        """The query of the item of an entity."""
        return self.cls.primary(**{name: getattr(entity, name) for name in self.own.primary.fields})

    def keys(self, entities: Any) -> list[str]:
        return sorted(self.world.key(self.schema, entity) for entity in entities)

    def check_condition(self, random: Random) -> None:
        """A scan, counts and an update agree with a random condition."""
        names = [name for name in self.cls.model_fields if name not in self.own.primary.fields]
        if not names:
            return
        condition, holds = random_condition(random, self.cls, names, list(self.entities.values()))
        right = sorted(key for key, entity in self.entities.items() if holds(entity, self.stored[key]))
        try:
            assert self.keys(self.db.scan(self.cls, condition)) == right, condition
            for key, entity in self.entities.items():
                assert self.db.count(self.query(entity).where(condition)) == (key in right), condition
        except BadValue as error:
            if not REFUSED.search(str(error)):
                raise
            return
        except ItemInvalid:
            assert self.others
        key = random.choice(list(self.entities))
        in_keys = {name for pattern in (self.own.primary, *self.own.patterns.values()) for name in pattern.fields}
        entity = self.entities[key]
        match = {path.root for path in paths(self.own.match)}  # no update changes what distinguishes the class
        in_keys |= {name for name in names if self.own.codec.stored[name] in match}
        there = [name for name in names if name not in in_keys and getattr(entity, name) is not None]
        if not there:
            return
        try:
            self.db.update(
                self.query(entity), set_(getattr(self.cls, there[0]), getattr(entity, there[0])), when=condition
            )
            applied = True
        except ConditionFailed:
            applied = False
        except Unsupported:  # Bigtable cannot check a missing cell that is the last one
            return
        except BadValue as error:
            if not REFUSED.search(str(error)):
                raise
            return
        assert applied == (key in right), condition

    def check_query(self, random: Random, name: str, pattern: PatternSchema) -> None:
        """A query of a pattern agrees with its fields and a condition."""
        partition = list(dict.fromkeys(pattern.partition.fields))
        sorts = [name for name in pattern.fields if name not in partition]
        members = {
            key: entity
            for key, entity in self.entities.items()
            if all(getattr(entity, name) is not None for name in pattern.fields)
        }
        if not members:
            return
        chosen = random.choice(list(members.values()))
        depth = random.randint(0, len(sorts))
        values = {name: getattr(chosen, name) for name in (*partition, *sorts[:depth])}
        right = [key for key, one in members.items() if all(getattr(one, name) == values[name] for name in values)]
        query = getattr(self.cls, name)(**values)
        try:
            assert self.keys(self.db.query(query)) == sorted(right), query
            assert self.db.count(query) == len(right), query
        except ItemInvalid:
            assert self.others
        if depth < len(sorts) and random.random() < 0.5:
            sign, field = random.choice(["<", "<=", ">", ">=", "=="]), sorts[depth]
            value = getattr(random.choice(list(members.values())), field)
            condition = OPERATORS[sign](getattr(self.cls, field), value)
            right = [key for key in right if compared(sign, getattr(self.entities[key], field), value)]
        else:
            names = [name for name in self.cls.model_fields if name not in self.own.primary.fields]
            if not names:
                return
            condition, holds = random_condition(random, self.cls, names, list(self.entities.values()))
            right = [key for key in right if holds(self.entities[key], self.stored[key])]
        try:
            assert self.keys(self.db.query(query.where(condition))) == sorted(right), (query, condition)
        except BadValue as error:
            if not REFUSED.search(str(error)):
                raise
        except ItemInvalid:
            assert self.others


def check(world: World, random: Random) -> None:
    parts, mark = world.create(random), random.choice("####_:|/-@")
    tag = random.choice([None, None, None, "entityType"])
    kinds = [random_kind(random, world, parts, mark, tag) for _ in range(random.choice([1, 1, 2, 3]))]
    sample = []
    for kind in kinds:
        sample += write_items(world, random, kind, random.sample(range(1, 12), random.randint(1, 6)), later=False)
    source = world.inspect()
    for kind in kinds:
        write_items(world, random, kind, random.sample(range(12, 28), random.randint(0, 4)), later=True)
    raw = world.raw()
    try:
        _check(world, random, imported(source), raw, sample)
    except Exception as error:
        error.add_note("\n".join([source, *(f"{key}: {item}" for key, item in raw.items())]))
        raise


def _check(world: World, random: Random, table: Table, raw: dict[str, dict[str, Any]], sample: Sequence[str]) -> None:
    schema = table.compile()
    with Store(table, world.backend, on_unknown="skip", on_invalid="skip") as db:
        entities = {world.key(schema, entity): entity for entity in db.scan()}
        assert len(entities) == len(list(db.scan()))
        assert raw.keys() >= entities.keys() >= {*sample}
    with Store(table, world.backend) as db:
        for own in schema.entities.values():
            of_class = {key: entity for key, entity in entities.items() if type(entity) is own.cls}
            stored = {
                key: {name for name in own.codec.stored if (at := world.stored(own, name)) == "" or at in raw[key]}
                for key in of_class
            }
            if not of_class:
                continue
            one = Class(db, schema, world, own, of_class, stored, len(entities) < len(raw))
            for entity in of_class.values():
                assert db.get(one.query(entity)) == entity
            for _ in range(4):
                one.check_condition(random)
            for name, pattern in {"primary": own.primary, **own.patterns}.items():
                one.check_query(random, name, pattern)
                one.check_query(random, name, pattern)
        assert world.raw() == raw
        named = world.named(schema)
        for entity in entities.values():
            db.put(entity)
        after = world.raw()
        assert after.keys() == raw.keys()
        for key, item in after.items():
            changed = {name for name in item.keys() | raw[key].keys() if item.get(name) != raw[key].get(name)}
            assert changed <= named, (key, changed, named)
        check_keys(db, world, schema, random, entities, after)


def check_keys(
    db: Store,
    world: World,
    schema: Schema,
    random: Random,
    entities: Mapping[str, Any],
    raw: dict[str, dict[str, Any]],
) -> None:
    """Entities with values of others, in all fields that no name says are keys, are still the same items."""
    for key, entity in entities.items():
        own = schema.entity(type(entity))
        other = random.choice([one for one in entities.values() if type(one) is type(entity)])
        names = [name for name in own.codec.stored if world.stored(own, name).removeprefix("D:") in OTHER_NAMES]
        try:
            db.put(entity.model_copy(update={name: getattr(other, name) for name in names}))
        except OdmError as error:
            if not isinstance(error, KeyValueError):
                raise
            continue
        after = world.raw()
        assert after.keys() == raw.keys(), names
        assert all(after[one] == raw[one] for one in raw if one != key), names
        db.put(entity)


@pytest.fixture(scope="module")
def on_dynamodb(dynoxide: str) -> Iterator[OnDynamoDB]:
    world = OnDynamoDB(dynoxide)
    yield world
    world.client.close()


@pytest.fixture(scope="module")
def on_bigtable(bigtable_emulator: str) -> Iterator[OnBigtable]:
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
        world = OnBigtable(bigtable_emulator)
        yield world
        world.client.close()


@settings(max_examples=times(6, 150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_models_of_items_that_boto3_wrote(on_dynamodb: OnDynamoDB, seed: int) -> None:
    check(on_dynamodb, Random(seed))


@settings(max_examples=times(6, 150), deadline=None, phases=(Phase.explicit, Phase.reuse, Phase.generate))
@given(seed=st.integers(0, 2**32))
def test_models_of_rows_that_googles_client_wrote(on_bigtable: OnBigtable, seed: int) -> None:
    check(on_bigtable, Random(seed))
