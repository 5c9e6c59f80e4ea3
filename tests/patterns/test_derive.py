"""Derived tables: stopped and continued, compared with a plain recomputation, and two jobs at once."""

import asyncio
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field

from odm import AccessPattern, AsyncStore, BadValue, Entity, PrimaryKey, Store, Table, Throttled, select, set_
from odm.backends.bigtable import Bigtable
from odm.backends.local import Faults, LocalFile, Memory
from odm.patterns import stale
from odm.patterns.derive import Derived, Progress, aderive, derive
from odm.protocol.connection import Backend
from odm.testing.stores import Stores
from odm.testing.suite.deriving import run
from tests.effort import full, times
from tests.patterns.test_copy import items

pytestmark = pytest.mark.slow

sources, results = Table("derive-source"), Table("derive-result")


class Reading(Entity, table=sources):
    """What a meter read."""

    meter: Annotated[int, Field(ge=0, lt=1000)]
    number: Annotated[int, Field(ge=0, lt=1000)]
    value: int = 0

    primary = PrimaryKey("METER#{meter}", "{number}")


class Peak(Entity, table=results):
    """A reading of more than a given value; indexed by it."""

    meter: int
    number: int
    value: int

    primary = PrimaryKey("PEAK#{number}", "{meter}")
    by_value = AccessPattern("PEAKS", "{value:desc}#{meter}#{number}")


class Copy(Entity, table=results):
    """One of several items that are made of a reading."""

    meter: int
    number: int
    copy_: int

    primary = PrimaryKey("COPY#{meter}", "{number}#{copy_}")


def parts_of(reading: Reading) -> Iterator[Peak | Copy]:
    """A peak of a high reading, and copies of every third one."""
    if reading.value > 5:
        yield Peak(meter=reading.meter, number=reading.number, value=reading.value)
    for number in range(reading.value % 3):
        yield Copy(meter=reading.meter, number=reading.number, copy_=number)


def put_all(db: Store, values: Iterable[Entity]) -> None:
    with db.batch() as batch:
        for one in values:
            batch.put(one)


READINGS = [Reading(meter=n % 5, number=n, value=n % 11) for n in range(16)]
MADE = [one for reading in READINGS for one in parts_of(reading)]


def shown(db: Store) -> dict[Any, Any]:
    """The items of a store by key, without index entries that are wrong."""
    found = items(db)
    assert all(not item.stale for item in found.values())
    return {key: item.entity for key, item in found.items()}


def by_key(db: Store, entities: Iterable[Entity]) -> dict[Any, Any]:
    return {db.key_of(entity): entity for entity in entities}


@pytest.fixture
def opened() -> Iterator[tuple[Store, Store]]:
    """A source with readings, and an empty target."""
    with Store(sources, Memory()) as source, Store(results, Memory()) as target:
        source.create()
        target.create()
        put_all(source, READINGS)
        yield source, target


@pytest.mark.one_of(3)
class TestStops:
    @pytest.mark.one_of(18)
    @pytest.mark.parametrize("mode", ["sync", "async"])
    @pytest.mark.parametrize("recorded", [True, False])
    @pytest.mark.parametrize("kind", ["memory", "file", "bigtable"])
    def test_between_any_two_requests(
        self, kind: str, recorded: bool, mode: Any, tmp_path: Path, request: pytest.FixtureRequest
    ) -> None:
        """A program is stopped after n requests, and another one continues, or begins again without a state."""
        with Stores(self.backend(kind, tmp_path, request), mode) as stores:
            source = stores.open(sources)
            put_all(source, READINGS)
            stopped, n = True, 0
            while stopped:
                target = stores.open(results, prefix=f"to{n}-")
                target.put(Copy(meter=999, number=0, copy_=0))  # of a former derivation
                state = tmp_path / f"{n}.state" if recorded else None
                options: Any = {"parallel": 2, "size": 4, "makes": [Peak, Copy], "replace": True, "state": state}
                work = partial(run, source, Reading, into=target, make=parts_of, **options)
                stopped = stores.stopped(work, after=n)
                if stopped:
                    done = work()
                    assert done.items == len(MADE)
                    assert done.verified.same
                assert shown(target) == by_key(target, MADE)
                assert state is None or not state.exists()
                n += {"memory": 1 if full() else 4, "file": 7, "bigtable": 19}[kind]
            assert n > 15

    def backend(self, kind: str, folder: Path, request: pytest.FixtureRequest) -> Backend:
        if kind == "bigtable":
            return Bigtable("p", f"i{uuid4().hex[:12]}", endpoint=request.getfixturevalue("bigtable_emulator"))
        return Memory() if kind == "memory" else LocalFile(folder / "derive.db")

    def test_does_not_write_again_what_was_acknowledged(self, opened: tuple[Store, Store], tmp_path: Path) -> None:
        faults = Faults()
        options: Any = {"make": parts_of, "parallel": 1, "size": 4, "state": tmp_path / "state"}
        with Store(results, Memory(faults=faults)) as target:
            target.create()
            faults.throttle("batch", after=2)
            with pytest.raises(Throttled):
                derive(opened[0], Reading, into=target, **options)
            assert 0 < len(items(target)) < len(MADE)
            with opened[0].meter() as meter:
                done = derive(opened[0], Reading, into=target, check=False, **options)
            assert (done.items, done.verified) == (len(MADE), None)
            assert meter.calls < 4
            assert shown(target) == by_key(target, MADE)

    def test_derives_all_again_if_the_target_was_emptied(self, opened: tuple[Store, Store], tmp_path: Path) -> None:
        source, target = opened
        faults = Faults()
        options: Any = {"make": parts_of, "parallel": 1, "size": 4, "state": tmp_path / "state"}
        with Store(results, Memory(faults=faults)) as first:
            first.create()
            faults.throttle("batch", after=2)
            with pytest.raises(Throttled):
                derive(source, Reading, into=first, **options)
        done = derive(source, Reading, into=target, **options)
        assert done.verified is not None
        assert done.verified.same
        assert shown(target) == by_key(target, MADE)

    def test_a_state_of_another_derivation_is_refused(self, opened: tuple[Store, Store], tmp_path: Path) -> None:
        source, target = opened
        faults = Faults()
        state = tmp_path / "state"
        with Store(results, Memory(faults=faults)) as first:
            first.create()
            faults.throttle("batch", after=2)
            with pytest.raises(Throttled):
                derive(source, Reading, into=first, make=parts_of, size=4, state=state)
        with pytest.raises(BadValue, match=r"is the state of a derivation from select\(Reading\) in derive-source"):
            derive(source, Reading.primary(meter=1), into=target, make=parts_of, state=state)


class TestAgainstARecomputation:
    @settings(max_examples=times(25, 300), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_nights_with_changes_between_them(self, data: st.DataObject) -> None:
        """After each night the target has what a plain recomputation makes of the source, and its other items."""
        reading = st.builds(Reading, meter=st.integers(0, 3), number=st.integers(0, 6), value=st.integers(0, 9))
        with Store(sources, Memory()) as source, Store(results, Memory()) as target:
            source.create()
            target.create()
            kept = Copy(meter=900, number=1, copy_=0)
            target.put(kept)
            owned: list[Any] = [Peak, select(Copy).where(Copy.meter < 900)]
            for _ in range(data.draw(st.integers(1, 3))):
                put_all(source, data.draw(st.lists(reading, max_size=12)))
                for one in data.draw(st.lists(reading, max_size=4)):
                    source.delete(one)
                least = data.draw(st.integers(0, 5))
                what: Any = data.draw(st.sampled_from([Reading, select(Reading).where(Reading.value >= least)]))
                size, parallel = data.draw(st.integers(1, 9)), data.draw(st.integers(1, 3))
                done = derive(
                    source, what, into=target, make=parts_of, makes=owned, replace=True, size=size, parallel=parallel
                )
                found = [one for one in source.scan(Reading) if what is Reading or one.value >= least]
                made = [part for one in found for part in parts_of(one)]
                assert shown(target) == by_key(target, [*made, kept])
                assert done.items == len(made)
                assert done.verified is not None
                assert done.verified.same

    def test_many_sums_are_compared_in_rounds(
        self, opened: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(stale, "KEYS", 3)
        source, target = opened
        put_all(target, [Copy(meter=meter, number=99, copy_=0) for meter in range(60)])
        done = derive(source, Reading, into=target, make=parts_of, makes=[Peak, Copy], replace=True)
        assert done.removed == 60
        assert shown(target) == by_key(target, MADE)


class TestTwoAtOnce:
    def test_of_the_same_derivation(self, opened: tuple[Store, Store], tmp_path: Path) -> None:
        """As when the job is started again before it has ended."""
        source, target = opened
        work = partial(derive, source, Reading, into=target, make=parts_of, size=2, state=tmp_path / "state")
        with ThreadPoolExecutor(3) as pool:
            ends: list[Derived] = [one.result() for one in [pool.submit(work) for _ in range(3)]]
        assert all(end.verified and end.verified.same for end in ends)
        assert shown(target) == by_key(target, MADE)
        assert list(tmp_path.iterdir()) == []

    def test_of_two_entities_of_one_table(self, opened: tuple[Store, Store]) -> None:
        source, target = opened

        def of(kind: type[Entity]) -> Derived:
            def make(reading: Reading) -> list[Entity]:
                return [one for one in parts_of(reading) if isinstance(one, kind)]

            return derive(source, Reading, into=target, make=make, makes=kind, replace=True, size=3)

        with ThreadPoolExecutor(2) as pool:
            ends = [one.result() for one in [pool.submit(of, kind) for kind in (Peak, Copy)]]
        assert all(end.verified and end.verified.same for end in ends)
        assert shown(target) == by_key(target, MADE)


class TestVerification:
    @pytest.mark.parametrize(
        ("plant", "text"),
        [
            (lambda db, peak: db.delete(peak), "1 in the source, 0 in the target"),
            (lambda db, peak: db.put(peak.model_copy(update={"meter": 77})), "1 in the source, 2 in the target"),
            (lambda db, peak: db.update(peak, set_(Peak.value, 99)), "1 on both sides, which differ in attributes"),
        ],
    )
    def test_finds_a_planted(
        self, plant: Callable[[Store, Peak], object], text: str, opened: tuple[Store, Store]
    ) -> None:
        source, target = opened
        derive(source, Reading, into=target, make=parts_of)
        peak = next(one for one in MADE if isinstance(one, Peak))
        plant(target, peak)
        verified = derive(source, Reading, into=target, make=parts_of, write=False).verified
        assert verified is not None
        (difference,) = verified.differences
        assert (difference.entity, difference.partition) == ("Peak", target.key_of(peak)[0])
        assert text in str(difference)

    def test_finds_what_make_does_not_make_twice(self, opened: tuple[Store, Store]) -> None:
        numbers = iter(range(1000))
        done = derive(
            opened[0],
            Reading,
            into=opened[1],
            make=lambda one: Copy(meter=one.meter, number=one.number, copy_=next(numbers)),
        )
        assert done.verified is not None
        assert not done.verified.same

    def test_an_error_of_make_is_raised(self, opened: tuple[Store, Store]) -> None:
        def fail(_: Reading) -> Peak:
            raise ZeroDivisionError

        for work in (derive, run):
            with pytest.raises(ZeroDivisionError):
                work(opened[0], Reading, into=opened[1], make=fail)


class TestPace:
    def test_reports_its_progress(self, opened: tuple[Store, Store]) -> None:
        told: list[Progress] = []
        derive(opened[0], Reading, into=opened[1], make=parts_of, size=3, tell=told.append)
        assert told[-1] == Progress(len(MADE), 4, 4, compared=2 * len(MADE))
        assert [one.written for one in told] == sorted(one.written for one in told)

    def test_writes_many_items_of_a_page_in_batches(self, opened: tuple[Store, Store]) -> None:
        source, target = opened

        def many(reading: Reading) -> Iterator[Copy]:
            return (Copy(meter=reading.meter, number=reading.number, copy_=n) for n in range(100))

        with target.meter() as meter:
            done = derive(source, Reading, into=target, make=many, parallel=1, check=False)
        assert done.items == 1600
        assert meter.calls == 2 * 2  # tags and a batch for each thousand

    def test_of_pages(self, opened: tuple[Store, Store]) -> None:
        with opened[0].meter() as meter:
            derive(opened[0], Reading, into=opened[1], make=parts_of, parallel=1, size=3, check=False)
        assert meter.calls == 6

    def test_with_a_rate(self, opened: tuple[Store, Store]) -> None:
        begun = time.monotonic()
        derive(opened[0], Reading, into=opened[1], make=parts_of, parallel=1, rate=50, check=False)
        assert (len(MADE) - 50) / 50 - 0.1 < time.monotonic() - begun < 10


def test_an_async_job_that_is_cancelled_can_be_run_again(opened: tuple[Store, Store]) -> None:
    async def work() -> Derived:
        async with AsyncStore(sources, opened[0].backend) as source, AsyncStore(results, opened[1].backend) as target:
            slow = asyncio.create_task(aderive(source, Reading, into=target, make=parts_of, size=1, rate=20))
            await asyncio.sleep(0.3)
            slow.cancel()
            with pytest.raises(asyncio.CancelledError):
                await slow
            assert len(items(opened[1])) < len(MADE)
            return await aderive(source, Reading, into=target, make=parts_of)

    done = asyncio.run(work())
    assert done.verified is not None
    assert done.verified.same
    assert shown(opened[1]) == by_key(opened[1], MADE)
