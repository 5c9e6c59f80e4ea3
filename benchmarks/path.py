"""The way of one call through odm: ``python -m benchmarks.path get --backend memory --verbose``.

Prints what a call passes on a store that is warm: how many Python calls of odm's own functions, in how many of its
modules, and how often control changes file. ``--verbose`` prints each function too, indented by depth: after ``>`` if
its file is another than that of the function before, with ``~`` if it is a generator that goes on.

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
from functools import partial
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

from attrs import frozen

import odm
from benchmarks.contender import Call
from benchmarks.dynamodb.answers import Canned
from benchmarks.libraries.ours import Odm
from benchmarks.pages import orders
from benchmarks.services import InMemory

CALLS: Final[tuple[Call, ...]] = ("get", "put", "update", "query")
BACKENDS: Final = {"memory": InMemory, "dynamodb": Canned}
SIZE: Final = 3
"""Orders of the partition that is queried."""
WARM: Final = 3
"""So often each call is made before one is followed."""

_PACKAGE: Final = str(Path(odm.__file__).parent) + os.sep


@frozen
class Step:
    """A function that was entered: by its module, its qualified name and its file.

    Attributes:
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
    """What a call passed of odm: the functions, in the order they were entered."""

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
    """The way of a call, which is made once. Only this thread is followed."""
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
def warm(backend: str) -> Iterator[Mapping[Call, Callable[[], Any]]]:
    """The calls, by name, on a store that has made each of them before; DynamoDB is answered in this process."""
    ours = Odm(orders(SIZE), BACKENDS[backend]())
    ours.load()
    ours.check()
    calls: dict[Call, Callable[[], Any]] = {
        name: partial(ours.answer, name, ours.model(0) if name == "put" else 0) for name in CALLS
    }
    for call in calls.values():
        for _ in range(WARM):
            call()
    yield calls
    ours.close()


def main(arguments: Sequence[str] | None = None) -> None:
    """Follow the calls that the arguments name, and print their ways."""
    options = argparse.ArgumentParser("python -m benchmarks.path", description=(__doc__ or "").split("\n\n")[0])
    options.add_argument("calls", nargs="*", metavar="call", help=f"of: {', '.join(CALLS)} (all)")
    options.add_argument("--backend", action="append", choices=BACKENDS, help="where; can be given again (all)")
    options.add_argument("--verbose", action="store_true", help="print each function that is passed")
    given = options.parse_args(arguments)
    if unknown := set(given.calls) - set(CALLS):
        options.error(f"{min(unknown)!r} is not one of: {', '.join(CALLS)}")
    for backend in given.backend or BACKENDS:
        with warm(backend) as calls:
            for name in given.calls or CALLS:
                way = passed(calls[name])
                if given.verbose:
                    sys.stdout.write(f"\n{shown(way)}\n")
                counts = f"{way.calls} calls, {way.modules} modules, {way.changes} changes of file"
                sys.stdout.write(f"{name}, {backend}: {counts}\n")


def shown(way: Way) -> str:
    """A way, a line for each function."""
    lines, file = [], ""
    for step in way.steps:
        mark = " " if step.file == file else ">"
        again = " ~" if step.resumed else ""
        lines.append(f"{mark} {'  ' * step.depth}{step.module}:{step.function}{again}")
        file = step.file
    return "\n".join(lines)


if __name__ == "__main__":
    main()
