"""Bigtable over a bad network: calls do not arrive, arrive late, or are applied and their answer is lost."""

import asyncio
import random
import time
from contextlib import suppress
from threading import Thread
from typing import Any

from attrs import frozen
from google.api_core.exceptions import ServiceUnavailable

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import DataCall, Mutated, MutateRows, Native, Read, ReadRows
from odm.backends.bigtable.driver import BigtableConnection
from odm.protocol.connection import Connection
from odm.schema.model import Schema

LATEST = 1.0
"""The seconds by which a call may be late."""


@frozen
class LosingBigtable(Bigtable):
    """Loses calls and answers.

    Attributes:
        loses: how probable it is that a call is lost, arrives late, or loses its answer: a third each.
    """

    loses: float = 0.0

    def connect(self, schema: Schema) -> Connection[Any]:
        super().connect(schema)  # checks it
        return LosingConnection(self, self.laid_out(schema), loses=self.loses)


class LosingConnection(BigtableConnection):
    """The connection of `LosingBigtable`."""

    def __init__(self, settings: Bigtable, schema: Schema, loses: float) -> None:
        super().__init__(settings, schema)
        self._loses = loses
        self._tasks: set[asyncio.Task[None]] = set()

    def call(self, native: Native) -> Any:
        """Make a call, or lose it; of several concurrent calls, each comes here by itself."""
        fate = self._fate(native)
        if fate == "late":
            Thread(target=self._late, args=(native,), daemon=True).start()
        response = None if fate in ("lost", "late") else super().call(native)
        return response if fate == "arrives" else _unanswered(native, fate)

    async def acall(self, native: Native) -> Any:
        """The same, async."""
        fate = self._fate(native)
        if fate == "late":
            self._tasks = {one for one in self._tasks if not one.done()} | {asyncio.create_task(self._alate(native))}
        response = None if fate in ("lost", "late") else await super().acall(native)
        return response if fate == "arrives" else _unanswered(native, fate)

    def _fate(self, native: Native) -> str:
        if not isinstance(native, DataCall) or random.random() >= self._loses:
            return "arrives"
        return random.choice(("lost", "late", "answer lost"))

    def _late(self, native: Native) -> None:
        time.sleep(random.uniform(0, LATEST))
        with suppress(Exception):  # nobody waits for the answer
            super().call(native)

    async def _alate(self, native: Native) -> None:
        await asyncio.sleep(random.uniform(0, LATEST))
        with suppress(Exception):
            await super().acall(native)


def _unanswered(native: Native, fate: str) -> Any:
    """Fail as the connection does when there is no answer; a stream says so in its response."""
    failure = ServiceUnavailable(f"on purpose: {fate}")  # type: ignore[no-untyped-call]
    if isinstance(native, ReadRows):
        return Read(failure=failure)
    if isinstance(native, MutateRows):
        return Mutated({}, failure)
    raise failure
