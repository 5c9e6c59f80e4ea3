"""Runs several procedures at the same time: the calls that they make next are sent together."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from odm.backends.bigtable.native import Call, Concurrent, Native, Steps
from odm.backends.bigtable.retry import all_of
from odm.protocol.requests import Sleep

R = TypeVar("R")


def together(procedures: Sequence[Steps[R]]) -> Steps[list[R]]:
    """Run procedures at the same time. Returns their results, in order.

    Raises:
        Exception: the first error of a procedure, when all have ended.
    """
    group = _Group(procedures)
    while group.next:
        if any(isinstance(native, Call | Concurrent) for native in group.next.values()):
            yield from _send(group)
        else:
            yield from _wait(group)
    if group.errors:
        raise group.errors[0]
    return [group.results[number] for number in range(len(procedures))]


class _Group:
    """Procedures that run together.

    Attributes:
        next: the native request that each procedure makes next; those that have ended are left out.
        results: the results of those that have ended.
        errors: the errors of those that have failed.
    """

    def __init__(self, procedures: Sequence[Steps[Any]]) -> None:
        self._procedures = procedures
        self.next: dict[int, Native] = {}
        self.results: dict[int, Any] = {}
        self.errors: list[Exception] = []
        for number, procedure in enumerate(procedures):
            self._go_on(number, procedure.send, None)

    def answer(self, number: int, answer: Any) -> None:
        """Give a procedure the response to its native request, or the failure."""
        procedure = self._procedures[number]
        self._go_on(number, procedure.throw if isinstance(answer, Exception) else procedure.send, answer)

    def _go_on(self, number: int, go_on: Callable[[Any], Native], value: Any) -> None:
        try:
            self.next[number] = go_on(value)
        except StopIteration as done:
            self.next.pop(number, None)
            self.results[number] = done.value
        except Exception as error:  # noqa: BLE001  # raised when all procedures have ended
            self.next.pop(number, None)
            self.errors.append(error)


def _send(group: _Group) -> Steps[None]:
    """Send the calls that are next, together; procedures that wait go on waiting."""
    natives = {number: native for number, native in group.next.items() if isinstance(native, Call | Concurrent)}
    calls: list[Call] = []
    for native in natives.values():
        calls += native.calls if isinstance(native, Concurrent) else (native,)
    answers = iter((yield from all_of(calls)))
    for number, native in natives.items():
        if isinstance(native, Concurrent):
            group.answer(number, tuple(next(answers) for _ in native.calls))
        else:
            group.answer(number, next(answers))


def _wait(group: _Group) -> Steps[None]:
    """Wait until the first pause is over; pass on all other native requests, which need no answer."""
    pauses = {number: native.seconds for number, native in group.next.items() if isinstance(native, Sleep)}
    for number in [number for number in group.next if number not in pauses]:
        group.answer(number, (yield group.next[number]))
        return
    shortest = min(pauses.values())
    yield Sleep(shortest)
    for number, seconds in pauses.items():
        if seconds <= shortest:
            group.answer(number, None)
        else:
            group.next[number] = Sleep(seconds - shortest)
