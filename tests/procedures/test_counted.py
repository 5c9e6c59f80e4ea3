"""Counted steps receive errors like other steps, and may handle them."""

from typing import Any

import pytest

from odm import Throttled
from odm.procedures.concurrent import counted
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen, run
from odm.schema.entity import Key

GET = req.Get(Key("p", "s"))


def fails(request: Any) -> Any:
    """A backend that throttles every request."""
    raise Throttled(f"not now: {request}")


def patient(tries: int) -> CoreGen[str]:
    """Tries so many times."""
    for _ in range(tries):
        try:
            yield GET
        except Throttled:
            continue
    return "gave up"


def test_a_failure_may_be_handled() -> None:
    assert run(counted(patient(3)), fails) == ("gave up", 3)


def test_a_failure_that_is_not_handled_ends_the_steps() -> None:
    closed = []

    def steps() -> CoreGen[None]:
        try:
            yield GET
        finally:
            closed.append(True)

    with pytest.raises(Throttled):
        run(counted(steps()), fails)
    assert closed


def test_steps_that_are_left_are_closed() -> None:
    closed = []

    def steps() -> CoreGen[None]:
        try:
            yield GET
        finally:
            closed.append(True)

    left = counted(steps())
    next(left)
    left.close()
    assert closed
