"""Random calls on Google's Bigtable emulator, sync and async, on `Memory`, and on a model: all agree after every step.

In tables with locks there are transactions of several items, and in some of them all updates are safe to retry.

``pytest --full --times 10 tests/conformance/test_stateful_bigtable.py`` is the long run.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from odm import AsyncStore, Store
from odm.backends.bigtable import Bigtable
from odm.backends.local import Memory
from odm.testing.bridge import Runner, blocking
from odm.testing.stateful import StoreMachine, table
from tests.effort import times
from tests.locking import LockingBigtable
from tests.wide import WideBigtable

pytestmark = pytest.mark.slow

STEPS = times(40, 80)
LENGTH = 20


class OnBigtable(StoreMachine):
    """Uses new tables in each run, and compares with `Memory`."""

    most = 1
    backend: ClassVar[Bigtable]
    numbers: ClassVar[Iterator[int]] = count()

    def open(self, clock: Callable[[], float]) -> list[Store]:
        memory = Store(table, Memory(), clock=clock)
        on_bigtable = self.on_bigtable(f"s{next(self.numbers)}-", clock).with_options(retry_safe=self.retry_safe)
        for store in (on_bigtable, memory):
            store.create()
        return [on_bigtable, memory]

    def on_bigtable(self, prefix: str, clock: Callable[[], float]) -> Store:
        return Store(table, self.backend, prefix=prefix, clock=clock)


class OnAsyncBigtable(OnBigtable):
    def on_bigtable(self, prefix: str, clock: Callable[[], float]) -> Store:
        self.runner = Runner()
        return blocking(AsyncStore(table, self.backend, prefix=f"a{prefix}", clock=clock), self.runner)

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "runner"):
            self.runner.close()


LAYOUTS: dict[str, tuple[type[Bigtable], int, bool]] = {
    "row per item": (Bigtable, 1, False),
    "row per partition": (WideBigtable, 1, False),
    "locks": (LockingBigtable, 4, False),
    "locks, safe to retry": (LockingBigtable, 4, True),
}
"""The backend, the most operations in a transaction, and whether updates are safe to retry."""


@pytest.mark.one_of(4, 2)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("machine", [OnBigtable, OnAsyncBigtable])
def test_random_calls(bigtable_emulator: str, machine: type[OnBigtable], layout: str) -> None:
    backend, OnBigtable.most, OnBigtable.retry_safe = LAYOUTS[layout]
    OnBigtable.backend = backend("project", "stateful", endpoint=bigtable_emulator)
    # A step sends hundreds of requests.
    slow = settings(
        max_examples=STEPS // LENGTH,
        stateful_step_count=LENGTH,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(machine, settings=slow)
