"""Adjacency lists: invalid declarations, an index that lags, and concurrent writers."""

import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from odm import (
    AccessPattern,
    BadValue,
    Entity,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
    TransactionFailed,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from odm.patterns.adjacency_list import AdjacencyList, edge
from odm.protocol.connection import Backend
from odm.testing import Clock
from odm.testing.suite.adjacency import ANN, Follows, Group, MemberOf, User, network, social

NOW = datetime(2026, 5, 1, tzinfo=UTC)
scrap = Table("scrap")


class Named(Entity, table=scrap):
    user_id: str
    name: str

    primary = PrimaryKey("USER#{user_id}", "NAME#{name}")


class Twin(Entity, table=scrap):
    twin_id: str

    primary = PrimaryKey("USER#{twin_id}", "TWIN")
    by_id = AccessPattern("TWIN#{twin_id}")


class Dated(Entity, table=scrap):
    one: str
    other: str
    since: datetime | None = None

    primary, out, into = edge("USER#{one}", "KNOWS", "USER#{other}", sort="{since}")


class Loose(Entity):
    pass


@pytest.mark.parametrize(
    ("entities", "message"),
    [
        ((User, Twin), "Twin.primary and User have the same partition 'USER#{twin_id}'"),
        ((Named,), "Named.primary: a node is one item of its partition, but 'name' allows many"),
        (
            (User, Follows, MemberOf),
            "MemberOf.primary ends at 'GROUP#{group_id}', but no node has such a partition",
        ),
        ((Twin, Dated), "Dated.since may be None"),
        ((User, Loose), "Loose has no primary key"),
    ],
)
def test_invalid_lists_are_refused(entities: Any, message: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(message)):
        AdjacencyList(*entities)


@pytest.mark.parametrize("type", ["", "A#B", "{kind}", "A$"])
def test_a_type_is_plain_text(type: str) -> None:
    with pytest.raises(SchemaError, match="the type is text"):
        edge("USER#{a}", type, "USER#{b}")


@pytest.mark.parametrize("tenant", ["", "T#{t}#"])
def test_the_ends_differ_in_a_field(tenant: str) -> None:
    with pytest.raises(SchemaError, match=r"both ends have the same fields, .*a, so they are always one node"):
        edge(f"{tenant}USER#{{a}}", "KNOWS", f"{tenant}USER#{{a}}", sort="{since}")


def test_the_sort_template_of_an_edge_must_have_a_field() -> None:
    with pytest.raises(SchemaError, match=r"the sort 'since' has no field: did you mean sort='\{since\}'"):
        edge("USER#{a}", "KNOWS", "USER#{b}", sort="since")


def test_an_edge_of_another_list_is_not_one_of_this() -> None:
    with pytest.raises(BadValue, match=r"^Follows is not an edge of .* its edges are MemberOf"):
        AdjacencyList(User, Group, MemberOf).edges_of(ANN, out=[Follows])


def test_a_list_is_of_entities() -> None:
    with pytest.raises(SchemaError, match="'User' is not an entity"):
        AdjacencyList("User")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


def test_another_pattern_of_a_node_is_not_its_key() -> None:
    with pytest.raises(BadValue, match="not the key of a node"):
        AdjacencyList(Twin).remove_node(Twin.by_id(twin_id="a"))


def test_a_mistyped_name_is_an_error_with_the_right_one() -> None:
    with pytest.raises(AttributeError, match="did you mean 'primary'"):
        Follows.primry  # type: ignore[attr-defined]  # noqa: B018  # pyright: ignore[reportAttributeAccessIssue]


def test_it_prints() -> None:
    assert repr(network) == "AdjacencyList(User, Group, Follows, MemberOf)"
    assert repr(network.neighbours(Follows.out(follower="a"))).endswith("Follows.out(follower='a'))")


def test_an_edge_that_a_lagging_index_does_not_show_goes_by_the_next_call() -> None:
    clock = Clock(NOW)
    with Store(social, Memory(index_lag=1, clock=clock)) as db:
        db.create()
        late = Follows(follower="bob", followed="ann", since=NOW)
        for one in (User(user_id="ann"), late, Follows(follower="ann", followed="bob", since=NOW)):
            db.put(one)
        db.run(network.remove_node(ANN))
        assert list(db.scan()) == [late]
        clock.advance(2)
        db.run(network.remove_node(ANN))
        assert list(db.scan()) == []


def test_a_checked_edge_is_not_put_once_the_node_is_gone() -> None:
    with Store(social, Memory()) as db:
        db.create()
        db.put(User(user_id="ann"))

        def put(followed: str) -> None:
            with db.transaction() as tx:
                tx.check(ANN)
                tx.put(Follows(follower="ann", followed=followed, since=NOW))

        put("bob")
        db.run(network.remove_node(ANN))
        with pytest.raises(TransactionFailed):
            put("cid")
        assert list(db.scan()) == []


@pytest.fixture(params=["memory", "file", "dynamodb", "bigtable"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    if request.param == "bigtable":
        return Bigtable("project", "races", endpoint=request.getfixturevalue("bigtable_emulator"))
    if request.param == "dynamodb":
        return DynamoDB(endpoint_url=request.getfixturevalue("dynamodb_local"))
    return Memory() if request.param == "memory" else LocalFile(tmp_path / "races.db")


def test_removed_by_several_while_edges_are_put(backend: Backend) -> None:
    """Edges of other nodes stay; one more call removes edges that were put too late to be found."""
    with Store(social, backend) as db, ThreadPoolExecutor() as pool:
        db.create()
        others = [db.put(Follows(follower=f"u{n}", followed=f"u{n + 1}", since=NOW)) for n in range(5)]
        db.put(User(user_id="ann"))

        def write(n: int) -> None:
            db.put(Follows(follower="ann", followed=f"u{n}", since=NOW))
            db.put(Follows(follower=f"u{n}", followed="ann", since=NOW))

        writing = [pool.submit(write, n) for n in range(10)]
        removing = [pool.submit(db.run, network.remove_node(ANN)) for _ in range(4)]
        assert True in [one.result() for one in removing]
        for one in writing:
            one.result()
        db.run(network.remove_node(ANN))
        assert sorted(db.scan(), key=repr) == others
        assert [db.count(Follows.into(followed=f"u{n}")) for n in range(10)] == [0, 1, 1, 1, 1, 1, 0, 0, 0, 0]
        db.drop()
