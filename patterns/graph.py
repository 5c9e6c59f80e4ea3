"""Graph: a bounded walk over the nodes and edges of an adjacency list.

::

    network = AdjacencyList(User, Group, Follows, MemberOf)
    found = db.run(walk(network, User.primary(user_id="ann"), out=[Follows], depth=2, most=100))
    users = db.get_many([visit.node for visit in found.visits])

`odm.patterns.adjacency_list` describes the items and the cost of one step: neighbours by type and date are one query. A
walk goes breadth first: all nodes at depth 1, then those at depth 2, each node once and by a shortest path. It reads
edges, not nodes.

| what is read | DynamoDB, bundled engine | Bigtable |
|---|---|---|
| for each expanded node, type and direction | 1 request for 1 MB of edges, 0.5 read units for 4 KB | 2 calls |
| the same if it has no edges | 1 request, 0.5 read units | 1 call |
| along a primary key: ``out=`` of an ``edge`` without sort | 1 request for 1 MB, 1 read unit for 4 KB | 1 call |

The edges of 16 nodes are read at the same time. `Walk.reads` is the number of requests. Nodes at the last depth are not
expanded, and of a node with more edges of a type than ``most``, only as many as needed are read.

Use it for friends of friends, parts of parts, who knows whom. The cost grows with the number of nodes found, so it
has two bounds. For questions about a whole graph (ranks, components), copy the data to an analytics system.

A walk is not a snapshot: it may or may not find concurrent writes. On DynamoDB it reads eventually consistent indexes,
except for outgoing edges without sort.

Source: AWS, "Best practices for managing many-to-many relationships" (DynamoDB Developer Guide).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

from odm import BadValue, Condition, Entity, Query
from odm.extend import Calls, Gen, procedure
from odm.patterns.adjacency_list import AdjacencyList

CONCURRENT_READS: Final = 16
"""Nodes whose edges are read at the same time."""


Types: TypeAlias = Sequence[type[Entity]]
Where: TypeAlias = Mapping[type[Entity], Condition | bool]


@frozen
class Visit:
    """A node that a walk found.

    Attributes:
        node: its key; the item may be absent.
        depth: the number of edges on the shortest path from the start.
        edge: the last edge of that path.
    """

    node: Query[Any]
    depth: int
    edge: Entity


@frozen
class Walk:
    """The result of a walk.

    Attributes:
        visits: the nodes by depth, without the start. Fewer than ``most``: all nodes up to the depth were found.
        reads: the number of requests sent.
    """

    visits: tuple[Visit, ...]
    reads: int


@procedure
def walk(
    do: Calls,
    network: AdjacencyList,
    start: Query[Any],
    *,
    out: Types = (),
    into: Types = (),
    where: Where | None = None,
    depth: int,
    most: int,
) -> Gen[Walk]:
    """Walk from a node along edges, breadth first, up to the two bounds.

    Args:
        do: the operations of the store.
        network: the nodes and edges.
        start: key of the start node, such as ``User.primary(user_id="ann")``; it need not be stored.
        out: types of edges to follow from source to target.
        into: types of edges to follow from target to source.
        where: conditions on edges by their type, such as ``{Follows: Follows.since >= january}``.
        depth: the maximum number of edges on the path to a node, 1 or more.
        most: the maximum number of nodes to find, 1 or more.

    Raises:
        BadValue: a bound is not an int of 1 or more, no edges are named, or a type is not in the network.
    """
    _check(out, into, where or {}, depth=depth, most=most)
    visits: dict[Any, Visit] = {}
    frontier, reads = [start], 0
    for level in range(1, depth + 1):
        before = len(visits)
        for at in range(0, len(frontier), CONCURRENT_READS):
            asked = (network.edges_of(node, out=out, into=into) for node in frontier[at : at + CONCURRENT_READS])
            queries = [_narrowed(query, where or {}, most) for of_a_node in asked for query in of_a_node]
            answers = yield from do.concurrent([do.counted(do.query(query)) for query in queries])
            reads += sum(requests for _, requests in answers)
            for query, (edges, _) in zip(queries, answers, strict=True):
                for edge in edges:
                    node = network.other(edge, query)
                    if len(visits) < most and node != start:
                        visits.setdefault((node.entity, *node.values.values()), Visit(node, level, edge))
            if len(visits) == most:
                return Walk((*visits.values(),), reads)
        frontier = [visit.node for visit in [*visits.values()][before:]]
    return Walk((*visits.values(),), reads)


def _narrowed(query: Query[Any], where: Where, most: int) -> Query[Any]:
    """The query with its condition and a limit. Its edges end at different nodes, so ``most + 1`` edges are enough."""
    narrowed = query.where(where[query.entity]) if query.entity in where else query
    return narrowed.limit(most + 1)


def _check(out: Types, into: Types, where: Where, **bounds: int) -> None:
    for name, bound in bounds.items():
        if not isinstance(bound, int) or isinstance(bound, bool) or bound < 1:
            raise BadValue(f"walk({name}={bound!r}): give a number of 1 or more")
    if not (out or into):
        raise BadValue("walk() follows no edges: name types of them, as in out=[Follows]")
    for entity in where:
        if entity not in (*out, *into):
            raise BadValue(f"walk(where={{{entity!r}: ...}}): it is not an edge to follow: name it in out= or into=")
