"""Variants of the index protocol that look correct and are not, each up to the step at which it fails.

A model checker found their traces. These tests show what the real procedures do there instead.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from odm.backends.bigtable.client.native import CheckAndMutateRow, DeleteColumn, MutateRows, ReadRows, SetCell
from odm.backends.bigtable.client.retry import ATTEMPT_SECONDS, COMMIT_WITHIN, LEASE_SECONDS
from odm.backends.bigtable.rows.codec import Listed
from odm.backends.bigtable.writer import new_id
from odm.errors import OutcomeUnknown
from odm.protocol.connection import RetryPolicy
from odm.protocol.requests import Page, Query, Request, Written
from odm.schema.entity import Key
from tests.backends.bigtable.stopping import Scene, Steps, World


@pytest.fixture
def world(bigtable_emulator: str) -> Iterator[World]:
    made = World(bigtable_emulator)
    yield made
    made.close()


@pytest.fixture
def scene(world: World) -> Scene:
    return world.scene()


def to(writer: Steps, kind: type) -> Steps:
    """Continue until the next call is of this kind."""
    while not isinstance(writer.pending, kind):
        writer.step()
    return writer


def claims(writer: Steps) -> list[str]:
    """The qualifiers under which a writer has claimed entries, or tried to."""
    return [m.qualifier for m in _mutations(writer) if isinstance(m, SetCell)]


def removed(writer: Steps) -> list[str]:
    """The qualifiers that a writer has deleted from index rows."""
    return [m.qualifier for m in _mutations(writer) if isinstance(m, DeleteColumn)]


def _mutations(writer: Steps) -> Iterator[Any]:
    for call in writer.sent:
        if isinstance(call, MutateRows):
            for entry in call.entries:
                yield from entry.mutations


def entries(scene: Scene) -> tuple[Listed, ...]:
    """The entries that the item lists."""
    return next(held.entries for key, held in scene.world.items(scene.part) if key == scene.key)


def finished(scene: Scene) -> None:
    """Queries are correct, and after a scrub only listed entries are left."""
    scene.check()
    scene.check_pages()
    scene.world.scrub()
    scene.check()
    scene.world.check_scrubbed()


class TestAfterALostAnswer:
    def test_the_attempts_own_columns_stay(self, world: World, scene: Scene) -> None:
        """The commit is in flight, the second read shows no change, then the commit is applied."""
        writer = to(scene.writer(scene.put("1")), CheckAndMutateRow)
        held = writer.lose(performed=False)
        assert isinstance(writer.pending, ReadRows)
        writer.step()
        assert not removed(writer)
        assert world.connection.call(held) is False
        scene.check()
        writer.run()
        finished(scene)
        assert scene.item == {"_t": "T", "a": "1"}

    def test_they_stay_even_if_another_writer_changed_the_revision(self, world: World, scene: Scene) -> None:
        """The commit is applied, its answer lost; then another update changes the keys and keeps the writer's claim."""
        writer = to(scene.writer(scene.put("1")), CheckAndMutateRow)
        writer.lose(performed=True)
        scene.do(scene.touch())
        writer.run()
        assert writer.answer == Written()
        assert not removed(writer)
        assert len(claims(writer)) == 1
        finished(scene)

    def test_a_commit_is_not_sent_again(self, world: World, scene: Scene) -> None:
        """In flight; a new attempt is applied; another writer deletes and cleans; then the first commit is applied."""
        writer = to(scene.writer(scene.insert("1")), CheckAndMutateRow)
        held = writer.lose(performed=False)
        writer.run()
        assert writer.answer == Written()
        commits = [call for call in writer.sent if isinstance(call, CheckAndMutateRow)]
        assert len(commits) == 2
        assert len(set(map(str, commits))) == 2
        scene.do(scene.delete())
        scene.check()
        assert world.connection.call(held) is False
        assert scene.item is not None
        finished(scene)

    def test_a_conditional_write_with_unknown_outcome_is_not_repeated(self, world: World, scene: Scene) -> None:
        scene.do(scene.put("1"))
        writer = to(scene.writer(scene.move("2")), CheckAndMutateRow)
        writer.lose(performed=True)
        scene.do(scene.put("3"))
        writer.run()
        assert isinstance(writer.error, OutcomeUnknown)
        assert scene.item == {"_t": "T", "a": "3"}
        finished(scene)

    def test_a_put_with_unknown_outcome_is_repeated(self, world: World, scene: Scene) -> None:
        scene.do(scene.put("1"))
        writer = to(scene.writer(scene.put("2")), CheckAndMutateRow)
        writer.lose(performed=True)
        scene.do(scene.put("3"))
        assert writer.run().answer == Written()
        assert scene.item == {"_t": "T", "a": "2"}
        finished(scene)


class TestIds:
    def test_each_attempt_has_its_own(self, world: World, scene: Scene) -> None:
        """The first attempt is applied late; the second is refused and must not remove the column of the first."""
        scene.do(scene.put("1"))
        writer = to(scene.writer(scene.put("2")), CheckAndMutateRow)
        held = writer.lose(performed=False)
        to(writer, CheckAndMutateRow)
        assert world.connection.call(held) is True
        writer.run()
        assert writer.answer == Written()
        mine = claims(writer)
        assert len(set(mine)) == 2
        assert [entry.qualifier for entry in entries(scene)] == mine[:1]
        assert mine[1] in removed(writer)
        assert mine[0] not in removed(writer)
        finished(scene)

    def test_two_writers_of_one_state_have_different_ones(self, world: World, scene: Scene) -> None:
        """With a counter as the revision, the refused writer would remove the other one's column."""
        scene.do(scene.put("1"))
        loser = to(scene.writer(scene.put("2")), CheckAndMutateRow)
        winner = scene.writer(scene.put("2")).run()
        loser.run()
        assert not set(claims(loser)) & set(claims(winner))
        assert not set(removed(loser)) & set(claims(winner))
        finished(scene)

    def test_ids_are_random(self, world: World) -> None:
        assert len({new_id() for _ in range(1000)}) == 1000


class TestQualifiers:
    @pytest.mark.parametrize("write", ["touch", "put", "move"])
    def test_an_entry_keeps_the_column_that_it_has(self, world: World, scene: Scene, write: str) -> None:
        """If columns had to match the revision, an update outside the keys would let a scrub remove its column."""
        scene.do(scene.put("1"))
        before = entries(scene)
        made: dict[str, Request] = {"touch": scene.touch(), "put": scene.put("1"), "move": scene.move("1")}
        writer = scene.writer(made[write]).run()
        assert entries(scene) == before
        assert not claims(writer)
        finished(scene)

    def test_an_entry_that_comes_back_gets_a_new_one(self, world: World, scene: Scene) -> None:
        scene.do(scene.put("1"))
        (before,) = entries(scene)
        scene.do(scene.put("2"))
        scene.do(scene.put("1"))
        (after,) = entries(scene)
        assert after.key == before.key
        assert after.qualifier != before.qualifier
        finished(scene)


class TestReaders:
    def reader(self, scene: Scene, **options: Any) -> Steps:
        """A query of one index."""
        return scene.writer(Query(f"{scene.part}by_a", index="by_a", **options))

    def test_a_key_that_is_held_all_the_time_is_found(self, world: World, scene: Scene) -> None:
        """The item loses the entry and gets it again under another qualifier between the two reads."""
        scene.do(scene.put("1"))
        reader = self.reader(scene)
        reader.step()
        scene.do(scene.put("2"))
        scene.do(scene.put("1"))
        assert len(reader.run().answer.items) == 1

    def test_an_index_row_without_its_item_is_not_trusted(self, world: World, scene: Scene) -> None:
        scene.do(scene.put("1"))
        to(scene.writer(scene.put("2")), CheckAndMutateRow)
        page: Page = self.reader(scene).run().answer
        assert [position.index_key for position in page.positions] == [Key(f"{scene.part}by_a", "1")]

    def test_dropped_hits_do_not_end_a_query(self, world: World, scene: Scene) -> None:
        """With the last returned hit as cursor, this would not end, or would end at a short page."""
        for number in range(8):
            writer = to(scene.writer(scene.put(str(number), key=Key(scene.part, f"k{number}"))), CheckAndMutateRow)
            if number in (3, 7):
                writer.run()
        found, after, pages = [], None, 0
        while True:
            page: Page = self.reader(scene, limit=1, after=after).run().answer
            found += [position.key.sort for position in page.positions]
            pages += 1
            assert pages < 10
            after = page.next
            if after is None:
                break
        assert found == ["k3", "k7"]
        finished(scene)

    def test_readers_never_delete(self, world: World, scene: Scene) -> None:
        to(scene.writer(scene.put("2")), CheckAndMutateRow)
        before = world.columns()
        reader = self.reader(scene).run()
        assert world.columns() == before
        assert all(isinstance(call, ReadRows) for call in reader.sent)


class TestLease:
    def test_a_claim_is_not_removed_while_its_writer_may_commit(self, world: World, scene: Scene) -> None:
        writer = to(scene.writer(scene.put("1")), CheckAndMutateRow)
        world.scrub(after=LEASE_SECONDS - 60)
        writer.run()
        finished(scene)
        assert scene.item is not None

    @pytest.mark.parametrize("wall", [0, COMMIT_WITHIN + 1, -COMMIT_WITHIN - 1], ids=["both", "wall", "steady"])
    def test_a_slow_writer_starts_over(self, world: World, scene: Scene, wall: float) -> None:
        """A quarter of the lease has passed on one of its clocks; the other one may stand still."""
        writer = to(scene.writer(scene.put("1")), MutateRows)
        world.clock.seconds += COMMIT_WITHIN + 1 if wall <= 0 else 0
        world.clock.wall += wall
        writer.step()
        assert not isinstance(writer.pending, CheckAndMutateRow)
        world.scrub()
        assert writer.run().answer == Written()
        assert len(set(claims(writer))) == 2
        assert removed(writer) == claims(writer)[:1]
        assert scene.item is not None
        finished(scene)

    def test_a_fast_writer_does_not_start_over(self, world: World, scene: Scene) -> None:
        writer = to(scene.writer(scene.put("1")), MutateRows)
        world.clock.seconds += COMMIT_WITHIN - 1
        writer.step()
        assert isinstance(writer.pending, CheckAndMutateRow)
        assert COMMIT_WITHIN == LEASE_SECONDS / 4
        assert ATTEMPT_SECONDS <= COMMIT_WITHIN

    def test_a_claim_that_is_applied_again_does_not_extend_the_lease(self, world: World, scene: Scene) -> None:
        """The column has a new timestamp, but the writer is late: it uses its own clocks."""
        writer = to(scene.writer(scene.put("1")), MutateRows)
        writer.lose(performed=True)
        world.clock.seconds += COMMIT_WITHIN + 1
        writer.step()
        assert not isinstance(writer.pending, CheckAndMutateRow)
        assert writer.run().answer == Written()
        finished(scene)

    def test_no_attempt_takes_longer_than_a_commit_may(self, world: World) -> None:
        """Regardless of the store's timeout: a later commit could be applied after the lease."""
        patient = world.connection.with_retry_policy(RetryPolicy(timeout=100_000.0))
        assert patient._wire.seconds == COMMIT_WITHIN
