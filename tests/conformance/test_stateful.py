"""Random calls on both backends of the bundled engine, sync and async, and on a model: they agree after every step.

``pytest --full --times 50 tests/conformance/test_stateful.py`` makes 100,000 calls.
"""

import tempfile
from collections.abc import Callable
from pathlib import Path

from hypothesis import settings

from odm import AsyncStore, Backend, Store
from odm.backends.local import LocalFile, Memory
from odm.testing.bridge import Runner, blocking
from odm.testing.stateful import StoreMachine, table
from tests.effort import times

STEPS = times(160, 2000)
LENGTH = 40


class OnEngine(StoreMachine):
    def open(self, clock: Callable[[], float]) -> list[Store]:
        self.folder = tempfile.TemporaryDirectory()
        backends: list[Backend] = [Memory(), LocalFile(Path(self.folder.name) / "random.db")]
        return [created(Store(table, backend, clock=clock)) for backend in backends]

    def teardown(self) -> None:
        super().teardown()
        self.folder.cleanup()


class OnAsyncEngine(StoreMachine):
    """With pages that end early, as on cloud services."""

    def open(self, clock: Callable[[], float]) -> list[Store]:
        self.runner = Runner()
        return [created(blocking(AsyncStore(table, Memory(page_bytes=100), clock=clock), self.runner))]

    def teardown(self) -> None:
        super().teardown()
        self.runner.close()


def created(store: Store) -> Store:
    store.create()
    return store


OnEngine.TestCase.settings = settings(max_examples=STEPS // LENGTH, stateful_step_count=LENGTH, deadline=None)
OnAsyncEngine.TestCase.settings = settings(OnEngine.TestCase.settings, max_examples=STEPS // LENGTH // 4)
TestOnEngine = OnEngine.TestCase
TestOnAsyncEngine = OnAsyncEngine.TestCase
