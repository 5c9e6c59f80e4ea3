"""Tables read, written and derived by Apache Beam's own runner, on several backends."""

import pickle
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from odm import BadValue, Store, collection, select
from odm.backends.local import LocalFile
from odm.patterns.derive import derive
from tests.beam import models
from tests.beam.models import MADE, READINGS, Copy, Locked, Peak, Reading, parts_of
from tests.patterns.test_copy import items

beam = pytest.importorskip("apache_beam", reason="apache_beam is not installed: see the extra test-beam")

from apache_beam.options.pipeline_options import PipelineOptions  # noqa: E402  # pyright: ignore[reportMissingImports]
from apache_beam.runners.portability.fn_api_runner import FnApiRunner  # noqa: E402  # pyright: ignore[reportMissingImports]
from apache_beam.testing.util import assert_that, equal_to  # noqa: E402  # pyright: ignore[reportMissingImports]

from odm.beam import Derive, ReadTable, WriteTable, _Write  # noqa: E402

Opened = tuple[Callable[[], Store], Callable[[], Store]]


@pytest.fixture(params=["file", "bigtable", "dynamodb_local"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> Opened:
    """Functions that open the source, which has readings, and the target."""
    match request.param:
        case "file":
            place = str(tmp_path / "beam.db")
        case "bigtable":
            place = f"{request.getfixturevalue('bigtable_emulator')}/i{uuid4().hex[:12]}"
        case _:
            place = f"{request.getfixturevalue('dynamodb_local')}|key{uuid4().hex[:12]}"
    return filled(request.param, place)


@pytest.fixture
def on_file(tmp_path: Path) -> Opened:
    """The same on a file."""
    return filled("file", str(tmp_path / "beam.db"))


def filled(kind: str, place: str) -> Opened:
    source, target = partial(models.source, kind, place), partial(models.target, kind, place)
    with source() as db, target() as there:
        db.create()
        there.create()
        with db.batch() as batch:
            for reading in READINGS:
                batch.put(reading)
    return source, target


def pipeline(*options: str) -> Any:
    """A pipeline on the runner that comes with Beam."""
    return beam.Pipeline(runner=FnApiRunner(), options=PipelineOptions([*options]))


def stored(target: Callable[[], Store]) -> dict[Any, Any]:
    """The items of a store by key, which have no wrong index entries."""
    with target() as db:
        found = items(db)
    assert all(not item.stale for item in found.values())
    return {key: item.entity for key, item in found.items()}


def expected(target: Callable[[], Store]) -> dict[Any, Any]:
    with target() as db:
        return {db.key_of(one): one for one in MADE}


class TestReadTable:
    @pytest.mark.parametrize(
        ("what", "found"),
        [
            (Reading, READINGS),
            (Reading.primary(meter=3), READINGS[3::5]),
            (collection(Reading.primary(meter=3)), READINGS[3::5]),
            (select(Reading).where(Reading.value > 8), [one for one in READINGS if one.value > 8]),
        ],
        ids=["entity", "partition", "collection", "condition"],
    )
    def test_gives_every_item_once(self, what: Any, found: list[Reading], opened: Opened) -> None:
        with pipeline() as work:
            assert_that(work | ReadTable(opened[0], what, parts=4, size=7), equal_to(found))

    def test_several_in_a_pipeline_with_other_transforms(self, on_file: Opened) -> None:
        with pipeline() as work:
            one = work | "One" >> ReadTable(on_file[0], Reading)
            other = work | "Other" >> ReadTable(on_file[0], Reading.primary(meter=1))
            sums = (one, other) | beam.Flatten() | beam.Reshuffle() | beam.Map(lambda found: found.value)
            total = sum(one.value for one in [*READINGS, *READINGS[1::5]])
            assert_that(sums | beam.CombineGlobally(sum), equal_to([total]))


class TestWriteTable:
    def test_writes_every_item(self, opened: Opened) -> None:
        for size in (7, 1000):
            with pipeline() as work:
                written = work | beam.Create(MADE) | WriteTable(opened[1], size=size)
                assert_that(written | beam.CombineGlobally(sum), equal_to([len(MADE)]))
            assert stored(opened[1]) == expected(opened[1])

    def test_a_bundle_that_is_retried_changes_nothing(self, on_file: Opened) -> None:
        write = _Write(on_file[1], 1000)
        write.setup()
        for _ in range(2):
            write.start_bundle()
            for item in MADE:
                assert list(write.process((write._db.raw_item(item), ""))) == []
            assert [one.value for one in write.finish_bundle()] == [len(MADE)]
            assert list(write.finish_bundle()) == []
        write.teardown()
        assert stored(on_file[1]) == expected(on_file[1])

    @pytest.mark.parametrize(
        ("given", "error"),
        [
            ([Locked(name="a")], "has a Revision"),
            ([Peak(meter=1, number=1, value=1), Peak(meter=1, number=1, value=2)], "two different items of a bundle"),
            (["a"], "is not an entity"),
        ],
    )
    def test_refuses(self, given: list[Any], error: str, on_file: Opened) -> None:
        with pytest.raises(Exception, match=error), pipeline() as work:
            _ = work | beam.Create(given) | WriteTable(on_file[1])
        assert stored(on_file[1]) == {}

    def test_does_not_overwrite_items_of_other_programs(self, on_file: Opened) -> None:
        with on_file[1]() as db, Store(models.foreign, db.backend) as theirs:
            theirs.put(models.Intruder(meter=1, number=1, copy_=0))
            with pytest.raises(Exception, match="Intruder"), pipeline() as work:
                _ = work | beam.Create([Copy(meter=1, number=1, copy_=0)]) | WriteTable(on_file[1])
            assert theirs.get(models.Intruder, meter=1, number=1, copy_=0) is not None


class TestDerive:
    def test_has_the_result_of_the_function(self, opened: Opened) -> None:
        for _ in range(2):
            with pipeline() as work:
                found = work | Derive(opened[0], Reading, into=opened[1], make=parts_of, parts=4, size=9)
                assert_that(found, equal_to([]))
            assert stored(opened[1]) == expected(opened[1])
        with opened[0]() as source, opened[1]() as target:
            done = derive(source, Reading, into=target, make=parts_of, write=False)
            assert done.verified is not None
            assert done.verified.same
            assert done.verified.items == len(MADE)

    def test_finds_what_is_missing_changed_or_more(self, tmp_path: Path) -> None:
        place = str(tmp_path / "beam.db")
        source, target = filled("file", place)
        with target() as db:
            db.put(Copy(meter=99, number=0, copy_=0))
        with pipeline() as work:
            lossy = partial(models.target, "lossy", place)
            found = work | Derive(source, Reading, into=lossy, make=parts_of) | beam.Map(str)
            assert_that(
                found,
                equal_to(
                    [
                        "Copy COPY#a2: 12 in the source, 11 in the target",
                        "Copy COPY#b99: 0 in the source, 1 in the target",
                        "Peak PEAK#a7: 1 in the source, 0 in the target",
                        "Peak PEAK#a8: 1 on both sides, which differ in attributes, keys or index entries",
                    ]
                ),
            )

    def test_compares_only_what_it_makes(self, on_file: Opened) -> None:
        with on_file[1]() as db:
            db.put(Copy(meter=99, number=0, copy_=0))
        makes: list[Any] = [Peak, select(Copy).where(Copy.meter < 90)]
        with pipeline() as work:
            found = work | Derive(on_file[0], Reading, into=on_file[1], make=parts_of, makes=makes)
            assert_that(found, equal_to([]))

    def test_without_a_verification(self, on_file: Opened) -> None:
        with pipeline() as work:
            found = work | Derive(on_file[0], Reading, into=on_file[1], make=parts_of, check=False)
            assert_that(found, equal_to([]))
        assert stored(on_file[1]) == expected(on_file[1])

    def test_names_both_sources_of_one_key(self, on_file: Opened) -> None:
        with (
            pytest.raises(Exception, match=r"two derived items have the key Copy .* made of Reading .* and Reading"),
            pipeline() as work,
        ):
            _ = work | Derive(on_file[0], Reading, into=on_file[1], make=lambda one: Copy(meter=0, number=0, copy_=0))

    def test_names_both_sources_of_one_key_in_different_bundles(self) -> None:
        from odm.beam import _once

        assert list(_once((("p", "s"), [("Copy p s", "Reading 1")]))) == []
        with pytest.raises(BadValue, match="key Copy p s, made of Reading 1 and Reading 2"):
            list(_once((("p", "s"), [("Copy p s", "Reading 2"), ("Copy p s", "Reading 1")])))

    @pytest.mark.parametrize("reference", ["text", "function"])
    def test_in_several_processes(self, reference: str, on_file: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        (source, target), (kind, place) = on_file, on_file[0].args  # type: ignore[attr-defined]
        if reference == "text":
            monkeypatch.setenv("ODM_BEAM_PLACE", f"{kind} {place}")
            refer: Any = ("tests.beam.placed:source", "tests.beam.placed:target")
        else:
            refer = (source, target)
        with pipeline("--direct_num_workers=2", "--direct_running_mode=multi_processing") as work:
            found = work | Derive(refer[0], Reading, into=refer[1], make=parts_of, parts=4, size=9)
            assert_that(found, equal_to([]))
        assert stored(target) == expected(target)


class TestArguments:
    def test_a_store_is_not_pickled(self, tmp_path: Path) -> None:
        with Store(models.sources, LocalFile(tmp_path / "a.db")) as db, pytest.raises(BadValue, match="module:name"):
            ReadTable(db, Reading)  # type: ignore[arg-type]

    @pytest.mark.parametrize("store", ["models", "a:b:c", 3, None])
    def test_other_references(self, store: Any) -> None:
        for make in (lambda: ReadTable(store, Reading), lambda: WriteTable(store)):
            with pytest.raises(BadValue, match="module:name"):
                make()

    def test_other_arguments(self) -> None:
        with pytest.raises(BadValue, match="give an entity class"):
            ReadTable("a:b", "Reading")  # type: ignore[arg-type]
        with pytest.raises(BadValue, match="size=0"):
            _Write("a:b", 0)
        with pytest.raises(BadValue, match="same store"):
            Derive("a:b", Reading, into="a:b", make=parts_of)

    def test_what_does_not_return_a_store(self) -> None:
        with pytest.raises(Exception, match=r"return an odm\.Store"), pipeline() as work:
            _ = work | ReadTable("tests.beam.models:parts_of_nothing", Reading)


class TestCoding:
    def test_entities_and_queries_pickle(self) -> None:
        coder = beam.coders.registry.get_coder(Reading)
        for one in (*READINGS, *MADE):
            assert coder.decode(coder.encode(one)) == one == pickle.loads(pickle.dumps(one))
        query = select(Reading).where(Reading.value > 3, Reading.meter != 2)
        assert pickle.loads(pickle.dumps(query)) == query

    def test_equal_entities_may_have_different_bytes(self) -> None:
        """So an entity is not used as a key: Pydantic also pickles which fields were given."""
        coder = beam.coders.registry.get_coder(Reading).as_deterministic_coder("a test")
        one, other = Reading(meter=1, number=1), Reading(meter=1, number=1, value=0)
        assert one == other
        assert coder.encode(one) != coder.encode(other)
