"""Queries that are not pattern calls: `select` names no pattern, `collection` returns items of every entity."""

from typing import TypeVar

from attrs import evolve

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue

E = TypeVar("E", bound=Entity)


def select(entity: type[E]) -> Query[E]:
    """A query that names no pattern: the planner picks the pattern that serves its conditions.

    Args:
        entity: the entity class to query; add conditions with ``where``.

    Raises:
        BadValue: ``entity`` is not a class.
    """
    if not isinstance(entity, type):
        raise BadValue(f"select({entity!r}): give the entity class, as in select(Order)")
    return Query(entity)


def collection(of: Query[Entity], *, prefix: bool = False) -> Query[Entity]:
    """The item collection of a partition: the items of every entity in it, in sort order, in one query.

    Args:
        of: a pattern call that names the partition, such as ``Customer.primary(customer_id="c1")``. With conditions on
            the fields of its sort key, ``Line.by_day(order="o1").where(Line.day >= monday)``, only items whose sort key
            is in that range, of any entity.
        prefix: read only the item with that key and the items whose sort key begins with it.

    Raises:
        BadValue: ``of`` is not a pattern call, or has conditions together with ``prefix=True``.
    """
    if not isinstance(of, Query):
        such, given = (of.__name__, of.__name__) if isinstance(of, type) else ("Customer", repr(of))
        raise BadValue(f"collection() takes a pattern call, such as {such}.primary(...), not {given}")
    if of.pattern is None or of.scope != "entity" or (of.conditions and prefix):
        raise BadValue(
            f"collection() takes a pattern call such as Customer.primary(customer_id=...), with prefix=True without "
            f"conditions, not {of}"
        )
    return evolve(of, scope="prefix" if prefix else "partition", conditions=(), within=of.conditions)
