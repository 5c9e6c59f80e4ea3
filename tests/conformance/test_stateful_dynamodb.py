"""Random calls on DynamoDB Local and Dynoxide, sync and async, and on a model: they agree after every step.

``pytest --full --times 25 tests/conformance/test_stateful_dynamodb.py`` is the long run.
"""

from collections.abc import Callable
from typing import ClassVar

import boto3
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from odm import AsyncStore, Store
from odm.backends.dynamodb import DynamoDB
from odm.testing.bridge import Runner, blocking
from odm.testing.stateful import StoreMachine, table
from tests.effort import times

pytestmark = pytest.mark.slow

STEPS = times(40, 80)
LENGTH = 20


class OnDynamoDB(StoreMachine):
    """Uses one table per mode."""

    backend: ClassVar[DynamoDB]

    def open(self, clock: Callable[[], float]) -> list[Store]:
        self.runner = Runner()
        asynchronous = AsyncStore(table, self.backend, prefix="async-", clock=clock)
        stores = [Store(table, self.backend, prefix="sync-", clock=clock), blocking(asynchronous, self.runner)]
        for store in stores:
            store.create()
        return stores

    def teardown(self) -> None:
        super().teardown()
        if hasattr(self, "runner"):
            self.runner.close()


@pytest.mark.parametrize("server", [pytest.param("dynamodb_local", marks=pytest.mark.full), "dynoxide"])
def test_random_calls(session: boto3.Session, server: str, request: pytest.FixtureRequest) -> None:
    OnDynamoDB.backend = DynamoDB(session, endpoint_url=request.getfixturevalue(server))
    # A step sends hundreds of requests.
    slow = settings(
        max_examples=STEPS // LENGTH,
        stateful_step_count=LENGTH,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
    run_state_machine_as_test(OnDynamoDB, settings=slow)
