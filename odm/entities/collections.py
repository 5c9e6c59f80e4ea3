"""Queries that are not pattern calls: `select` names no pattern, `collection` returns items of several entities."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeVar, overload

from odm._published import public
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, brief
from odm.immutable import evolve

E = TypeVar("E", bound=Entity)
E1 = TypeVar("E1", bound=Entity)
E2 = TypeVar("E2", bound=Entity)
E3 = TypeVar("E3", bound=Entity)
E4 = TypeVar("E4", bound=Entity)


@public
def select(entity: type[E]) -> Query[E]:
    """A query that names no pattern: the planner picks the pattern that serves its conditions.

    Args:
        entity: the entity class to query; add conditions with ``where``.

    Raises:
        BadValue: ``entity`` is not a class.
    """
    if not isinstance(entity, type):
        raise BadValue(f"select({brief(entity)}): give the entity class, as in select(Order)")
    return Query(entity)


# mypy gives several classes of one parameter their common base, so up to four have a parameter each.
@overload
def collection(of: Query[Any], *, prefix: bool = False, through: Query[Any] | None = None) -> Query[Entity]: ...
@overload
def collection(
    of: Query[Any], kind: type[E1], /, *, prefix: bool = False, through: Query[Any] | None = None
) -> Query[E1]: ...
@overload
def collection(
    of: Query[Any], k1: type[E1], k2: type[E2], /, *, prefix: bool = False, through: Query[Any] | None = None
) -> Query[E1 | E2]: ...
@overload
def collection(
    of: Query[Any],
    k1: type[E1],
    k2: type[E2],
    k3: type[E3],
    /,
    *,
    prefix: bool = False,
    through: Query[Any] | None = None,
) -> Query[E1 | E2 | E3]: ...
@overload
def collection(
    of: Query[Any],
    k1: type[E1],
    k2: type[E2],
    k3: type[E3],
    k4: type[E4],
    /,
    *,
    prefix: bool = False,
    through: Query[Any] | None = None,
) -> Query[E1 | E2 | E3 | E4]: ...
@overload
def collection(
    of: Query[Any], /, *kinds: type[E], prefix: bool = False, through: Query[Any] | None = None
) -> Query[E]: ...
@public
def collection(
    of: Query[Any], *kinds: type[Any], prefix: bool = False, through: Query[Any] | None = None
) -> Query[Any]:
    """The item collection of a partition: the items of every entity in it, in sort order, in one query.

    Args:
        of: a pattern call that names the partition, such as ``Customer.primary(customer_id="c1")``. With conditions on
            the fields of its sort key, ``Line.by_day(order="o1").where(Line.day >= monday)``, only items whose sort key
            is in that range, of any entity.
        kinds: return only items of these entity classes; a filter, which drops the others after they were read. Type
            checkers then know the types of the results. Default: the items of every entity.
        prefix: read only the item with that key and the items whose sort key begins with it.
        through: a second pattern call of the same partition, of another entity: read only the range of sort keys that
            both calls span together, whichever is first in it. So
            ``collection(Issue.primary(repo="r"), through=Repo.primary(repo="r"))`` has the issues, the repo, and what
            is between them. Both calls may give fields of their sort keys, or have conditions on them.

    Raises:
        BadValue: ``of`` is not a pattern call, or has conditions together with ``prefix=True``; ``through`` is not a
            pattern call, or is given together with ``prefix=True``; or one of ``kinds`` is not an entity class.
    """
    if not isinstance(of, Query):
        such, argument = (of.__name__, of.__name__) if isinstance(of, type) else ("Customer", brief(of))
        raise BadValue(f"collection() takes a pattern call, such as {such}.primary(...), not {argument}")
    if of.pattern is None or of.scope != "entity" or (of.conditions and prefix):
        raise BadValue(
            f"collection() takes a pattern call such as Customer.primary(customer_id=...), with prefix=True without "
            f"conditions, not {of}"
        )
    if through is not None:
        _check_through(of, through, prefix=prefix)
    for kind in kinds:
        if not isinstance(kind, type) or not issubclass(kind, Entity):
            raise BadValue(
                f"collection({of}, ...): {brief(kind)} is not an entity class: name the classes of the items"
            )
    scope: Literal["prefix", "partition"] = "prefix" if prefix else "partition"
    return evolve(of, scope=scope, conditions=(), within=of.conditions, kinds=kinds, through=through)


def _check_through(of: Query[Any], through: object, *, prefix: bool) -> None:
    plain = isinstance(through, Query) and through.pattern is not None and through.scope == "entity"
    if not plain or prefix or (isinstance(through, Query) and (through.descending or through.most is not None)):
        raise BadValue(
            f"collection({of}, through={brief(through)}): through= takes a second pattern call of the same partition, "
            "such as Repo.primary(...), and no prefix=True; put reverse() and limit() behind collection()"
        )


@public
class Grouped:
    """Items by their class, such as the results of a `collection`: ``Grouped(db.query(collection(...)))[Order]``.

    ``found[Order]`` is the list of the orders in their order, empty if there are none. Iterating gives the classes of
    the items.

    Args:
        items: the results of ``db.query(...)``, or the items of a page.
    """

    def __init__(self, items: Iterable[Entity]) -> None:
        self._items: dict[type[Any], list[Any]] = {}
        for item in items:
            self._items.setdefault(type(item), []).append(item)

    def __getitem__(self, kind: type[E]) -> list[E]:
        return list(self._items.get(kind, ()))

    def __iter__(self) -> Iterator[type[Entity]]:
        return iter(self._items)

    def __repr__(self) -> str:
        return f"Grouped({', '.join(f'{len(items)} {kind.__name__}' for kind, items in self._items.items())})"
