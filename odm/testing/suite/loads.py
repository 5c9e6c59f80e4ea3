"""Bulk loads of new items: the items, claims, versions, pointers and index entries that inserts would have written."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Iterable
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import pytest

from odm import (
    TTL,
    AccessPattern,
    Entity,
    ItemExists,
    ItemInvalid,
    PrimaryKey,
    Revision,
    Shards,
    Store,
    Table,
    Unsupported,
    increment,
    remove,
    set_,
)
from odm.extend import Calls, CompanionWrites, Effect, Gen, procedure
from odm.patterns.bulk_load import bulk_load
from odm.patterns.pointer import Pointer
from odm.patterns.unique import Unique
from odm.patterns.versioned import Versioned
from odm.testing.capabilities import Capabilities, needs
from odm.testing.companions import Guest, Highest, Listed, Own, players
from odm.testing.stores import WRITES, Stores
from odm.testing.suite.helpers import PAST

loads, others = Table("loads"), Table("loads")


class Article(Entity, table=loads):
    """Has a Revision, versions, a unique value, a pointer, and indexes."""

    site: str
    number: int
    slug: str | None = None
    stars: int = 0
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("SITE#{site}", "ARTICLE#{number}")
    history = Versioned("OLD#{site}", "ARTICLE#{number}#{version}", keep=3)
    unique_slug = Unique("slug")
    best = Pointer("BEST#{site}", tracks="stars")
    by_stars = AccessPattern("STARS#{site}", "{stars}#{number}")
    by_slug = AccessPattern("SLUGS", "{slug}", shards=Shards(2))


class Remark(Entity, table=loads):
    """Has a Revision alone, and expires."""

    text: str
    until: Annotated[datetime | None, TTL] = None
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("REMARK#{text}")


class Theirs(Entity, table=others):
    """The item of another program, under the key of an article."""

    primary = PrimaryKey("SITE#s", "ARTICLE#a1")


class TheirBest(Entity, table=others):
    """The same, under the key of a pointer."""

    primary = PrimaryKey("BEST#t", "Article.best")


def articles(site: str, number: int) -> list[Article]:
    """New articles of a site; some have no slug."""
    return [Article(site=site, number=n, slug=f"{site}-{n}" if n % 3 else None, stars=n * 7 % 5) for n in range(number)]


@procedure
def in_parts(do: Calls, items: list[Article], size: int) -> Gen[None]:
    """Load so many at a time."""
    for start in range(0, len(items), size):
        yield from do.load_new(items[start : start + size])


def check(db: Store, items: Iterable[Article]) -> None:
    """These are all items of their sites, as inserts would have stored them."""
    for site in {item.site for item in items}:
        own = [item.model_copy(update={"version": 1}) for item in items if item.site == site]
        assert list(db.query(Article.primary(site=site))) == sorted(own, key=lambda article: article.number)
        by_stars = sorted(own, key=lambda article: (article.stars, article.number))
        assert list(db.query(Article.by_stars(site=site))) == by_stars
        first = next((article for article in own if article.stars == by_stars[-1].stars), None)
        assert db.get(Article.best(site=site)) == first
        for article in own:
            assert db.get(Article.history.version(1, site=site, number=article.number)) == article
            assert db.count(Article.history(site=site, number=article.number)) == 1
            if article.slug is not None:
                assert db.get(Article.unique_slug(slug=article.slug)) == article
                assert list(db.query(Article.by_slug(slug=article.slug))) == [article]


def check_changes(db: Store, items: list[Article]) -> None:
    """The items can be changed and deleted as if they had been inserted; in the end only pointers are left."""
    for item in items:
        key = Article.primary(site=item.site, number=item.number)
        stored = db.put(db.one(key).model_copy(update={"stars": item.stars + 1}))
        assert stored.version == 2
        assert db.one(Article.history.version(1, site=item.site, number=item.number)).stars == item.stars
        db.update(
            key, remove(Article.slug) if item.number % 2 else set_(Article.slug, f"new {item.site} {item.number}")
        )
        if item.slug is not None:
            assert not db.exists(Article.unique_slug.claim(slug=item.slug))
        db.delete(key)
        assert db.count(Article.history(site=item.site, number=item.number)) == 0
    assert [type(entity) for entity in db.scan() if type(entity) is not Article.best.items] == []


@needs("conditions", "indexes", "updates")
class TestBulkLoad:
    def test_of_new_items_stores_what_inserts_do(self, stores: Stores) -> None:
        db = stores.open(loads)
        items = articles("s", 5) + articles("t", 2)
        assert db.run(bulk_load(iter(items), new=True)) == 7
        check(db, items)
        check_changes(db, items)

    def test_takes_few_requests(self, stores: Stores) -> None:
        db = stores.open(loads)
        stores.forget()
        db.run(bulk_load(articles("s", 20), new=True))
        assert len(stores.requests) == 5
        stores.forget()
        db.run(bulk_load(articles("s", 20), new=True))
        assert len(stores.requests) == 2
        stores.forget()
        db.run(bulk_load([], new=True))
        assert stores.requests == []

    def test_can_be_stopped_anywhere_and_run_again(self, stores: Stores) -> None:
        db = stores.open(loads)
        for after in range(20):
            items = articles(f"s{after}", 5)
            if not stores.stopped(partial(db.run, in_parts(items, 3)), after=after):
                break
            for item in items:  # nothing that is there is wrong
                held = None if item.slug is None else db.get(Article.unique_slug(slug=item.slug))
                assert held is None or held.number == item.number
            best = db.run(Article.best.value(site=f"s{after}"))
            assert best in {None, *(article.stars for article in db.query(Article.primary(site=f"s{after}")))}
            db.run(in_parts(items, 3))
            check(db, items)
        else:
            pytest.fail("the load takes more requests than this test expects")
        assert after == 9  # the second part does not move the pointer

    def test_of_one_value_twice_is_refused(self, stores: Stores) -> None:
        db = stores.open(loads)
        items = articles("s", 5)
        for size, number in ((10, 21), (5, 22)):  # in one request, and in different ones
            twice = Article(site="t", number=number, slug="s-4")
            with pytest.raises(ItemExists, match=r"Article\.unique_slug: .*slug='s-4', which .*number=4\) already has"):
                db.run(in_parts([*items, twice], size))
            check(db, items)
            assert not db.exists(Article, site="t", number=number)
            assert db.count(Article.history(site="t", number=number)) == 0
            assert db.get(Article.best(site="t")) is None
        check_changes(db, items)

    def test_of_a_value_that_an_item_has_is_refused(self, stores: Stores) -> None:
        db = stores.open(loads)
        other = db.insert(Article(site="t", number=1, slug="s-2"))
        with pytest.raises(ItemExists, match=r"which .*site='t'.* already has"):
            db.run(bulk_load(articles("s", 5), new=True))
        check(db, [other])
        assert [article.number for article in db.query(Article.primary(site="s"))] == [0, 1, 3, 4]
        db.delete(other)
        db.run(bulk_load(articles("s", 5), new=True))
        check(db, articles("s", 5))

    def test_of_a_value_that_no_item_has_is_claimed_as_inserts_do(
        self, stores: Stores, capabilities: Capabilities
    ) -> None:
        """A claim without an item: with transactions it stays; otherwise it has timed out and is taken over."""
        db = stores.open(loads)
        claim: Any = Article.unique_slug.claim(slug="s-1").entity
        old = claim(slug="s-1", site="gone", number=1, claim_ids={"1"}, claimed_at="2026-01-01T00:00Z")
        stores.rival_puts(old)
        db.put(Remark(text="r"))
        items = articles("s", 3)
        if capabilities.transactions is True:
            with pytest.raises(ItemExists, match="site='gone'"):
                db.run(bulk_load(items, new=True))
            assert db.get(Article.unique_slug.claim(slug="s-1")) == old
            assert [article.number for article in db.query(Article.primary(site="s"))] == [0, 2]
            db.delete(Article.unique_slug.claim(slug="s-1"))
        db.run(bulk_load(items, new=True))
        check(db, items)

    def test_of_one_key_twice_is_refused_unless_the_items_are_the_same(self, stores: Stores) -> None:
        db = stores.open(loads)
        items = articles("s", 3)
        db.run(bulk_load(items + items, new=True))
        check(db, items)
        with pytest.raises(ItemExists) as caught:
            db.run(bulk_load([Article(site="t", number=1, slug="a"), Article(site="t", number=1, slug="b")], new=True))
        assert caught.value.item.slug == "a"
        check(db, [*items, Article(site="t", number=1, slug="a")])
        assert db.get(Article.unique_slug.claim(slug="b")) is None

    def test_leaves_items_with_other_content_alone(self, stores: Stores) -> None:
        db = stores.open(loads)
        items = articles("s", 4)
        db.run(bulk_load(items, new=True))
        for new in (items[1].model_copy(update={"stars": 99}), db.one(Article, site="s", number=1)):
            with pytest.raises(ItemExists) as caught:
                db.run(bulk_load([new], new=True))
            assert caught.value.item.stars == items[1].stars
            check(db, items)
        db.put(db.one(Article, site="s", number=1))
        with pytest.raises(ItemExists):
            db.run(bulk_load(items, new=True))
        assert db.one(Article, site="s", number=1).version == 2

    def test_is_refused_for_items_from_before_a_declaration(self, stores: Stores) -> None:
        """They have no claim and no first version, which the load would not notice; a put adds both."""
        db = stores.open(loads)
        old = Article(site="s", number=1, slug="s-1")
        stores.rival_puts(old)  # writes only the item
        db.put(Remark(text="r"))
        with pytest.raises(ItemExists, match="exists already"):
            db.run(bulk_load([old], new=True))
        assert not db.exists(Article.unique_slug.claim(slug="s-1"))

    def test_takes_the_place_of_an_expired_item(self, stores: Stores) -> None:
        db = stores.open(loads)
        db.put(Remark(text="r", until=PAST, version=0))
        db.run(bulk_load([Remark(text="r"), Remark(text="q")], new=True))
        assert db.one(Remark, text="r") == Remark(text="r", version=1)
        assert db.one(Remark, text="q").version == 1

    @pytest.mark.parametrize("on_unknown", ["raise", "skip"])
    def test_does_not_replace_the_item_of_another_program(
        self, stores: Stores, on_unknown: Literal["raise", "skip"]
    ) -> None:
        db = stores.open(loads, on_unknown=on_unknown)
        theirs = stores.open(others, on_unknown="skip")
        theirs.put(Theirs())
        theirs.put(TheirBest())
        with pytest.raises(ItemInvalid, match=r"Article\.primary.*'Theirs'"):
            db.run(bulk_load(articles("s", 3), new=True))
        assert not db.exists(Article.unique_slug.claim(slug="s-1"))
        assert db.one(Article, site="s", number=2).version == 1
        with pytest.raises(ItemInvalid, match=r"Article\.best.*'TheirBest'"):
            db.run(bulk_load(articles("t", 1), new=True))
        assert theirs.get(Theirs) == Theirs()
        assert theirs.get(TheirBest) == TheirBest()


class Latest(Highest):
    loads = "after"


class Listing(Listed):
    loads = "before"


class Sum(Own):
    """Adds up: if it were loaded again, it would count twice."""

    fields: ClassVar[dict[str, Any]] = {"name": str, "total": (int, 0)}
    key: ClassVar[tuple[str, ...]] = ("SUM#{name}",)
    loads = "after"

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        new: Any = effect.new
        entity = self.classes[type(new)]
        tx.update(entity.primary(name=new.name), increment(entity.total), upsert=True)


own = Table("loads-own")


class Runner(Entity, table=own):
    name: str
    group: str = "g"
    level: int = 0

    primary = PrimaryKey("RUNNER#{name}")
    highest = Latest()
    listed = Listing()


class Coin(Entity, table=own):
    name: str

    primary = PrimaryKey("COIN#{name}")
    sum = Sum()


@needs("conditions", "updates")
class TestBulkLoadOfOwnCompanions:
    def test_writes_their_items(self, stores: Stores) -> None:
        db = stores.open(own)
        runners = [Runner(name=f"r{n}", level=n * 2 % 5) for n in range(4)]
        highest, listed = Runner.highest.classes[Runner], Runner.listed.classes[Runner]
        for _ in range(2):
            db.run(bulk_load(runners, new=True))
            assert [(entry.group, entry.level) for entry in db.scan(highest)] == [("g", 4)]
            entries = sorted((entry.level, entry.name, entry.changes) for entry in db.scan(listed))
            assert entries == [(0, "r0", 1), (1, "r3", 1), (2, "r1", 1), (4, "r2", 1)]
        db.put(Runner(name="r0", level=3))
        assert db.one(listed.primary(level=3, name="r0")).changes == 2

    def test_is_refused_if_they_cannot_be_loaded_again(self, stores: Stores) -> None:
        db, guests = stores.open(own), stores.open(players)
        stores.forget()
        with pytest.raises(Unsupported, match=r"Coin has Coin\.sum, .* insert\(\) it"):
            db.run(bulk_load([Coin(name="c")], new=True))
        with pytest.raises(Unsupported, match=r"Guest has Guest\.seats, .*`loads`.* insert\(\) it"):
            guests.run(bulk_load([Guest(name="ann", seat="1")], new=True))
        assert not any(isinstance(request, WRITES) for request in stores.requests)
