"""Sends the requests of a batch, several at the same time, and reports together what they did not apply."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from odm.errors import OdmError, OutcomeUnknown, Throttled
from odm.procedures.context import Context
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key
from odm.schema.target import Target

WINDOW: Final = 64
"""The most merges that are sent at the same time to a backend that takes them one by one."""

Failure: TypeAlias = tuple[OdmError, tuple[Key, ...]]
"""An error, and the keys of the operations that are not known to be applied because of it."""


def send_all(
    context: Context,
    writes: Sequence[req.BatchWrite],
    merges: Sequence[Sequence[req.Merge]],
    targets: Mapping[Key, Target],
    given: Mapping[Key, Sequence[Any]],
) -> CoreGen[None]:
    """Send all operations of a batch; an error of one request does not keep others from being sent.

    Args:
        context: the context of the store.
        writes: the requests with puts and deletes, to be sent at the same time.
        merges: the merges, in parts to be sent at the same time.
        targets: the item of each key.
        given: the caller's arguments for each key.

    Raises:
        OdmError: the only error, or the first `OutcomeUnknown`, or the first one that is not `Throttled`; ``left`` has
            all operations that are not known to be applied, as the caller gave them.
    """
    requests: list[req.Request] = [*writes]
    if context.merges_together:
        requests += [req.BatchMerge(tuple(part)) for part in merges]
    failures = [one for found in (yield from _outcomes(requests)) for one in _failures(context, targets, *found)]
    alone = [] if context.merges_together else [merge for part in merges for merge in part]
    for start in range(0, len(alone), WINDOW):
        some = yield from _outcomes(alone[start : start + WINDOW])
        failures += [one for found in some for one in _failures(context, targets, *found)]
    if failures:
        raise _joined(failures, given)


def _outcomes(requests: Sequence[req.Request]) -> CoreGen[Iterable[tuple[req.Request, Any]]]:
    """Each request with its answer, or with `req.Failed`."""
    if not requests:
        return ()
    if len(requests) > 1:
        return zip(requests, (yield req.Gather(tuple(requests), keep=True)), strict=True)
    try:
        return ((requests[0], (yield requests[0])),)
    except OdmError as error:
        return ((requests[0], req.Failed(error)),)


def _failures(context: Context, targets: Mapping[Key, Target], request: req.Request, answer: Any) -> Iterator[Failure]:
    """The failures of a request, from its answer."""
    if isinstance(request, req.BatchMerge) and not isinstance(answer, req.Failed):
        for merge, one in zip(request.operations, answer, strict=True):
            yield from _failures(context, targets, merge, one)
    elif isinstance(request, req.Merge) and isinstance(answer, req.Refused):
        stranger = context.stranger(targets[request.key], answer.item)
        assert stranger is not None  # it is the only reason to refuse a merge
        yield stranger, ()
    elif isinstance(answer, req.Failed):
        if not isinstance(answer.error, OdmError):
            raise answer.error
        yield answer.error, _keys(request, answer.error)


def _keys(request: req.Request, error: OdmError) -> tuple[Key, ...]:
    """The keys of the operations that are not known to be applied."""
    if isinstance(request, req.Merge):
        return (request.key,)
    assert isinstance(request, req.BatchWrite | req.BatchMerge)
    known = error.left or isinstance(error, Throttled)  # of an error without it, everything may be left
    return tuple(one.key for one in (error.left if known else request.operations))


def _joined(failures: Sequence[Failure], given: Mapping[Key, Sequence[Any]]) -> OdmError:
    """The error that the caller gets for these: one after which some of ``left`` may be applied goes first."""
    left = tuple(one for _, keys in failures for key in keys for one in given.get(key, ()))
    unknown = (error for error, _ in failures if isinstance(error, OutcomeUnknown))
    first = next((error for error, _ in failures if not isinstance(error, Throttled)), None)
    first = next(unknown, first)
    if first is None:
        first = failures[0][0]
        if len(failures) > 1:
            more = Throttled(f"{len(failures)} requests of a batch were throttled; one of them: {first}")
            more.__cause__ = first
            first = more
    first.left = left
    return first
