"""The benchmark of contended writes runs, at a size that takes no time."""

import pytest

from benchmarks.contention.__main__ import BENCHMARK, FILE, MEMORY, ODM, PLACES, WHAT, Place, crowd
from tests.readme import README, command

SPEED = README.parent / "docs" / "speed.md"


@pytest.mark.parametrize("place", [MEMORY, FILE], ids=lambda place: place.name)
def test_every_thread_makes_its_increments(place: Place) -> None:
    with place.at() as add:
        assert len(crowd(add, 2).latencies) == 64


def test_the_table_of_the_documentation(dynoxide: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = command("contention benchmarks", page=SPEED).split()
    assert BENCHMARK.parser().parse_args(words[words.index("benchmarks.contention") + 1 :]).readme
    BENCHMARK.main(["--readme", "--size", "1", "--rounds", "1", "--candidates", f"{MEMORY.name},{ODM.name}"])
    printed = capsys.readouterr().out
    in_docs = SPEED.read_text(encoding="utf-8")
    for label in (f"{WHAT}: increments", f"{WHAT}: p99 latency"):
        assert f"{label} |" in printed
        assert f"{label} |" in in_docs
    assert all(place.name in in_docs for place in PLACES)
