"""How long `import odm` takes beside pydantic: the median of fresh interpreters.

Run it as ``python benchmarks/import_time.py [runs]``. Both packages load little until a name of theirs is used, so what
everybody does who imports them is measured too: define one model. Times are CPU time of the process in ms, which other
processes of the machine disturb less than time on the clock.
"""

import os
import resource
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[1]
CODES = {
    "python": "pass",
    "import pydantic": "import pydantic",
    "one pydantic model": "from pydantic import BaseModel\nclass Model(BaseModel):\n    number: int",
    "import odm": "import odm",
    "one odm entity": "from odm import Entity\nclass Model(Entity):\n    number: int",
}


def cpu_ms(code: str) -> float:
    """The CPU time of a fresh interpreter that runs the code, bytecode caches in use."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main(runs: int) -> None:
    """Measure in turns, so that a busy moment falls on every code, and write the table."""
    times: dict[str, list[float]] = {name: [] for name in CODES}
    for turn in range(runs + 1):
        for name, code in CODES.items():
            taken = cpu_ms(code)
            if turn > 0:  # the first turn fills the bytecode caches
                times[name].append(taken)
    medians = {name: median(taken) for name, taken in times.items()}
    for name, taken in medians.items():
        sys.stdout.write(f"{name:<20} {taken:6.0f} ms\n")
    for ours, base in (("import odm", "import pydantic"), ("one odm entity", "one pydantic model")):
        sys.stdout.write(f"{ours} / {base}: {medians[ours] / medians[base]:.2f}\n")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
