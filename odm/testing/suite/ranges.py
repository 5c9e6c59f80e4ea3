"""Scans of a range of partitions, and of a sample."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from odm import BadValue, KeyValueError, Store, Unsupported
from odm.testing.capabilities import needs
from odm.testing.reading import Leaf, Log, Meter, Newest, Owner, Region, Spread, folders, metering
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill
from odm.testing.suite.verbatim_rows import Reading, meters

METERS = ["1", "12", "12!", "123", "12#x", "13", "2", "a b", "é"]
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


@pytest.fixture
def ranged(stores: Stores) -> Store:
    """Two items of each of several meters, and items of other entities."""
    db = stores.open(metering)
    fill(db, [Meter(meter=name, number=n, note=name) for name in METERS for n in (1, 2)])
    fill(db, [Owner(meter=name) for name in METERS])
    stations = [Region(region=name, station=n) for name in ("e", "eu", "europe", "ew") for n in (1, 20, 300)]
    fill(db, stations)
    fill(db, [Log(station="s", at=NOON + timedelta(hours=8 * n)) for n in range(9)])
    fill(db, [Newest(number=n) for n in range(5)])
    return db


@needs("ranges")
class TestScanRanges:
    @pytest.mark.parametrize("prefix", ["1", "12", "12!", "12#", "é", "none", ""])
    def test_of_a_prefix_of_text(self, ranged: Store, prefix: str) -> None:
        names = sorted({meter.meter for meter in ranged.scan(Meter, prefix={"meter": prefix})})
        assert names == sorted(name for name in METERS if name.startswith(prefix))

    @pytest.mark.parametrize("stop", [None, "12", "12#y", "a", "é", "zzz"])
    def test_from_a_value_to_another(self, ranged: Store, stop: str | None) -> None:
        for start in (None, "12", "12#x", "é", "", "11", "zzz"):
            ends = {"start": start, "stop": stop}
            options: dict[str, Any] = {name: {"meter": at} for name, at in ends.items() if at is not None}
            names = [meter.meter for meter in ranged.scan(Meter, **options)]
            expected = [name for name in METERS if (start is None or start <= name) and (stop is None or name < stop)]
            assert sorted(names) == sorted(expected * 2)

    def test_with_a_condition_and_only(self, ranged: Store) -> None:
        parts = ranged.scan(Meter, Meter.number == 2, prefix={"meter": "12"}, only=[Meter.note])
        assert sorted(str(part[Meter.note]) for part in parts) == ["12", "12!", "12#x", "123"]

    def test_of_several_fields(self, ranged: Store) -> None:
        def regions(**options: Any) -> list[tuple[str, int]]:
            return sorted((region.region, region.station) for region in ranged.scan(Region, **options))

        stations = [1, 20, 300]
        assert regions(prefix={"region": "eu", "station": 20}) == [("eu", 20)]
        assert regions(prefix={"region": "eu"}) == [(name, n) for name in ("eu", "europe") for n in stations]
        assert regions(start={"region": "eu"}, stop={"region": "europe"}) == [("eu", n) for n in stations]
        assert regions(start={"region": "eu", "station": 20}, stop={"region": "europe", "station": 20}) == [
            ("eu", 20),
            ("eu", 300),
            ("europe", 1),
        ]
        assert regions(start={"region": "eu", "station": 20}, stop={"region": "eu", "station": 1000}) == [
            ("eu", 20),
            ("eu", 300),
        ]
        assert regions(start={"region": "ew", "station": 301}) == []

    def test_of_a_field_that_is_not_stored_whole(self, ranged: Store) -> None:
        def hours(**options: Any) -> list[int]:
            return sorted(int((log.at - NOON) / timedelta(hours=8)) for log in ranged.scan(Log, **options))

        assert hours(start={"station": "s", "at": NOON + timedelta(hours=16)}) == [2, 3, 4, 5, 6, 7, 8]
        assert hours(stop={"station": "s", "at": NOON + timedelta(hours=16)}) == [0, 1]
        assert hours(start={"station": "s", "at": NOON}, stop={"station": "s", "at": NOON + timedelta(hours=40)}) == [
            0,
            1,
            2,
            3,
            4,
        ]

    def test_in_descending_order(self, ranged: Store) -> None:
        assert sorted(entity.number for entity in ranged.scan(Newest, start={"number": 3}, stop={"number": 1})) == [
            2,
            3,
        ]
        assert [entity.number for entity in ranged.scan(Newest, prefix={"number": 3})] == [3]

    def test_reads_one_range_of_the_table(self, ranged: Store, stores: Stores) -> None:
        stores.forget()
        assert len(list(ranged.scan(Meter, prefix={"meter": "13"}))) == 2
        assert {getattr(request, "partitions", None) for request in stores.requests} == {("METER#13", "METER#14")}
        stores.forget()
        assert list(ranged.scan(Meter, start={"meter": "2"}, stop={"meter": "12"})) == []
        assert stores.requests == []

    @needs("segments")
    def test_in_segments(self, ranged: Store) -> None:
        keys = sorted((meter.meter, meter.number) for meter in ranged.scan(Meter, prefix={"meter": "12"}, segments=3))
        assert keys == sorted((name, n) for name in ("12", "12!", "12#x", "123") for n in (1, 2))

    def test_of_rows_of_other_programs(self, stores: Stores) -> None:
        db = stores.open(meters)
        day = NOON.date()
        fill(db, [Reading(meter=n, day=day, value=n) for n in (9, 100, 150, 199, 200, 3000)])
        readings = db.scan(Reading, start={"meter": 100}, stop={"meter": 200})
        assert sorted(reading.meter for reading in readings) == [100, 150, 199]
        assert [reading.meter for reading in db.scan(Reading, prefix={"meter": 200})] == [200]
        nested = stores.open(folders)
        paths = ["a", "a!", "a!b", "a b", "a/b", "a/b!", "b"]
        fill(nested, [Leaf(path=path, name="n", size=1) for path in paths])
        for start, stop in (("a", "a!b"), ("a!", "a/b!"), ("a/b", "b"), ("a b", "a/b")):
            leaves = nested.scan(Leaf, start={"path": start}, stop={"path": stop})
            assert sorted(leaf.path for leaf in leaves) == [path for path in sorted(paths) if start <= path < stop]
        leaves_in_a = nested.scan(Leaf, prefix={"path": "a!"})
        assert sorted(leaf.path for leaf in leaves_in_a) == ["a!", "a!b"]


class TestRefusedRanges:
    @pytest.mark.parametrize(
        "options",
        [
            {"prefix": "12"},
            {"prefix": {}},
            {"prefix": {"number": 1}},
            {"prefix": {"meter": "1", "number": 1}},
            {"start": {"meter": "1"}, "prefix": {"meter": "1"}},
            {"start": {"meter": 5}},
            {"stop": {"name": "x"}},
        ],
    )
    def test_of_what_is_no_range(self, stores: Stores, options: Any) -> None:
        with pytest.raises(BadValue):
            list(stores.offline(metering).scan(Meter, **options))
        assert stores.requests == []

    def test_without_an_entity(self, stores: Stores) -> None:
        db: Any = stores.offline(metering)
        with pytest.raises(BadValue):
            list(db.scan(prefix={"meter": "1"}))
        assert stores.requests == []

    def test_of_values_that_do_not_validate(self, stores: Stores) -> None:
        with pytest.raises(KeyValueError):
            list(stores.offline(metering).scan(Region, prefix={"region": 5, "station": 1}))
        assert stores.requests == []

    def test_of_sharded_partitions(self, stores: Stores) -> None:
        with pytest.raises(Unsupported):
            list(stores.offline(metering).scan(Spread, prefix={"topic": "t"}))
        assert stores.requests == []


class TestSamples:
    def test_are_a_part_of_the_items(self, stores: Stores) -> None:
        db = stores.open(metering, random=Random(7))
        fill(db, [Meter(meter=f"m{n}") for n in range(300)])
        sizes = [len(list(db.scan(Meter, sample=share))) for share in (0.02, 0.5, 1)]
        assert sizes[0] < 80
        assert 60 < sizes[1] < 240
        assert sizes[2] == 300
        assert len(list(db.scan(sample=1.0))) == 300
        assert all(meter.meter < "m2" for meter in db.scan(Meter, Meter.meter < "m2", sample=0.5))

    def test_of_some_fields(self, stores: Stores) -> None:
        db = stores.open(metering, random=Random(7))
        fill(db, [Meter(meter=f"m{n}", note="n") for n in range(50)])
        assert {part[Meter.note] for part in db.scan(Meter, only=[Meter.note], sample=1)} == {"n"}

    @pytest.mark.parametrize("sample", [0, -0.1, 1.1, True, "0.5", float("nan")])
    def test_out_of_range_are_refused(self, offline: Store, sample: Any) -> None:
        with pytest.raises(BadValue):
            list(offline.scan(sample=sample))

    def test_may_be_as_small_as_numbers_are(self, stores: Stores) -> None:
        assert len(list(stores.open(metering).scan(Meter, sample=5e-324))) == 0

    def test_of_segments_are_refused(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            list(offline.scan(sample=0.5, segments=2))
        with pytest.raises(BadValue):
            list(offline.scan(sample=0.5, segment=(0, 2)))
