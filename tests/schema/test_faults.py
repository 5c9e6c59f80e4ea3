"""Every fault of a model is a SchemaError that names class, pattern or field, fault and fix."""

import re
from collections.abc import Callable
from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from types import new_class
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, computed_field

from odm import (
    HLL,
    TTL,
    AccessPattern,
    CellVersions,
    Columns,
    Counter,
    Entity,
    Max,
    MaxAge,
    MaxVersions,
    Min,
    PrimaryKey,
    Revision,
    SchemaError,
    Shards,
    Stored,
    Sum,
    Table,
    Unsupported,
    exists,
    field,
)
from odm.expressions.collection import any_of
from odm.extend import Companion
from odm.schema.checks import check_indexes
from odm.schema.model import IndexSchema, Schema

Declare = Callable[[Table], object]


def declare_entity(table: Table, annotations: dict[str, Any], name: str = "Order", **body: Any) -> None:
    """An entity whose fields are known at run time only."""
    body |= {"__annotations__": annotations, "__module__": __name__, "__qualname__": name}
    new_class(name, (Entity,), {"table": table}, lambda namespace: namespace.update(body))


FAULTS: list[Any] = []


def fault(*says: str) -> Callable[[Declare], Declare]:
    """A declaration that must be refused with a message that holds all of these, in order."""

    def add(declare: Declare) -> Declare:
        FAULTS.append(pytest.param(declare, says, id=declare.__name__))
        return declare

    return add


@fault("Order", "no primary key", "PrimaryKey(")
def no_primary(table: Table) -> None:
    class Order(Entity, table=table):
        id: str


def in_family(table: Table, marker: Any, annotation: Any = str, **body: Any) -> None:
    declare_entity(table, {"id": str, "x": Annotated[annotation, marker]}, primary=PrimaryKey("A#{id}"), **body)


@fault("class Order", "family='d'", "1 to 64 letters", "not one of odm's own, c, d, i")
def own_family(table: Table) -> None:
    class Order(Entity, table=table, family="d"):
        id: str
        primary = PrimaryKey("A#{id}")


@fault("Order.x", "family='a b'", "1 to 64 letters")
def family_with_a_space(table: Table) -> None:
    in_family(table, Stored(family="a b"))


@fault("class Order", "gc=MaxVersions(2) has no family", "name one with family=")
def rule_without_family(table: Table) -> None:
    class Order(Entity, table=table, gc=MaxVersions(2)):
        id: str
        primary = PrimaryKey("A#{id}")


@fault("Order.x", "gc=MaxVersions(2) has no family", "name one with Stored(family=)")
def rule_of_a_field_without_family(table: Table) -> None:
    in_family(table, Stored("y", gc=MaxVersions(2)))


@fault("class Order", "gc=5 is not a rule", "MaxVersions(5)")
def rule_of_a_number(table: Table) -> None:
    class Order(Entity, table=table, family="x", gc=5):
        id: str
        primary = PrimaryKey("A#{id}")


@fault("class Order", "more than 20 rules")
def rule_of_many(table: Table) -> None:
    class Order(Entity, table=table, family="x", gc=any_of(map(MaxVersions, range(1, 30)))):
        id: str
        primary = PrimaryKey("A#{id}")


@fault("class Order", "Order.x", "different rules for the family 'n'", "gc=MaxVersions(2)", "gc=MaxAge(days=1)")
def two_rules(table: Table) -> None:
    class Order(Entity, table=table, family="n", gc=MaxVersions(2)):
        id: str
        x: Annotated[str, Stored(family="n", gc=MaxAge(days=1))] = ""
        primary = PrimaryKey("A#{id}")


@fault("Order.x", "marked by Stored twice")
def stored_twice(table: Table) -> None:
    in_family(table, Stored(family="n"), Annotated[str, Stored("y")])


@fault("Order.x", "does not apply to a Counter", "remove family=")
def counter_in_family(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        x: Annotated[int, Counter, Stored(family="n")] = 0
        primary = PrimaryKey("A#{id}")


@fault("Order.x", "marker in list[...]")
def family_of_elements(table: Table) -> None:
    declare_entity(table, {"id": str, "x": list[Annotated[str, Stored(family="n")]]}, primary=PrimaryKey("A#{id}"))


class WithFamily(BaseModel):
    y: Annotated[str, Stored(family="n")]


@fault("Order.x", "marker in WithFamily.y")
def family_in_a_nested_model(table: Table) -> None:
    declare_entity(table, {"id": str, "x": WithFamily}, primary=PrimaryKey("A#{id}"))


@fault("Order.x", "deleted by age (MaxAge(days=1))", "could not be read", "give the field a default")
def required_field_that_is_deleted_by_age(table: Table) -> None:
    in_family(table, Stored(family="n", gc=MaxAge(days=1)))


@fault("Order.x", "deleted by age (MaxAge(days=1))", "stands in a key")
def field_of_an_index_that_is_deleted_by_age(table: Table) -> None:
    in_family(table, Stored(family="n", gc=MaxAge(days=1)), str | None, x=None, by_x=AccessPattern("X#{x}"))


@fault("Order: Bigtable deletes its items by age (MaxAge(days=1) of family 'n')", "but not the Counter 'x'")
def counter_of_an_entity_that_is_deleted_by_age(table: Table) -> None:
    class Order(Entity, table=table, family="n", gc=MaxAge(days=1)):
        id: str
        x: Annotated[int, Counter] = 0
        primary = PrimaryKey("A#{id}")


@fault("Order: Bigtable deletes its items by age", "but not those that unique keeps of them")
def companion_of_an_entity_that_is_deleted_by_age(table: Table) -> None:
    class Deleting(Companion):
        deletes = True

    class Order(Entity, table=table, family="n", gc=MaxAge(days=1)):
        id: str
        primary = PrimaryKey("A#{id}")
        unique = Deleting()


@fault("Order", "2 primary keys (primary, other)", "exactly one")
def two_primaries(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("A#{id}")
        other = PrimaryKey("B#{id}")


@fault("Order.primary", "every item would overwrite", "{order_id}, with braces?")
def forgotten_braces(table: Table) -> None:
    class Order(Entity, table=table):
        order_id: str
        primary = PrimaryKey("ORDER#order_id")


@fault("Order.by_date", "CUSTOMER#{custmer_id}", "no field 'custmer_id'", "did you mean customer_id?", "customer_id")
def unknown_field_in_a_template(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        customer_id: str
        primary = PrimaryKey("ORDER#{id}")
        by_date = AccessPattern("CUSTOMER#{custmer_id}")  # type: ignore[odm]


class Dated(Entity):
    id: str

    @computed_field
    def month(self) -> str:
        return self.id[:7]

    @computed_field
    def day(self) -> date:
        return date.fromisoformat(self.id)


@fault("Order.primary", "month is a computed field", "would move the item", "in an AccessPattern")
def computed_field_in_a_primary_key(table: Table) -> None:
    class Order(Dated, table=table):
        primary = PrimaryKey("MONTH#{month}#{id}")


@fault("Order.by_year", "day is a computed field", "compute the text")
def computed_field_in_a_part(table: Table) -> None:
    class Order(Dated, table=table):
        primary = PrimaryKey("ORDER#{id}")
        by_year = AccessPattern("YEAR#{day:%Y}")


@fault("Order.by_id", "index=1", "is text")
def name_of_an_index_that_is_no_text(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("ORDER#{id}")
        by_id = AccessPattern("ORDERS", "{id}", index=1)  # type: ignore[arg-type]


@fault("Order.by_month", "'month' is a computed field", "name a stored field")
def computed_field_as_shard(table: Table) -> None:
    class Order(Dated, table=table):
        primary = PrimaryKey("ORDER#{id}")
        by_month = AccessPattern("ORDERS", "{month}", shards=Shards(4, by="month"))


def test_keys_of_several_attributes_have_no_computed_field() -> None:
    table = Table("shop", key_style="verbatim", index_keys={"by_month": (("month", "id"),)})
    patterns = {"primary": PrimaryKey("ORDER#{id}"), "by_month": AccessPattern("{month}#{id}")}
    new_class("Order", (Dated,), {"table": table}, lambda body: body.update(patterns))
    with pytest.raises(SchemaError, match=r"Order\.by_month: .* month is a computed field.*: declare it as a field"):
        table.compile()


def test_primary_keys_as_they_are_have_no_computed_field() -> None:
    table = Table("shop", key_style="verbatim")
    new_class("Order", (Dated,), {"table": table}, lambda body: body.update(primary=PrimaryKey("ORDER#{id}#{month}")))
    with pytest.raises(SchemaError, match=r"Order\.primary: month is a computed field, .* use .* in an AccessPattern"):
        table.compile()


def test_a_field_is_not_read_from_a_key_with_a_computed_field() -> None:
    table = Table("shop", key_style="verbatim")
    patterns = {"primary": PrimaryKey("ORDER#{id}"), "by_month": AccessPattern("MONTH#{month}", "{month}#{place}")}
    body = {"__annotations__": {"place": str}, **patterns}
    new_class("Order", (Dated,), {"table": table}, lambda namespace: namespace.update(body))
    with pytest.raises(SchemaError, match=r"Order\.place stands only in the index key .* store it as an attribute too"):
        table.compile()


def _declare_lock(table: Table, name: str, own: str, asked: str) -> None:
    body = {"__annotations__": {"id": str, own: str, "both": str}, "primary": PrimaryKey("{id}")}
    options = {"table": table, "match": exists(field(asked))}
    new_class(name, (Entity,), options, lambda space: space.update(body, __module__=__name__))


LACKING = r"one item can fit both match= .* or each for an attribute that the other class does not have"


@pytest.mark.parametrize(
    ("options", "asked", "message"),
    [
        ({}, ("info", "digest"), None),
        ({"keep_unknown": True}, ("info", "digest"), rf"{LACKING}, or drop Table\(keep_unknown=True\)"),
        ({"exclusive": True}, ("info", "digest"), rf"{LACKING}, or drop Table\(exclusive=True\)"),
        ({}, ("info", "both"), f"{LACKING}$"),
        ({}, ("both", "digest"), f"{LACKING}$"),
        ({}, ("info", "id"), f"{LACKING}$"),
    ],
)
def test_entities_that_need_other_attributes(
    options: dict[str, bool], asked: tuple[str, str], message: str | None
) -> None:
    table: Table = Table("locks", key_style="verbatim", tag=None, **options)  # type: ignore[call-overload]
    _declare_lock(table, "Lock", "info", asked[0])
    _declare_lock(table, "State", "digest", asked[1])
    if message is None:
        table.compile()
    else:
        with pytest.raises(SchemaError, match=message):
            table.compile()


class Weight(float, Enum):
    LIGHT = 0.5


UNORDERED: list[Any] = [list[str], dict[str, str], set[str], Any, tuple[int, int], Weight, Literal[1, "2"], int | str]


@pytest.mark.parametrize("annotation", UNORDERED, ids=str)
def test_unordered_key_types(annotation: Any) -> None:
    table = Table("shop")
    by_value = AccessPattern("VALUE#{value}")
    declare_entity(table, {"id": str, "value": annotation}, primary=PrimaryKey("ORDER#{id}"), by_value=by_value)
    with pytest.raises(
        SchemaError, match=r"Order\.by_value: key template 'VALUE#\{value\}'.*\{value\}.*use one of str, int, Lit"
    ):
        table.compile()


@fault("Order.by_total", "{total}", "Decimal needs a fixed number of places", "decimal_places=2")
def decimal_without_places(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        total: Decimal
        primary = PrimaryKey("ORDER#{id}")
        by_total = AccessPattern("ALL", "{total}")


@fault("Order.primary", "a component is empty", "both sides of every '#'")
def empty_component(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("ORDER##{id}")


@fault("Order.primary", "{first}", "'{second}' cannot follow", "put '#' between")
def two_texts_without_a_break(table: Table) -> None:
    class Order(Entity, table=table):
        first: str
        second: str
        primary = PrimaryKey("ORDER#{first}{second}")


@fault("Order.primary", "'{'", "no partner")
def open_brace(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("ORDER#{id")  # type: ignore[odm]


@fault("Order.newest", "{name:desc}", "text and bytes have no opposite order", "drop desc")
def descending_text(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        name: str
        primary = PrimaryKey("ORDER#{id}")
        newest = AccessPattern("ALL", "{name:desc}")


@fault("table 'shop'", "Order", "Return", "same key", "Begin one of the templates with a literal", "RETURN#")
def entities_whose_keys_meet(table: Table) -> None:
    class Order(Entity, table=table):
        customer_id: str
        id: str
        primary = PrimaryKey("CUSTOMER#{customer_id}", "{id}")

    class Return(Entity, table=table):
        customer_id: str
        primary = PrimaryKey("CUSTOMER#{customer_id}", "RETURN")


@fault("'shop' needs 21 indexes", "by_0, by_1", "20", "share", "index='gsi1'")
def indexes_21(table: Table) -> None:
    for number in range(21):
        primary, pattern = PrimaryKey(f"E{number}#{{id}}"), AccessPattern(f"E{number}#{{id}}")
        declare_entity(table, {"id": str}, f"Entity{number}", primary=primary, **{f"by_{number}": pattern})


@fault("Order.by_id", "'by id'", "cannot name an index", 'index="..."')
def index_name(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        primary = PrimaryKey("ORDER#{id}")
        by_id = AccessPattern("ORDER#{id}", index="by id")


@fault("Order.by_date and Order.by_id", "same index 'gsi1'", "one entry", "index=")
def two_patterns_in_one_index(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        at: datetime
        primary = PrimaryKey("ORDER#{id}")
        by_id = AccessPattern("ORDER#{id}", index="gsi1")
        by_date = AccessPattern("DAY#{at:%Y%m%d}", index="gsi1")


@fault("tests.schema.test_faults.", "Order and tests.", "Basket have the same tag 'o'", "'shop'", "tag=...")
def duplicate_tags(table: Table) -> None:
    class Basket(Entity, table=table, tag="o"):
        id: str
        primary = PrimaryKey("BASKET#{id}")

    class Order(Entity, table=table, tag="o"):
        id: str
        primary = PrimaryKey("ORDER#{id}")


@fault("Order", "tag is empty", 'tag="..."')
def empty_tag(table: Table) -> None:
    class Order(Entity, table=table, tag=""):
        id: str
        primary = PrimaryKey("ORDER#{id}", "X")


@fault("Order", "UTF-8", "tag 'o\\ud800'", 'tag="..."')
def tag_that_is_no_text(table: Table) -> None:
    class Order(Entity, table=table, tag="o\ud800"):
        id: str
        primary = PrimaryKey("ORDER#{id}", "X")


@fault("Order.name", "stored name 'n\\ud800'", "UTF-8", 'Stored("...")')
def stored_name_that_is_no_text(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        name: Annotated[str, Stored("n\ud800")]
        primary = PrimaryKey("ORDER#{id}")


@fault("Line.name", "stored name ''", "empty", 'Stored("...")')
def stored_name_that_is_empty(table: Table) -> None:
    class Line(BaseModel):
        name: Annotated[str, Stored("")]

    class Order(Entity, table=table):
        id: str
        lines: list[Line]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.id", "stored name '_id' is reserved", "begin with '_'", 'Stored("...")')
def reserved_underscore(table: Table) -> None:
    class Order(Entity, table=table):
        id: Annotated[str, Stored("_id")]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.pk", "'pk' is already a", "key attribute of table 'shop'", 'Stored("...")')
def reserved_key_attribute(table: Table) -> None:
    class Order(Entity, table=table):
        pk: str
        primary = PrimaryKey("ORDER#{pk}")


@fault("Order.gsi1sk", "'gsi1sk' is already a", "key attribute", 'Stored("...")')
def reserved_index_attribute(table: Table) -> None:
    class Order(Entity, table=table):
        gsi1sk: str
        primary = PrimaryKey("ORDER#{gsi1sk}")
        by_id = AccessPattern("ORDER#{gsi1sk}", index="gsi1")


@fault("Order.b and Order.a", "same stored name 'x'", 'Stored("...")')
def twin_stored_names(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        a: Annotated[str, Stored("x")]
        b: Annotated[str, Stored("x")]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.views", "Counter or Revision", "template", "remove the marker")
def counter_in_a_template(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        views: Annotated[int, Counter] = 0
        primary = PrimaryKey("ORDER#{id}")
        popular = AccessPattern("ALL", "{views}")


@fault("Order.best", "an aggregate", "template", "remove the marker")
def aggregate_in_a_template(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        best: Annotated[int | None, Max] = None
        primary = PrimaryKey("ORDER#{id}")
        popular = AccessPattern("ALL", "{best}")


@fault("Order.best", "a Max is an int, or None before the first value", "Annotated[int | None, Max] = None")
def a_greatest_text(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        best: Annotated[str | None, Max] = None  # type: ignore[odm]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.least", "a Min is an int, or None before the first value", "Annotated[int | None, Min] = None")
def a_minimum_of_nothing(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        least: Annotated[int, Min] = 0
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.views", "an aggregate has no other role", "keep one of the markers")
def two_aggregates(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        views: Annotated[int, Sum, Counter] = 0
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.revision", "Counter or Revision", "template", "remove the marker")
def revision_in_a_template(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        revision: Annotated[int, Revision] = 0
        primary = PrimaryKey("ORDER#{id}", "{revision}")


@fault("Order.views", "Counter or Revision", "when=", "remove the marker")
def counter_in_when(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        views: Annotated[int, Counter] = 0
        primary = PrimaryKey("ORDER#{id}")
        popular = AccessPattern("ALL", "{id}", when=field("views") > 100)


@fault("Order.price", "CellVersions cannot be part of a key", "template", "remove the marker")
def former_values_in_a_template(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        price: Annotated[int, CellVersions(5)]
        primary = PrimaryKey("ORDER#{id}")
        cheap = AccessPattern("ALL", "{price}")


@fault("Order.expires", "CellVersions cannot be combined", "TTL", "keep one of the markers")
def former_values_of_a_ttl(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        expires: Annotated[datetime, TTL, CellVersions(5)]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.price", "CellVersions(1)", "from 2 to 1000")
def one_version(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        price: Annotated[int, CellVersions(1)]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.price", "marked by CellVersions without a count", "CellVersions(5)")
def versions_without_a_count(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        price: Annotated[int, CellVersions]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order", "several fields as Revision: a, b", "keep one")
def two_revisions(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        a: Annotated[int, Revision] = 0
        b: Annotated[int, Revision] = 0
        primary = PrimaryKey("ORDER#{id}")


@fault("Order", "several fields as TTL: a, b", "keep one")
def two_ttls(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        a: Annotated[datetime, TTL]
        b: Annotated[datetime, TTL]
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.expires", "TTL marks a datetime")
def ttl_of_a_number(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        expires: Annotated[int, TTL]  # type: ignore[odm]
        primary = PrimaryKey("ORDER#{id}")


@pytest.mark.parametrize(
    ("annotation", "default"),
    [(int, 1), (int, ...), (float, 0), (int | None, 0), (Annotated[int, Field(ge=0)], 0)],
    ids=["starts at 1", "required", "float", "may be None", "bounded"],
)
@pytest.mark.parametrize("marker", [Counter, Revision, Sum], ids=["Counter", "Revision", "Sum"])
def test_counters_and_revisions_are_unbounded_ints_from_0(marker: object, annotation: Any, default: Any) -> None:
    table = Table("shop")
    annotations = {"id": str, "number": Annotated[annotation, marker]}
    declare_entity(table, annotations, number=Field(default), primary=PrimaryKey("ORDER#{id}"))
    with pytest.raises(SchemaError, match=r"Order\.number: .*unbounded int that starts at 0: number: Annotated\[int, "):
        table.compile()


def test_no_backend_reads_an_estimate() -> None:
    table = Table("shop")
    annotations = {"id": str, "visitors": Annotated[int, HLL]}
    declare_entity(table, annotations, visitors=Field(0), primary=PrimaryKey("ORDER#{id}"))
    with pytest.raises(Unsupported, match=r"Order\.visitors: HLL.*only the bytes of the sketch"):
        table.compile()


class Pair(BaseModel):
    left: str


@pytest.mark.parametrize("annotation", [str, list[str], dict[str, int] | list[int], Any, Pair], ids=str)
def test_columns_are_members_of_a_set_or_dict(annotation: Any) -> None:
    table = Table("shop")
    annotations = {"id": str, "tags": Annotated[annotation, Columns]}
    declare_entity(table, annotations, primary=PrimaryKey("ORDER#{id}"))
    with pytest.raises(
        SchemaError, match=r"^Order\.tags: Columns is for a set .* tags: Annotated\[set\[str\], Columns\]"
    ):
        table.compile()


class Visit(BaseModel):
    at: Annotated[datetime, TTL]


class Note(BaseModel):
    text: Annotated[str, Stored("t")] = ""
    replies: "list[Note]" = []


@pytest.mark.parametrize(
    ("annotation", "where"),
    [
        (list[Annotated[int, Counter]], r"list\[\.\.\.\]"),
        (dict[str, Annotated[set[str], Columns]], "dict"),
        (set[Annotated[str, Columns]], "set"),
        (list[dict[str, Annotated[str, Stored("s")] | None]], "dict"),
        (Visit, "Visit.at"),
        (list[Visit | None], "Visit.at"),
    ],
)
def test_a_role_is_the_fields_own(annotation: Any, where: str) -> None:
    table = Table("shop")
    declare_entity(table, {"id": str, "tags": annotation}, primary=PrimaryKey("ORDER#{id}"))
    with pytest.raises(SchemaError, match=rf"^Order\.tags: .* in {where}.* mark the field itself.*Annotated\["):
        table.compile()


def test_a_nested_model_may_have_stored_names_and_hold_itself() -> None:
    table = Table("shop")
    moment: Any = Annotated[datetime, TTL]
    declare_entity(table, {"id": str, "note": Note, "at": moment | None}, primary=PrimaryKey("N#{id}"))
    assert next(iter(table.compile().entities.values())).ttl == "at"


OPTIONAL: list[Any] = [str | None, Literal["a", None], Annotated[str | None, Field()]]  # noqa: PYI061


@pytest.mark.parametrize("annotation", OPTIONAL, ids=str)
def test_a_primary_field_that_may_be_none(annotation: Any) -> None:
    table = Table("shop")
    declare_entity(table, {"id": annotation}, primary=PrimaryKey("ORDER#{id}", "ORDER"))
    with pytest.raises(SchemaError, match=r"Order\.primary: field 'id' may be None.*Make 'id' required"):
        table.compile()


@fault("Order.tags", "set", "None")
def a_set_that_may_be_none(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        tags: set[str] | None = None
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.tags", "default")
def a_set_with_a_default(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        tags: set[str] = {"a"}
        primary = PrimaryKey("ORDER#{id}")


@fault("Order.open_ones", "when=", "Order", "'statsu'", "did you mean 'status'?")
def unknown_field_in_when(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        status: str = "open"
        primary = PrimaryKey("ORDER#{id}")
        open_ones = AccessPattern("OPEN", "{id}", when=field("statsu") == "open")  # type: ignore[odm]


@fault("Order.open_ones", "when=", "Order.status")
def a_value_of_another_type_in_when(table: Table) -> None:
    class Order(Entity, table=table):
        id: str
        status: str = "open"
        primary = PrimaryKey("ORDER#{id}")
        open_ones = AccessPattern("OPEN", "{id}", when=field("status") == 5)


@fault("table 'shop'", "no entities", "import the module")
def no_entities(table: Table) -> None:
    pass


@pytest.mark.parametrize(("declare", "says"), FAULTS)
def test_a_fault_is_named_with_its_fix(declare: Declare, says: tuple[str, ...]) -> None:
    table = Table("shop")
    declare(table)
    with pytest.raises(SchemaError, match="(?s)" + ".*".join(map(re.escape, says))):
        table.compile()


@pytest.mark.parametrize("name", ["copy", "json", "schema", "dict"])
def test_a_field_that_an_attribute_of_the_class_hides(name: str) -> None:
    table = Table("shop")
    with pytest.warns(UserWarning, match="shadows an attribute"):
        declare_entity(table, {"id": str, name: str}, primary=PrimaryKey("ORDER#{id}"))
    with pytest.raises(SchemaError, match=rf'Order\.{name}: .*hidden.*Rename the field.*Stored\("{name}"\)'):
        table.compile()


def test_a_fault_is_found_again_at_every_use_until_it_is_fixed() -> None:
    table = Table("shop")
    declare_entity(table, {"id": str})
    for _ in range(2):
        with pytest.raises(SchemaError, match="no primary key"):
            table.compile()
    declare_entity(table, {"id": str}, primary=PrimaryKey("ORDER#{id}"))
    assert list(table.compile().entities) == ["Order"]


TABLES: dict[str, Callable[[], object]] = {
    "short": lambda: Table("ab"),
    "long": lambda: Table("a" * 256),
    "slash": lambda: Table("a/b/c"),
    "not ASCII": lambda: Table("straße"),
    "number": lambda: Table(5),  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    "three keys": lambda: Table("shop", keys=("PK", "SK", "TK")),
    "same keys": lambda: Table("shop", keys=("PK", "PK")),
    "text keys": lambda: Table("shop", keys="ab"),
    "empty key": lambda: Table("shop", keys=("", "sk")),
    "no index key": lambda: Table("shop", index_keys={"gsi": ()}),
    "same index keys": lambda: Table("shop", index_keys={"gsi": ("GSI1PK", "GSI1PK")}),
    "layout": lambda: Table("shop", layout="wide"),  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
    "join": lambda: Table("shop", row_key_join="/"),  # type: ignore[call-overload]
    "transactions": lambda: Table("shop", transactions="yes"),  # type: ignore[call-overload]  # pyright: ignore[reportArgumentType]
}


def test_rows_of_other_programs_have_no_transactions() -> None:
    with pytest.raises(SchemaError, match="no place for the locks of transactions: leave transactions= out"):
        Table("shop", row_style="verbatim", transactions=True)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    Table("shop", row_style="verbatim", transactions=False)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize("transactions", [True, False])
def test_the_schema_says_whether_there_are_transactions(transactions: bool) -> None:
    table = Table("shop", transactions=transactions)
    declare_entity(table, {"id": str}, primary=PrimaryKey("ORDER#{id}"))
    assert table.compile().transactions is transactions


def test_a_table_has_no_transactions_by_default() -> None:
    table = Table("shop")
    declare_entity(table, {"id": str}, primary=PrimaryKey("ORDER#{id}"))
    assert table.compile().transactions is False


def projecting(*fields: int) -> Table:
    """A table whose indexes project so many fields, and with them the tag and the expiry."""
    table, names = Table("shop"), [f"f{n}" for n in range(20)]
    patterns = {f"by_{n}": AccessPattern("F#{f0}", projection=names[:count]) for n, count in enumerate(fields)}
    annotations = dict.fromkeys(["id", *names], str)
    body: dict[str, Any] = {"primary": PrimaryKey("ORDER#{id}"), **patterns}
    declare_entity(table, annotations, **body)
    return table


def test_limits_on_projected_attributes() -> None:
    projecting(18, 18, 18, 18, 18).compile()
    with pytest.raises(
        SchemaError,
        match=r"'by_1' .* projects 21 attributes in addition to keys \(including _t and _ttl\), but DynamoDB allows 20",
    ):
        projecting(1, 19).compile()
    with pytest.raises(
        SchemaError, match="project 103 attributes in addition to keys, but DynamoDB allows 100 together"
    ):
        projecting(18, 18, 18, 18, 18, 1).compile()


@pytest.mark.parametrize(
    "schema",
    [
        Schema(name="old", entities={}, indexes={}, keys=("P" * 256, "SK")),
        Schema(name="old", entities={}, indexes={"gsi": IndexSchema("gsi", (), keys=("G" * 256, "GSK"))}),
        Schema(name="old", entities={}, indexes={"i" * 254: IndexSchema("i" * 254, ())}),
        Schema(name="old", entities={}, indexes={"gsi": IndexSchema("gsi", (), projection=("f" * 256,))}),
    ],
)
def test_limits_on_names_of_key_attributes_and_projected_attributes(schema: Schema) -> None:
    with pytest.raises(SchemaError, match=r"'old': DynamoDB allows 255 characters .* has 256"):
        check_indexes(schema, ())


def test_a_table_is_checked_for_names_that_are_too_long() -> None:
    table = Table("shop", index_keys={"by_f": ("k" * 256, "sk")})
    pattern = AccessPattern("F#{f}", index="by_f")
    declare_entity(table, {"id": str, "f": str}, primary=PrimaryKey("ORDER#{id}"), pattern=pattern)
    with pytest.raises(SchemaError, match=r"255 characters in the name of a key attribute .* has 256"):
        table.compile()


@pytest.mark.parametrize("make", TABLES.values(), ids=TABLES)
def test_tables_that_can_not_be(make: Callable[[], object]) -> None:
    with pytest.raises(SchemaError, match=r"Table\("):
        make()


def test_one_key_attribute_is_told_what_becomes_of_the_second() -> None:
    with pytest.raises(SchemaError, match=r"not used if no primary key has a sort template\), not \(\)"):
        Table("shop", keys=())
    table = Table("shop", keys=("key", "unused"))
    declare_entity(table, {"id": str}, primary=PrimaryKey("ORDER#{id}"))
    assert table.compile().hash_only


def test_a_table_that_is_none_is_refused_where_it_stands() -> None:
    with pytest.raises(SchemaError, match=r"class Order: table='shop' is not a Table.*Table\('name'\)"):

        class Order(Entity, table="shop"):  # pyright: ignore[reportArgumentType]
            id: str


def test_a_tag_without_a_table_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"class Order: tag='o' needs table="):

        class Order(Entity, tag="o"):
            id: str


@pytest.mark.parametrize("keys", [("_t", "sk"), ("pk", "_ttl")])
def test_key_attributes_that_are_taken(keys: tuple[str, str]) -> None:
    table = Table("taken-keys", keys=keys)

    class Order(Entity, table=table):
        order_id: str
        primary = PrimaryKey("ORDER#{order_id}")
        by_id = AccessPattern("ID#{order_id}", index="gsi1")

    with pytest.raises(SchemaError, match=r"table 'taken-keys': the key attribute '\w+' is reserved"):
        table.compile()


@pytest.mark.parametrize(
    ("names", "said"),
    [
        ({"gsi2": ("A", "B")}, r"names 'gsi2', but no pattern has this index; there are gsi1, by_time, near; give"),
        ({"near": ("A",)}, r"gives index 'near' one key attribute: name two"),
        ({"by_time": ("A",), "gsi1": ("A",)}, r"by_id and Order.by_time both use the key attribute 'A'"),
        ({"gsi1": ("by_timepk", "B")}, r"Order.by_id and Order.by_time both use the key attribute 'by_timepk'"),
        ({"gsi1": ("A", "nearsk")}, r"Order.by_id and Order.near both use the key attribute 'nearsk'"),
        ({"gsi1": ("_A", "B")}, r"index_keys has '_A'; names that begin with '_' are reserved"),
        ({"gsi1": ("sk", "pk")}, r"Order.primary and Order.by_id both use the key attribute 'pk'"),
        ({"gsi1": ("order_id", "B")}, r"Order.order_id: the stored name 'order_id' is already a key attribute"),
    ],
)
def test_key_attributes_of_indexes_that_can_not_be(names: dict[str, tuple[str, str]], said: str) -> None:
    table = Table("shop", index_keys=names)

    class Order(Entity, table=table):
        order_id: str
        primary = PrimaryKey("ORDER#{order_id}", "ORDER")
        by_id = AccessPattern("ID#{order_id}", index="gsi1")
        by_time = AccessPattern("T#{order_id}")
        near = AccessPattern("ORDER#{order_id}", "N#{order_id}", local=True)

    with pytest.raises(SchemaError, match=said):
        table.compile()


@pytest.mark.parametrize("projection", ["none", "total", ("total", "nope"), ("order_id", "pk"), None, 5, [["total"]]])
def test_projections_that_can_not_be(projection: Any) -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        order_id: str
        total: int
        primary = PrimaryKey("ORDER#{order_id}")
        by_total = AccessPattern("TOTAL#{total}", projection=projection)

    with pytest.raises(SchemaError, match=r"Order\.by_total: projection=.*its fields are order_id, total"):
        table.compile()


def test_patterns_of_one_index_have_one_projection() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        order_id: str
        primary = PrimaryKey("ORDER#{order_id}")
        by_id = AccessPattern("O#{order_id}", index="gsi", projection="keys")

    class Customer(Entity, table=table):
        customer_id: str
        primary = PrimaryKey("CUSTOMER#{customer_id}")
        by_id = AccessPattern("C#{customer_id}", index="gsi")

    with pytest.raises(SchemaError, match=r"Order\.by_id and Customer\.by_id share the index 'gsi', but an"):
        table.compile()
