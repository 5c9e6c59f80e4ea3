"""Adjacency lists and walks: every edge is found from both ends, and removing a node removes its edges."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from odm import BadValue, Entity, PrimaryKey, Query, Store, Table, collection, set_
from odm.patterns.adjacency_list import AdjacencyList, edge
from odm.patterns.graph import Walk, walk
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill

social = Table("social")


class User(Entity, table=social):
    """A node."""

    user_id: str
    name: str = ""

    primary = PrimaryKey("USER#{user_id}", "PROFILE")


class Group(Entity, table=social):
    """A node of another type, whose ids may equal those of users."""

    group_id: str

    primary = PrimaryKey("GROUP#{group_id}", "PROFILE")


class Follows(Entity, table=social):
    """An edge between nodes of the same type, with an attribute and a date."""

    follower: str
    followed: str
    since: datetime = at(0)
    close: bool = False

    primary, out, into = edge("USER#{follower}", "FOLLOWS", "USER#{followed}", sort="{since}")


class MemberOf(Entity, table=social):
    """An edge between nodes of different types."""

    user_id: str
    group_id: str

    primary, into = edge("USER#{user_id}", "MEMBER", "GROUP#{group_id}")


teams = Table("teams")


class Person(Entity, table=teams):
    """A node of a tenant."""

    tenant: str
    person: str

    primary = PrimaryKey("TENANT#{tenant}#PERSON#{person}", "PROFILE")


class Knows(Entity, table=teams):
    """An edge within a tenant, by date."""

    tenant: str
    knower: str
    known: str
    since: datetime = at(0)

    primary, out, into = edge(
        "TENANT#{tenant}#PERSON#{knower}", "KNOWS", "TENANT#{tenant}#PERSON#{known}", sort="{since}"
    )


class Leads(Entity, table=teams):
    """An edge within a tenant, by the node at its other end."""

    tenant: str
    lead: str
    member: str

    primary, into = edge("TENANT#{tenant}#PERSON#{lead}", "LEADS", "TENANT#{tenant}#PERSON#{member}")


people = AdjacencyList(Person, Knows, Leads)


network = AdjacencyList(User, Group, Follows, MemberOf)
ANN = User.primary(user_id="ann")


def follows(*pairs: str) -> list[Follows]:
    """Edges from names such as "ann bob", each an hour later than the one before."""
    ends = [pair.split() for pair in pairs]
    return [Follows(follower=a, followed=b, since=at(0) + timedelta(hours=n)) for n, (a, b) in enumerate(ends)]


def out(db: Store, follower: str) -> list[str]:
    """The users that a user follows, by date."""
    return [relation.followed for relation in db.query(Follows.out(follower=follower))]


def into(db: Store, followed: str) -> list[str]:
    """The followers of a user, by date."""
    return [relation.follower for relation in db.query(Follows.into(followed=followed))]


def names(graph_walk: Walk) -> list[tuple[int, Any]]:
    """The depth and the id of every visit."""
    return [(visit.depth, *visit.node.values.values()) for visit in graph_walk.visits]


@needs("indexes")
class TestAdjacencyList:
    def test_an_edge_is_found_from_both_ends(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows("ann cid", "ann bob", "bob ann", "dan ann"))
        assert (out(db, "ann"), into(db, "ann")) == (["cid", "bob"], ["bob", "dan"])
        assert (out(db, "cid"), into(db, "dan")) == ([], [])

    @needs("updates")
    def test_both_ends_in_one_tenant(self, stores: Stores) -> None:
        db = stores.open(teams)
        people_of = [Person(tenant=tenant, person=person) for tenant in "xy" for person in ("ann", "bob", "cid")]
        fill(db, people_of)
        for tenant, hour in (("x", 1), ("y", 2)):
            db.put(Knows(tenant=tenant, knower="ann", known="bob", since=at(hour)))
            db.put(Knows(tenant=tenant, knower="cid", known="ann", since=at(hour)))
            db.put(Leads(tenant=tenant, lead="bob", member="cid"))
        ann = Person.primary(tenant="x", person="ann")
        assert [(relation.tenant, relation.known) for relation in db.query(Knows.out(tenant="x", knower="ann"))] == [
            ("x", "bob")
        ]
        known_by = Knows.into(tenant="y", known="ann")
        assert [node for _, node in db.run(people.neighbours(known_by))] == [people_of[5]]
        assert not list(db.query(known_by.where(Knows.since < at(2))))
        assert [relation.member for relation in db.query(Leads.primary(tenant="y", lead="bob"))] == ["cid"]
        graph_walk = db.run(walk(people, ann, out=[Knows, Leads], depth=2, most=9))
        assert [visit.node for visit in graph_walk.visits if visit.depth] == [
            Person.primary(tenant="x", person="bob"),
            Person.primary(tenant="x", person="cid"),
        ]
        assert db.run(people.remove_node(ann))
        assert [(relation.tenant, relation.knower) for relation in db.scan(Knows)] == [("y", "ann"), ("y", "cid")]
        assert len(list(db.scan(Leads))) == 2

    def test_by_a_range_of_the_sort_field(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows("ann bob", "ann cid", "ann dan", "bob dan"))
        recent = Follows.out(follower="ann").where(Follows.since >= at(1)).reverse()
        assert [relation.followed for relation in db.query(recent)] == ["dan", "cid"]
        old = Follows.into(followed="dan").where(Follows.since <= at(2))
        assert [relation.follower for relation in db.query(old)] == ["ann"]

    def test_there_is_one_edge_of_a_type_from_node_to_node(self, stores: Stores) -> None:
        db = stores.open(social)
        db.put(Follows(follower="ann", followed="bob", since=at(1)))
        db.put(Follows(follower="ann", followed="bob", since=at(2), close=True))
        assert list(db.query(Follows.out(follower="ann"))) == [
            Follows(follower="ann", followed="bob", since=at(2), close=True)
        ]
        assert into(db, "bob") == ["ann"]

    @needs("updates")
    def test_an_update_of_the_sort_field_moves_both_directions(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows("ann bob", "ann cid", "dan bob"))
        db.update(Follows.primary(follower="ann", followed="bob"), set_(Follows.since, at(9)))
        assert (out(db, "ann"), into(db, "bob")) == (["cid", "bob"], ["dan", "ann"])
        assert db.count(Follows.out(follower="ann").where(Follows.since < at(1))) == 0

    def test_both_directions_of_a_deleted_edge_go(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows("ann bob", "bob ann"))
        assert db.delete(Follows, follower="ann", followed="bob")
        assert (out(db, "ann"), into(db, "bob")) == ([], [])
        assert (out(db, "bob"), into(db, "ann")) == (["ann"], ["bob"])

    def test_types_of_nodes_and_edges_are_kept_apart(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, [User(user_id="ann"), Group(group_id="ann"), *follows("bob ann", "ann cid")])
        fill(db, [MemberOf(user_id="bob", group_id="ann"), MemberOf(user_id="ann", group_id="ann")])
        assert into(db, "ann") == ["bob"]
        assert [relation.user_id for relation in db.query(MemberOf.into(group_id="ann"))] == ["ann", "bob"]
        assert list(db.query(collection(ANN))) == [
            Follows(follower="ann", followed="cid", since=at(1)),
            MemberOf(user_id="ann", group_id="ann"),
            User(user_id="ann"),
        ]
        assert [type(relation).__name__ for relation in db.query(collection(Follows.into(followed="ann")))] == [
            "Follows"
        ]

    def test_neighbours_are_edges_with_the_nodes_at_their_other_ends(self, stores: Stores) -> None:
        db = stores.open(social)
        edges = fill(db, follows("ann bob", "ann cid", "dan ann"))
        bob, dan = fill(db, [User(user_id="bob", name="Bob"), User(user_id="dan")])
        fill(db, [MemberOf(user_id="dan", group_id="chess")])
        chess = db.put(Group(group_id="chess"))
        assert db.run(network.neighbours(Follows.out(follower="ann"))) == [(edges[0], bob), (edges[1], None)]
        assert db.run(network.neighbours(Follows.into(followed="ann"))) == [(edges[2], dan)]
        for query, node in ((MemberOf.primary(user_id="dan"), chess), (MemberOf.into(group_id="chess"), dan)):
            assert [neighbour for _, neighbour in db.run(network.neighbours(query))] == [node]
        assert db.run(network.neighbours(Follows.out(follower="nobody"))) == []

    def test_refused(self, stores: Stores) -> None:
        db = stores.offline(social)
        argument: Any
        for argument in (User.primary(user_id="ann"), Query(Follows), collection(Follows.into(followed="ann"))):
            with pytest.raises(BadValue):
                network.neighbours(argument)
        for argument in (Follows.primary(follower="ann", followed="bob"), User, "ann"):
            with pytest.raises(BadValue, match="is not the key of a node"):
                network.remove_node(argument)
        wrong: Any
        for wrong in ({"depth": 0}, {"most": True}, {"out": []}, {"out": [User]}, {"where": {MemberOf: False}}):
            with pytest.raises(BadValue, match=r"walk|not an edge"):
                db.run(walk(network, ANN, **{"out": [Follows], "depth": 1, "most": 9, **wrong}))
        assert stores.requests == []


@needs("indexes")
class TestRemoveNode:
    def test_it_goes_with_its_edges_and_no_others(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, [User(user_id="ann"), User(user_id="ann#bob"), Group(group_id="ann")])
        fill(db, follows("ann bob", "bob ann", "ann ann", "ann#bob bob", "bob ann#bob", "an n"))
        fill(db, [MemberOf(user_id="ann", group_id="ann"), MemberOf(user_id="bob", group_id="ann")])
        assert db.run(network.remove_node(ANN))
        assert (out(db, "ann"), into(db, "ann"), list(db.query(collection(ANN)))) == ([], [], [])
        assert (out(db, "ann#bob"), into(db, "ann#bob"), out(db, "an")) == (["bob"], ["bob"], ["n"])
        assert [relation.user_id for relation in db.query(MemberOf.into(group_id="ann"))] == ["bob"]
        assert not db.run(network.remove_node(ANN))
        assert db.run(network.remove_node(Group.primary(group_id="ann")))
        assert sorted(type(entity).__name__ for entity in db.scan()) == ["Follows", "Follows", "Follows", "User"]

    def test_stopped_anywhere_the_next_call_completes_it(self, stores: Stores) -> None:
        db, after = stores.open(social), 0
        others = [User(user_id="bob"), *follows("bob cid")]
        going = [User(user_id="ann"), *follows("ann bob", "bob ann", "ann ann"), MemberOf(user_id="ann", group_id="g")]
        while True:
            fill(db, [*others, *going])
            stopped = stores.stopped(lambda: db.run(network.remove_node(ANN)), after=after)
            edges = sum(not isinstance(entity, User) for entity in db.scan())
            assert db.exists(ANN) is stopped, "the node goes last"
            assert edges == 1 or stopped
            db.run(network.remove_node(ANN))
            assert sorted(db.scan(), key=repr) == sorted(others, key=repr)
            if not stopped:
                break
            after += 1
        assert after >= 7  # three that find edges, a batch after each, and one that finds none; pages may be small

    def test_an_edge_put_meanwhile_goes_by_the_next_call(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, [User(user_id="ann"), *follows("ann bob")])
        stores.rival_puts(*follows("cid ann"), *follows("ann cid"))
        db.run(network.remove_node(ANN))
        assert not db.exists(ANN)
        db.run(network.remove_node(ANN))
        assert list(db.scan()) == []


@needs("indexes")
class TestWalk:
    def test_it_is_breadth_first_and_visits_each_node_once(self, stores: Stores) -> None:
        db = stores.open(social)
        edges = fill(db, follows("ann bob", "ann cid", "bob dan", "cid dan", "dan eve", "eve ann", "ann ann"))
        graph_walk = db.run(walk(network, ANN, out=[Follows], depth=3, most=9))
        assert names(graph_walk) == [(1, "bob"), (1, "cid"), (2, "dan"), (3, "eve")]
        assert [visit.edge for visit in graph_walk.visits] == [edges[0], edges[1], edges[2], edges[4]]
        assert names(db.run(walk(network, ANN, into=[Follows], depth=2, most=9))) == [(1, "eve"), (2, "dan")]

    def test_it_is_bounded(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows("ann ann", "ann bob", "ann cid", "bob dan", "bob ann", "cid eve", "dan eve"))
        nodes_by_bounds = {(1, 9): "bob cid", (2, 9): "bob cid dan eve", (9, 3): "bob cid dan", (2, 1): "bob"}
        for (depth, most), nodes in nodes_by_bounds.items():
            graph_walk = db.run(walk(network, ANN, out=[Follows], depth=depth, most=most))
            assert [name for _, name in names(graph_walk)] == nodes.split()

    def test_it_reads_no_more_than_it_may_need(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows(*(f"ann u{n}" for n in range(9)), "u0 v", "u1 v"))
        for most, reads in ((1, 1), (9, 1), (10, 1 + 9)):
            stores.forget()
            assert db.run(walk(network, ANN, out=[Follows], depth=2, most=most)).reads == reads
            assert {request.limit for request in stores.requests if isinstance(request, req.Query)} == {most + 1}

    def test_by_type_date_and_both_directions(self, stores: Stores) -> None:
        db = stores.open(social)
        fill(db, follows("ann bob", "ann cid", "cid dan"))
        fill(db, [MemberOf(user_id=user, group_id="chess") for user in ("ann", "eve")])
        graph_walk = db.run(walk(network, ANN, out=[Follows], where={Follows: Follows.since >= at(1)}, depth=2, most=9))
        assert names(graph_walk) == [(1, "cid"), (2, "dan")]
        fellows = db.run(walk(network, ANN, out=[MemberOf], into=[MemberOf], depth=2, most=9))
        assert [visit.node for visit in fellows.visits] == [
            Group.primary(group_id="chess"),
            User.primary(user_id="eve"),
        ]
        assert db.run(walk(network, User.primary(user_id="none"), out=[Follows], depth=9, most=9)).visits == ()

    def test_it_reports_its_reads(self, stores: Stores, capabilities: Capabilities) -> None:
        db = stores.open(social)
        fill(db, follows(*(f"ann u{n}" for n in range(20)), *(f"u{n} v{n}" for n in range(20)), "v1 w"))
        fill(db, [MemberOf(user_id="ann", group_id="chess")])
        stores.forget()
        with db.meter() as meter:
            graph_walk = db.run(walk(network, ANN, out=[Follows, MemberOf], depth=3, most=99))
        assert len(graph_walk.visits) == 20 + 20 + 1 + 1
        assert graph_walk.reads == 2 * (1 + 20 + 20) == len(stores.requests)
        alone = 41 + 19  # queries of the primary key, and of users who follow nobody
        assert meter.calls == (graph_walk.reads if capabilities.units else alone + 2 * (graph_walk.reads - alone))


@needs("indexes", "updates")
class TestAdjacencyCosts:
    """Steps cost what is documented: requests, calls on a backend without units, and capacity units."""

    def steps(self, db: Store) -> Iterator[tuple[int, int, float]]:
        """For each step, the differences between its costs and the three documented costs."""
        [edge], member = follows("ann bob"), MemberOf(user_id="ann", group_id="g")
        steps: list[tuple[Callable[[], Any], int, int, float]] = [
            (lambda: db.insert(edge), 1, 3, 3),
            (lambda: db.insert(member), 1, 2, 2),
            (lambda: db.update(Follows.primary(follower="ann", followed="bob"), set_(Follows.since, at(5))), 1, 6, 5),
            (lambda: list(db.query(Follows.out(follower="ann"))), 1, 2, 0.5),
            (lambda: list(db.query(MemberOf.into(group_id="g"))), 1, 2, 0.5),
            (lambda: list(db.query(Follows.primary(follower="ann"))), 1, 1, 1),
            (lambda: db.run(network.neighbours(Follows.out(follower="ann"))), 2, 3, 1.5),
            (lambda: db.delete(edge), 1, 4, 3),
            (lambda: db.delete(member), 1, 3, 2),
        ]
        db.put(User(user_id="bob"))
        for step, requests, calls, units in steps:
            with db.meter() as meter:
                step()
            yield (meter.calls - requests, meter.calls - calls, meter.read_units + meter.write_units - units)

    def test_edges_cost_calls(self, stores: Stores, capabilities: Capabilities) -> None:
        differences = list(self.steps(stores.open(social)))
        assert [difference[0 if capabilities.units else 1] for difference in differences] == [0] * 9

    def test_edges_cost_units(self, stores: Stores, capabilities: Capabilities) -> None:
        differences = list(self.steps(stores.open(social)))
        assert [difference[2] for difference in differences] == [0] * 9 or not capabilities.units

    def test_removing_a_node_costs_its_edges(self, stores: Stores, capabilities: Capabilities) -> None:
        db = stores.open(social)
        fill(
            db, [User(user_id="ann"), *follows("ann bob", "ann cid", "bob ann"), MemberOf(user_id="ann", group_id="g")]
        )
        stores.forget()
        with db.meter() as meter:
            db.run(network.remove_node(ANN))
        assert len(stores.requests) == 7  # edges out, of two types, and in, of one, a batch for each, and the node
        assert meter.calls == 7 or not capabilities.units
