"""Graph: a bounded walk over the nodes and edges of an adjacency list.

::

    network = AdjacencyList(User, Group, Follows, MemberOf)
    found = db.run(walk(network, User.primary(user_id="ann"), out=[Follows], depth=2, most=100))
    users = db.get_many([visit.node for visit in found.visits])

Items lie as `odm.patterns.adjacency_list` says, which also tells what one step costs alone: neighbours by type and date
are one query. A walk goes breadth first: all nodes at depth 1, then those at depth 2, each node once and by a shortest
way. It reads edges and no nodes.

| what is read | DynamoDB, bundled engine | Bigtable |
|---|---|---|
| for each node gone on from, type and direction | 1 request for 1 MB of edges, 0.5 read units for 4 KB | 2 calls |
| the same where it has no edges | 1 request, 0.5 read units | 1 call |
| along a primary key: ``out=`` of an `edge` without sort | 1 request for 1 MB, 1 read unit for 4 KB | 1 call |

The edges of 16 nodes are read at the same time. `Walk.reads` tells the requests. Nodes of the last depth are not gone
on from, and of a node with more edges of a type than ``most``, no more are read than may be wanted.

Use it for friends of friends, parts of parts, who knows whom. What it costs grows with the nodes that it finds, so it
has two bounds. Questions about a whole graph (ranks, components) are better asked of a copy made for analysis.

A walk is no snapshot: what is written meanwhile may be found or not. On DynamoDB it reads indexes, which lag, but for
edges without sort on their way out.

Source: AWS, "Best practices for managing many-to-many relationships" (DynamoDB Developer Guide).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from attrs import frozen

from odm import BadValue, Calls, Condition, Entity, Gen, Query, procedure
from odm.patterns.adjacency_list import AdjacencyList

CONCURRENT_READS: Final = 16
"""Nodes whose edges are read at the same time."""


Types: TypeAlias = Sequence[type[Entity]]
Where: TypeAlias = Mapping[type[Entity], Condition | bool]


@frozen
class Visit:
    """A node that a walk came to.

    Attributes:
        node: its key; the item may be absent.
        depth: the number of edges on the shortest way from the start.
        edge: the last edge of that way.
    """

    node: Query[Any]
    depth: int
    edge: Entity


@frozen
class Walk:
    """What a walk found.

    Attributes:
        visits: the nodes by depth, without the start. If there are fewer than ``most``, these are all.
        reads: the requests that were sent.
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
    """Go from a node along edges, breadth first, until both bounds or the ends are met.

    Args:
        do: the calls of the store that runs it.
        network: the nodes and edges.
        start: key of the node to begin at, such as ``User.primary(user_id="ann")``; it need not be stored.
        out: types of edges to follow from source to target.
        into: types of edges to follow from target to source.
        where: conditions on edges by their type, such as ``{Follows: Follows.since >= january}``.
        depth: the most edges on the way to a node, 1 or more.
        most: the most nodes to find, 1 or more.

    Raises:
        BadValue: a bound is no such number, no edges are named, or a name is not of the network.
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
    """Edges of one query end at different nodes: of so many, one is new while any is, beside ``most`` and the start."""
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
            raise BadValue(
                f"walk(where={{{entity!r}: ...}}): it is not among the edges to follow: name it in out= or into="
            )
