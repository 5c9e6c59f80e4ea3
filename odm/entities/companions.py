"""What a model knows of companions: declarations in its body whose own items are written with its items.

A pointer to the newest order, a claim on an e-mail address, the kept versions of a document: each is stored in items of
its own, which every write of the entity has to keep right. `odm.Companion` is what such a declaration derives from.

Here is what the compiler needs of one. What it does in a write is above, in `odm.procedures.calls`.
"""

from collections.abc import Iterable, Mapping, Sequence
from inspect import getattr_static
from types import new_class
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, TypeVar

from attrs import frozen

from odm.entities.markers import Marker, Stored
from odm.entities.metaclass import ReferringModel
from odm.entities.upgrades import upgrades_of
from odm.entities.views import SchemaView
from odm.keys.types import stripped

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.entities.query import Query

E = TypeVar("E", bound=ReferringModel)


@frozen
class Effect(Generic[E]):
    """What a write makes of one item.

    Attributes:
        key: of the item.
        old: the item as it was read, and still is when the write is done; None: it was not there, or was not read.
        new: the item as it will be; None: it goes.
        mark: what the companion has marked the old item with; see `CompanionWrites.mark`.
    """

    key: "Query[Any]"
    old: E | None
    new: E | None
    mark: str | None = None


class BaseCompanion:
    """What `odm.Companion` is made of; it says what the attributes and methods mean.

    Attributes:
        name: the attribute name.
    """

    name: str = ""
    reads: ClassVar[bool] = False
    reads_without_transaction: ClassVar[bool] = False
    deletes: ClassVar[bool] = False

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        return self.of(owner)

    def of(self, entity: "type[Entity]") -> Any:
        """What the attribute is on the class of an entity."""
        return self

    def entities(self, entity: "type[Entity]") -> "Sequence[type[Entity]]":
        """The classes of its own items, made by `make` once, when the table is compiled.

        Raises:
            SchemaError: the declaration does not fit the entity.
        """
        return ()

    def check(self, entity: "type[Entity]", schema: SchemaView, *, transactions: bool) -> None:
        """Refuse what can only be seen when all is compiled.

        Args:
            entity: in which it is declared.
            schema: what `odm.Table.compile` gives.
            transactions: True: it is called at the end of that. False: it is called when a store connects to a backend
                that writes one item at a time.

        Raises:
            SchemaError: the declaration does not fit the entity.
            Unsupported: it cannot be kept right on such a backend; the message says what to do.
        """

    def sources(self, entity: "type[Entity]") -> frozenset[str] | None:
        """The fields that decide about its items; an update of others is none of its business. None: all of them."""
        return None

    def copies(self, entity: "type[Entity]", names: Iterable[str]) -> dict[str, Any]:
        """Fields for `make` that hold what these of the entity do, under their stored names, but never None.

        They have no role such as TTL.
        """
        found: dict[str, Any] = {}
        for name in names:
            info = entity.model_fields[name]
            kind, metadata = stripped(info.annotation, info.metadata)
            for one in metadata:
                kind = kind if isinstance(one, Marker) and not isinstance(one, Stored) else Annotated[kind, one]
            found[name] = kind
        return found

    def make(
        self,
        owner: "type[Entity]",
        base: "type[Entity]",
        fields: Mapping[str, Any],
        declared: Mapping[str, Any],
        part: str = "",
        *,
        upgraded: bool = False,
    ) -> "type[Any]":
        """The class of its own items, in the table of the entity; its tag is the entity's, a dot, and the name.

        Args:
            owner: the entity in which the companion is declared.
            base: what the class derives from: `odm.Entity`, or an abstract entity.
            fields: the type of each field, or ``(type, default)``.
            declared: what else stands in its body: a PrimaryKey at least.
            part: tells the classes of one companion apart.
            upgraded: it stores what the entity stores, so it has the version of the entity and its upgrades.
        """
        part = f".{part}" if part else ""
        body = {
            "__annotations__": {name: kind[0] if isinstance(kind, tuple) else kind for name, kind in fields.items()},
            "__module__": owner.__module__,
            "__qualname__": f"{owner.__qualname__}.{self.name}{part}",
            **{name: kind[1] for name, kind in fields.items() if isinstance(kind, tuple)},
            **({name: getattr_static(owner, name) for name, _ in upgrades_of(owner)} if upgraded else {}),
            **declared,
        }
        options: dict[str, Any] = {"table": owner.__odm_table__, "tag": f"{owner.__odm_tag__}.{self.name}{part}"}
        options |= {"version": owner.__odm_version__} if upgraded else {}
        return new_class(f"{owner.__name__}.{self.name}{part}", (base,), options, lambda space: space.update(body))


def companions_of(entity: type) -> tuple[BaseCompanion, ...]:
    """The companions of a class, inherited ones first."""
    found: dict[str, BaseCompanion] = {}
    for base in reversed(entity.__mro__):
        found.update({name: value for name, value in vars(base).items() if isinstance(value, BaseCompanion)})
    return tuple(found.values())
