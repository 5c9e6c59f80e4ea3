"""Stores on the server in memory, whose programs can stop before any call."""

from collections.abc import Callable
from typing import Any

from attrs import field, frozen

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.errors import NATIVE_FAILURES
from odm.backends.bigtable.client.native import Call, Concurrent, Native
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.writer import now_micros
from odm.concurrency import Background
from odm.immutable import evolve
from odm.protocol.connection import Connection, Later
from odm.protocol.requests import Notice, Sleep
from odm.schema.model import Schema
from tests.backends.bigtable.native_server import Families, NativeServer


class Stopped(BaseException):
    """The program has stopped."""


class Instance:
    """The server of some stores.

    Attributes:
        server: the server.
        before: called before each call; may raise `Stopped`.
    """

    def __init__(self) -> None:
        self.server = NativeServer(now_micros())
        self.before: Callable[[Call], None] = lambda _: None

    def stopped(self, work: Callable[[], object], at: int) -> bool:
        """Do some work in a program that stops before its call with this number, from 0 on. Returns whether it did."""
        left = [at]

        def count(_: Call) -> None:
            if not left[0]:
                raise Stopped
            left[0] -= 1

        self.before = count
        try:
            work()
        except Stopped:
            return True
        finally:
            self.before = lambda _: None
        return False

    def locks(self) -> list[tuple[str, str]]:
        """The rows that are locked, by table and row key."""
        return [place for place, cells in self.server.rows.items() if any(one.qualifier == b"~x" for one in cells)]

    def call(self, native: Native) -> Any:
        """Answer a native request."""
        if isinstance(native, Sleep | Notice):
            return None
        if isinstance(native, Concurrent):
            return tuple(map(self._outcome, native.calls))
        assert not isinstance(native, Later)
        self.before(native)
        return self.server.call(native)

    def _outcome(self, call: Call) -> Any:
        try:
            return self.call(call)
        except NATIVE_FAILURES as failure:
            return failure


class _AtOnce(Background):
    """Does the work before the answer."""

    def start(self, work: Callable[[], object]) -> None:
        work()


class _NativeConnection(BigtableConnection):
    """Sends nothing; works after the answer at once."""

    def __init__(self, settings: "NativeBigtable", schema: Schema) -> None:
        super().__init__(settings, schema)
        self._instance = settings.instance_
        self._procedures = evolve(self._procedures, background=_AtOnce())
        server = self._instance.server
        for table, families in NativeServer.of(schema).families.items():
            known: Families = {**server.families.get(table, {}), **families}
            server.families[table] = {name: known[name] for name in sorted(known)}

    def call(self, native: Native) -> Any:
        return self._instance.call(native)


@frozen
class NativeBigtable(Bigtable):
    """Bigtable in memory, with the tables of each schema that is connected. Locks are broken at once."""

    project: str = "memory"
    instance: str = "memory"
    instance_: Instance = field(factory=Instance, eq=False, repr=False, kw_only=True)

    def connect(self, schema: Schema) -> Connection[Any]:
        super().connect(schema)  # checks it
        return _NativeConnection(self, self.laid_out(schema))
