"""Runs several generators of requests concurrently, and counts the requests of one."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, TypeVar

from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.turns import Turn

R = TypeVar("R")


def concurrent(steps: Sequence[CoreGen[R]]) -> CoreGen[list[R]]:
    """Run generators concurrently: each round sends one request of each generator that has not ended.

    If a request fails, its generator gets the error. If a generator raises, all others are closed. Writers of one item
    among them take turns, in their order.

    Returns:
        The result of each generator, in order.
    """
    results: dict[int, R] = {}
    asked: dict[int, Any] = {}
    turns: dict[int, Turn] = {}
    try:
        for at, generator in enumerate(steps):
            _advance(at, generator, None, asked, results)
        while asked:
            for at, turn in _begun(asked, turns):
                turns[at] = turn
                _advance(at, steps[at], None, asked, results)
            waiting = {at: request for at, request in asked.items() if isinstance(request, Turn)}
            sent = {at: request for at, request in asked.items() if at not in waiting}
            asked = waiting
            if sent:
                for at, answer in zip(sent, (yield from _answers(tuple(sent.values()))), strict=True):
                    _advance(at, steps[at], answer, asked, results)
    finally:
        for generator in steps:
            generator.close()
    return [results[at] for at in range(len(steps))]


def _begun(asked: dict[int, Any], turns: Mapping[int, Turn]) -> Iterator[tuple[int, Turn]]:
    """The generators whose turn it is, each removed from those that ask.

    They advance together, so none can wait for the turns of a process: the one before it may be among them.
    """
    for at, turn in [(at, request) for at, request in asked.items() if isinstance(request, Turn)]:
        if all(set(other.keys).isdisjoint(turn.keys) for other in turns.values()):
            turn.forgo()
            del asked[at]
            yield at, turn


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


def without_turns(steps: CoreGen[R]) -> CoreGen[R]:
    """Run a generator whose writers wait for no turns: its caller has one, so two could wait for each other."""
    answer, failure = None, None
    with closing(steps):
        while True:
            try:
                request = steps.send(answer) if failure is None else steps.throw(failure)
            except StopIteration as done:
                result: R = done.value
                return result
            answer, failure = None, None
            if isinstance(request, Turn):
                request.forgo()
                continue
            try:
                answer = yield request
            except Exception as error:  # noqa: BLE001  # the generator decides what a failure means
                failure = error


def _advance(at: int, steps: CoreGen[R], answer: Any, asked: dict[int, Any], results: dict[int, R]) -> None:
    """Send a generator its response; store its next request or its result."""
    try:
        asked[at] = steps.throw(answer.error) if isinstance(answer, req.Failed) else steps.send(answer)
    except StopIteration as done:
        results[at] = done.value


def _answers(requests: Sequence[req.Request | req.Gather | req.Wait]) -> CoreGen[Sequence[Any]]:
    """The responses to requests; some requests may be a `req.Gather`. A failure is returned as `req.Failed`."""
    groups = [request.requests if isinstance(request, req.Gather) else (request,) for request in requests]
    flat = tuple(request for group in groups for request in group)
    responses = yield req.Gather(_slept_once(flat), keep=True)
    answers: list[Any] = []
    for request, group in zip(requests, groups, strict=True):
        part, responses = responses[: len(group)], responses[len(group) :]
        kept = isinstance(request, req.Gather) and request.keep  # its own generators get their failures
        failed = None if kept else next((answer for answer in part if isinstance(answer, req.Failed)), None)
        answers.append(failed or (part if isinstance(request, req.Gather) else part[0]))
    return answers


def _slept_once(requests: tuple[Any, ...]) -> tuple[Any, ...]:
    """The requests with one pause in place of several: in a process, requests run one after another."""
    pauses = [request for request in requests if isinstance(request, req.Sleep)]
    if len(pauses) < 2:
        return requests
    longest = max(pauses, key=lambda pause: pause.seconds)
    none = req.Sleep(0)
    return tuple(none if isinstance(request, req.Sleep) and request is not longest else request for request in requests)


def sent_together(requests: Sequence[req.Request]) -> CoreGen[Sequence[Any]]:
    """The responses to requests that are sent concurrently."""
    if len(requests) == 1:
        return [(yield requests[0])]
    answers: tuple[Any, ...] = yield req.Gather(tuple(requests))
    return answers
