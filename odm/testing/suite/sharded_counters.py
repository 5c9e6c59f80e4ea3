"""Sharded counters: a count that is the sum of several items."""
# ruff: noqa: D101  # a test's name says what it shows

from functools import partial
from random import Random
from typing import Annotated

import pytest
from pydantic import Field

from odm import Counter, Entity, PrimaryKey, Store, Table, TransactionFailed, increment
from odm.patterns.sharded_counter import ShardedCounter
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.stores import Stores

songs = Table("songs")


class Downloads(Entity, table=songs):
    """One shard of the downloads of a song."""

    song_id: str
    shard: Annotated[int, Field(ge=0, lt=100)] = 0
    count: Annotated[int, Counter] = 0

    primary = PrimaryKey("DOWNLOADS#{shard}#{song_id}")


class Play(Entity, table=songs):
    """An item that is stored and counted in one transaction."""

    play_id: str

    primary = PrimaryKey("PLAY#{play_id}")


ONE, THREE = ShardedCounter(Downloads, shards=1), ShardedCounter(Downloads, shards=3)


def shards(counted: Store) -> dict[int, int]:
    """The stored counts, by shard number."""
    return {shard.shard: shard.count for shard in counted.scan(Downloads)}


def opened(stores: Stores) -> Store:
    """A store that chooses the same shards in every run: 1, 1, 0, 1, 0, 0, 2, … of three."""
    return stores.open(songs, random=Random(3))


@needs("updates")
class TestShardedCounter:
    def test_sums_what_its_shards_count(self, stores: Stores) -> None:
        counted = opened(stores)
        assert counted.run(THREE.total(song_id="s#1")) == 0
        for by in (1, 1, 5, -2, 1, 1, 1):
            counted.run(THREE.add(by, song_id="s#1"))
        counted.run(THREE.add(song_id="s"))
        assert counted.run(THREE.total(song_id="s#1")) == 8
        assert counted.run(THREE.total(song_id="s", consistent=False)) in (0, 1)
        assert len(shards(counted)) == 3

    def test_is_one_request(self, stores: Stores) -> None:
        counted = opened(stores)
        steps = [(ONE.add(song_id="s"), [req.Update, req.Put]), (ONE.add(song_id="s"), [req.Update])]
        for procedure, expected in [*steps, (THREE.total(song_id="s"), [req.BatchGet])]:
            stores.forget()
            with counted.meter() as meter:
                counted.run(procedure)
            assert [type(request) for request in stores.requests] == expected
            assert meter.calls == 1 or len(expected) == 2  # on Bigtable, the first increment is three requests

    def test_of_a_sharded_count_costs_what_it_says(self, stores: Stores, capabilities: Capabilities) -> None:
        counted = opened(stores)
        for _ in range(7):
            with counted.meter() as meter:
                counted.run(THREE.add(song_id="s"))
            assert (meter.read_units, meter.write_units) == (0, 1)
        assert len(shards(counted)) == 3
        for consistent, units in ((True, 3), (False, 1.5)):
            with counted.meter() as meter:
                counted.run(THREE.total(song_id="s", consistent=consistent))
            assert (meter.read_units, meter.write_units) == (units, 0) or not capabilities.units

    def test_takes_more_and_fewer_shards(self, stores: Stores) -> None:
        counted = opened(stores)
        counts = [ONE, THREE, ShardedCounter(Downloads, shards=20), ShardedCounter(Downloads, shards=1, reads=20)]
        for total, counter in enumerate(counts, 1):
            for _ in range(4):
                counted.run(counter.add(song_id="s"))
            assert counted.run(counter.total(song_id="s")) == 4 * total

    def test_two_may_make_a_shard_at_once(self, stores: Stores) -> None:
        counted = opened(stores)
        stores.rival_puts(Downloads(song_id="s", count=7))
        counted.run(ONE.add(song_id="s"))
        assert counted.run(ONE.total(song_id="s")) == 8
        stores.rival_puts(Downloads(song_id="s", count=20))
        counted.run(ONE.add(song_id="s"))
        assert counted.run(ONE.total(song_id="s")) == 21

    def test_stopped_anywhere_has_counted_or_not(self, stores: Stores) -> None:
        counted = opened(stores)
        for song in ("new", "known"):
            before, after = counted.run(ONE.total(song_id=song)), 0
            while stores.stopped(partial(counted.run, ONE.add(song_id=song)), after=after):
                assert counted.run(ONE.total(song_id=song)) == before
                after += 1
            assert after
            assert counted.run(ONE.total(song_id=song)) == before + 1

    @needs("retry_safe")
    def test_counts_once_where_updates_are_safe_to_retry(self, stores: Stores) -> None:
        counted = opened(stores)
        for _ in range(2):
            counted.with_options(retry_safe=True).run(ONE.add(song_id="s"))
        assert counted.run(ONE.total(song_id="s")) == 2


@needs("updates", "transactions")
class TestShardedCounterTransactions:
    def test_start_it_again(self, stores: Stores) -> None:
        counted = opened(stores)
        for to in (7, 0):
            for _ in range(6):
                counted.run(THREE.add(song_id="s"))
            stores.forget()
            counted.run(THREE.reset(to, song_id="s"))
            assert [type(request) for request in stores.requests] == [req.Transact]
            assert counted.run(THREE.total(song_id="s")) == to
            assert shards(counted) == ({0: 7} if to else {})

    def test_to_start_it_again_cost_what_they_say(self, stores: Stores, capabilities: Capabilities) -> None:
        counted = opened(stores)
        for to, refused in ((7, 1), (8, 0), (0, 0)):
            with capabilities.whole(counted) as meter:
                counted.run(THREE.reset(to, song_id="s"))
            calls = refused + capabilities.transaction_calls(3, spread=True)
            assert (meter.calls, meter.read_units, meter.write_units) == (calls, 0, 6)

    def test_count_once_what_is_stored_once(self, stores: Stores) -> None:
        counted = opened(stores)

        def play() -> None:
            with counted.transaction() as tx:
                tx.insert(Play(play_id="p"))
                tx.update(THREE.shard_key(song_id="s"), increment(Downloads.count), upsert=True)

        play()
        with pytest.raises(TransactionFailed):
            play()
        assert counted.run(THREE.total(song_id="s")) == 1
