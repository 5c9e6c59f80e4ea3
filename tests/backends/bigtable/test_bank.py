"""No money is lost or made while processes are killed and answers are lost, and every snapshot shows all of it."""

from random import Random

from tests.backends.bigtable import bank
from tests.effort import times


def test_every_snapshot_has_the_same_sum(bigtable_emulator: str) -> None:
    done = bank.run(bigtable_emulator, "testbank-", times(8, 40), times(2, 4), Random(7))
    assert done.faults == []
    assert done.moved > 0
    assert done.read > 0
