"""The way of one call through odm: ``python -m benchmarks.path get --backend memory --verbose``.

Prints what a call passes on a store that is warm: how many Python calls of odm's own functions, in how many of its
modules, and how often control changes file. ``--verbose`` prints each function too, indented by depth.

What counts:

- Functions whose file lies below the package `odm`. Those of other packages, and those that were generated (by odm, by
  attrs), have no file to be read in, so neither is counted; what they call of odm is, those inside botocore included.
- A generator that is resumed, as its reader finds itself in its file again. Returns are not counted.
- A change of file where a call is of another file than the call before it.

Python 3.11 calls a list or dict comprehension as a function; later ones do not, and count a little less.
"""

import argparse
import gc
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

from attrs import define, frozen

import odm
from benchmarks.dynamodb import pages
from benchmarks.dynamodb.answers import Answers, Canned
from benchmarks.dynamodb.ours import backend_on, stored
from benchmarks.engine import one_of
from benchmarks.orders import order_of
from odm import Store, increment, set_
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory

CALLS: Final = ("get", "put", "update", "query")
BACKENDS: Final = ("memory", "dynamodb")
SIZE: Final = 3
"""Orders of the partition that is queried."""
WARM: Final = 3
"""So often each call is made before one is followed."""

_PACKAGE: Final = str(Path(odm.__file__).parent) + os.sep


@frozen
class Step:
    """A function that was entered.

    Attributes:
        module: its module, as it is imported.
        function: its qualified name.
        file: where it is written.
        depth: how many functions of odm it was called through.
        resumed: whether it is a generator that went on.
    """

    module: str
    function: str
    file: str
    depth: int
    resumed: bool = False


@frozen
class Way:
    """What a call passed of odm.

    Attributes:
        steps: the functions, in the order they were entered.
    """

    steps: Sequence[Step]

    @property
    def calls(self) -> int:
        """How many functions were entered, each time it was, resumed generators included."""
        return len(self.steps)

    @property
    def modules(self) -> int:
        """In how many files they are."""
        return len({step.file for step in self.steps})

    @property
    def changes(self) -> int:
        """How often a function is in another file than the one entered before it."""
        return sum(before.file != after.file for before, after in pairwise(self.steps))


def passed(call: Callable[[], Any]) -> Way:
    """The way of a call, of which only this thread is followed.

    Args:
        call: makes the call; it is called once.

    Returns:
        What it passed of odm.
    """
    steps: list[Step] = []
    begun: set[FrameType] = set()
    depth = 0

    def follow(frame: FrameType, event: str, _: Any) -> None:
        nonlocal depth
        code = frame.f_code
        if not code.co_filename.startswith(_PACKAGE):
            return
        if event == "call":
            module: str = frame.f_globals["__name__"]
            steps.append(Step(module, code.co_qualname, code.co_filename, depth, frame in begun))
            begun.add(frame)
            depth += 1
        elif event == "return":
            depth -= 1

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what it would finalize has nothing to do with the call
    sys.setprofile(follow)
    try:
        call()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    return Way(steps)


@contextmanager
def warm(backend: str) -> Iterator[Mapping[str, Callable[[], Any]]]:
    """The calls, by name, on a store that has made each of them before.

    Args:
        backend: of `BACKENDS`. DynamoDB is answered in this process.

    Returns:
        The calls; the store is closed afterwards.
    """
    page = pages.orders(SIZE)
    order: Any = page.entities["Order"]
    models = [order(**values) for _, values in page.rows]
    # An argument that is made in the call is part of its way: keys and actions are, the order that is put is not.
    with Store(page.table, Memory() if backend == "memory" else _dynamodb(page)) as store:
        if backend == "memory":
            store.create()
            for model in models:
                store.put(model)
        calls: dict[str, Callable[[], Any]] = {
            "get": lambda: store.get(order, customer_id=pages.CUSTOMER, order_id=order_of(0)),
            "put": lambda: store.put(models[0]),
            "update": lambda: store.update(
                order.primary(customer_id=pages.CUSTOMER, order_id=order_of(0)),
                set_(order.status, "shipped"),
                increment(order.points),
            ),
            "query": lambda: list(store.query(order.primary(customer_id=pages.CUSTOMER))),
        }
        assert calls["get"]() == models[0], f"{backend} gives another order back"
        assert calls["query"]() == models, f"{backend} gives other orders back"
        for call in calls.values():
            for _ in range(WARM):
                call()
        yield calls


def _dynamodb(page: pages.Page) -> DynamoDB:
    wire = Canned(_Updated())
    wire.load(stored(page))
    return backend_on(wire)


@define
class _Updated(Answers):
    """Answers that know of updates, which change nothing."""

    def answer(self, operation: str, body: bytes) -> bytes:
        return b"{}" if operation == "UpdateItem" else super().answer(operation, body)


def main(arguments: Sequence[str] | None = None) -> None:
    """Follow the calls that the arguments name, and print their ways.

    Args:
        arguments: of the command line; default: the program's own.
    """
    given = parser().parse_args(arguments)
    for backend in given.backend or BACKENDS:
        with warm(backend) as calls:
            for name in given.calls or CALLS:
                way = passed(calls[name])
                if given.verbose:
                    sys.stdout.write(f"\n{shown(way)}\n")
                sys.stdout.write(
                    f"{name}, {backend}: {way.calls} calls, {way.modules} modules, {way.changes} changes of file\n"
                )


def shown(way: Way) -> str:
    """A way, a line for each function: ``>`` where the file is another than before, ``~`` where a generator goes on.

    Args:
        way: what was passed.

    Returns:
        The lines.
    """
    lines, file = [], ""
    for step in way.steps:
        mark = " " if step.file == file else ">"
        again = " ~" if step.resumed else ""
        lines.append(f"{mark} {'  ' * step.depth}{step.module}:{step.function}{again}")
        file = step.file
    return "\n".join(lines)


def parser() -> argparse.ArgumentParser:
    """The options.

    Returns:
        What reads them.
    """
    options = argparse.ArgumentParser("python -m benchmarks.path", description=(__doc__ or "").split("\n\n")[0])
    add = options.add_argument
    add("calls", nargs="*", type=_call, metavar="call", help=f"of: {', '.join(CALLS)} (all)")
    add("--backend", action="append", choices=BACKENDS, help="where; can be given again (all)")
    add("--verbose", action="store_true", help="print each function that is passed")
    return options


def _call(name: str) -> str:
    return one_of(CALLS, name)


if __name__ == "__main__":
    main()
