"""Indexes whose keys have several attributes: the same results as on Memory, against moto; other services lack them."""

from collections.abc import Iterator
from typing import Any

import pytest

from odm import AccessPattern, Entity, PrimaryKey, SchemaError, Store, Table, between, remove, set_, some, starts_with
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.admin import Admin
from odm.backends.local import Memory

matches = Table(
    "matches",
    keys=("id",),
    index_keys={"by": (("tenant", "region"), ("round", "day", "n")), "only": (("tenant", "round"),)},
    key_style="verbatim",
    tag=None,
)


class Match(Entity, table=matches):
    id: str
    tenant: str
    region: str
    round: str
    day: str | None = None
    n: int = 0

    primary = PrimaryKey("{id}")
    by = AccessPattern("{tenant}#{region}", "{round}#{day}#{n}", index="by")
    only = AccessPattern("{tenant}#{round}", index="only")


WHOLE = Match.by(tenant="a#", region="us$")
ROUND = Match.by(tenant="a#", region="us$", round="semi#1")
DAY = Match.by(tenant="a#", region="us$", round="semi#1", day="2")
QUERIES: list[Any] = [
    *(WHOLE, WHOLE.reverse(), ROUND, DAY, Match.by(tenant="a#", region="eu", round="semi", day="1", n=3)),
    *(WHOLE.where(Match.round > "final"), WHOLE.where(starts_with(Match.round, "semi"))),
    WHOLE.where(between(Match.round, "final", "semi")),
    *(ROUND.where(Match.day == "1"), ROUND.where(some(Match.day) > "1"), ROUND.where(some(Match.day) <= "1")),
    *(DAY.where(Match.n == 3), DAY.where(Match.n > -5), DAY.where(Match.n < 20), DAY.where(between(Match.n, -5, 3))),
]


@pytest.fixture(scope="module")
def stores(moto_server: str) -> Iterator[tuple[Store, Store]]:
    memory, cloud = Store(matches, Memory()), Store(matches, DynamoDB(endpoint_url=moto_server, region="eu-west-1"))
    for db in (memory, cloud):
        db.create()
        with db.batch() as batch:
            number = 0
            for tenant in ("a#", "b"):
                for region in ("eu", "us$"):
                    for name in ("final", "semi#1", "semi"):
                        for day in ("1", "2", None):
                            for n in (-5, 3, 20):
                                number += 1
                                batch.put(Match(id=str(number), tenant=tenant, region=region, round=name, day=day, n=n))
    with memory, cloud:
        yield memory, cloud


@pytest.mark.parametrize("query", QUERIES, ids=str)
def test_queries_give_the_same_items_in_the_same_order(stores: tuple[Store, Store], query: Any) -> None:
    memory, cloud = stores
    found = list(cloud.query(query))
    assert found == list(memory.query(query))
    assert found
    assert cloud.count(query) == len(found)
    first = cloud.page(query, size=2)
    assert [*first.items, *(cloud.page(query, size=9, after=first.cursor).items if first.cursor else ())] == found[:11]


def test_an_index_without_sort_key(stores: tuple[Store, Store]) -> None:
    found = [sorted(one.id for one in db.query(Match.only(tenant="b", round="final"))) for db in stores]
    assert found[0] == found[1]
    assert len(found[0]) == 18


def test_updates_move_the_entry(stores: tuple[Store, Store]) -> None:
    for db in stores:
        key, moved = Match.primary(id="1"), Match.by(tenant="a#", region="eu", round="final", day="9")
        db.update(key, set_(Match.day, "9"))
        assert [one.id for one in db.query(moved)] == ["1"]
        db.update(key, remove(Match.day))
        assert list(db.query(moved)) == []
        db.update(key, set_(Match.day, "1"))


def test_nothing_is_to_be_done(moto_server: str, stores: tuple[Store, Store]) -> None:
    survey = Admin(DynamoDB(endpoint_url=moto_server, region="eu-west-1"), matches.compile()).survey(10)
    assert [*survey.changes, *survey.findings] == []


def test_the_template_names_the_fields_in_order() -> None:
    wrong = Table("wrong", index_keys={"by": (("a", "b"),)})

    class Thing(Entity, table=wrong):
        id: str
        a: str
        b: str

        primary = PrimaryKey("T#{id}")
        by = AccessPattern("{b}#{a}", index="by")

    with pytest.raises(SchemaError, match=r'Thing.by: its key has the attributes a, b, .* "\{a\}#\{b\}"'):
        wrong.compile()
    with pytest.raises(SchemaError, match="up to four names"):
        Table("wrong", index_keys={"by": (("a", "b", "c", "d", "e"),)})
