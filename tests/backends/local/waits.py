"""Measures how long writers wait for each other, when several processes write to one file as fast as they can.

Run it as ``python -m tests.backends.local.waits [--processes 4] [--writes 1000] [--folder PATH]``. It prints the total
time of all writes, the median and the longest write of each process.
"""

import argparse
import multiprocessing
import sys
import tempfile
import time
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median

from attrs import frozen

from odm.protocol.connection import perform
from odm.protocol.requests import Key, Put, Query
from tests.backends.local.support import opened


@frozen
class Waits:
    """The times of one process, in seconds: of all its writes, and of each."""

    name: str
    total: float
    each: list[float]


def write(path: Path, name: str, writes: int, answer: Connection) -> None:
    """The main function of a process: report ready, wait for the start, write, and send `Waits`."""
    connection = opened(path, create=False)
    perform(connection, Query("X", index="by_x"))
    answer.send(None)
    answer.recv()
    each = []
    begun = time.perf_counter()
    for n in range(writes):
        before = time.perf_counter()
        perform(connection, Put(Key(name, f"{n:06}"), {"n": n}, {"by_x": Key("X", f"{name} {n:06}")}))
        each.append(time.perf_counter() - before)
    answer.send(Waits(name, time.perf_counter() - begun, each))
    connection.close()


def run(path: Path, processes: int, writes: int) -> list[Waits]:
    """Let processes write, and check that all items exist."""
    opened(path).close()
    context = multiprocessing.get_context("spawn")
    pipes = [context.Pipe() for _ in range(processes)]
    workers = [
        context.Process(target=write, args=(path, f"w{n}", writes, pipe[1]), daemon=True)
        for n, pipe in enumerate(pipes)
    ]
    for worker in workers:
        worker.start()
    for pipe, _ in pipes:
        pipe.recv()
    for pipe, _ in pipes:
        pipe.send(None)
    waits: list[Waits] = [pipe.recv() for pipe, _ in pipes]
    for worker in workers:
        worker.join()
    connection = opened(path, create=False)
    for name in (waited.name for waited in waits):
        found = perform(connection, Query(name, limit=writes + 1)).items
        assert [item["n"] for item in found] == list(range(writes)), f"{name} lost writes"
    connection.close()
    return waits


def main(processes: int, writes: int, folder: Path | None) -> None:
    """Run, and print the times of each process."""
    with tempfile.TemporaryDirectory(dir=folder) as name:
        waits = run(Path(name) / "shop.db", processes, writes)
    for waited in waits:
        sys.stdout.write(
            f"{waited.name}: {writes} writes in {waited.total:.2f} s, one {median(waited.each) * 1000:.2f} ms, "
            f"the longest {max(waited.each) * 1000:.0f} ms\n"
        )
    sys.stdout.write(f"the longest wait of all: {max(max(waited.each) for waited in waits) * 1000:.0f} ms\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--writes", type=int, default=1000)
    parser.add_argument("--folder", type=Path, help="where the file is written; the disk matters")
    options = parser.parse_args()
    main(options.processes, options.writes, options.folder)
