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
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import Any, Final

import boto3
from attrs import frozen

import odm
from odm import Entity, PrimaryKey, Store, Table, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.emulator import Emulator
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory
from odm.protocol.connection import Backend

CALLS: Final = ("get", "put", "query", "update", "transaction")
BACKENDS: Final = ("memory", "dynamodb", "bigtable")
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


_orders: Final = Table("orders")
_accounts: Final = Table("accounts", transactions=True)


class Order(Entity, table=_orders):
    """What is read and written."""

    customer: str
    number: int
    total: int = 0

    primary = PrimaryKey("CUSTOMER#{customer}", "ORDER#{number}")


class Account(Entity, table=_accounts):
    """What a transaction writes: on Bigtable, it needs a table with locks."""

    number: int

    primary = PrimaryKey("ACCOUNT#{number}", "ACCOUNT")


@contextmanager
def warm(backend: str) -> Iterator[Mapping[str, Callable[[], Any]]]:
    """The calls, by name, on stores that have made each of them before. moto and the emulator answer in threads."""
    with ExitStack() as stack:
        service = _service(backend, stack)
        db, bank = (stack.enter_context(Store(table, service())) for table in (_orders, _accounts))
        db.create()
        bank.create()
        key, order = Order.primary(customer="c1", number=1), Order(customer="c1", number=1)
        change = set_(Order.total, 7)
        query = Order.primary(customer="c1").where(Order.total >= 0)

        def transaction() -> None:
            with bank.transaction() as tx:
                tx.put(Account(number=1))
                tx.put(Account(number=2))

        calls: dict[str, Callable[[], Any]] = {
            "put": lambda: db.put(order),
            "get": lambda: db.get(Order, customer="c1", number=1),
            "query": lambda: list(db.query(query)),
            "update": lambda: db.update(key, change),
            "transaction": transaction,
        }
        for call in calls.values():
            for _ in range(WARM):
                call()
        yield calls


def _service(backend: str, stack: ExitStack) -> Callable[[], Backend]:
    """What makes a backend."""
    if backend == "memory":
        return Memory
    if backend == "dynamodb":
        from moto.server import ThreadedMotoServer

        logging.getLogger("werkzeug").setLevel(logging.ERROR)  # it logs each request
        server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
        server.start()
        stack.callback(server.stop)
        host, port = server.get_host_and_port()
        session = boto3.Session("path", "path", region_name="us-east-1")
        return lambda: DynamoDB(session, endpoint_url=f"http://{host}:{port}")
    emulator = stack.enter_context(Emulator())
    return lambda: Bigtable("project", "instance", endpoint=emulator.address)


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
