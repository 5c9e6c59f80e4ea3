"""Declarations of keys in the class body: `PrimaryKey` and `AccessPattern`.

On the class, ``Order.by_date`` is a `BoundPattern`: calling it with values makes a `Query`. Templates are compiled with
the table, not here.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from string import Formatter
from types import FunctionType
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, ParamSpec, TypeVar, cast

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema

from odm._published import public, public_in
from odm.entities.metaclass import ReferringModel
from odm.entities.query import Query
from odm.errors import SchemaError
from odm.expressions.build import checked
from odm.expressions.nodes import Condition
from odm.hints import KEY_OPTIONS, PATTERN, Hinted, options_of
from odm.keys import Shards

E = TypeVar("E", bound=ReferringModel)
P = ParamSpec("P")

public(Query)
public(Condition)


@options_of(KEY_OPTIONS)
class Pattern:
    """What `PrimaryKey` and `AccessPattern` share: two key templates under an attribute name, and shards.

    It can decorate a function that states the types of its calls, for type checkers that do not run `odm.mypy`::

        @AccessPattern("STATUS#{status}", "{created_at}")
        def by_created(*, status: Status, created_at: datetime = ...) -> None: ...

    Its parameters are the fields of the templates. Those of the sort key that a call may leave out have a default. The
    function is never called. Compiling the table compares it with the templates and the fields.
    """

    signature: Callable[..., object] | None = None

    def __init__(self, partition: str, sort: str | None = None, *, shards: Shards | None = None) -> None:
        self.partition = partition
        self.sort = sort
        self.shards = shards
        self.name = ""

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields in its templates, each once; empty if a template is not valid, which compiling reports."""
        with suppress(ValueError):
            parts = [part for template in (self.partition, self.sort or "") for part in Formatter().parse(template)]
            return tuple(dict.fromkeys(name for _, name, _, _ in parts if name))
        return ()

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: object, owner: type[E]) -> "BoundPattern[E]":
        return BoundPattern(owner, self.name)

    def __call__(self, signature: Callable[P, None], /) -> "SignedPattern[P]":
        """Give the pattern a signature, as a decorator."""
        function = signature.__func__ if isinstance(signature, staticmethod) else signature
        if not isinstance(function, FunctionType):
            raise SchemaError(
                f"{self!r} is a declaration, not a call: as a decorator it takes a function; make a query with a value "
                "of the class, as in Order.by_date(...)"
            )
        self.signature = function
        return cast("SignedPattern[P]", self)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        name = handler.field_name or "primary"
        raise SchemaError(
            f"{cls.__name__} is not the type of a field: write it without an annotation, as in "
            f"{name} = {cls.__name__}(...)"
        )

    def __repr__(self) -> str:
        sort = f', "{self.sort}"' if self.sort is not None else ""
        return f'{type(self).__name__}("{self.partition}"{sort})'


@public
class PrimaryKey(Pattern):
    """The primary key: each item has its own.

    Args:
        partition: template of the partition key, such as ``"CUSTOMER#{customer_id}"``.
        sort: template of the sort key. Default: the entity's tag.
        shards: spreads each partition over several: ``Shards(200, by="order_id")``, by a field of the sort key, so
            that the shard of an item is known from its key.
    """


@public
@options_of(KEY_OPTIONS)
class AccessPattern(Pattern):
    """Another way to query items: a secondary index.

    An item is in the index if no field of the templates is None and ``when`` holds; every write updates the index.

    Args:
        partition: template of the index partition key.
        sort: template of the index sort key. Default: the entity's tag.
        index: name of the index; patterns of different entities with one name share it. Default: the attribute name.
        when: only items for which this holds are in the index, as in ``field("status") == "open"``.
        shards: spreads each partition of the index over several: ``Shards(8, by="order_id")``.
        projection: the attributes that the index holds on DynamoDB: "all", only the "keys", or the keys and the fields
            of these names. Queries always return whole items: with less than "all" they fetch them by key, which saves
            storage and write units and costs read units. Patterns that share an index have the same projection.
        local: make it a local secondary index (LSI): its partition template is the primary key's, and it supports
            consistent reads. On DynamoDB an item and its entries in local indexes together may have 400 KB.
    """

    def __init__(
        self,
        partition: str,
        sort: str | None = None,
        *,
        index: str | None = None,
        when: Condition | bool | None = None,
        shards: Shards | None = None,
        local: bool = False,
        projection: Literal["all", "keys"] | Sequence[str] = "all",
    ) -> None:
        super().__init__(partition, sort, shards=shards)
        self.index = index
        self.local = local
        self.projection = projection
        self.when = None if when is None else checked(when, "when=")


class BoundPattern(Hinted, Generic[E]):
    """A pattern of one entity class; call it with values to make a query.

    Attributes:
        entity: the class.
        name: the attribute name.
    """

    _odm_hints = PATTERN

    def __init__(self, entity: type[E], name: str) -> None:
        self.entity = entity
        self.name = name

    def __call__(self, /, *unnamed: Never, **values: Any) -> Query[E]:
        """The query for these values: all partition fields, then leading sort fields.

        Args:
            unnamed: not allowed; pass values by field name.
            values: by field name. For a field with a lossy format, any value within the unit selects that unit.

        Raises:
            TypeError: a value is passed by position.
            KeyValueError: a field is missing, unknown or out of order, or its value does not validate.
            SchemaError: the models do not compile.
        """
        table: Any = getattr(self.entity, "__odm_table__", None)
        if table is None:
            raise SchemaError(
                f"{self.entity.__name__} is not an entity: it has no table of its own. "
                f"Declare class {self.entity.__name__}(..., table=...), or use a subclass that has one"
            )
        schema = table.compile().entity(self.entity)
        if unnamed:
            call = ", ".join(f"{field}=..." for field in schema.pattern(self.name).fields)
            raise TypeError(f"{self!r}() takes its values by name: {self!r}({call})")
        return Query(self.entity, self.name, schema.call_values(self.name, values))

    def __repr__(self) -> str:
        return f"{self.entity.__name__}.{self.name}"


if TYPE_CHECKING:

    class SignedPattern(Generic[P]):
        """A pattern that decorates a function: calls of it have the function's parameters."""

        def __get__(self, instance: object, owner: type[E]) -> "SignedBoundPattern[E, P]": ...

    class SignedBoundPattern(BoundPattern[E], Generic[E, P]):
        """Such a pattern of one entity class."""

        def __call__(self, /, *unnamed: P.args, **values: P.kwargs) -> Query[E]: ...


def patterns_of(cls: type) -> dict[str, Pattern]:
    """The patterns of a class by attribute name, inherited ones first.

    Raises:
        SchemaError: it does not have exactly one primary key, or it inherits the primary key of another entity.
    """
    by_name: dict[str, Pattern] = {}
    for base in reversed(cls.__mro__):
        patterns = {name: value for name, value in vars(base).items() if isinstance(value, Pattern)}
        if any(isinstance(p, PrimaryKey) for p in patterns.values()):
            by_name = {name: p for name, p in by_name.items() if not isinstance(p, PrimaryKey)}
        elif getattr(base, "__odm_table__", None) is not None and _is_entity_subclass(base):
            raise SchemaError(
                f"{base.__name__} inherits from an entity and must state its own primary key, or both would share "
                f"their items: add primary = PrimaryKey(...) to {base.__name__}"
            )
        by_name.update(patterns)
    primaries = [name for name, p in by_name.items() if isinstance(p, PrimaryKey)]
    if len(primaries) != 1:
        have = f"has {len(primaries)} primary keys ({', '.join(primaries)})" if primaries else "has no primary key"
        raise SchemaError(f"{cls.__name__} {have}: an entity has exactly one, as in primary = PrimaryKey('...#{{id}}')")
    return by_name


def _is_entity_subclass(cls: type) -> bool:
    return any(getattr(base, "__odm_table__", None) is not None for base in cls.__mro__[1:])


@public_in("odm.extend")
def primary_key(entity: type) -> PrimaryKey:
    """The primary key of an entity as declared: its templates, its fields and its name.

    Args:
        entity: the class.

    Raises:
        SchemaError: it does not have exactly one of its own.
    """
    return primary_of(patterns_of(entity))


def primary_of(patterns: dict[str, Pattern]) -> PrimaryKey:
    """The primary key among the patterns of a class."""
    return next(p for p in patterns.values() if isinstance(p, PrimaryKey))
