"""What odm costs before the first item: its import next to pydantic's, and the compilation of a table.

Both packages load little until a name of theirs is used, so what everybody does who imports them is measured too:
define one model. Times are CPU time of the process in ms.
"""

import os
import resource
import subprocess
import sys
import time
import types
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any, Final

from benchmarks.orders import Order, fields
from odm import AccessPattern, Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory

ROOT: Final = Path(__file__).parents[1]
CODES: Final = {
    "python": "pass",
    "import pydantic": "import pydantic",
    "one pydantic model": "from pydantic import BaseModel\nclass Model(BaseModel):\n    number: int",
    "import odm": "import odm",
    "one odm entity": "from odm import Entity\nclass Model(Entity):\n    number: int",
}
ENTITIES: Final = 20


def import_ms(runs: int) -> dict[str, float]:
    """The medians of fresh interpreters, in turns, so that a busy time affects every code."""
    times: dict[str, list[float]] = {name: [] for name in CODES}
    for turn in range(runs + 1):
        for name, code in CODES.items():
            taken = _cpu_ms(code)
            if turn > 0:  # the first turn fills the bytecode caches
                times[name].append(taken)
    return {name: median(taken) for name, taken in times.items()}


def _cpu_ms(code: str) -> float:
    """The CPU time of a fresh interpreter that runs the code, bytecode caches in use."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def compile_ms(runs: int) -> Mapping[str, float]:
    """For one entity of an order's fields, as one of twenty of a table: its class, compiling it, and its first use."""
    classes, compiled, used = [], [], []
    for _ in range(runs):
        table = Table("compiled")
        begun = time.process_time()
        entities = [_entity(table, number) for number in range(ENTITIES)]
        made = time.process_time()
        table.compile()
        ready = time.process_time()
        _use(table, entities)
        classes.append(made - begun)
        compiled.append(ready - made)
        used.append(time.process_time() - ready)
    return {
        "class of an entity": 1000 * median(classes) / ENTITIES,
        "compile an entity": 1000 * median(compiled) / ENTITIES,
        "first put and get of an entity": 1000 * median(used) / ENTITIES,
    }


def _use(table: Table, entities: list[type[Any]]) -> None:
    """Put and get one of each, which makes whatever is made at the first use."""
    store = Store(table, Memory())
    store.create()
    for entity in entities:
        order = store.put(entity(**fields(0)))
        store.get(entity, customer_id=order.customer_id, order_id=order.order_id)
    store.close()


def _entity(table: Table, number: int) -> type[Any]:
    """A class with a name of its own, or it would take the place of the one before."""
    partition = f"CUSTOMER{number}" + "#{customer_id}"
    body = {
        "__module__": __name__,
        "primary": PrimaryKey(partition, "ORDER#{order_id}"),
        "by_date": AccessPattern(partition, "{placed_at}#{order_id}", index="dates"),
    }
    return types.new_class(
        f"Order{number}", (Entity, Order), {"table": table}, lambda namespace: namespace.update(body)
    )
