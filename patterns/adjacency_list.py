"""Adjacency list: nodes, and typed edges between them, in one table.

::

    class Follows(Entity, table=social):
        follower: str
        followed: str
        since: datetime

        primary, out, into = edge("USER#{follower}", "FOLLOWS", "USER#{followed}", sort="{since}")

An edge is one item. Its primary key begins with the source, and it has an index entry for each end:

| item | pk, sk | outpk, outsk | intopk, intosk |
|---|---|---|---|
| User ann | USER#ann, PROFILE | | |
| Follows ann → bob | USER#ann, FOLLOWS#USER#bob | USER#ann, FOLLOWS#2026…#USER#bob | USER#bob, FOLLOWS#2026…#USER#ann |
| MemberOf ann → chess | USER#ann, MEMBER#GROUP#chess | | GROUP#chess, MEMBER#USER#ann |

Nodes are ordinary entities with the partition key of an end, except for field names: ``PrimaryKey("USER#{user_id}",
"PROFILE")``. The key allows only one edge of a type from one node to another. Attributes are fields of the edge, and so
is the sort field: an update of ``since`` moves index entries and not the item. Without ``sort=`` the primary key lists
outgoing edges: ``primary, into = edge("USER#{user_id}", "MEMBER", "GROUP#{group_id}")``.

Use it for many-to-many relationships: followers, members, the bills of invoices. An item that belongs to one node needs
no edge, only that node's partition key. If all nodes are of tenants, both ends have the tenant's field:
``edge("TENANT#{t}#USER#{follower}", "FOLLOWS", "TENANT#{t}#USER#{followed}")``, and no edge leaves its tenant.

All edges at a node are in one partition, which limits the write rate of a very popular node. Edges are put, updated
and deleted like any entity. Both directions are one item, so one write updates both. Operations on several edges use
``network = AdjacencyList(User, Group, Follows, MemberOf)``.

| question | call |
|---|---|
| edges out of a node, into a node | ``db.query(Follows.out(follower="ann"))``, ``Follows.into(followed="ann")`` |
| in a range of the sort field | ``Follows.out(follower="ann").where(Follows.since >= january)`` |
| a node with all edges out, or all in | ``collection(User.primary(...))``, ``collection(Follows.into(...))`` |
| the nodes at the other ends | ``db.run(network.neighbours(Follows.out(follower="ann")))`` |
| remove a node with its edges | ``db.run(network.remove_node(User.primary(user_id="ann")))`` |

| operation, on items of up to 1 KB | DynamoDB, bundled engine | Bigtable |
|---|---|---|
| insert or delete an edge | 3 write units (2 without sort), 1 request | 3 and 4 calls (2 and 3) |
| update its sort field | 5 write units, 1 request | 6 calls |
| edges of a node | 0.5 read units for 4 KB, 1 request for 1 MB | 2 calls |
| the same in the order of the primary key | 1 read unit for 4 KB, 1 request for 1 MB | 1 call |
| neighbours | the edges, and 1 read unit a node, 1 request for 100 | the edges, and 1 call |
| remove a node | its edges, by type and end; deletes, 25 per request; 1 delete | its edges, their deletes, 2 calls |

On DynamoDB an index lags behind, usually by less than a second: reads by ``out`` (of `edge` with sort) and ``into`` are
eventually consistent; reads by ``primary``, and of nodes, are consistent. On other backends all reads are consistent.

Source: AWS, "Best practices for managing many-to-many relationships" (DynamoDB Developer Guide).
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any, TypeVar, get_args, overload

from odm import AccessPattern, BadValue, Entity, PrimaryKey, Query, SchemaError
from odm.extend import Calls, Gen, Procedure, primary_key

E = TypeVar("E", bound=Entity)


class EdgeKey(PrimaryKey):
    """The primary key that `edge` makes; it holds the patterns of outgoing and incoming edges."""

    def __init__(self, source: str, sort: str, out: AccessPattern | None, into: AccessPattern) -> None:
        super().__init__(source, sort)
        self.out: PrimaryKey | AccessPattern = out or self
        self.into = into


@overload
def edge(source: str, type: str, target: str, /) -> tuple[PrimaryKey, AccessPattern]: ...
@overload
def edge(source: str, type: str, target: str, /, *, sort: str) -> tuple[PrimaryKey, AccessPattern, AccessPattern]: ...
def edge(source: str, type: str, target: str, /, *, sort: str | None = None) -> Any:
    """Declare an entity as an edge, in its class body.

    Args:
        source: template of the source node's partition key, with fields of the edge.
        type: the type of the edge, plain text; its sort keys begin with it.
        target: like ``source``, for the target node. It may share fields with the source, such as the tenant of both,
            but not all.
        sort: template that sorts edges of a type. Default: the node at the other end.

    Returns:
        The primary key; with ``sort`` the pattern of outgoing edges; and the pattern of incoming edges.

    Raises:
        SchemaError: the type is not plain text, the sort has no field, or both ends have the same fields.
    """
    if sort is not None and not _fields(sort):
        raise SchemaError(
            f"edge({source!r}, {type!r}, {target!r}): the sort {sort!r} has no field: did you mean sort='{{{sort}}}'?"
        )
    same = set(_fields(source)) == set(_fields(target)) != set()
    if not type or set(type) & set("#${}") or same:
        always = f"both ends have the same fields, {', '.join(_fields(source))}, so they are always one node"
        fault = always if same else "the type is text without '#', '$' or braces"
        raise SchemaError(f"edge({source!r}, {type!r}, {target!r}): {fault}: write edge('A#{{a}}', 'TYPE', 'B#{{b}}')")
    by = type if sort is None else f"{type}#{sort}"
    out, into = AccessPattern(source, f"{by}#{target}"), AccessPattern(target, f"{by}#{source}")
    if sort is None:
        return EdgeKey(source, f"{type}#{target}", None, into), into
    return EdgeKey(source, f"{type}#{target}", out, into), out, into


class AdjacencyList:
    """Nodes and edges that belong together: ``network = AdjacencyList(User, Group, Follows, MemberOf)``.

    Args:
        entities: the nodes, and the entities whose keys `edge` made.

    Raises:
        SchemaError: an end of an edge matches no node or two nodes of this list; a node is not one item of its
            partition; or the sort field of an edge may be None, so that no query would find it.
    """

    def __init__(self, *entities: type[Entity]) -> None:
        for entity in entities:
            if not isinstance(entity, type):
                raise SchemaError(f"AdjacencyList: {entity!r} is not an entity: give the class itself")
        keys = {entity: primary_key(entity) for entity in entities}
        self._edges = {entity: key for entity, key in keys.items() if isinstance(key, EdgeKey)}
        self._nodes = {entity: key for entity, key in keys.items() if not isinstance(key, EdgeKey)}
        self._by_shape: dict[str, type[Entity]] = {}
        for entity, key in self._nodes.items():
            _check_node(entity, key, self._by_shape.setdefault(_shape(key.partition), entity))
        for entity, edge_key in self._edges.items():
            _check_edge(entity, edge_key, self._by_shape)

    def edges_of(
        self, node: Query[Any], *, out: Iterable[type[Entity]] = (), into: Iterable[type[Entity]] = ()
    ) -> list[Query[Any]]:
        """The queries for the edges of a node; skips types of edges that its type of node cannot have.

        Args:
            node: its key, such as ``User.primary(user_id="ann")``.
            out: types of outgoing edges.
            into: types of incoming edges.

        Raises:
            BadValue: a type is not an edge of this list, or the node is not the key of a node of this list.
        """
        patterns = [(edge, self._edge(edge).out) for edge in out] + [(edge, self._edge(edge).into) for edge in into]
        return self._at(node, patterns)

    def other(self, edge: Entity, query: Query[Any]) -> Query[Any]:
        """The key of the node at the end of an edge that the query did not name."""
        key = self._edge(type(edge))
        end = key if query.pattern == key.into.name else key.into
        node = self._by_shape[_shape(end.partition)]
        return _call(node, self._nodes[node], [getattr(edge, field) for field in _fields(end.partition)])

    def neighbours(self, query: Query[E]) -> Procedure[list[tuple[E, Any]]]:
        """The edges that a query finds, each with the node at its other end, or None if that is not stored.

        Args:
            query: such as ``Follows.out(follower="ann").where(Follows.since >= january).limit(10)``.

        Raises:
            BadValue: the query is not for edges of this list, or does not name a node at one of their ends.
        """
        self._edge(query.entity)
        if query.pattern is None or query.scope != "entity":
            raise BadValue(f"neighbours({query}): call a pattern of the edge, so that the other end is known")
        return Procedure(partial(self._neighbours, query), f"{self}.neighbours({query})")

    def remove_node(self, node: Query[Any]) -> Procedure[bool]:
        """Delete a node and all its edges. Returns whether the node existed.

        Edges are deleted first, the node last. After an interruption, run it again: it continues with the remaining
        edges, even if the node is already deleted. An edge put by a concurrent writer may remain, and on DynamoDB also
        an edge that is not in its index yet. It then ends at an absent node until you run this again. A transaction
        that puts an edge with ``tx.check(node)`` fails once the node is deleted.

        Raises:
            BadValue: ``node`` is not the key of a node of this list.
        """
        going = self._at(node, self._edges.items())  # by the primary key, which is consistent
        edges = going + self.edges_of(node, into=self._edges)
        return Procedure(partial(self._remove_node, node, edges), f"{self}.remove_node({node})")

    def __repr__(self) -> str:
        return f"AdjacencyList({', '.join(entity.__name__ for entity in (*self._nodes, *self._edges))})"

    def _neighbours(self, query: Query[E], do: Calls) -> Gen[list[tuple[E, Any]]]:
        edges = yield from do.query(query)
        nodes = yield from do.get_many([self.other(edge, query) for edge in edges])
        return list(zip(edges, nodes, strict=True))

    def _remove_node(self, node: Query[Any], edges: Iterable[Query[Any]], do: Calls) -> Gen[bool]:
        for query in edges:
            yield from do.delete_all(query)
        return (yield from do.delete(node))

    def _edge(self, edge: type[Entity]) -> EdgeKey:
        if edge not in self._edges:
            name = getattr(edge, "__name__", repr(edge))
            edges = ", ".join(edge.__name__ for edge in self._edges)
            raise BadValue(f"{name} is not an edge of {self}: its edges are {edges}")
        return self._edges[edge]

    def _at(
        self, node: Query[Any], patterns: Iterable[tuple[type[Entity], PrimaryKey | AccessPattern]]
    ) -> list[Query[Any]]:
        """The patterns of edges called for a node; edges that end at other types of nodes are skipped."""
        key = self._nodes.get(node.entity) if isinstance(node, Query) else None
        if key is None or node.pattern != key.name:
            raise BadValue(f"{node!r} is not the key of a node of {self}: give one such as User.primary(user_id='ann')")
        values = [node.values[field] for field in _fields(key.partition)]
        meeting = [(edge, p) for edge, p in patterns if _shape(p.partition) == _shape(key.partition)]
        return [_call(edge, pattern, values) for edge, pattern in meeting]


def _fields(template: str) -> tuple[str, ...]:
    return PrimaryKey(template).fields


def _shape(template: str) -> str:
    """The template of a partition without field names; it identifies a type of node."""
    return re.sub(r"\{\w+", "{", template)


def _call(entity: type[Entity], pattern: PrimaryKey | AccessPattern, values: list[Any]) -> Query[Any]:
    query: Query[Any] = getattr(entity, pattern.name)(**dict(zip(_fields(pattern.partition), values, strict=True)))
    return query


def _check_node(entity: type[Entity], key: PrimaryKey, of_its_shape: type[Entity]) -> None:
    name = f"{entity.__name__}.{key.name}"
    if entity is not of_its_shape:
        raise SchemaError(
            f"{name} and {of_its_shape.__name__} have the same partition {key.partition!r}: only one can be the node"
        )
    if fields := _fields(key.sort or ""):
        fix = f"PrimaryKey({key.partition!r}, 'NODE')"
        raise SchemaError(f"{name}: a node is one item of its partition, but {fields[0]!r} allows many: write {fix}")


def _check_edge(entity: type[Entity], key: EdgeKey, nodes: dict[str, type[Entity]]) -> None:
    for end in (key.partition, key.into.partition):
        if _shape(end) not in nodes:
            raise SchemaError(
                f"{entity.__name__}.{key.name} ends at {end!r}, but no node has such a partition: add the node here; "
                f"there are {', '.join(nodes) or 'none'}"
            )
    for field in _fields(key.into.sort or ""):
        if type(None) in get_args(entity.model_fields[field].annotation):
            raise SchemaError(
                f"{entity.__name__}.{field} may be None, and then no query finds the edge: make it required"
            )
