"""`run` and `arun`, which drive the generators of the core and of the backends."""

import asyncio
from collections.abc import Generator
from threading import Event
from typing import Any

import pytest

from odm.concurrency import Background
from odm.protocol.connection import Later, NativeGen, arun, run


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


class Answering:
    """A program with work after its answer, which waits for `go` or `go_async` before its last requests.

    Attributes:
        sent: the requests, in order.
    """

    def __init__(self, most: int = 16) -> None:
        self.background = Background(most)
        self.go, self.go_async = Event(), asyncio.Event()
        self.sent: list[str] = []

    def steps(self) -> NativeGen[Any, int]:
        found = yield "commit"
        assert (yield Later(self.later(), self.background)) is None
        return int(found)

    def later(self) -> NativeGen[str, None]:
        assert (yield "wait") == 1
        try:
            yield "fail"
        except OSError:
            yield "clean"

    def note(self, request: str) -> int:
        self.sent.append(request)
        if request == "fail":
            raise OSError
        return 1

    def send(self, request: str) -> int:
        if request == "wait":
            self.go.wait()
        return self.note(request)

    async def asend(self, request: str) -> int:
        if request == "wait":
            await self.go_async.wait()
        return self.note(request)


def test_the_answer_does_not_wait_for_later_steps() -> None:
    program = Answering()
    assert run(program.steps(), program.send) == 1
    assert program.sent == ["commit"]
    program.go.set()
    program.background.wait()
    assert program.sent == ["commit", "wait", "fail", "clean"]


async def test_the_answer_does_not_wait_for_later_steps_in_a_task() -> None:
    program = Answering()
    assert await arun(program.steps(), program.asend) == 1
    assert program.sent == ["commit"]
    program.go_async.set()
    await program.background.wait_async()
    assert program.sent == ["commit", "wait", "fail", "clean"]


def test_later_steps_run_at_once_if_there_can_be_no_thread() -> None:
    program = Answering(most=0)
    program.go.set()
    assert run(program.steps(), program.send) == 1
    assert program.sent == ["commit", "wait", "fail", "clean"]
