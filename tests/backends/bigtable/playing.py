"""Runs the backend's procedures without I/O: with given native responses, what they send and return."""

from typing import Any

from google.api_core import exceptions

from odm.backends.bigtable.client.native import Cell, Read, Row, SetCell, Steps
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.expressions.nodes import Compare, Const, Exists, Missing, Path
from odm.protocol.connection import Later
from odm.protocol.requests import Position, Request, Sleep
from odm.schema.entity import Key
from odm.schema.model import Schema

EXISTS, ABSENT = Exists(Path(("_t",))), Missing(Path(("_t",)))
google: Any = exceptions
BUSY = google.ServiceUnavailable("busy")
HAT = Key("hats", "fedoras#brandA")
HAT_ROW = "hats#fedoras#brandA"
ITEM = {"_t": "Hat", "price": 9}
HAT_CELLS = (
    *REMOVED,
    SetCell("_t", b"Hat", 5000),
    SetCell("price", b"9", 5000),
    SetCell("~r", b"id1", 5000),
)
OPEN = Compare("=", Path(("status",)), Const("open"))
ANSWERED = Read()


class Clock:
    """A clock that only pauses move."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def procedures(*, hash_only: bool = False, join: str = "#", clock: Clock | None = None) -> Procedures:
    schema = Schema(name="shop", entities={}, indexes={}, hash_only=hash_only, row_key_join=join)
    return Procedures(schema, Retry(clock=clock or Clock(), jitter=lambda: 1.0), lambda: 5000, lambda: "id1")


def at_once(steps: Steps[Any]) -> Steps[Any]:
    """The same steps, with those after the answer where they begin, and so in a fixed order."""
    try:
        native = next(steps)
        while True:
            if isinstance(native, Later):
                yield from at_once(native.steps)
                native = steps.send(None)
                continue
            try:
                response = yield native
            except Exception as failure:  # noqa: BLE001  # the steps decide about it
                native = steps.throw(failure)
            else:
                native = steps.send(response)
    except StopIteration as done:
        return done.value


def play(
    request: Request, *answers: Any, on: Procedures | None = None, clock: Clock | None = None, rest: bool = False
) -> tuple[list[Any], Any]:
    """Run a request with these native responses; returns the native requests that were sent, and the answer.

    Args:
        request: the request.
        answers: the native responses; exceptions are raised, functions are called for their result.
        on: the procedures, whose clock must be ``clock``.
        clock: the clock, which pauses move.
        rest: some of the answers may be unused.
    """
    clock = clock or Clock()
    steps = at_once((on or procedures(clock=clock)).steps(request))
    left = list(answers)
    sent: list[Any] = []
    try:
        native = next(steps)
        while True:
            sent.append(native)
            if isinstance(native, Sleep):
                clock.now += native.seconds
                native = steps.send(None)
                continue
            answer = left.pop(0)
            if isinstance(answer, Exception):
                native = steps.throw(answer)
            else:
                native = steps.send(answer() if callable(answer) else answer)
    except StopIteration as done:
        assert rest or not left
        return sent, done.value


def row(key: str, **values: str) -> Row:
    cells = {"_t": "Hat", **values}
    return Row(key.encode(), tuple(Cell("d", name.encode(), value.encode()) for name, value in cells.items()))


def rows(*keys: str, failure: Exception | None = None, **values: str) -> Read:
    return Read(tuple(row(key, **values) for key in keys), keys[-1] if keys else None, failure)


def numbered(first: int, last: int) -> Read:
    return rows(*(f"hats#{number:04}" for number in range(first, last + 1)), x="1")


def hat(sort: str) -> Position:
    return Position(Key("hats", sort))


ROW_OF_HAT = row(HAT_ROW, price="9")
GHOST = Row(HAT_ROW.encode(), (Cell("d", b"_t", b""), Cell("d", b"~r", b"")))
