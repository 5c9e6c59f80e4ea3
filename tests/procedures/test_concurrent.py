"""Concurrent generators, also nested: each receives its own errors."""

import pytest

from odm.errors import Throttled
from odm.procedures.concurrent import concurrent
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key


def asks(key: str) -> CoreGen[str]:
    try:
        yield req.Get(Key(key))
    except Throttled:
        return f"{key} failed"
    return f"{key} was had"


def answered(request: object) -> tuple[object, ...]:
    """The answers to requests; the request for "b" fails."""
    assert isinstance(request, req.Gather)
    assert request.keep
    failed = req.Failed(Throttled("too many", []))
    return tuple(failed if one == req.Get(Key("b")) else None for one in request.requests)


def test_nested_generators_receive_their_own_errors() -> None:
    steps = concurrent([concurrent([asks("a"), asks("b")]), concurrent([asks("c")])])
    request = next(steps)
    with pytest.raises(StopIteration) as done:
        steps.send(answered(request))
    assert done.value.value == [["a was had", "b failed"], ["c was had"]]
