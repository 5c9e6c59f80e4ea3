"""Whatever a pydantic model does, an entity is stored by field names and comes back equal."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any, Generic, Literal, TypeVar
from uuid import UUID, uuid4

import pytest
from pydantic import (
    AliasPath,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    Tag,
    ValidationInfo,
    ValidatorFunctionWrapHandler,
    computed_field,
    field_serializer,
    field_validator,
    model_serializer,
    model_validator,
)

from odm.backends.dynamodb.items.loading import Loader
from odm.codec import EntityCodec, compile_codec
from odm.entities.markers import Stored
from odm.errors import BadValue, ItemInvalid
from tests.backends.dynamodb.forms import forms
from tests.codec.test_texts import same

T = TypeVar("T")
NOW = datetime(2024, 5, 6, 7, 8, 9, 10, tzinfo=UTC)


def round_trip(entity: BaseModel) -> EntityCodec:
    codec = compile_codec(type(entity), "Tag")
    item = codec.encode(entity)
    assert codec.decode(item) == entity
    for form in forms(codec.encode(entity)):
        assert same(Loader([codec]).load(form, codec.tag), codec.decode(codec.encode(entity)))
    return codec


class Address(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)
    street: Annotated[str, Stored("s")]
    since: datetime
    area: Decimal = Field(default=Decimal(0), alias="Area")
    notes: set[str] = set()


def test_strict_models() -> None:
    class Order(BaseModel):
        model_config = ConfigDict(strict=True)
        at: datetime
        id: UUID
        rate: float = Field(strict=True)
        total: Decimal
        where: Address
        tags: frozenset[str] = frozenset()
        took: timedelta = timedelta(seconds=1)
        pair: tuple[int, datetime]

    address = Address(street="x", since=NOW, Area=Decimal("2.5"))
    entity = Order(at=NOW, id=uuid4(), rate=1.0, total=Decimal(1), where=address, pair=(1, NOW))
    codec = round_trip(entity)
    where = codec.encode(entity)["where"]
    assert where == {"s": "x", "since": "2024-05-06T07:08:09.000010Z", "area": Decimal("2.5")}
    where["unknown"] = 5
    assert codec.decode({**codec.encode(entity), "where": where}) == entity


def test_frozen_models_with_aliases_excluded_fields_and_serializers() -> None:
    class Order(BaseModel):
        model_config = ConfigDict(frozen=True, alias_generator=str.upper)
        total: Decimal = Field(exclude=True)
        city: str = Field(validation_alias=AliasPath("address", "city"))
        at: datetime

        @field_serializer("at")
        def iso(self, value: datetime) -> str:
            return "never stored"

        @model_serializer(mode="wrap")
        def nothing(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
            return {}

    entity = Order.model_validate({"TOTAL": "1.5", "address": {"city": "Ulm"}, "AT": NOW})
    codec = round_trip(entity)
    assert codec.encode(entity) == {
        "total": Decimal("1.5"),
        "city": "Ulm",
        "at": "2024-05-06T07:08:09.000010Z",
        "_t": "Tag",
    }


def test_validators_of_all_modes_see_the_load_context_and_python_values() -> None:
    seen: dict[str, Any] = {}

    class Order(BaseModel):
        at: datetime
        rate: float
        total: Decimal
        name: str

        @field_validator("at", mode="before")
        @classmethod
        def before(cls, value: Any, info: ValidationInfo) -> Any:
            seen["before"] = value, info.context
            return value.replace(second=0)

        @field_validator("rate", mode="wrap")
        @classmethod
        def wrap(cls, value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
            return handler(max(0.0, value * 1.0))

        @field_validator("total", mode="before")
        @classmethod
        def quantize(cls, value: Any) -> Any:
            return value.quantize(Decimal("0.01"))

        @field_validator("name", mode="after")
        @classmethod
        def after(cls, value: str) -> str:
            return value.strip()

    entity = Order(at=NOW, rate=2.0, total=Decimal(3), name=" x ")
    assert entity.at.second == 0
    round_trip(entity)
    assert seen["before"] == (entity.at, {"odm": "load"})


def test_model_validators() -> None:
    class Order(BaseModel):
        start: datetime
        end: datetime
        took: timedelta = timedelta(0)

        @model_validator(mode="before")
        @classmethod
        def fill(cls, data: dict[str, Any]) -> dict[str, Any]:
            return {"end": data["start"] + timedelta(hours=1), **data}

        @model_validator(mode="wrap")
        @classmethod
        def around(cls, data: Any, handler: Callable[[Any], Any]) -> Any:
            return handler(data)

        @model_validator(mode="after")
        def check(self) -> "Order":
            assert self.end >= self.start
            self.took = self.end - self.start
            return self

    codec = round_trip(Order(start=NOW))  # type: ignore[call-arg]
    assert codec.validate("end", NOW) == NOW


def test_a_nested_models_before_validator_is_given_python_values_and_its_own_dict() -> None:
    class Line(BaseModel):
        at: datetime

        @model_validator(mode="before")
        @classmethod
        def fill(cls, data: Any) -> Any:
            if isinstance(data, dict):
                data["at"] = data["at"].replace(microsecond=0)
            return data

    class Order(BaseModel):
        line: Line

    codec = compile_codec(Order, "Order")
    entity = Order(line=Line(at=NOW))
    item = codec.encode(entity)
    assert codec.decode(item) == entity
    assert item == codec.encode(entity)


def test_computed_private_and_cached_attributes_are_not_stored() -> None:
    class Order(BaseModel):
        total: int
        _secret: int = PrivateAttr(default=1)

        @computed_field  # type: ignore[prop-decorator]
        @property
        def double(self) -> int:
            return 2 * self.total

    entity = Order(total=1)
    assert entity.double == 2
    assert round_trip(entity).encode(entity) == {"total": 1, "_t": "Tag"}


def test_default_factories_and_fields_added_later() -> None:
    class Order(BaseModel):
        id: UUID = Field(default_factory=uuid4)
        lines: list[int] = Field(default_factory=lambda: [1])
        tags: set[str] = Field(default_factory=lambda: {"new"})
        note: str | None = None
        must: str | None

    entity = Order(must=None, tags=set(), lines=[])
    codec = round_trip(entity)
    assert codec.encode(entity) == {"id": str(entity.id), "lines": [], "must": None, "_t": "Tag"}
    assert codec.decode({"id": str(entity.id), "must": None}).lines == [1]


class Branch(BaseModel):
    kind: Literal["branch"] = "branch"
    children: list["Branch | Leaf"] = []
    parent: "Branch | None" = None
    by_name: dict[str, "Branch"] = {}
    seen: set[int] = set()


class Leaf(BaseModel):
    kind: Literal["leaf"] = "leaf"
    at: datetime


def test_recursive_models() -> None:
    leaf = Leaf(at=NOW)
    inner = Branch(children=[leaf], seen={1})
    entity = Branch(children=[leaf, inner], parent=inner, by_name={"a": inner})
    codec = round_trip(entity)
    assert codec.decode(codec.encode(entity)).children[1].seen == {1}
    assert codec.validate("children", [leaf]) == [leaf]


class Envelope(BaseModel, Generic[T]):
    body: T
    other: list[T] = []


class BoundToModel(BaseModel, Generic[T]):
    envelope: Envelope[T]


def test_generic_models() -> None:
    round_trip(Envelope[datetime](body=NOW, other=[NOW]))
    round_trip(BoundToModel[timedelta](envelope=Envelope[timedelta](body=timedelta(1))))
    round_trip(Envelope(body={"a": 1}))


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: timedelta


class Dog(BaseModel):
    kind: Literal["dog", "hound"]
    lives: timedelta


class Fish(BaseModel):
    fins: int
    name: str | None = None


def kind_of(value: Any) -> str:
    return str(value["kind"] if isinstance(value, dict) else value.kind)


def test_unions_of_models() -> None:
    class Owner(BaseModel):
        pet: Annotated[Cat | Dog, Field(discriminator="kind")]
        pets: list[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")]] = []
        called: Annotated[Annotated[Cat, Tag("cat")] | Annotated[Dog, Tag("dog")], Discriminator(kind_of)] | None = None
        any_pet: Cat | Fish | None = None

    cat, dog = Cat(kind="cat", lives=timedelta(9)), Dog(kind="dog", lives=timedelta(1))
    round_trip(Owner(pet=dog, pets=[cat, dog], called=cat, any_pet=Fish(fins=2)))
    round_trip(Owner(pet=cat, any_pet=cat))


class Parcel(BaseModel):
    weight: float


class Letter(BaseModel):
    weight: int
    colour: str = "white"


def test_models_told_apart_by_what_they_always_store() -> None:
    class Post(BaseModel):
        sent: list[Letter | Parcel]
        lost: list[Parcel | Letter]

    things: list[Any] = [Letter(weight=1), Parcel(weight=1.0), Parcel(weight=0.5)]
    entity = Post(sent=things, lost=things)
    assert round_trip(entity).encode(entity)["lost"] == [
        {"weight": 1, "colour": "white"},
        {"weight": 1},
        {"weight": Decimal("0.5")},
    ]


def test_a_stored_union_member_that_does_not_validate_is_reported() -> None:
    class Owner(BaseModel):
        pet: Cat | Dog

    with pytest.raises(ItemInvalid, match="pet"):
        compile_codec(Owner, "Owner").decode({"pet": {"kind": "cat", "lives": "x"}})
    with pytest.raises(ItemInvalid, match="pet"):
        compile_codec(Owner, "Owner").decode({"pet": {"kind": "cow", "lives": 1}})


def test_an_own_init() -> None:
    class Order(BaseModel):
        model_config = ConfigDict(validate_by_name=True)
        total: int = Field(alias="Total")
        at: datetime

        def __init__(self, **data: Any) -> None:
            assert isinstance(data["at"], datetime)
            super().__init__(**data)

    round_trip(Order(total=1, at=NOW))


def test_extra_attributes() -> None:
    class Order(BaseModel):
        model_config = ConfigDict(extra="allow")
        total: int

    codec = round_trip(Order(total=1))
    assert codec.decode({"total": 1, "_t": "Tag", "_ttl": 5, "x": 2}).model_extra == {}
    with pytest.raises(BadValue, match=r"Order: has the extra attributes 'x'.*declare"):
        codec.encode(Order.model_validate({"total": 1, "x": 2}))


def test_unknown_attributes_of_nested_models_are_ignored() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        x: int

    class Open(BaseModel):
        model_config = ConfigDict(extra="allow")
        x: int

    class Order(BaseModel):
        closed: Closed
        open: Open

    nested = {"x": 1, "unknown": 2}
    entity = compile_codec(Order, "Order").decode({"closed": nested, "open": nested})
    assert entity == Order(closed=Closed(x=1), open=Open(x=1))


def test_subclasses_are_not_written_as_their_base() -> None:
    class Order(BaseModel):
        total: int

    class Special(Order):
        more: int = 0

    class Holder(BaseModel):
        order: Order

    with pytest.raises(BadValue, match=r"not of type Order"):
        compile_codec(Order, "Order").encode(Special(total=1))
    with pytest.raises(BadValue, match=r"Holder\.order: .*not of type Order"):
        compile_codec(Holder, "Holder").encode(Holder(order=Special(total=1)))


@dataclass(slots=True)
class Money:
    amount: Decimal
    at: datetime | None = None
    tags: frozenset[str] = frozenset()


def test_dataclasses() -> None:
    class Order(BaseModel):
        price: Money
        prices: list[Money] = []

    entity = Order(price=Money(Decimal("1.5"), NOW), prices=[Money(Decimal(1))])
    codec = round_trip(entity)
    assert codec.encode(entity)["prices"] == [{"amount": 1}]


def test_annotated_validators_inside_containers() -> None:
    class Order(BaseModel):
        rates: list[Annotated[float, BeforeValidator(lambda value: value * 1.0)]]

    round_trip(Order(rates=[0.1, 1.0]))


def test_assignment_of_a_wrong_type_is_never_written() -> None:
    class Order(BaseModel):
        total: Decimal
        where: Address | None = None

    entity = Order(total=Decimal(1), where=Address(street="x", since=NOW))
    codec = compile_codec(Order, "Order")
    entity.total = "x"  # type: ignore[assignment]
    with pytest.raises(BadValue, match=r"Order\.total: 'x' \(of type str\) is not of type Decimal"):
        codec.encode(entity)
    entity.total = Decimal(1)
    entity.where.since = "y"  # type: ignore[union-attr]
    with pytest.raises(BadValue, match=r"Order\.where\.since: 'y'"):
        codec.encode(entity)
    with pytest.raises(BadValue, match=r"Order\.total: has no value"):
        codec.encode(Order.model_construct())
    with pytest.raises(BadValue, match=r"Order: .*not of type Order"):
        codec.encode("order")
