"""Runs several generators of requests concurrently, and counts the requests of one."""

from collections.abc import Sequence
from contextlib import closing
from typing import Any, TypeVar

from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.turns import Turn

R = TypeVar("R")


def concurrent(steps: Sequence[CoreGen[R]]) -> CoreGen[list[R]]:
    """Run generators concurrently: each round sends one request of each generator that has not ended.

    If a request fails, its generator gets the error. If a generator raises, all others are closed.

    Returns:
        The result of each generator, in order.
    """
    results: dict[int, R] = {}
    asked: dict[int, Any] = {}
    try:
        for at, one in enumerate(steps):
            _advance(at, one, None, asked, results)
        while asked:
            waiting, requests = tuple(asked), tuple(asked.values())
            asked = {}
            for at, answer in zip(waiting, (yield from _answers(requests)), strict=True):
                _advance(at, steps[at], answer, asked, results)
    finally:
        for one in steps:
            one.close()
    return [results[at] for at in range(len(steps))]


def counted(steps: CoreGen[R]) -> CoreGen[tuple[R, int]]:
    """Run a generator and count its requests: each request of a `req.Gather` is one.

    Returns:
        The result of the generator, and the number of its requests.
    """
    total, answer, failure = 0, None, None
    with closing(steps):
        while True:
            try:
                request = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as done:
                return done.value, total
            if not isinstance(request, req.Wait):
                total += len(request.requests) if isinstance(request, req.Gather) else 1
            try:
                answer, failure = (yield request), None
            except Exception as error:  # noqa: BLE001  # the generator decides what a failure means
                failure = error


def _advance(at: int, steps: CoreGen[R], answer: Any, asked: dict[int, Any], results: dict[int, R]) -> None:
    """Send a generator its response; store its next request or its result."""
    try:
        request = steps.throw(answer.error) if isinstance(answer, req.Failed) else steps.send(answer)
        while isinstance(request, Turn):  # the generators advance together, so none can wait for another one's turn
            request = steps.send(None)
        asked[at] = request
    except StopIteration as done:
        results[at] = done.value


def _answers(requests: Sequence[req.Request | req.Gather]) -> CoreGen[Sequence[Any]]:
    """The responses to requests; some requests may be a `req.Gather`. A failure is returned as `req.Failed`."""
    groups = [one.requests if isinstance(one, req.Gather) else (one,) for one in requests]
    flat = tuple(request for group in groups for request in group)
    found = yield req.Gather(flat, keep=True)
    answers: list[Any] = []
    for one, group in zip(requests, groups, strict=True):
        part, found = found[: len(group)], found[len(group) :]
        kept = isinstance(one, req.Gather) and one.keep  # its own generators get their failures
        failed = None if kept else next((answer for answer in part if isinstance(answer, req.Failed)), None)
        answers.append(failed or (part if isinstance(one, req.Gather) else part[0]))
    return answers


def sent_together(requests: Sequence[req.Request]) -> CoreGen[Sequence[Any]]:
    """The responses to requests that are sent concurrently."""
    if len(requests) == 1:
        return [(yield requests[0])]
    answers: tuple[Any, ...] = yield req.Gather(tuple(requests))
    return answers
