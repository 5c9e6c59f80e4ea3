"""Measurements that need a process of their own: ``python -m benchmarks.child memory Memory 10000``.

Each prints one number.
"""

import gc
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from benchmarks.candidates import entries

WARM: Final = 100
"""So many orders load the packages, before memory is looked at or syncs are counted."""


def memory(name: str, size: int) -> float:
    """Bytes of resident memory an item, over what the process has with its packages loaded."""
    [entry] = entries([name])
    with tempfile.TemporaryDirectory() as folder:
        for part in ("warm", "measured"):
            (Path(folder) / part).mkdir()
        entry.loaded(WARM, Path(folder) / "warm").close()
        gc.collect()
        before = _resident()
        candidate = entry.make(size, Path(folder) / "measured")
        candidate.load()
        gc.collect()
        taken = _resident() - before
        candidate.close()
    return taken / size


def _resident() -> int:
    """Bytes of this process in memory; Linux reports them."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def reopen(path: str, number: int) -> float:
    """Milliseconds from opening a store on a file to its first answer."""
    from benchmarks.orders import customer_of, order_of
    from benchmarks.ours import PlainOrder, plain
    from odm import Store
    from odm.backends.local import LocalFile

    begun = time.perf_counter()
    store = Store(plain, LocalFile(path))
    found = store.get(PlainOrder, customer_id=customer_of(number), order_id=order_of(number))
    taken = 1000 * (time.perf_counter() - begun)
    assert found is not None
    store.close()
    return taken


def puts(name: str, count: int) -> float:
    """Put so many orders one by one, for the calls to the system to be counted from outside.

    Each differs from what is stored: SQLite does not write, and so not sync, what is there already.
    """
    [entry] = entries([name])
    with tempfile.TemporaryDirectory() as folder:
        candidate = entry.loaded(WARM, Path(folder))
        put = candidate.operation("put")
        assert put is not None
        for number in range(count):
            put(candidate.order(number % WARM, number))
        candidate.close()
    return count


def main(what: str, *arguments: str) -> None:
    """Run one by name and print its number."""
    text, number = arguments
    taken = {"memory": memory, "reopen": reopen, "puts": puts}[what](text, int(number))
    sys.stdout.write(f"{taken}\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
