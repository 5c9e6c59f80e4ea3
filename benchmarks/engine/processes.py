"""What is measured in fresh processes: memory, reopening, syncs of the disk, and what odm costs before the first item.

``python -m benchmarks.engine.processes memory Memory 10000`` is one of these processes; it prints one number.
"""

import gc
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from shutil import which
from statistics import median
from typing import Final

from benchmarks.engine import programs
from benchmarks.engine.entries import started
from benchmarks.fresh import in_turns, printed
from benchmarks.order import Order
from benchmarks.pages import Page, many_customers, order_fields
from benchmarks.services import InFile, InMemory, Unavailable
from odm import Store

REOPENED: Final = 5
COUNTED: Final = (100, 600)
"""Two numbers of puts: the syncs of the difference are those of puts alone."""

WARM: Final = 100
"""So many orders load the packages, before memory is looked at or syncs are counted."""

CODES: Final = {
    "python": "pass",
    "import pydantic": "import pydantic",
    "one pydantic model": "from pydantic import BaseModel\nclass Model(BaseModel):\n    number: int",
    "import odm": "import odm",
    "one odm entity": "from odm import Entity\nclass Model(Entity):\n    number: int",
}
"""Both packages load little until a name of theirs is used, so what everybody does who imports them is there too."""

_CREDENTIALS: Final = {"AWS_ACCESS_KEY_ID": "benchmark", "AWS_SECRET_ACCESS_KEY": "benchmark"}
"""In the environment, as in a Lambda function."""

ENTITIES: Final = 20


def memory_per_item(name: str, size: int) -> float:
    """Bytes of resident memory an item, over what the process has with its packages loaded.

    Raises:
        Unavailable: this system does not report it.
    """
    if not Path("/proc/self/statm").exists():
        raise Unavailable("memory is read from /proc/self/statm")
    return float(_child("memory", name, str(size)))


def reopen_ms(path: Path, size: int) -> float:
    """Milliseconds until a fresh process has the first answer from a file, packages loaded."""
    return median(float(_child("reopen", str(path), str(size))) for _ in range(REOPENED))


def syncs_per_put(name: str) -> float:
    """How often a put makes the disk write.

    Raises:
        Unavailable: it takes strace to count.
    """
    if which("strace") is None:
        raise Unavailable("not counted: strace is not installed")
    few, many = (_syncs(name, count) for count in COUNTED)
    return (many - few) / (COUNTED[1] - COUNTED[0])


def _syncs(name: str, count: int) -> int:
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as found:
        _child("puts", name, str(count), before=["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", found.name])
        rows = [line.split() for line in found]
    # % time, seconds, usecs/call, calls, errors where there were any, syscall
    return sum(int(row[3]) for row in rows if row[-1:] in (["fsync"], ["fdatasync"]))


def _child(*arguments: str, before: Sequence[str] = ()) -> str:
    return printed("-m", "benchmarks.engine.processes", *arguments, before=before)


def start_ms(runs: int, *, cached: bool = True) -> dict[str, float]:
    """CPU times of whole programs, net of the interpreter's.

    Args:
        runs: of each program, in turns; the fastest counts, as everything else on the machine only adds to it.
        cached: False: no module has byte code, as in the first run after an installation on a read-only disk.
    """
    with programs.service() as endpoint, tempfile.TemporaryDirectory() as empty:
        options = () if cached else ("-B", "-X", f"pycache_prefix={empty}")
        codes = programs.programs(endpoint)
        times = in_turns({name: partial(_cpu_ms, code, *options) for name, code in codes.items()}, runs)
    least = {name: min(taken) for name, taken in times.items()}
    return {name: taken - least["python"] for name, taken in least.items() if name != "python"}


def import_ms(runs: int) -> dict[str, float]:
    """CPU times of fresh interpreters."""
    times = in_turns({name: partial(_cpu_ms, code) for name, code in CODES.items()}, runs)
    return {name: median(taken) for name, taken in times.items()}


def _cpu_ms(code: str, *options: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    printed(*options, "-c", code, variables=_CREDENTIALS)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def compile_ms(runs: int) -> dict[str, float]:
    """For one entity of an order's fields, as one of twenty of a table: its class, and then until its first get."""
    classes, used = [], []
    for _ in range(runs):
        # Each class has a name of its own, or it would take the place of the one before.
        models = {f"Order{number}": Order for number in range(ENTITIES)}
        page = Page("compiled", models, order_fields, ENTITIES, indexed=True)
        begun = time.process_time()
        table = page.table
        made = time.process_time()
        with Store(table, InMemory().backend()) as store:
            store.create()
            for number, entity in enumerate(page.entities.values()):
                order = store.put(entity(**page.row(number)))
                store.get(entity, customer_id=order.customer_id, order_id=order.order_id)
        classes.append(made - begun)
        used.append(time.process_time() - made)
    return {
        "class of an entity": 1000 * median(classes) / ENTITIES,
        "compile an entity, with its first put and get": 1000 * median(used) / ENTITIES,
    }


def _memory(name: str, size: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        with started(name, WARM, Path(folder, "warm")) as warm:
            warm.load()
        gc.collect()
        before = _resident()
        with started(name, size, Path(folder, "measured")) as contender:
            contender.load()
            gc.collect()
            return (_resident() - before) / size


def _resident() -> int:
    """Bytes of this process in memory; Linux reports them."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


def _reopen(path: str, size: int) -> float:
    """Milliseconds from opening a store on a file to its first answer."""
    page = many_customers(size)
    table, (customer_id, order_id) = page.table, page.keys(size // 2)
    [order] = page.entities.values()
    begun = time.perf_counter()
    store = Store(table, InFile(Path(path)).backend())
    found = store.get(order, customer_id=customer_id, order_id=order_id)
    taken = 1000 * (time.perf_counter() - begun)
    assert found is not None
    store.close()
    return taken


def _puts(name: str, count: int) -> float:
    """Put so many orders one by one, for the calls to the system to be counted from outside.

    Each differs from what is stored: SQLite does not write, and so not sync, what is there already.
    """
    with tempfile.TemporaryDirectory() as folder, started(name, WARM, Path(folder, "file")) as contender:
        contender.load()
        for number in range(count):
            contender.answer("put", contender.model(number % WARM, number))
    return count


if __name__ == "__main__":
    [what, text, number] = sys.argv[1:]
    measured = {"memory": _memory, "reopen": _reopen, "puts": _puts}[what](text, int(number))
    sys.stdout.write(f"{measured}\n")
