"""A model, and the changes that an application makes to it: what each must be found to be.

The model is source text, so that a change is a replacement in it. `ITEMS` are what is stored.
"""

from typing import Any, NamedTuple

from odm import Entity, Table

HEAD = """
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import Enum, Flag
from typing import Annotated, Literal, NamedTuple
from uuid import UUID
from pydantic import UUID4, BaseModel, Field, RootModel, StringConstraints
from odm import upgrade, TTL, AccessPattern, Columns, Counter, Entity, PrimaryKey, Revision, Shards, Stored, Table
from odm import field
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
    names: dict[str, Any] = {"__name__": "shop_of_a_test"}
    exec(HEAD + source, names)
    return Model(names["shop"], names["ITEMS"], names)


class Change(NamedTuple):
    """A change from one model to another, and the findings it must give: level, where, change."""

    name: str
    new: list[tuple[str, str]]
    findings: list[tuple[str, str, str]]
    old: list[tuple[str, str]] = []


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
    Change("None allowed", [("note: str = ", "note: str | None = ")], [("safe", "Customer", "details")]),
    Change("an int as a Decimal", [("size: int", "size: Decimal")], [("safe", "Customer.size", "type")]),
    Change(
        "a text of a known form as any text",
        [('"late"', "str(UUID(int=1))"), ('"b@example.com"', '"b@example.com", note=str(UUID(int=2))')],
        [("safe", "Customer.note", "type")],
        [
            ('note: str = ""', "note: UUID = UUID(int=0)"),
            ('"late"', "UUID(int=1)"),
            ('"b@example.com"', '"b@example.com", note=UUID(int=2)'),
        ],
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
]

ORPHANS = [
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
    Change(
        "pattern removed from a shared index",
        [('    by_date = AccessPattern("BY#{customer_id}", "{placed_at}", index="dated")\n', "")],
        [("orphans", "Order.by_date", "removed pattern")],
        [('"{placed_at}"', '"VISIT#{order_id}"')],
    ),
    Change(
        "pattern moved from a shared index",
        [('"{placed_at}", index="dated"', '"VISIT#{order_id}", index="other"')],
        [("orphans", "Order.by_date", "index")],
        [('"{placed_at}"', '"VISIT#{order_id}"')],
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
