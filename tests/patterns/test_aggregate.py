"""Aggregates: equal to a recount, whatever a feed delivers and wherever consumers stop."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import count as numbers
from random import Random
from typing import Annotated, Any
from uuid import uuid4

import boto3
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import (
    TTL,
    AccessPattern,
    AsyncStore,
    BadValue,
    Conflict,
    Entity,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Table,
    Unsupported,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Faults, LocalFile, Memory
from odm.changes import Change, Changed, Inserted, Removed
from odm.patterns.aggregate import Aggregate, count, existing, highest, lowest, top, total
from odm.patterns.feed import Feed
from odm.patterns.follower import Follower, positions
from odm.protocol.connection import Backend
from odm.testing import Clock
from tests.effort import times

songs = Table("songs", transactions=True)
NOVEMBER = datetime(2026, 11, 1, tzinfo=UTC)


class Download(Entity, table=songs):
    download_id: str
    song_id: str
    at: datetime
    size: int | None = None
    paid: Decimal = Decimal(0)

    primary = PrimaryKey("DOWNLOAD#{download_id}")


class SongMonth(Entity, table=songs):
    song_id: str
    month: str
    downloads: Annotated[int, Field(ge=0, lt=10**9)] = 0
    size: int = 0
    paid: Decimal = Decimal(0)
    title: str = "unknown"

    primary = PrimaryKey("SONG#{song_id}", "MONTH#{month}")
    by_downloads = AccessPattern("MONTH#{month}", "{downloads}#{song_id}")


class Sizes(Entity, table=songs):
    song_id: str
    downloads: int = 0
    largest: int | None = None
    smallest: int | None = None
    newest: list[str] = Field(default_factory=list)
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("SIZES#{song_id}")


def month_of(download: Download) -> dict[str, Any] | None:
    if download.song_id == "none":
        return None
    return {"song_id": download.song_id, "month": f"{download.at:%Y-%m}"}


by_month = Aggregate(SongMonth, Download, month_of, downloads=count(), size=total("size"), paid=total("paid"))
sizes = Aggregate(
    Sizes,
    Download,
    lambda download: {"song_id": download.song_id},
    downloads=count(),
    largest=highest("size"),
    smallest=lowest("size"),
    newest=top(3, "at", show="download_id"),
)


def download(number: int, song: str = "a", day: int = 0, size: int | None = 1) -> Download:
    at = NOVEMBER + timedelta(days=day)
    return Download(download_id=str(number), song_id=song, at=at, size=size, paid=Decimal(size or 0) / 4)


def key_of(item: Download) -> tuple[str, str]:
    return (f"DOWNLOAD#{item.download_id}", "")


def history(items: Sequence[Download | None], number: int) -> list[Change[Download]]:
    """The changes that make one item what it is, one after the other."""
    changes: list[Change[Download]] = []
    old: Download | None = None
    for order, new in enumerate(items):
        kind = Inserted if old is None else Removed if new is None else Changed
        if old is not None or new is not None:
            key = (f"DOWNLOAD#{number}", "")
            changes.append(kind(key=key, old=old, new=new, order=f"{order:04}"))
        old = new
    return changes


def recounted(items: Iterable[Download | None]) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What the totals must be."""
    months: dict[Any, Any] = defaultdict(lambda: [0, 0, Decimal(0)])
    groups: dict[str, list[Download]] = defaultdict(list)
    for item in filter(None, items):
        groups[item.song_id].append(item)
        key = month_of(item)
        if key is not None:
            row = months[key["song_id"], key["month"]]
            row[0], row[1], row[2] = row[0] + 1, row[1] + (item.size or 0), row[2] + item.paid
    ranked = {}
    for song, found in groups.items():
        all_sizes = [item.size for item in found if item.size is not None]
        newest = sorted(((item.at, _digest(item), item.download_id) for item in found), reverse=True)
        extremes = max(all_sizes, default=None), min(all_sizes, default=None)
        ranked[song] = (len(found), *extremes, [name for *_, name in newest[:3]])
    return dict(months), ranked


def _digest(item: Download) -> str:
    import json

    from odm.patterns.aggregate_fields import digest

    return digest(json.dumps(key_of(item)))


def kept(db: Store) -> tuple[dict[Any, Any], dict[Any, Any]]:
    """What the totals are; those of groups without items are left out."""
    found = list(db.scan(SongMonth))
    totals = {(one.song_id, one.month): [one.downloads, one.size, one.paid] for one in found if one.downloads}
    ranked = {
        one.song_id: (one.downloads, one.largest, one.smallest, one.newest) for one in db.scan(Sizes) if one.downloads
    }
    assert all(one.size == 0 == one.paid for one in found if not one.downloads)
    by_downloads = [
        one for month in ("2026-11", "2026-12", "2027-01") for one in db.query(SongMonth.by_downloads(month=month))
    ]
    assert sorted(map(str, by_downloads)) == sorted(map(str, found))
    return totals, ranked


@pytest.fixture
def db() -> Store:
    store = Store(songs, Memory(changes=True))
    store.create()
    return store


def apply(db: Store, changes: Sequence[Change[Any]]) -> int:
    return db.run(by_month.apply(changes)) + db.run(sizes.apply(changes))


SONGS = st.sampled_from(["a", "b", "none"])
ITEMS = st.one_of(st.none(), st.builds(download, st.just(0), SONGS, st.integers(0, 40), st.none() | st.integers(-9, 9)))


@settings(max_examples=times(60, 600))
@given(
    st.lists(st.lists(ITEMS, min_size=1, max_size=4), max_size=6),
    st.randoms(use_true_random=False),
    st.integers(1, 9),
)
def test_totals_equal_a_recount(items: list[list[Download | None]], random: Random, size: int) -> None:
    """Changes come twice, late and in any order."""
    histories = []
    for number, states in enumerate(items):
        own = [None if one is None else one.model_copy(update={"download_id": str(number)}) for one in states]
        histories.append((own, history(own, number)))
    changes = [change for _, all_ in histories for change in all_]
    delivered = [*changes, *random.choices(changes, k=len(changes))] if changes else []
    random.shuffle(delivered)
    db = Store(songs, Memory())
    db.create()
    for start in range(0, len(delivered), size):
        apply(db, delivered[start : start + size])
    assert kept(db) == recounted(own[-1] for own, _ in histories if own[-1] is not None)


def some_changes() -> tuple[list[Change[Download]], list[Download]]:
    """Changes of 12 items, of which some move to another group, and the items that remain."""
    changes: list[Change[Download]] = []
    left: list[Download] = []
    for n in range(12):
        states: list[Download | None] = [download(n, "ab"[n % 2], n, n)]
        states += [download(n, "b", 40, n * 2)] if n % 3 == 0 else []
        states += [None] if n % 4 == 1 else []
        changes += history(states, n)
        left += [states[-1]] if states[-1] is not None else []
    return changes, left


class Killed(BaseException):
    """The program ends."""


def _kill() -> None:
    raise Killed


def test_a_consumer_is_stopped_at_every_request() -> None:
    changes, left = some_changes()
    stop = 0
    for stop in numbers():
        faults = Faults()
        db = Store(songs, Memory(faults=faults))
        db.create()
        faults.before("any", _kill, after=stop)
        with suppress(Killed):
            for start in range(0, len(changes), 5):
                apply(db, changes[start : start + 5])
        faults.clear()
        for start in range(0, len(changes), 5):  # from the beginning: nothing says how far it came
            apply(db, changes[start : start + 5])
        assert kept(db) == recounted(left)
        if not faults.happened:
            break
    assert stop > 30


@pytest.mark.parametrize("applied", [True, False])
def test_the_answer_of_any_write_is_lost(applied: bool) -> None:
    changes, left = some_changes()
    lost = 0
    for lost in numbers():
        faults = Faults()
        db = Store(songs, Memory(faults=faults))
        db.create()
        faults.lose("transaction", applied=applied, after=lost)
        for start in range(0, len(changes), 5):
            apply(db, changes[start : start + 5])
        assert kept(db) == recounted(left)
        if not faults.happened:
            break
    assert lost > 5


def test_another_consumer_runs_before_every_request() -> None:
    """It applies other changes of the same items, or all of them."""
    changes, left = some_changes()
    for others in (changes, changes[::-1], changes[7:]):
        stop = 0
        for stop in numbers():
            faults = Faults()
            backend = Memory(faults=faults)
            db, other = Store(songs, backend), Store(songs, backend)
            db.create()
            faults.before("any", partial(apply, other, others), after=stop)
            apply(db, changes)
            assert kept(db) == recounted(left)
            if not faults.happened:
                break
        assert stop > 5


def test_consumers_in_threads(db: Store) -> None:
    from concurrent.futures import ThreadPoolExecutor

    changes, left = some_changes()
    parts = [changes[n:] + changes[:n] for n in range(0, len(changes), 4)]
    with ThreadPoolExecutor(len(parts)) as pool:
        list(pool.map(lambda part: [apply(db, [change]) for change in part], parts))
    assert kept(db) == recounted(left)


class NoPause(Random):
    def uniform(self, a: float, b: float) -> float:
        return 0.0


def test_conflicts_without_end_are_reported() -> None:
    faults = Faults()
    store = Store(songs, Memory(faults=faults), random=NoPause())
    store.create()
    faults.lose("transaction", applied=False, times=None)
    with pytest.raises(Conflict, match="other writers kept changing the same totals: apply the changes again"):
        store.run(by_month.apply([Inserted(key=("DOWNLOAD#1", ""), new=download(1), order="1")]))
    assert len(faults.happened) == 20


def test_a_total_keeps_the_other_fields_of_its_item(db: Store) -> None:
    db.put(SongMonth(song_id="a", month="2026-11", title="Yesterday"))
    db.run(by_month.apply([Inserted(key=("DOWNLOAD#1", ""), new=download(1), order="1")]))
    found = db.one(SongMonth, song_id="a", month="2026-11")
    assert (found.title, found.downloads) == ("Yesterday", 1)


def test_expired_items_count_if_they_are_to(db: Store) -> None:
    table = Table("visits")

    class Visit(Entity, table=table):
        visit_id: str
        until: Annotated[datetime, TTL]
        primary = PrimaryKey("VISIT#{visit_id}")

    class All(Entity, table=table):
        site: str
        visits: int = 0
        primary = PrimaryKey("SITE#{site}")

    class Living(All, table=table):
        primary = PrimaryKey("LIVING#{site}")

    ever = Aggregate(All, Visit, lambda _: {"site": "s"}, keep_expired=True, visits=count())
    living = Aggregate(Living, Visit, lambda _: {"site": "s"}, visits=count())
    visits = Store(table, Memory())
    visits.create()
    new = [Inserted(key=(f"VISIT#{n}", ""), new=Visit(visit_id=str(n), until=NOVEMBER), order="1") for n in range(4)]
    gone = [Removed(key=one.key, old=one.new, order="2", expired=n < 3) for n, one in enumerate(new)]
    for changes in (new[1:], gone, new):  # the first one comes after it has expired
        visits.run(ever.apply(changes))
        visits.run(living.apply(changes))
    assert visits.one(All, site="s").visits == 3
    assert visits.one(Living, site="s").visits == 0


def test_removed_items_are_remembered_for_a_time() -> None:
    clock = Clock()
    db = Store(songs, Memory(clock=clock))
    db.create()
    inserted, removed = history([download(1), None], 1)
    for late, expected in ((timedelta(days=7), 0), (timedelta(days=2), 1)):
        apply(db, [inserted])
        apply(db, [removed])
        clock.advance(late.total_seconds())
        apply(db, [inserted])
        assert db.one(SongMonth, song_id="a", month="2026-11").downloads == expected


def test_items_from_before_the_feed(db: Store) -> None:
    for n in range(70):
        db.put(download(n, day=n))
    removed = download(3, day=3)
    apply(db, [Removed(key=key_of(removed), old=removed, order="1")])  # the feed runs already
    db.delete(removed)
    page = db.run(lambda do: do.scan_page(size=200))
    found = existing([((item.partition, item.sort), item.entity) for item in page.items])
    for _ in range(2):
        apply(db, found)
    apply(db, [Inserted(key=key_of(removed), new=removed, order="0")])
    assert kept(db) == recounted(db.scan(Download))


def test_a_feed_of_keys_is_refused(db: Store) -> None:
    with pytest.raises(
        BadValue, match=r"the change of \('DOWNLOAD#1', ''\) has no item: enable a feed with new images"
    ):
        db.run(by_month.apply([Changed(key=("DOWNLOAD#1", ""), order="1")]))


def test_the_removal_of_an_unknown_item_changes_nothing(db: Store) -> None:
    with db.meter() as meter:
        assert db.run(by_month.apply([Removed(key=("OTHER#1", ""), order="1")])) == 0
    assert meter.calls == 1
    assert list(db.scan(by_month.member)) == []


class Bare(Entity, table=Table("bare")):
    name: str
    size: int = 0
    share: float = 0.0
    primary = PrimaryKey("{name}")


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "say what to keep, as in downloads=count"),
        ({"nothing": count()}, "SongMonth has no field 'nothing', outside of its key, to keep"),
        ({"month": count()}, "SongMonth has no field 'month', outside of its key"),
        ({"size": total("weight")}, "Bare has no field 'weight'"),
        ({"size": top(3, "size", show="title")}, "Bare has no field 'title'"),
        ({"size": top(0, "size", show="name")}, r"top\(0, ...\): give a number of 1 or more"),
        ({"size": total("share")}, "a sum of floats depends on their order: use int or Decimal"),
        ({"size": highest("size")}, r"a ranking needs a Revision: add revision: Annotated\[int, Revision\] = 0"),
    ],
)
def test_a_wrong_declaration(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(SchemaError, match=rf"Aggregate\(SongMonth, Bare\).*{said}"):
        Aggregate(SongMonth, Bare, lambda _: None, **fields)


def test_classes_need_a_table() -> None:
    class Abstract(Entity):
        name: str

    with pytest.raises(SchemaError, match="both classes need table="):
        Aggregate(SongMonth, Abstract, lambda _: None, downloads=count())


def test_it_costs_what_it_says() -> None:
    db = Store(songs, Memory())
    db.create()
    changes, _ = some_changes()
    n, g = 12, 3  # items, and totals
    with db.meter() as meter:
        db.run(by_month.apply(changes))
    assert (meter.read_units, meter.calls) == (n + g, 3)  # its index sorts by a total
    # A transaction doubles the units of the totals, and not those of their new index entries.
    assert meter.write_units == 2 * n + 2 * g + g
    with db.meter() as meter:
        db.run(by_month.apply(changes))
    assert (meter.read_units, meter.write_units, meter.calls) == (n, 0, 1)
    assert g == len(list(db.scan(SongMonth)))


def test_rankings_cost_what_they_say() -> None:
    db = Store(songs, Memory())
    db.create()
    n, g, r = 10, 2, 3
    changes = [
        Inserted(key=key_of(item), new=item, order="1") for item in (download(m, "ab"[m % 2], m, m) for m in range(n))
    ]
    with db.meter() as meter:
        db.run(sizes.apply(changes))
    assert meter.calls == 1 + g * (1 + r) + 1
    assert (meter.read_units, meter.write_units) == (n + g + g * r, 2 * n + 2 * g + 2 * r * n)
    item = download(0, "b", 0, 50)
    with db.meter() as meter:  # it moves to the other group
        db.run(sizes.apply([Changed(key=key_of(item), old=download(0, "a", 0, 0), new=item, order="2")]))
    assert meter.write_units == 2 + 2 * g + 4 * r


BACKENDS = ["file", "moto", "dynamodb_local", "bigtable", "wide"]


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[Backend]:
    if request.param == "file":
        yield LocalFile(tmp_path / "songs.db", changes=True)
        return
    if request.param in ("bigtable", "wide"):
        layout: Any = "row_per_partition" if request.param == "wide" else None
        address = request.getfixturevalue("bigtable_emulator")
        yield Bigtable("project", f"i{uuid4().hex[:12]}", endpoint=address, layout=layout)
        return
    if request.param == "dynamodb_local":
        session = boto3.Session(
            aws_access_key_id=f"key{uuid4().hex[:12]}", aws_secret_access_key="secret", region_name="eu-west-1"
        )
        yield DynamoDB(session, endpoint_url=request.getfixturevalue("dynamodb_local"))
        return
    from moto import mock_aws

    session = boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")
    with mock_aws():
        yield DynamoDB(session)


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_every_backend_with_transactions(backend: Backend, mode: str) -> None:
    changes, left = some_changes()
    delivered = [*changes, *changes[::-1], *changes[::3]]
    if mode == "async" and isinstance(backend, DynamoDB) and backend._settings.endpoint_url is None:
        pytest.skip("moto in this process does not answer aiobotocore")
    with Store(songs, backend) as db:
        db.create()
        if mode == "sync":
            for start in range(0, len(delivered), 7):
                apply(db, delivered[start : start + 7])
        else:
            asyncio.run(_apply_async(backend, delivered))
        assert kept(db) == recounted(left)
        db.drop()


async def _apply_async(backend: Backend, changes: Sequence[Change[Any]]) -> None:
    async with AsyncStore(songs, backend) as db:
        for start in range(0, len(changes), 7):
            await db.run(by_month.apply(changes[start : start + 7]))
            await db.run(sizes.apply(changes[start : start + 7]))


def test_a_backend_without_transactions_is_refused(bigtable_emulator: str) -> None:
    table = Table("plain")

    class Item(Entity, table=table):
        name: str
        primary = PrimaryKey("ITEM#{name}")

    class Total(Entity, table=table):
        name: str
        items: int = 0
        primary = PrimaryKey("TOTAL#{name}")

    plain = Aggregate(Total, Item, lambda _: {"name": "all"}, items=count())
    with (
        Store(table, Bigtable("project", f"i{uuid4().hex[:12]}", endpoint=bigtable_emulator)) as db,
        pytest.raises(Unsupported, match=r"use Table\(Table\('plain'\), transactions=True\)|transactions=True"),
    ):
        db.run(plain.apply([Inserted(key=("ITEM#a", ""), new=Item(name="a"), order="1")]))


@pytest.mark.parametrize("kind", ["memory", "file"])
def test_a_long_feed_with_consumers_that_are_killed(kind: str, tmp_path: Any) -> None:
    """Writers and consumers take turns; consumers are killed at random requests."""
    length, random = times(1_500, 100_000 if kind == "memory" else 10_000), Random(7)
    faults = Faults()
    backend: Any = (
        Memory(changes=True, faults=faults)
        if kind == "memory"
        else LocalFile(tmp_path / "songs.db", changes=True, faults=faults)
    )
    db, state = Store(songs, backend), Store(positions, backend)
    db.create()
    state.create()
    feed = Feed(songs)

    @feed.on_many(Download)
    def _keep(changes: list[Change[Download]]) -> None:
        db.run(by_month.apply(changes))

    written = kills = 0
    while written < length:
        with db.batch() as batch:
            for number in {random.randrange(length // 4) for _ in range(random.randrange(1, 400))}:
                item = download(number, random.choice("abcdefgh"), random.randrange(60), random.randrange(100))
                batch.put(item) if random.random() < 0.8 else batch.delete(item)
                written += 1
        faults.before("any", _kill, after=random.randrange(40))
        try:
            Follower(db, feed, state=state, name="months", size=random.randrange(1, 300)).drain()
        except Killed:
            kills += 1
        faults.clear()
    Follower(db, feed, state=state, name="months").drain()
    expected, _ = recounted(db.scan(Download))
    months, _ = kept(db)
    assert months == {key: row for key, row in expected.items() if row[0]}
    assert kills > 3


def test_changed_downloads_through_a_feed(db: Store) -> None:
    state = Store(positions, Memory())
    state.create()
    feed = Feed(songs)
    feed.on_many(Download)(lambda changes: apply(db, changes))
    for n in range(10):
        db.put(download(n, day=n * 4, size=n))
    db.update(Download.primary(download_id="9"), set_(Download.song_id, "b"))
    db.delete(Download, download_id="8")
    Follower(db, feed, state=state, name="one", size=5).drain()
    assert kept(db) == recounted(db.scan(Download))
