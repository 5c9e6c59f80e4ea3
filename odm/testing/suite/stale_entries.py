"""Queries of a pattern whose templates have changed, before its backfill: they never contradict their conditions."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TypeAlias

import pytest
from msgspec.structs import replace as evolve

from odm import Query, Store, between, collection, select, starts_with
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.evolving import Dish, Drink, OldDish, OldDrink, dishes, dishes_now
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill, walk

OLD_DISHES = [
    OldDish(
        dish_id=f"d{n:02}",
        menu="mn"[n % 2],
        cook="nm"[n % 3 == 0],
        name="xyz"[n % 3],
        grams=200 - n,
        score=90 + n,
        bought=at(n, day=1 + n % 2),
        sold=at(n, day=1 + n % 3),
    )
    for n in range(22)
]
NEW_DISHES = [Dish(dish_id=f"e{n}", menu="m", name="x", grams=50, score=95 + 10 * n, sold=at(1)) for n in range(3)]
DISHES = [Dish(**vars(dish)) for dish in OLD_DISHES] + NEW_DISHES

DAY = datetime(2024, 1, 1, tzinfo=UTC)
Case: TypeAlias = tuple[Query[Dish], Callable[[Dish], bool]]

CASES: dict[str, Case] = {
    "greater": (Dish.by_score(menu="m").where(Dish.score > 100), lambda dish: dish.menu == "m" and dish.score > 100),
    "less": (Dish.by_score(menu="n").where(Dish.score <= 195), lambda dish: dish.menu == "n" and dish.score <= 195),
    "range": (
        Dish.by_score(menu="m").where(between(Dish.score, 98, 190)),
        lambda dish: dish.menu == "m" and 98 <= dish.score <= 190,
    ),
    "equal": (Dish.by_score(menu="m", score=190), lambda dish: dish.menu == "m" and dish.score == 190),
    "two types": (
        Dish.by_name(menu="m").where(Dish.name >= "b"),
        lambda dish: dish.menu == "m" and dish.name >= "b",
    ),
    "prefix": (
        Dish.by_name(menu="m").where(starts_with(Dish.name, "c")),
        lambda dish: dish.menu == "m" and dish.name.startswith("c"),
    ),
    "partition": (Dish.by_cook(cook="m"), lambda dish: dish.cook == "m"),
    "partition and sort": (
        Dish.by_cook(cook="n").where(Dish.dish_id > "d05"),
        lambda dish: dish.cook == "n" and dish.dish_id > "d05",
    ),
    "filter too": (
        Dish.by_cook(cook="m").where(Dish.score > 95),
        lambda dish: dish.cook == "m" and dish.score > 95,
    ),
    "day": (Dish.by_day(sold=DAY), lambda dish: dish.sold is not None and dish.sold.date() == DAY.date()),
    "shards": (
        Dish.spread(menu="m").where(Dish.score > 100),
        lambda dish: dish.menu == "m" and dish.score > 100,
    ),
    "select": (
        select(Dish).where(Dish.cook == "m", Dish.dish_id <= "d20"),
        lambda dish: dish.cook == "m" and dish.dish_id <= "d20",
    ),
}


EACH = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@needs("indexes", "updates", "conditions")
class TestStaleEntries:
    @pytest.fixture
    def stale(self, stores: Stores) -> Store:
        """A store whose items are mostly from before the templates changed."""
        old = stores.open(dishes)
        fill(old, OLD_DISHES)
        fill(old, [OldDrink(drink_id=f"b{n}", score=100 + n) for n in range(3)])
        db = stores.open(dishes_now)
        fill(db, NEW_DISHES)
        stores.forget()
        return db

    @EACH
    def test_are_not_returned_against_the_conditions(self, stale: Store, case: Case) -> None:
        query, meets = case
        results = list(stale.query(query))
        assert all(map(meets, results))
        assert {dish.dish_id for dish in NEW_DISHES if meets(dish)} <= {dish.dish_id for dish in results}
        assert stale.count(query) == len(results)
        assert stale.first(query) == next(iter(results), None)
        assert list(stale.query(query.reverse())) == results[::-1]

    @EACH
    def test_limits_and_pages_count_results(self, stale: Store, case: Case) -> None:
        query, _ = case
        results = list(stale.query(query))
        for most in (1, 2, 5):
            assert list(stale.query(query.limit(most))) == results[:most]
            assert stale.count(query.limit(most)) == len(results[:most])
            pages = walk(stale, query, most)
            assert [dish for page in pages for dish in page] == results
            assert all(len(page) == most for page in pages[:-1])

    @EACH
    def test_some_fields_are_checked_as_whole_items_are(self, stale: Store, case: Case) -> None:
        query, _ = case
        parts = list(stale.query(query, only=[Dish.grams]))
        assert [(part[Dish.dish_id], part[Dish.grams]) for part in parts] == [
            (dish.dish_id, dish.grams) for dish in stale.query(query)
        ]

    @EACH
    def test_are_not_deleted_against_the_conditions(self, stale: Store, case: Case) -> None:
        query, _ = case
        results = {dish.dish_id for dish in stale.query(query)}
        stored = {dish.dish_id for dish in stale.scan(Dish)}
        assert stale.delete_all(query) == len(results)
        assert {dish.dish_id for dish in stale.scan(Dish)} == stored - results

    def test_are_in_no_collection_that_the_model_does_not_put_them_in(self, stale: Store) -> None:
        query = collection(Dish.by_cook(cook="m"))
        results = list(stale.query(query))
        assert all(isinstance(dish, Dish) and dish.cook == "m" for dish in results)
        assert stale.count(query) == len(results)
        menu = collection(Dish.by_score(menu="m"))
        assert all(isinstance(dish, Dish) and dish.menu == "m" for dish in stale.query(menu))
        assert stale.count(menu) == len(list(stale.query(menu)))
        assert list(stale.query(collection(Drink.by_score(menu="m")))) == []

    def test_of_another_entity_are_no_results(self, stale: Store) -> None:
        """Drinks have their old entries in the partition of dishes."""
        assert all(type(dish) is Dish for dish in stale.query(Dish.by_score(menu="m")))
        assert stale.count(Dish.by_score(menu="m")) == len(list(stale.query(Dish.by_score(menu="m"))))

    @EACH
    def test_are_gone_after_a_backfill(self, stale: Store, case: Case) -> None:
        query, meets = case
        stale.backfill(Dish)
        stale.backfill(Drink)
        assert {dish.dish_id for dish in stale.query(query)} == {dish.dish_id for dish in DISHES if meets(dish)}
        assert stale.count(query) == sum(map(meets, DISHES))

    def test_a_count_of_right_entries_is_one_request(self, stale: Store, stores: Stores) -> None:
        stale.backfill(Dish)
        stale.backfill(Drink)
        query = Dish.by_score(menu="m").where(Dish.score > 100)
        stores.forget()
        stale.count(query)
        first, *others = stores.requests
        assert isinstance(first, req.Query)
        assert others == [evolve(first, after=request.after) for request in others if isinstance(request, req.Query)]
        pages = [request.after for request in stores.requests if isinstance(request, req.Query)]
        assert len(set(pages)) == len(pages)  # each page once, and nothing else
