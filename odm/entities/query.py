"""Queries as values: made by a pattern call, `odm.select` or `odm.collection`, and read by the planner.

A query is immutable; each method returns a new one. A store runs it; the query itself sends nothing.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Generic, Literal, Never, NoReturn, TypeVar

from odm.entities.metaclass import ReferringModel
from odm.errors import BadValue, brief
from odm.expressions.build import checked
from odm.expressions.nodes import Condition, text_of
from odm.hints import QUERY, Hinted
from odm.immutable import Immutable, evolve

E_co = TypeVar("E_co", bound=ReferringModel, covariant=True)


class Finding:
    """Base of procedures that send requests to find an item: they cannot be used in place of a key or a query."""

    __slots__ = ()

    def refuse(self, expected: str) -> NoReturn:
        """Raise the error.

        Args:
            expected: what the call takes, such as "key".

        Raises:
            BadValue: always.
        """
        raise BadValue(
            f"{self!r} is not a {expected}; it sends requests of its own: pass it to get() or one() and use the item "
            "that they return, or to run() if it does not return an item"
        )


class Query(Hinted, Immutable, Generic[E_co]):
    """What to read. Made by ``Order.by_date(...)``, ``select(Order)`` or ``collection(...)``.

    A call of the primary key with every key field is also the item's key.

    Attributes:
        entity: the entity to query; in a collection, the one whose pattern names the partition.
        pattern: the attribute name of the pattern, or None: the planner picks it.
        values: validated values of the leading fields of the pattern.
        scope: "entity" for items of the entity only, "partition" for all items of the partition, "prefix" for all
            items stored under the key.
        conditions: all must hold.
        descending: read from the end of the sort order.
        most: the maximum number of results, over all pages.
        within: in a collection, the range of the sort key, as conditions on fields of the pattern.
        kinds: in a collection, the entities of its results; empty: every entity.
        through: in a collection, another range of sort keys of the partition: the collection has both, and what is
            between them.
    """

    _odm_hints = QUERY

    entity: type[E_co]
    pattern: str | None = None
    values: Mapping[str, Any] = {}
    scope: Literal["entity", "partition", "prefix"] = "entity"
    conditions: tuple[Condition, ...] = ()
    descending: bool = False
    most: int | None = None
    within: tuple[Condition, ...] = ()
    kinds: tuple[type[Any], ...] = ()
    through: "Query[Any] | None" = None

    def where(self, *conditions: Condition | bool, **fields: Never) -> "Query[E_co]":
        """Keep results for which all the conditions hold.

        Conditions on key fields narrow the range that is read; the others filter the items that were read.

        Args:
            conditions: comparisons of fields, such as ``Order.total > 100``.
            fields: not allowed; write comparisons.

        Raises:
            TypeError: an argument is not a condition on a field.
        """
        if fields:
            raise _no_conditions(self.entity, fields)
        all_conditions = self.conditions + tuple([checked(c, "where()") for c in conditions])
        of = self.entity, self.pattern, self.values, self.scope  # `evolve` takes six times as long
        return Query(*of, all_conditions, self.descending, self.most, self.within, self.kinds, self.through)

    def reverse(self) -> "Query[E_co]":
        """Read in the opposite order."""
        return evolve(self, descending=not self.descending)

    def limit(self, most: int) -> "Query[E_co]":
        """Stop after this many results, counted after conditions.

        Args:
            most: number of results, 1 or more.

        Raises:
            BadValue: it is not a positive int.
        """
        if not isinstance(most, int) or isinstance(most, bool) or most < 1:
            raise BadValue(f"limit({brief(most)}): give the number of results, an int of 1 or more")
        return evolve(self, most=most)

    if not TYPE_CHECKING:

        def __iter__(self) -> NoReturn:
            raise TypeError(f"{self} is a query, not its results: loop over them in db.query(...)")

        def __getitem__(self, position: object) -> NoReturn:
            raise TypeError(f"{self} is a query, not its results: take one with db.first(...), or list(db.query(...))")

        def __len__(self) -> NoReturn:
            raise TypeError(f"{self} is a query, not its results: count them with db.count(...)")

        def __bool__(self) -> bool:  # without this, bool() calls __len__
            return True

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        values = ", ".join(f"{name}={text_of(value)}" for name, value in self.values.items())
        text = f"{self.entity.__name__}.{self.pattern}({values})" if self.pattern else f"select({self.entity.__name__})"
        if self.within:
            text += f".where({', '.join(map(str, self.within))})"
        if self.scope != "entity":
            kinds = "".join(f", {kind.__name__}" for kind in self.kinds)
            options = ", prefix=True" * (self.scope == "prefix")
            options += f", through={self.through}" * (self.through is not None)
            text = f"collection({text}{kinds}{options})"
        if self.conditions:
            text += f".where({', '.join(map(str, self.conditions))})"
        text += ".reverse()" if self.descending else ""
        return text + (f".limit({self.most})" if self.most is not None else "")


def _no_conditions(entity: type, fields: Mapping[str, object]) -> TypeError:
    example = ", ".join(f"{entity.__name__}.{name} == {brief(value)}" for name, value in fields.items())
    return TypeError(f"where() takes conditions, not values by name: write where({example})")
