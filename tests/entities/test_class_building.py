"""Classes of every shape that pydantic allows build, and their fields stay references."""

from __future__ import annotations

import gc
from abc import ABC, abstractmethod
from threading import Barrier, Thread
from types import new_class
from typing import Annotated, Any, ClassVar, Generic, Literal, TypeVar

import pytest
from pydantic import BaseModel, ConfigDict, Field, computed_field, create_model, field_validator

from odm import AccessPattern, Entity, PrimaryKey, Revision, SchemaError, Store, Table, field
from odm.backends.local import Memory
from odm.entities.markers import RevisionMarker, find_marker
from odm.expressions.nodes import Path
from odm.expressions.references import Reference, path_of

T = TypeVar("T")


def fields_of(cls: type[Entity]) -> dict[str, object]:
    """The defaults that pydantic took, after a check that the table compiles and every field is a reference."""
    for name in cls.model_fields:
        assert path_of(getattr(cls, name)) == Path((name,), cls)
    return {name: info.get_default(call_default_factory=True) for name, info in cls.model_fields.items()}


def test_inherited_defaults_are_values_not_references() -> None:
    class Base(Entity):
        id: str = "?"
        count: int = 3
        tags: list[str] = Field(default_factory=lambda: ["new"])

    class Child(Base, table=Table("shop")):
        size: int = 4

        primary = PrimaryKey("CHILD#{id}")

    assert fields_of(Child) == {"id": "?", "count": 3, "tags": ["new"], "size": 4}
    assert Child() == Child(id="?", count=3, tags=["new"], size=4)
    assert not isinstance(Child().count, Reference)


def test_a_subclass_overrides_defaults_types_and_patterns() -> None:
    class Base(Entity):
        id: str
        status: str = "draft"
        price: int = 1

        primary = PrimaryKey("BASE#{id}")
        by_status = AccessPattern("STATUS#{status}")

    table = Table("shop")

    class Child(Base, table=table):
        status: str = "open"
        price: int = 2

        by_status = AccessPattern("CHILD#{status}", "{id}")

    entity = table.compile().entity(Child)
    assert fields_of(Child)["price"] == 2
    assert Child(id="1") == Child(id="1", status="open", price=2)
    assert (entity.primary.partition.text, entity.patterns["by_status"].partition.text) == (
        "BASE#{id}",
        "CHILD#{status}",
    )


def test_an_unannotated_default_of_a_subclass_is_a_clear_error() -> None:
    class Base(Entity):
        status: str = "draft"

    with pytest.raises(Exception, match="status"):

        class Child(Base):
            status = "open"


def test_a_forward_reference_is_resolved_when_the_table_compiles() -> None:
    table = Table("shop")

    class Node(Entity, table=table):
        id: str
        above: Node | None = None
        part: Part | None = None

        primary = PrimaryKey("NODE#{id}")

    class Part(BaseModel):
        name: str = "bolt"

    Node.model_rebuild(_types_namespace={"Node": Node, "Part": Part})
    assert table.compile().entity(Node).name == "Node"
    assert fields_of(Node)["above"] is None
    assert Node.model_validate({"id": "1", "above": {"id": "0"}, "part": {}}).part == Part()


def test_a_forward_reference_that_is_never_defined_is_a_schema_error() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        id: str
        line: Missing  # type: ignore[name-defined]  # noqa: F821  # pyright: ignore[reportUndefinedVariable]

        primary = PrimaryKey("ORDER#{id}")

    with pytest.raises(SchemaError, match=r"Order: 'Missing' in its annotations is not defined.*Order\.model_rebuild"):
        table.compile()


def test_a_deferred_build_keeps_inherited_defaults() -> None:
    class Base(Entity):
        model_config = ConfigDict(defer_build=True)
        id: str = "?"

    class Child(Base, table=Table("shop")):
        count: int = 3

        primary = PrimaryKey("CHILD#{id}")

    assert Child().model_dump() == {"id": "?", "count": 3}
    assert fields_of(Child) == {"id": "?", "count": 3}


def test_abstract_bases_are_no_entities() -> None:
    class Base(Entity, ABC):
        id: str

        primary = PrimaryKey("{id}")

        @abstractmethod
        def price(self) -> int: ...

    table = Table("shop")

    class Book(Base, table=table):
        def price(self) -> int:
            return 1

    with pytest.raises(TypeError, match="abstract"):
        Base(id="1")  # type: ignore[abstract]  # pyright: ignore[reportAbstractUsage]
    with pytest.raises(SchemaError, match=r"Base is not an entity: it has no table of its own"):
        Base.primary(id="1")
    assert list(table.compile().entities) == ["Book"]
    assert repr(Book.primary) == "Book.primary"


def test_mixins_bring_fields_and_patterns() -> None:
    class Named(BaseModel):
        name: str = "?"

    class Owned(Entity):
        owner: str

        by_owner = AccessPattern("OWNER#{owner}", "{id}")

    table = Table("shop")

    class Car(Named, Owned, table=table):
        id: str

        primary = PrimaryKey("CAR#{id}")

    assert fields_of(Car).keys() == {"owner", "name", "id"}
    assert table.compile().entity(Car).patterns.keys() == {"by_owner"}


def test_a_generic_origin_is_abstract_and_its_concrete_subclass_is_stored() -> None:
    class Event(Entity, Generic[T]):
        id: str
        payload: T
        kind: str = "event"

        primary = PrimaryKey("EVENT#{id}")

    table = Table("shop")

    class Counted(Event[int], table=table):
        pass

    class Named(Event[str], table=table):
        primary = PrimaryKey("NAMED#{id}")

    with Store(table, Memory()) as db:
        db.create()
        db.put(Counted(id="1", payload=5))
        assert db.one(Counted, id="1").payload == 5
        assert db.get(Named, id="1") is None
    assert fields_of(Counted)["kind"] == "event"
    concrete: Any = Event[int]
    assert path_of(concrete.payload) == Path(("payload",), concrete)
    with pytest.raises(ValueError, match="payload"):
        Counted.model_validate({"id": "1", "payload": "x"})


def test_a_subclass_of_an_entity_states_its_own_primary_key() -> None:
    table = Table("shop")

    class Order(Entity, table=table):
        id: str

        primary = PrimaryKey("ORDER#{id}")

    def cell(**body: object) -> None:
        body |= {"__module__": __name__, "__qualname__": "Rush"}
        new_class("Rush", (Order,), {"table": table}, lambda namespace: namespace.update(body))

    cell()
    with pytest.raises(SchemaError, match=r"Rush inherits from an entity and must state its own primary key.*Rush"):
        table.compile()
    cell(primary=PrimaryKey("RUSH#{id}"))
    assert set(table.compile().entities) == {"Order", "Rush"}


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"


def test_a_discriminated_union_field() -> None:
    class Owner(Entity, table=Table("shop")):
        id: str
        pet: Dog | Cat = Field(discriminator="kind", default=Dog())

        primary = PrimaryKey("OWNER#{id}")

    assert fields_of(Owner)["pet"] == Dog()
    assert path_of(Owner.pet.kind).segments == ("pet", "kind")


class Extra:
    """Something that a user lets stand in the class body."""


CONFIG = ConfigDict(ignored_types=(Extra,), validate_assignment=True)


class Settings(BaseModel):
    model_config = CONFIG


@pytest.mark.parametrize(
    ("bases", "arguments", "body"),
    [((Entity,), {}, {"model_config": CONFIG}), ((Entity,), CONFIG, {}), ((Entity, Settings), {}, {})],
    ids=["in the class", "as arguments", "by a mixin"],
)
def test_ignored_types_of_the_user_are_merged(bases: Any, arguments: Any, body: dict[str, Any]) -> None:
    table = Table("shop")
    common = {"__module__": __name__, "__annotations__": {"id": str}, "primary": PrimaryKey("O#{id}"), "extra": Extra()}
    cls: Any = new_class("Order", bases, {"table": table, **arguments}, lambda names: names.update(common, **body))
    assert cls.model_config.get("validate_assignment") is True
    assert list(cls.model_fields) == ["id"]
    assert table.compile().entity(cls).primary.name == "primary"


def test_private_attributes_class_variables_and_computed_fields_are_no_references() -> None:
    class Order(Entity, table=Table("shop")):
        id: str
        _cache: dict[str, int] = {}
        limit: ClassVar[int] = 5

        primary = PrimaryKey("ORDER#{id}")

        @computed_field
        def label(self) -> str:
            return f"order {self.id}"

    assert list(fields_of(Order)) == ["id"]
    assert Order.limit == 5
    assert not isinstance(Order.label, Reference)
    assert not hasattr(Order, "_missing")
    assert Order(id="1")._cache == {}


def test_validators_see_no_references() -> None:
    class Base(Entity):
        id: str
        email: str = "ANN@X.ORG"

        @field_validator("email")
        @classmethod
        def lower(cls, value: str) -> str:
            assert isinstance(cls.email, Reference)
            return value.lower()

    class User(Base, table=Table("shop")):
        model_config = ConfigDict(validate_default=True)

        primary = PrimaryKey("USER#{id}")

    assert User(id="1").email == "ann@x.org"


def test_a_class_made_by_a_function() -> None:
    made = create_model("Made", __base__=Entity, id=(str, ...), count=(int, 3))
    assert fields_of(made)["count"] == 3


def test_redefinition_in_a_notebook_cell_replaces_the_class() -> None:
    table = Table("shop")

    def cell() -> Any:
        class Order(Entity, table=table):
            id: str
            total: int = 0

            primary = PrimaryKey("ORDER#{id}")

        return Order

    before = cell()
    first, now = table.compile(), cell()
    with Store(table, Memory()) as db:
        db.create()
        assert type(db.put(now(id="1", total=5))) is now
        assert table.compile() is not first
        with pytest.raises(
            SchemaError, match=r"Order is not an entity of table 'shop'; it has since been declared again.*new class"
        ):
            db.put(before(id="1"))


def test_threads_that_build_classes_do_not_disturb_threads_that_use_references() -> None:
    class Base(Entity):
        id: str = "?"
        count: int = 3

    faults: list[object] = []
    barrier = Barrier(4)

    def build() -> None:
        barrier.wait()
        for number in range(40):
            made = create_model(f"Made{number}", __base__=Base, extra=(int, number))
            if made.model_fields["count"].default != 3 or made.model_fields["id"].default != "?":
                faults.append(made.model_fields)

    def use() -> None:
        barrier.wait()
        for _ in range(4000):
            try:
                path_of(Base.count)
            except (AttributeError, TypeError) as error:
                faults.append(error)

    threads = [Thread(target=work) for work in (build, build, use, use)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    gc.collect()


def test_markers_are_found_wherever_they_stand() -> None:
    class Order(Entity):
        plain: Annotated[int, Revision] = 0
        inside: Annotated[int, Revision] | None = None
        outside: Annotated[int | None, Revision] = None
        element: list[Annotated[int, Revision]] = []

    found = [name for name, info in Order.model_fields.items() if find_marker(info, RevisionMarker)]
    assert found == ["plain", "inside", "outside"]


def test_a_pattern_prints_as_it_was_written() -> None:
    assert repr(PrimaryKey("A#{id}")) == 'PrimaryKey("A#{id}")'
    assert repr(AccessPattern("A#{id}", "B")) == 'AccessPattern("A#{id}", "B")'


@pytest.mark.parametrize("when", [True, False, "status"])
def test_when_takes_only_conditions(when: Any) -> None:
    with pytest.raises(TypeError, match=r"when= takes conditions on fields"):
        AccessPattern("OPEN", when=when)
    assert AccessPattern("OPEN", when=field("status") == "open").when is not None
