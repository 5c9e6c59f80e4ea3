"""Companions: declarations in a class body whose own items are written with the items of the entity.

A pointer to the newest order, a claim on an e-mail address, the kept versions of a document: each is stored in items
of its own, which every write of the entity keeps up to date. Such a declaration derives from `odm.extend.Companion`.

This module holds what the compiler needs of a companion. `odm.procedures.calls` holds what it does in a write.
"""

from collections.abc import Iterable, Mapping, Sequence
from inspect import getattr_static
from types import new_class
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Generic, Literal, TypeVar, cast

from odm._published import public_in
from odm.entities.markers import Compressed, Marker, Stored
from odm.entities.metaclass import ReferringModel
from odm.entities.upgrades import upgrades_of
from odm.entities.views import SchemaView
from odm.immutable import Immutable, evolve
from odm.keys.types import admits_none, stripped

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.entities.query import Query

E = TypeVar("E", bound=ReferringModel)


@public_in("odm.extend")
class Effect(Immutable, Generic[E]):
    """How a write changes one item.

    Attributes:
        key: the key of the item.
        old: the item that was read; the write is applied only if it is unchanged. None: it was absent, or was not read.
        new: the item after the write; None: the write deletes it.
        mark: the mark that the companion left on the old item; see `CompanionWrites.mark`.
    """

    key: "Query[Any]"
    old: E | None
    new: E | None
    mark: str | None = None


class BaseCompanion:
    """The base of `odm.extend.Companion`, which documents the attributes and methods.

    Attributes:
        name: the attribute name.
    """

    name: str = ""
    reads: ClassVar[bool] = False
    reads_without_transaction: ClassVar[bool] = False
    deletes: ClassVar[bool] = False
    loads: ClassVar[Literal["before", "after"] | None] = None

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        return self.of(owner)

    def of(self, entity: "type[Entity]") -> Any:
        """The value of the attribute on an entity class."""
        return self

    def entities(self, entity: "type[Entity]") -> "Sequence[type[Entity]]":
        """The classes of its own items. `make` creates them once, when the table is compiled.

        Raises:
            SchemaError: the declaration is not valid for the entity.
        """
        return ()

    def check(self, entity: "type[Entity]", schema: SchemaView, *, transactions: bool) -> None:
        """Check what can only be checked once all entities are compiled.

        Args:
            entity: the entity that declares the companion.
            schema: the result of `odm.Table.compile`.
            transactions: True when the table is compiled. False when a store connects to a backend that writes one item
                at a time.

        Raises:
            SchemaError: the declaration is not valid for the entity.
            Unsupported: such a backend cannot keep its items consistent; the message says what to do.
        """

    def sources(self, entity: "type[Entity]") -> frozenset[str] | None:
        """The fields that its items depend on; an update of other fields does not affect them. None: all fields."""
        return None

    def copies(self, entity: "type[Entity]", names: Iterable[str], *, optional: bool = False) -> dict[str, Any]:
        """Fields for `make` with the types and stored names of these entity fields.

        They have no role markers such as TTL, and no column family: its items are not deleted with those of the entity.

        Args:
            entity: the entity.
            names: the names of its fields.
            optional: the fields may be None where those of the entity may; otherwise none of them may.
        """
        annotations: dict[str, Any] = {}
        for name in names:
            info = entity.model_fields[name]
            kind, metadata = stripped(info.annotation, info.metadata)
            for mark in metadata:
                kept = evolve(mark, family=None, gc=None) if isinstance(mark, Stored) else mark
                is_role = isinstance(kept, Marker) and not isinstance(kept, Stored | Compressed)
                kind = kind if is_role or kept == Stored() else Annotated[kind, kept]
            annotations[name] = cast("Any", kind) | None if optional and admits_none(info.annotation) else kind
        return annotations

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
        """Make the class of its own items, in the entity's table; its tag is the entity's tag, a dot, and the name.

        Args:
            owner: the entity that declares the companion.
            base: the base class: `odm.Entity`, or an abstract entity.
            fields: the type of each field, or ``(type, default)``.
            declared: the other attributes of its class body: a PrimaryKey at least.
            part: distinguishes several classes of one companion.
            upgraded: True if it stores the entity's attributes; it then has the entity's version and upgrades.
        """
        part = f".{part}" if part else ""
        body = {
            "__annotations__": {name: kind[0] if isinstance(kind, tuple) else kind for name, kind in fields.items()},
            "__module__": owner.__module__,
            "__qualname__": f"{owner.__qualname__}.{self.name}{part}",
            "__odm_made__": True,
            **{name: kind[1] for name, kind in fields.items() if isinstance(kind, tuple)},
            **({name: getattr_static(owner, name) for name, _ in upgrades_of(owner)} if upgraded else {}),
            **declared,
        }
        options: dict[str, Any] = {"table": owner.__odm_table__, "tag": f"{owner.__odm_tag__}.{self.name}{part}"}
        options |= {"version": owner.__odm_version__} if upgraded else {}
        return new_class(f"{owner.__name__}.{self.name}{part}", (base,), options, lambda space: space.update(body))


def companions_of(entity: type) -> tuple[BaseCompanion, ...]:
    """The companions of a class, inherited ones first."""
    companions: dict[str, BaseCompanion] = {}
    for base in reversed(entity.__mro__):
        companions.update({name: value for name, value in vars(base).items() if isinstance(value, BaseCompanion)})
    return tuple(companions.values())
