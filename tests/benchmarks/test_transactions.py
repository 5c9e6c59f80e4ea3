"""The benchmark of transactions runs, at a size that takes no time, and counts the calls that the docs state."""

import pytest

from benchmarks.transactions.__main__ import BENCHMARK, LOCAL, WITH
from benchmarks.transactions.bank import Counted
from tests.readme import README, command

SPEED = README.parent / "docs" / "speed.md"
TINY = ("--size", "2", "--rounds", "1", "--turn", "0")


@pytest.mark.parametrize("count", [2, 10])
def test_the_calls_of_a_transaction(bigtable_emulator: str, count: int) -> None:
    with WITH.at(bigtable_emulator) as bank:
        assert bank.counted(count) == Counted(before=1 + count + 1, rounds=3, after=count + 1)


def test_on_dynamodb_it_is_one_call(dynamodb_local: str) -> None:
    with LOCAL.at(dynamodb_local) as bank:
        assert bank.counted(2) == Counted(before=1, rounds=1, after=0)


def test_the_table_of_the_documentation(bigtable_emulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = command("transactions benchmarks", page=SPEED).split()
    assert BENCHMARK.parser().parse_args(words[words.index("benchmarks.transactions") + 1 :]).readme
    BENCHMARK.main(["--candidates", WITH.name, "--readme", *TINY])
    printed = capsys.readouterr().out
    in_docs = SPEED.read_text(encoding="utf-8")
    labels = [line.split(" | ")[0] for line in printed.splitlines() if line.startswith("| ")]
    assert len(labels) == 11
    for label in labels[2:]:
        assert f"{label} |" in in_docs
