"""`Entity`: the base class of stored objects.

A Pydantic model in every respect. With ``table=`` it is an entity of that table; without, it is an abstract base or a
generic class. Its keys are declared with `PrimaryKey` and `AccessPattern`; they are compiled with the table.
"""

from collections.abc import Callable
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

from pydantic import BaseModel, ConfigDict

from odm._published import public
from odm.entities.companions import BaseCompanion
from odm.entities.markers import AUTO, AutomaticMarker, find_marker
from odm.entities.metaclass import ReferringModel
from odm.entities.patterns import AccessPattern, BoundPattern, PrimaryKey
from odm.errors import SchemaError
from odm.expressions.build import checked
from odm.expressions.collection import GCRule
from odm.expressions.nodes import Condition

if TYPE_CHECKING:
    from typing_extensions import Unpack


def give_defaults(cls: type[BaseModel]) -> None:
    """Give the automatic fields of a new class the default `AUTO`, also where validation would refuse None.

    A class whose annotations cannot be resolved yet stays as it is: its fields have the default that they declare.
    """
    if not cls.__pydantic_complete__:
        return
    changed = False
    for info in cls.model_fields.values():
        if find_marker(info, AutomaticMarker) is None:
            continue
        if info.is_required():
            info.default, changed = AUTO, True
        if info.default is AUTO and (info.validate_default or cls.model_config.get("validate_default")):
            info.validate_default, changed = False, True
    if changed:
        cls.model_rebuild(force=True)


@runtime_checkable
class Registry(Protocol):
    """The part of a table that an entity uses: it joins the table, and gets the compiled schema from it."""

    def add(self, entity: "type[Entity]", tag: str) -> None:
        """Add the entity to the table under this tag."""

    def compile(self) -> Any:
        """The compiled schema, `odm.schema.model.Schema`."""


_OPTIONS: Final = ("table", "tag", "version", "keep", "match", "family", "gc")


def _no_option(cls: type, name: str) -> SchemaError:
    near = get_close_matches(name, [*_OPTIONS, *ConfigDict.__annotations__], 1)
    hint = f"did you mean {near[0]!r}? " if near else ""
    return SchemaError(
        f"class {cls.__name__}: there is no option {name!r}: {hint}Options are {', '.join(_OPTIONS)} and those of "
        "pydantic's ConfigDict"
    )


@public
class Entity(ReferringModel, defer_build=True):
    """A stored object: a Pydantic model with a primary key and access patterns.

    Declare one with ``class Order(Entity, table=shop)``. ``tag=`` sets the stored name (default: the class name): keep
    it when you rename the class. ``version=`` is the version of the stored form; see `odm.upgrade`. ``keep=`` is the
    number of the entity's items to keep in each partition: after a write, the oldest items beyond it are deleted. The
    newest item is the last in sort order, or the first if the sort key begins with a ``:desc`` field. ``match=`` is the
    condition that distinguishes the items of this entity from others in a table that exists, as in
    ``match=field("kind") == "invoice"``.

    ``family=`` is the column family of the entity's attributes on Bigtable: 1 to 64 letters, digits, ``-``, ``_`` and
    ``.``, except ``d``, ``c`` and ``i``, which are odm's own. ``gc=`` is what Bigtable deletes in that family,
    `MaxAge`, `MaxVersions` or a combination; without a rule, it keeps the newest value. Both have no effect on other
    backends: an item that must disappear everywhere has a `TTL` field.
    """

    # Pydantic copies, compares, shows, dumps and pickles the attributes in __dict__ only: the slot is not one of those.
    __slots__ = ("__odm_stored__",)

    model_config = ConfigDict(ignored_types=(PrimaryKey, AccessPattern, BaseCompanion))

    __odm_table__: ClassVar[Registry | None] = None
    __odm_tag__: ClassVar[str] = ""
    __odm_version__: ClassVar[int] = 1
    __odm_keep__: ClassVar[int | None] = None
    __odm_match__: ClassVar[Condition | None] = None
    __odm_family__: ClassVar[str | None] = None
    __odm_gc__: ClassVar[GCRule | None] = None
    __odm_made__: ClassVar[bool] = False  # by a companion, whose items have copied values

    if TYPE_CHECKING:

        def __init_subclass__(
            cls,
            *,
            table: Registry | None = None,
            tag: str | None = None,
            version: int = 1,
            keep: int | None = None,
            match: Condition | bool | None = None,
            family: str | None = None,
            gc: GCRule | None = None,
            **config: Unpack[ConfigDict],
        ) -> None: ...

    else:

        def __init_subclass__(
            cls,
            *,
            table: Registry | None = None,
            tag: str | None = None,
            version: int = 1,
            keep: int | None = None,
            match: Condition | None = None,
            family: str | None = None,
            gc: GCRule | None = None,
            **config: Any,
        ) -> None:
            try:
                super().__init_subclass__(**config)
            except TypeError as error:
                raise (_no_option(cls, next(iter(config))) if config else error) from error
            options = {
                "tag": tag,
                "version": None if version == 1 else version,
                "keep": keep,
                "match": match,
                "family": family,
                "gc": gc,
            }
            for name, value in options.items():
                if table is None and value is not None:
                    raise SchemaError(
                        f"class {cls.__name__}: {name}={value!r} needs table=...; a class without one stores nothing"
                    )
            if not isinstance(table, Registry | None):
                raise SchemaError(
                    f"class {cls.__name__}: table={table!r} is not a Table; declare one with Table('name')"
                )
            cls.__odm_table__, cls.__odm_version__, cls.__odm_keep__ = table, version, keep
            cls.__odm_match__ = None if match is None else checked(match, "match=")
            cls.__odm_family__, cls.__odm_gc__ = family, gc

        @classmethod
        def __pydantic_init_subclass__(
            cls, *, table: Registry | None = None, tag: str | None = None, **config: Any
        ) -> None:
            super().__pydantic_init_subclass__(
                **{name: value for name, value in config.items() if name not in _OPTIONS}
            )
            for name, info in cls.model_fields.items():
                if isinstance(info.default, BoundPattern):
                    raise SchemaError(
                        f"{cls.__name__}.{name} is both a field and a pattern: give the pattern another name"
                    )
            give_defaults(cls)
            if table is not None:
                cls.__odm_tag__ = cls.__name__ if tag is None else tag
                table.add(cls, cls.__odm_tag__)


# As of its base: nobody validates it, and its subclasses build their validators when they are defined.
del Entity.model_config["defer_build"]

hold_stored: Final[Callable[[Entity, object], None]] = Entity.__dict__["__odm_stored__"].__set__
"""Give an entity the stored item that it was made of, for `odm.Store.save`."""


def stored_of(entity: Entity) -> object:
    """The stored item that an entity was made of, as its read has it; None if it was not read."""
    return getattr(entity, "__odm_stored__", None)
