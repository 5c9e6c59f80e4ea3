"""`run` and `arun`, which drive the generators of the core."""

import asyncio
from collections.abc import Generator
from typing import Any

import pytest

from odm.protocol.connection import arun, run


class Steps:
    """A generator that notes when it is closed."""

    def __init__(self) -> None:
        self.closed = False

    def __call__(self) -> Generator[str, Any, None]:
        try:
            yield "request"
        finally:
            self.closed = True


def test_an_interrupted_generator_is_closed_at_once() -> None:
    """A notebook keeps the traceback, and with it the generator; what it holds must not wait for that."""
    steps = Steps()
    generator = steps()

    def send(request: str) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(generator, send)
    assert steps.closed


async def test_a_cancelled_generator_is_closed_at_once() -> None:
    steps = Steps()
    generator = steps()

    async def send(request: str) -> None:
        await asyncio.sleep(60)

    task = asyncio.create_task(arun(generator, send))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert steps.closed
