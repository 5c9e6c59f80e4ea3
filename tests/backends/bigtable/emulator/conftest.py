"""An emulator for each module of tests."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from odm.backends.bigtable.emulator import Emulator
from odm.testing import Clock
from tests.backends.bigtable.emulator.raw import Raw

_tables = count(1)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def running(clock: Clock) -> Iterator[Emulator]:
    with Emulator(clock=clock) as emulator:
        yield emulator


@pytest.fixture
def raw(running: Emulator) -> Iterator[Raw]:
    made = Raw(running.address)
    yield made
    made.close()


@pytest.fixture
def table(raw: Raw) -> str:
    """A table with the families d and e, and the aggregates sum, least and most."""
    made = raw.create(f"t{next(_tables)}", "d", "e")
    for name, kind in (("sum", "sum"), ("least", "min_"), ("most", "max_"), ("sketch", "hllpp_unique_count")):
        number: dict[str, Any] = {"int64_type": {"encoding": {"big_endian_bytes": {}}}}
        raw.family(made, name, value_type={"aggregate_type": {"input_type": number, kind: {}}})
    return made
