"""A Bigtable in the process: an emulator for tests, for odm and for Google's own client.

It serves the data service and the table admin service by gRPC on the loopback::

    from google.cloud.bigtable.data import BigtableDataClient
    from odm.backends.bigtable.emulator import emulator

    with emulator() as address:  # sets BIGTABLE_EMULATOR_HOST, which Google's client and odm.backends.bigtable follow
        client = BigtableDataClient(project="test")

With pytest there is the fixture ``odm_bigtable_emulator``; ``python -m odm.backends.bigtable.emulator --port 8086``
serves other programs. It needs the extra ``emulator``. What it does otherwise than production and Google's own emulator
stands in docs/bigtable_emulator.md.

A call goes through `server` (gRPC, and the `faults` that a test has set) to `data`, `admin` or `streams`. These check
it (`limits`), and read or write `tables`, which hold `rows`. `filters` reads a filter, and `evaluate` applies it.
"""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from odm import Unsupported

if TYPE_CHECKING:
    from odm.backends.bigtable.emulator.faults import Faults
else:

    def __getattr__(name: str) -> object:
        if name != "Faults":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from odm.backends.bigtable.emulator.faults import Faults  # imports grpc

        return Faults


__all__ = ["Emulator", "Faults", "emulator"]

VARIABLE: Final = "BIGTABLE_EMULATOR_HOST"


class Emulator:
    """A running emulator.

    Args:
        host: the address to listen on.
        port: the port; 0: any that is free.
        file: keeps the data in this file of the bundled engine; None: in memory only.
        clock: returns the seconds since the epoch, for timestamps of cells and for garbage collection.
        faults: makes calls fail; see `Faults`.
        seed: the seed of the random samples of rows.

    Attributes:
        address: its "host:port".
        faults: its faults.

    Stop it, or use it in a ``with`` block: a program does not end while a change stream is read from it.

    Raises:
        BackendError: the port is in use; or the file cannot be read, or another emulator has it open.
        BadValue: the port is not from 0 to 65535.
        Unsupported: the extra ``emulator`` is not installed.
    """

    def __init__(
        self,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        file: str | Path | None = None,
        clock: Callable[[], float] = time.time,
        faults: "Faults | None" = None,
        seed: int = 0,
    ) -> None:
        try:
            from odm.backends.bigtable.emulator.faults import Faults
            from odm.backends.bigtable.emulator.server import Server
            from odm.backends.bigtable.emulator.tables import Tables
        except ModuleNotFoundError as missing:
            raise Unsupported(
                f"the Bigtable emulator needs {missing.name}: pip install 'single-table-odm[emulator]'"
            ) from missing

        self.faults = Faults() if faults is None else faults
        self._tables = Tables(clock, seed)
        if file is not None:
            from odm.backends.bigtable.emulator.files import load

            load(self._tables, Path(file))
        self._process = os.getpid()
        try:
            self._server = Server(self._tables, self.faults, host, port)
        except BaseException:
            self._tables.keeper.close()
            raise
        self.address = self._server.address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()

    def collect_garbage(self) -> None:
        """Collect garbage of all tables now; it happens by itself about once a second while a table is in use."""
        for table in self._tables:
            with table.changed:
                table.collect(now=True)

    def stop(self) -> None:
        """End all calls; release the port, the threads and the file. Idempotent.

        It does nothing in a forked process, whose parent has all of them.
        """
        if os.getpid() != self._process:
            return
        self._server.stop()
        self._tables.keeper.close()


@contextmanager
def emulator(
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    file: str | Path | None = None,
    clock: Callable[[], float] = time.time,
    faults: "Faults | None" = None,
    seed: int = 0,
) -> Iterator[str]:
    """Run an emulator during the block, in which ``BIGTABLE_EMULATOR_HOST`` is its address. Yields the address.

    The arguments and errors are those of `Emulator`.
    """
    with Emulator(host=host, port=port, file=file, clock=clock, faults=faults, seed=seed) as running:
        before = os.environ.get(VARIABLE)
        os.environ[VARIABLE] = running.address
        try:
            yield running.address
        finally:
            if before is None:
                os.environ.pop(VARIABLE, None)
            else:
                os.environ[VARIABLE] = before
