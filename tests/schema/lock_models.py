"""A model, and the changes that an application makes to it: what each must be found to be.

The model is source text, so that a change is a replacement in it. `ITEMS` are what is stored.
"""

from functools import lru_cache
from typing import Any, NamedTuple

from odm import Entity, Table

HEAD = """
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import KEEP, STRICT, Enum, Flag
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID
from annotated_types import Not, Predicate
from pydantic import UUID4, AfterValidator, AliasChoices, AnyUrl, BaseModel, BeforeValidator, ByteSize, ConfigDict
from pydantic import Field, FilePath, FutureDate, FutureDatetime, PastDate, PastDatetime, RootModel, SkipValidation
from pydantic import Strict, StringConstraints, field_validator, model_validator
from pydantic.dataclasses import dataclass
from pathlib import Path
from odm import upgrade, TTL, AccessPattern, Blob, CellVersions, Columns, Counter, Entity, PrimaryKey, Revision, Shards
from odm import Stored, Sum, Table, field
"""

MODEL = """
shop = Table("shop")

class Line(BaseModel):
    sku: str
    amount: int = 1

class Customer(Entity, table=shop):
    customer_id: str
    email: str
    level: Annotated[int, Field(ge=0, lt=100)] = 1
    status: Literal["open", "closed"] = "open"
    nick: str | None = None
    note: str = ""
    visits: int = 0
    size: int = 0
    lines: list[Line] = []
    ends_at: datetime | None = None
    gone_at: datetime | None = None

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")
    by_email = AccessPattern("EMAIL#{email}")
    by_level = AccessPattern("LEVEL", "{level}#{customer_id}", when=field("status") == "open")

class Order(Entity, table=shop):
    customer_id: str
    order_id: str
    placed_at: datetime

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("BY#{customer_id}", "{placed_at}", index="dated")

class Visit(Entity, table=shop):
    customer_id: str
    number: Annotated[int, Field(ge=0, lt=1000)]

    primary = PrimaryKey("VISIT#{customer_id}", "{number}")
    by_customer = AccessPattern("BY#{customer_id}", "VISIT#{number}", index="dated")

ITEMS = [
    Customer(
        customer_id="c1",
        email="a@example.com",
        level=7,
        note="late",
        nick="Al",
        visits=3,
        size=4,
        lines=[Line(sku="s1", amount=2)],
        ends_at=datetime(2001, 1, 1, tzinfo=UTC),
    ),
    Customer(customer_id="c2", email="b@example.com", status="closed", gone_at=datetime(2001, 1, 1, tzinfo=UTC)),
    Order(customer_id="c1", order_id="o1", placed_at=datetime(2026, 1, 5, tzinfo=UTC)),
    Visit(customer_id="c1", number=17),
]
"""


class Model(NamedTuple):
    """A model of some source."""

    table: Table
    items: list[Entity]
    names: dict[str, Any]


def model(*changes: tuple[str, str], source: str = MODEL) -> Model:
    """The model of a source with some texts in it replaced."""
    for old, new in changes:
        assert old in source, f"{old!r} is not in the model"
        source = source.replace(old, new)
    return _model_of(source)


@lru_cache(8)  # most tests compare with the same one
def _model_of(source: str) -> Model:
    names: dict[str, Any] = {"__name__": "shop_of_a_test"}
    exec(HEAD + source, names)
    return Model(names["shop"], names["ITEMS"], names)


class Change(NamedTuple):
    """A change from one model to another, and the findings it must give: level, where, change.

    ``stored``: the model that put the items, if an earlier one than the old one did.
    """

    name: str
    new: list[tuple[str, str]]
    findings: list[tuple[str, str, str]]
    old: list[tuple[str, str]] = []
    stored: list[tuple[str, str]] | None = None


ORDER = MODEL[MODEL.index("class Order") : MODEL.index("class Visit")]
ORDER_ITEM = '    Order(customer_id="c1", order_id="o1", placed_at=datetime(2026, 1, 5, tzinfo=UTC)),\n'
REVISION = ("    note: str", "    revision: Annotated[int, Revision] = 0\n    note: str")
NOTE = "    note: str"
AMOUNT = "    amount: Annotated[Decimal, Field(max_digits=5, decimal_places={})] = Decimal(0)\n"
LISTS = "    codes: dict[str, list[Annotated[str, Field(max_length={})]]] = {{}}\n"
UNION = "    either: Annotated[int, Field(le={})] | str = ''\n"
ROOT = """\
    class Root(RootModel[int]):
        root: Annotated[int, Field(le={})]

    root: Root | None = None
"""
FLAGS = """\
    class Flags(Flag):
        {}

    flags: Flags = Flags(0)
"""
PAIR = """\
    class Pair(NamedTuple):
        {}

    pair: Pair | None = None
"""
LINE = "class Line(BaseModel):\n"
PRIMARY = '    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")\n'
CUSTOMER = "class Customer(Entity, table=shop):\n"


def configured(head: str, options: str) -> tuple[str, str]:
    """A class with a configuration."""
    return (head, f"{head}    model_config = ConfigDict({options})\n")


def defaulted(default: str, type_: str = "int") -> tuple[str, str]:
    """The customer with one more field, which has a default."""
    return (NOTE, f"    more: {type_} = {default}\n{NOTE}")


def other(type_: str, value: str = "") -> list[tuple[str, str]]:
    """The customer with one more field that may be None; and a value of it."""
    given = [("level=7", f"level=7, other={value}")] if value else []
    return [(NOTE, f"    other: {type_} | None = None\n{NOTE}"), *given]


RICH = [
    (
        NOTE,
        f"""\
    raw: bytes = b""
    wait: timedelta = timedelta(0)
    share: float = 0.5
    price: Decimal = Decimal("0.5")
    day: date = date(2001, 1, 1)
    token: UUID = UUID(int=0)
    pair: tuple[int, str] = (1, "a")
    site: AnyUrl = AnyUrl("http://a.example")
    either: int | str | Line = 5
    tags: set[date] = set()
    any: Any = None
    times: dict[str, list[time]] = {{}}
{NOTE}""",
    ),
    (
        "level=7",
        """level=7, raw=b"b", wait=timedelta(1), share=0.1, day=date(2002, 2, 2), token=UUID(int=1), pair=(2, "b"),
        either=Line(sku="s"), tags={date(2003, 3, 3)}, any=["1", 1, Decimal("1.5")], times={"a": [time(1)]}""",
    ),
]
"""A field of each kind."""

WITH_TTL = ("ends_at: datetime | None", "ends_at: Annotated[datetime | None, TTL]")
BY_NICK = ("    by_level", '    by_nick = AccessPattern("NICK#{nick}", "{customer_id}")\n    by_level')


def sharded(shards: str) -> tuple[str, str]:
    """The pattern of orders, spread over shards."""
    return ('"{placed_at}", index="dated"', f'"{{placed_at}}#{{order_id}}", index="dated", shards=Shards({shards})')


UNSHARDED = ('"{placed_at}", index="dated"', '"{placed_at}#{order_id}", index="dated"')
BY_PLACE = (
    "    by_date",
    '    by_place = AccessPattern("CUSTOMER#{customer_id}", "{placed_at}", local=True)\n    by_date',
)

SAFE = [
    Change(
        "pattern removed from a shared index",
        [('    by_date = AccessPattern("BY#{customer_id}", "{placed_at}", index="dated")\n', "")],
        [("safe", "Order.by_date", "removed pattern")],
        [('"{placed_at}"', '"VISIT#{order_id}"')],
    ),
    Change(
        "a wider bound of the same width",
        [],
        [("safe", "Customer.level", "limits")],
        [("lt=100)", "lt=90)")],
    ),
    Change(
        "a longer text",
        [("note: str", "note: Annotated[str, Field(max_length=9)]")],
        [("safe", "Customer.note", "limits")],
        [("note: str", "note: Annotated[str, Field(max_length=4)]")],
    ),
    Change(
        "a limit taken away",
        [],
        [("safe", "Customer.note", "limits")],
        [("note: str", "note: Annotated[str, Field(pattern='a|^$')]")],
    ),
    Change(
        "the order of fields",
        [("    visits: int = 0\n", ""), ("    size: int", "    visits: int = 0\n    size: int")],
        [],
    ),
    Change("the name of a nested model", [("Line", "Row")], []),
    Change(
        "a Literal as an Enum",
        [
            ("class Line", 'class Status(str, Enum):\n    OPEN = "open"\n    CLOSED = "closed"\n\nclass Line'),
            ('status: Literal["open", "closed"] = "open"', "status: Status = Status.OPEN"),
            ('status="closed"', "status=Status.CLOSED"),
        ],
        [],
    ),
    Change(
        "new entity",
        [
            (
                "ITEMS = [",
                'class Note(Entity, table=shop):\n    primary = PrimaryKey("NOTES", "ALL")\n\nITEMS = [',
            )
        ],
        [("safe", "Note", "new entity")],
    ),
    Change(
        "class renamed, tag kept",
        [
            ("class Order(Entity, table=shop)", 'class Purchase(Entity, table=shop, tag="Order")'),
            ("    Order(", "    Purchase("),
        ],
        [("safe", "Purchase", "renamed class")],
    ),
    Change(
        "new field with a default",
        [("    note: str", "    more: str = 'x'\n    note: str")],
        [("safe", "Customer.more", "new field")],
    ),
    Change(
        "new field in a nested model",
        [("    sku: str", "    sku: str\n    more: int = 0")],
        [("safe", "Customer.lines.more", "new field")],
    ),
    Change(
        "field renamed, stored name kept",
        [
            ("    email: str", '    mail: Annotated[str, Stored("email")]'),
            ("{email}", "{mail}"),
            ("email=", "mail="),
        ],
        [("safe", "Customer", "details")],
    ),
    Change(
        "pattern renamed, index kept",
        [("by_email = AccessPattern(", 'by_mail = AccessPattern(index="by_email", partition=')],
        [("safe", "Customer", "details")],
    ),
    Change(
        "one more allowed value", [('"closed"]', '"closed", "new"]')], [("safe", "Customer.status", "allowed values")]
    ),
    Change("any text allowed", [('Literal["open", "closed"]', "str")], [("safe", "Customer.status", "allowed values")]),
    Change(
        "a longer text in the configuration",
        [configured(CUSTOMER, "str_max_length=80")],
        [("safe", "Customer", "limits")],
        [configured(CUSTOMER, "str_max_length=50")],
    ),
    Change(
        "a shorter minimum in the configuration of a nested model",
        [configured(LINE, "str_min_length=1")],
        [("safe", "Customer.lines", "limits")],
        [configured(LINE, "str_min_length=2")],
    ),
    Change(
        "values of enums",
        [configured(CUSTOMER, "use_enum_values=True")],
        [("safe", "Customer", "limits")],
    ),
    Change(
        "numbers as text",
        [configured(CUSTOMER, "coerce_numbers_to_str=True")],
        [("safe", "Customer", "limits")],
    ),
    Change(
        "any date",
        other("date", "date(2001, 1, 1)"),
        [("safe", "Customer.other", "limits")],
        other("PastDate", "date(2001, 1, 1)"),
    ),
    Change(
        "a predicate taken away",
        other("str", "'ABC'"),
        [("safe", "Customer.other", "limits")],
        other("Annotated[str, Predicate(str.isupper)]", "'ABC'"),
    ),
    Change("an alias", [(f'{NOTE} = ""', f'{NOTE} = Field("", validation_alias=AliasChoices("note", "n"))')], []),
    Change("strict numbers", [("visits: int", "visits: Annotated[int, Strict()]")], []),
    *(
        Change(
            f"{option} in the configuration",
            [*RICH, configured(CUSTOMER, option), configured(LINE, option)],
            [],
            RICH,
        )
        for option in [
            *("extra='forbid'", "extra='allow'", "strict=True", "frozen=True", "validate_assignment=True"),
            *("revalidate_instances='always'", "from_attributes=True", "allow_inf_nan=False", "validate_by_name=True"),
            *("ser_json_bytes='hex'", "val_json_bytes='base64'", "ser_json_timedelta='float'", "validate_default=True"),
            *("ser_json_inf_nan='strings'", "validate_return=True", "defer_build=True", "title='Ann'"),
            *("val_temporal_unit='milliseconds'", "ser_json_temporal='seconds'", "loc_by_alias=False"),
            *("serialize_by_alias=True", "cache_strings=False", "protected_namespaces=()", "hide_input_in_errors=True"),
            *("alias_generator=str.upper, validate_by_name=True", "arbitrary_types_allowed=True"),
        ]
    ),
    Change("None allowed", [("note: str = ", "note: str | None = ")], [("safe", "Customer", "details")]),
    Change("an int as a Decimal", [("size: int", "size: Decimal")], [("safe", "Customer.size", "type")]),
    Change(
        "a text of a known form as any text",
        [
            ('note: str = ""', "note: str = str(UUID(int=0))"),
            ('"late"', "str(UUID(int=1))"),
            ('"b@example.com"', '"b@example.com", note=str(UUID(int=2))'),
        ],
        [("safe", "Customer.note", "type")],
        [
            ('note: str = ""', "note: UUID = UUID(int=0)"),
            ('"late"', "UUID(int=1)"),
            ('"b@example.com"', '"b@example.com", note=UUID(int=2)'),
        ],
    ),
    Change(
        "plain values as Any",
        other("Any", "{'a': [1, 'b']}"),
        [("safe", "Customer.other", "type")],
        other("dict[str, list[int | str]]", "{'a': [1, 'b']}"),
    ),
    Change("anything as Any", [("visits: int", "visits: object")], [("safe", "Customer.visits", "type")]),
    Change(
        "pattern removed from an index of its own",
        [('    by_email = AccessPattern("EMAIL#{email}")\n', "")],
        [("safe", "Customer.by_email", "removed pattern")],
    ),
    Change(
        "TTL kept, field renamed",
        [("ends_at", "until"), ("until: datetime | None", 'until: Annotated[datetime | None, TTL, Stored("ends_at")]')],
        [("safe", "Customer", "details")],
        [WITH_TTL],
    ),
    Change(
        "more random shards, of as many digits",
        [sharded("8")],
        [("safe", "Order.by_date", "shards")],
        [sharded("4")],
    ),
    Change(
        "another number of shards, and what it was",
        [sharded("16, by='order_id', was=8")],
        [("safe", "Order.by_date", "shards")],
        [sharded("8, by='order_id'")],
    ),
    Change(
        "shards where there were none",
        [sharded("4, by='order_id', was=1")],
        [("safe", "Order.by_date", "shards")],
        [UNSHARDED],
    ),
    Change(
        "the number of shards that is to come",
        [sharded("8, by='order_id', was=16")],
        [("safe", "Order.by_date", "shards")],
        [sharded("8, by='order_id'")],
    ),
    Change(
        "the number of shards that was to come",
        [sharded("16, by='order_id', was=8")],
        [("safe", "Order.by_date", "shards")],
        [sharded("8, by='order_id', was=16")],
    ),
    Change(
        "random shards of more digits, and what they were",
        [sharded("11, was=10")],
        [("safe", "Order.by_date", "shards")],
        [sharded("10")],
    ),
    Change(
        "shards by a field at random",
        [sharded("8")],
        [("safe", "Order.by_date", "shards")],
        [sharded("8, by='order_id'")],
    ),
    Change(
        "local pattern removed",
        [],
        [("safe", "Order.by_place", "removed pattern")],
        [BY_PLACE],
    ),
]
TO_TWO = """\
    @staticmethod
    @upgrade(from_=1)
    def to_two(item):
        return {"nick": "none", **item}

    lines: list"""
VERSION_2 = [
    ("class Customer(Entity, table=shop)", "class Customer(Entity, table=shop, version=2)"),
    ("    lines: list", TO_TWO),
]

BACKFILL = [
    Change(
        "new pattern",
        [("    by_level", '    by_note = AccessPattern("NOTE#{nick}", "{customer_id}")\n    by_level')],
        [("backfill", "Customer.by_note", "new pattern")],
    ),
    Change(
        "pattern moved to a new index",
        [('"EMAIL#{email}"', '"EMAIL#{email}", index="mails"')],
        [("backfill", "Customer.by_email", "index")],
    ),
    Change("new local pattern", [BY_PLACE], [("backfill", "Order.by_place", "new pattern")]),
    Change("TTL added", [WITH_TTL], [("backfill", "Customer", "TTL")]),
    Change(
        "Revision added", [REVISION], [("safe", "Customer.revision", "new field"), ("backfill", "Customer", "Revision")]
    ),
    Change(
        "None given up for a default",
        [BY_NICK, ("nick: str | None = None", 'nick: str = "none"')],
        [("backfill", "Customer.nick", "default")],
        [BY_NICK],
    ),
    Change(
        "fields upgraded with the version",
        [
            BY_NICK,
            *VERSION_2,
            ("nick: str | None = None", "nick: str"),
            ('"b@example.com"', '"b@example.com", nick="none"'),
        ],
        [("backfill", "Customer.nick", "default"), ("safe", "Customer", "version")],
        [BY_NICK],
    ),
    Change(
        "pattern moved from a shared index",
        [('"{placed_at}", index="dated"', '"VISIT#{order_id}", index="other"')],
        [("backfill", "Order.by_date", "index")],
        [('"{placed_at}"', '"VISIT#{order_id}"')],
    ),
]

BACKFILL += [
    Change(
        "text no longer made small",
        [],
        [("backfill", "Customer", "limits")],
        [configured(CUSTOMER, "str_to_lower=True")],
        stored=[],
    ),
    Change(
        "a text no longer stripped",
        [('"late"', '"late "')],
        [("backfill", "Customer.note", "limits")],
        [("note: str", "note: Annotated[str, StringConstraints(strip_whitespace=True)]")],
        stored=[('"late"', '"late "')],
    ),
    Change(
        "new field with a default in a pattern",
        [defaulted("5"), ("    by_level", '    by_more = AccessPattern("MORE#{more}", "{customer_id}")\n    by_level')],
        [("backfill", "Customer.by_more", "new pattern")],
        [defaulted("5")],
        stored=[],
    ),
    Change(
        "a changed default",
        [defaulted("6")],
        [("backfill", "Customer.more", "default")],
        [defaulted("5")],
        stored=[],
    ),
    Change(
        "a changed default of a nested model",
        [("sku: str", "sku: str\n    more: str = 'b'")],
        [("backfill", "Customer.lines.more", "default")],
        [("sku: str", "sku: str\n    more: str = 'a'")],
        stored=[],
    ),
    Change(
        "a default that becomes None",
        [defaulted("None", "int | None")],
        [("backfill", "Customer.more", "default")],
        [defaulted("5", "int | None")],
        stored=[],
    ),
    Change(
        "a default that validation changes",
        [
            configured(CUSTOMER, "validate_default=True"),
            defaulted("'A'", "Annotated[str, StringConstraints(to_lower=True)]"),
        ],
        [("backfill", "Customer.more", "default")],
        [defaulted("'A'", "Annotated[str, StringConstraints(to_lower=True)]")],
        stored=[],
    ),
    Change(
        "a default that is made",
        [defaulted("Field(default_factory=lambda: 6)")],
        [("backfill", "Customer.more", "default")],
        [defaulted("5")],
        stored=[],
    ),
    Change(
        "a default that is made and then validated",
        [configured(CUSTOMER, "validate_default=True"), defaulted("Field(default_factory=lambda: '5')")],
        [("backfill", "Customer.more", "default")],
        [defaulted("Field(default_factory=lambda: '5')")],
        stored=[],
    ),
    Change(
        "another default that is made",
        [(LINE, f"def six() -> int:\n    return 6\n\n{LINE}"), defaulted("Field(default_factory=six)")],
        [("backfill", "Customer.more", "default")],
        [(LINE, f"def five() -> int:\n    return 5\n\n{LINE}"), defaulted("Field(default_factory=five)")],
        stored=[],
    ),
]

ORPHANS = [
    Change(
        "two stored names swapped",
        [
            ("visits: int = 0", 'visits: Annotated[int, Stored("size")] = 0'),
            ("size: int = 0", 'size: Annotated[int, Stored("visits")] = 0'),
        ],
        [("orphans", "Customer.visits", "stored name"), ("orphans", "Customer.size", "stored name")],
    ),
    Change(
        "the stored name of another field",
        [
            ("visits: int = 0", 'visits: Annotated[int, Stored("size")] = 0'),
            ("    size: int = 0\n", ""),
            ("size=4,", ""),
        ],
        [("orphans", "Customer.visits", "stored name")],
    ),
    Change(
        "text that is made small by the configuration",
        [configured(CUSTOMER, "str_to_lower=True")],
        [("orphans", "Customer", "limits")],
        [('"late"', '"LATE"')],
    ),
    Change(
        "text that is made large by the configuration",
        [configured(CUSTOMER, "str_to_upper=True")],
        [("orphans", "Customer", "limits")],
    ),
    Change(
        "text that is stripped by the configuration",
        [configured(CUSTOMER, "str_strip_whitespace=True")],
        [("orphans", "Customer", "limits")],
        [('"late"', '" late "')],
    ),
    Change(
        "a maximum in the configuration",
        [configured(CUSTOMER, "str_max_length=14")],
        [("orphans", "Customer", "limits")],
        [('"late"', '"later than never"')],
    ),
    Change(
        "a minimum in the configuration",
        [configured(CUSTOMER, "str_min_length=2"), ('    note: str = ""', "    note: str | None = None")],
        [("orphans", "Customer", "limits")],
        [('    note: str = ""', "    note: str | None = None"), ('"late"', '"l"')],
    ),
    Change(
        "numbers no longer read as text",
        [("visits: int = 0", 'visits: str = ""'), ("visits=3", 'visits="3"')],
        [("orphans", "Customer", "limits")],
        [
            configured(CUSTOMER, "coerce_numbers_to_str=True"),
            ("visits: int = 0", 'visits: str = ""'),
            ("visits=3", 'visits="3"'),
        ],
        stored=[],
    ),
    Change(
        "the configuration of a nested model",
        [configured(LINE, "str_to_upper=True")],
        [("orphans", "Customer.lines", "limits")],
    ),
    Change(
        "the configuration of a root model",
        [
            (LINE, f"class Root(RootModel):\n    root: str\n    model_config = ConfigDict(str_max_length=2)\n\n{LINE}"),
            *other("Root"),
        ],
        [("orphans", "Customer.other", "limits")],
        [(LINE, f"class Root(RootModel):\n    root: str\n\n{LINE}"), *other("Root", "Root('long')")],
    ),
    Change(
        "the configuration of a dataclass",
        [(LINE, f"@dataclass(config=ConfigDict(str_max_length=2))\nclass Data:\n    a: str\n\n{LINE}"), *other("Data")],
        [("orphans", "Customer.other", "limits")],
        [(LINE, f"@dataclass\nclass Data:\n    a: str\n\n{LINE}"), *other("Data", "Data('long')")],
    ),
    *(
        Change(
            f"{narrow} instead of {wide}",
            other(new),
            [("orphans", "Customer.other", "limits")],
            other(old, value),
        )
        for narrow, wide, new, old, value in [
            ("a past date", "any", "PastDate", "date", "date(9000, 1, 1)"),
            ("a future date", "any", "FutureDate", "date", "date(2001, 1, 1)"),
            ("past dates", "any", "list[PastDate]", "list[date]", "[date(9000, 1, 1)]"),
            ("a past timestamp", "any", "PastDatetime", "datetime", "datetime(9000, 1, 1, tzinfo=UTC)"),
            ("a future timestamp", "any", "FutureDatetime", "datetime", "datetime(2001, 1, 1, tzinfo=UTC)"),
            ("a size", "any int", "ByteSize", "int", "-1"),
            ("a file", "any path", "FilePath", "Path", "Path('/no/such/file')"),
            ("a predicate", "any text", "Annotated[str, Predicate(str.isupper)]", "str", "'abc'"),
            ("a negation", "any text", "list[Annotated[str, Not(str.islower)]]", "list[str]", "['abc']"),
            ("the left first", "smart", "Annotated[int | str, Field(union_mode='left_to_right')]", "int | str", "'1'"),
            ("smart", "the left first", "int | str", "Annotated[str | int, Field(union_mode='left_to_right')]", "1"),
        ]
    ),
    *(
        Change(f"Any instead of {old}", other("Any"), [("orphans", "Customer.other", "type")], other(old, value))
        for old, value in [
            ("float", "1.5"),
            ("UUID", "UUID(int=1)"),
            ("list[date]", "[date(2001, 1, 1)]"),
            ("Line", "Line(sku='s')"),
            ("Literal['a', 5] | Line", "Line(sku='s')"),
        ]
    ),
    Change(
        "a UUID as text that the configuration makes large",
        [configured(CUSTOMER, "str_to_upper=True"), *other("str")],
        [("orphans", "Customer.other", "type")],
        [configured(CUSTOMER, "str_to_upper=True"), *other("UUID", "UUID(int=10)")],
    ),
    Change(
        "a date as text of too few characters in a nested model",
        [
            configured(LINE, "str_max_length=5"),
            ("amount: int = 1", "amount: str = '2001-01-01'"),
            ("amount=2", "amount='2002'"),
        ],
        [("orphans", "Customer.lines.amount", "type")],
        [
            configured(LINE, "str_max_length=5"),
            ("amount: int = 1", "amount: date = date(2001, 1, 1)"),
            ("amount=2", "amount=date(2002, 2, 2)"),
        ],
    ),
    Change(
        "a limit in a named tuple",
        [(NOTE, PAIR.format("a: Annotated[int, Field(le=5)]; b: int") + NOTE)],
        [("orphans", "Customer.pair", "limits")],
        [(NOTE, PAIR.format("a: int; b: int") + NOTE), ("level=7", "level=7, pair=(9, 2)")],
    ),
    Change(
        "a flag removed in a list",
        [(NOTE, FLAGS.format("ONE = 1").replace("flags: Flags = Flags(0)", "flags: list[Flags] = []") + NOTE)],
        [("orphans", "Customer.flags", "limits")],
        [
            (
                NOTE,
                FLAGS.format("ONE, TWO = 1, 2").replace("flags: Flags = Flags(0)", "flags: list[Flags] = []") + NOTE,
            ),
            ("level=7", "level=7, flags=[3]"),
        ],
    ),
    Change(
        "unknown flags no longer allowed",
        [(NOTE, FLAGS.format("ONE = 1").replace("(Flag)", "(Flag, boundary=STRICT)") + NOTE)],
        [("orphans", "Customer.flags", "limits")],
        [
            (NOTE, FLAGS.format("ONE = 1").replace("(Flag)", "(Flag, boundary=KEEP)") + NOTE),
            ("level=7", "level=7, flags=Customer.Flags(9)"),
        ],
    ),
    Change(
        "an enum that reads unknown values",
        [
            (LINE, f"class Kind(Enum):\n    A = 'a'\n    B = 'b'\n\n{LINE}"),
            *other("Kind"),
        ],
        [("orphans", "Customer.other", "validators")],
        [
            (
                LINE,
                f"""\
class Kind(Enum):
    A = "a"
    B = "b"

    @classmethod
    def _missing_(cls, value):
        return cls.A

{LINE}""",
            ),
            *other("Kind", "Kind.A"),
        ],
    ),
    Change(
        "a validator of an annotation",
        other("Annotated[str, AfterValidator(str.lower)]"),
        [("orphans", "Customer.other", "validators")],
        other("str", "'ABC'"),
    ),
    Change(
        "a validator that is gone",
        other("int"),
        [("orphans", "Customer.other", "validators")],
        other("Annotated[int, BeforeValidator(abs)]", "5"),
        stored=other("int", "-5"),
    ),
    Change(
        "a validator within a list",
        other("list[Annotated[str, AfterValidator(str.lower)]]"),
        [("orphans", "Customer.other", "validators")],
        other("list[str]", "['ABC']"),
    ),
    Change(
        "a field validator",
        [
            (
                PRIMARY,
                f"""\
    @field_validator("note")
    @classmethod
    def small(cls, value):
        return value.lower()

{PRIMARY}""",
            )
        ],
        [("orphans", "Customer.note", "validators")],
        [('"late"', '"LATE"')],
    ),
    Change(
        "a model validator",
        [
            (
                PRIMARY,
                f"""\
    @model_validator(mode="before")
    @classmethod
    def noted(cls, values):
        return {{**values, "note": "x"}}

{PRIMARY}""",
            )
        ],
        [("orphans", "Customer", "validators")],
    ),
    Change(
        "what happens after validation of a nested model",
        [
            (
                "    amount: int = 1",
                "    amount: int = 1\n\n    def model_post_init(self, context):\n        self.amount = 5",
            )
        ],
        [("orphans", "Customer.lines", "validators")],
    ),
    Change(
        "validation that is no longer skipped",
        other("Annotated[int, Field(le=5)]"),
        [("orphans", "Customer.other", "validators")],
        other("SkipValidation[Annotated[int, Field(le=5)]]", "9"),
    ),
    Change("version taken back", [], [("orphans", "Customer", "version")], VERSION_2),
    Change(
        "primary template",
        [('"CUSTOMER#{customer_id}", "PROFILE"', '"CLIENT#{customer_id}", "PROFILE"')],
        [("orphans", "Customer.primary", "primary key")],
    ),
    Change("sort template", [('"ORDER#{order_id}"', '"O#{order_id}"')], [("orphans", "Order.primary", "primary key")]),
    Change(
        "width of a primary key",
        [("lt=1000)", "lt=10000)")],
        [
            ("orphans", "Visit.primary", "primary key"),
            ("orphans", "Visit.by_customer", "template"),
            ("safe", "Visit.number", "limits"),
        ],
    ),
    Change(
        "offset of a key",
        [("ge=0, lt=100)", "ge=-10, lt=90)")],
        [("orphans", "Customer.by_level", "template"), ("orphans", "Customer.level", "limits")],
    ),
    Change(
        "a tighter bound of the same width",
        [("lt=100)", "lt=90)")],
        [("orphans", "Customer.level", "limits")],
        [("level=7", "level=95")],
    ),
    Change(
        "a pattern for a text",
        [("note: str", "note: Annotated[str, Field(pattern='^s|^$')]"), ('"late"', '"soon"')],
        [("orphans", "Customer.note", "limits")],
    ),
    Change(
        "a shorter nested text",
        [("sku: str", "sku: Annotated[str, Field(max_length=2)]")],
        [("orphans", "Customer.lines.sku", "limits")],
        [('sku="s1"', 'sku="long"')],
    ),
    Change(
        "fewer digits before the point",
        [(NOTE, AMOUNT.format(3) + NOTE)],
        [("orphans", "Customer.amount", "limits")],
        [(NOTE, AMOUNT.format(2) + NOTE), ("level=7", "level=7, amount=Decimal(123)")],
    ),
    Change(
        "a shorter text in a list",
        [(NOTE, LISTS.format(2) + NOTE)],
        [("orphans", "Customer.codes", "limits")],
        [(NOTE, LISTS.format(9) + NOTE), ("level=7", 'level=7, codes={"a": ["long"]}')],
    ),
    Change(
        "a smaller number in a union",
        [(NOTE, UNION.format(2) + NOTE)],
        [("orphans", "Customer.either", "limits")],
        [(NOTE, UNION.format(9) + NOTE), ("level=7", "level=7, either=5")],
    ),
    Change(
        "a smaller number in a root model",
        [(NOTE, ROOT.format(2) + NOTE)],
        [("orphans", "Customer.root", "limits")],
        [(NOTE, ROOT.format(9) + NOTE), ("level=7", "level=7, root=5")],
    ),
    Change(
        "a text that is made small",
        [("email: str", "email: Annotated[str, StringConstraints(to_lower=True)]"), ("a@", "A@")],
        [("orphans", "Customer.email", "limits")],
        [("a@", "A@")],
    ),
    Change(
        "another version of UUID",
        [(NOTE, "    token: UUID4 | None = None\n" + NOTE)],
        [("orphans", "Customer.token", "limits")],
        [(NOTE, "    token: UUID | None = None\n" + NOTE), ("level=7", "level=7, token=UUID(int=1)")],
    ),
    Change(
        "a UUID as one of some texts",
        [(NOTE, '    token: Literal["a"] | None = None\n' + NOTE)],
        [("orphans", "Customer.token", "type")],
        [(NOTE, "    token: UUID | None = None\n" + NOTE), ("level=7", "level=7, token=UUID(int=1)")],
    ),
    Change(
        "a flag removed",
        [(NOTE, FLAGS.format("ONE = 1") + NOTE)],
        [("orphans", "Customer.flags", "allowed values")],
        [(NOTE, FLAGS.format("ONE, TWO = 1, 2") + NOTE), ("level=7", "level=7, flags=3")],
    ),
    Change(
        "order of a named tuple",
        [(NOTE, PAIR.format("b: int; a: int") + NOTE)],
        [("orphans", "Customer.pair", "type")],
        [(NOTE, PAIR.format("a: int; b: int") + NOTE), ("level=7", "level=7, pair=(1, 2)")],
    ),
    Change(
        "bounds taken away",
        [("Annotated[int, Field(ge=0, lt=100)]", "int")],
        [("orphans", "Customer.by_level", "template"), ("safe", "Customer.level", "limits")],
    ),
    Change("order of a key", [('"{placed_at}"', '"{placed_at:desc}"')], [("orphans", "Order.by_date", "template")]),
    Change("format of a key", [('"{placed_at}"', '"{placed_at:ms}"')], [("orphans", "Order.by_date", "template")]),
    Change(
        "padding of a key", [('"EMAIL#{email}"', '"EMAIL#{email:<40}"')], [("orphans", "Customer.by_email", "template")]
    ),
    Change("index template", [('"EMAIL#{email}"', '"MAIL#{email}"')], [("orphans", "Customer.by_email", "template")]),
    Change(
        "sort added to a pattern",
        [('"EMAIL#{email}"', '"EMAIL#{email}", "{level}"')],
        [("orphans", "Customer.by_email", "template")],
    ),
    Change(
        "when",
        [('field("status") == "open"', 'field("status") == "closed"')],
        [("orphans", "Customer.by_level", "when")],
    ),
    Change("when taken away", [(', when=field("status") == "open"', "")], [("orphans", "Customer.by_level", "when")]),
    Change(
        "shards",
        [sharded("8, by='order_id'")],
        [("orphans", "Order.by_date", "shards")],
        [UNSHARDED],
    ),
    Change(
        "no shards any more",
        [UNSHARDED],
        [("orphans", "Order.by_date", "shards")],
        [sharded("8, by='order_id', was=1")],
    ),
    Change(
        "another number of shards, and not what it was",
        [sharded("16, by='order_id', was=4")],
        [("orphans", "Order.by_date", "shards")],
        [sharded("8, by='order_id'")],
    ),
    Change(
        "random shards by a field, and what they were",
        [sharded("16, by='order_id', was=8")],
        [("orphans", "Order.by_date", "shards")],
        [sharded("8")],
    ),
    Change(
        "shards of the primary key",
        [('"ORDER#{order_id}")', '"ORDER#{order_id}", shards=Shards(8, by="order_id"))')],
        [("orphans", "Order.primary", "shards")],
    ),
    Change(
        "another number of shards of the primary key",
        [('"ORDER#{order_id}")', '"ORDER#{order_id}", shards=Shards(8, by="order_id"))')],
        [("orphans", "Order.primary", "shards")],
        [('"ORDER#{order_id}")', '"ORDER#{order_id}", shards=Shards(4, by="order_id"))')],
    ),
    Change(
        "another number of shards",
        [sharded("9, by='order_id'")],
        [("orphans", "Order.by_date", "shards")],
        [sharded("8, by='order_id'")],
    ),
    Change(
        "fewer random shards",
        [sharded("2")],
        [("orphans", "Order.by_date", "shards")],
        [sharded("10")],
    ),
    Change(
        "random shards of more digits",
        [sharded("11")],
        [("orphans", "Order.by_date", "shards")],
        [sharded("10")],
    ),
    Change(
        "random shards by a field",
        [sharded("8, by='order_id'")],
        [("orphans", "Order.by_date", "shards")],
        [sharded("8")],
    ),
    Change(
        "template of a local pattern",
        [BY_PLACE, ('"{placed_at}", local', '"{placed_at:desc}", local')],
        [("orphans", "Order.by_place", "template")],
        [BY_PLACE],
    ),
    Change("entity removed", [(ORDER, ""), (ORDER_ITEM, "")], [("orphans", "Order", "removed entity")]),
    Change(
        "class renamed without its tag",
        [("Order(", "Purchase(")],
        [("orphans", "Order", "removed entity"), ("safe", "Purchase", "new entity")],
    ),
    Change(
        "tag changed",
        [("class Visit(Entity, table=shop)", 'class Visit(Entity, table=shop, tag="V")')],
        [("orphans", "Visit", "removed entity"), ("safe", "Visit", "new entity")],
    ),
    Change(
        "field renamed",
        [("note", "remark")],
        [("orphans", "Customer.note", "removed field"), ("safe", "Customer.remark", "new field")],
    ),
    Change(
        "stored name",
        [('note: str = ""', 'note: Annotated[str, Stored("n")] = ""')],
        [("orphans", "Customer.note", "stored name")],
    ),
    Change(
        "nested field renamed",
        [("sku", "article")],
        [
            ("orphans", "Customer.lines.article", "new field without default"),
            ("orphans", "Customer.lines.sku", "removed field"),
        ],
    ),
    Change(
        "new field without default",
        [("    email: str", "    phone: str\n    email: str"), ("email=", 'phone="5", email=')],
        [("orphans", "Customer.phone", "new field without default")],
    ),
    Change(
        "default removed",
        [("nick: str | None = None", "nick: str | None"), ('"b@example.com"', '"b@example.com", nick=None')],
        [("orphans", "Customer.nick", "default")],
    ),
    Change(
        "None no longer allowed",
        [("nick: str | None = None", "nick: str"), ('"b@example.com"', '"b@example.com", nick="x"')],
        [("orphans", "Customer.nick", "type")],
        [
            ("nick: str | None = None", "nick: str | None"),
            ('"b@example.com"', '"b@example.com", nick=None'),
        ],
    ),
    Change(
        "type",
        [("visits: int = 0", 'visits: str = ""'), ("visits=3", 'visits="3"')],
        [("orphans", "Customer.visits", "type")],
    ),
    Change(
        "type within a nested model",
        [("amount: int = 1", "amount: date = date(2026, 1, 1)"), ("amount=2", "amount=date(2026, 1, 2)")],
        [("orphans", "Customer.lines.amount", "type")],
    ),
    Change(
        "allowed value removed",
        [('"closed"]', '"done"]'), ('"closed"', '"done"')],
        [("orphans", "Customer.status", "allowed values")],
    ),
    Change(
        "text no longer free",
        [("note: str", 'note: Literal["", "soon"]'), ('"late"', '"soon"')],
        [("orphans", "Customer.note", "allowed values")],
    ),
    Change(
        "TTL moved",
        [("gone_at: datetime | None", "gone_at: Annotated[datetime | None, TTL]")],
        [("orphans", "Customer", "TTL")],
        [WITH_TTL],
    ),
]
