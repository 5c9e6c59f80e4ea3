"""What stored orders take besides time: memory, file, reopening, and syncs of the disk. Each in fresh processes."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from shutil import which
from statistics import median
from typing import Final

from benchmarks.candidates import Unavailable

ROOT: Final = Path(__file__).parents[1]
REOPENED: Final = 5
COUNTED: Final = (100, 600)
"""Two numbers of puts: the syncs of the difference are those of puts alone."""


def memory_per_item(name: str, size: int) -> float:
    """Bytes of memory an item, of one candidate.

    Raises:
        Unavailable: this system does not report it.
    """
    if not Path("/proc/self/statm").exists():
        raise Unavailable("memory is read from /proc/self/statm")
    return float(_child("memory", name, str(size)))


def reopen_ms(path: Path, number: int) -> float:
    """Milliseconds until a fresh process has the first answer from a file, packages loaded."""
    return median(float(_child("reopen", str(path), str(number))) for _ in range(REOPENED))


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
    with tempfile.NamedTemporaryFile("r", encoding="utf-8") as told:
        _child("puts", name, str(count), before=["strace", "-f", "-c", "-e", "trace=fsync,fdatasync", "-o", told.name])
        rows = [line.split() for line in told]
    # % time, seconds, usecs/call, calls, errors where there were any, syscall
    return sum(int(row[3]) for row in rows if row[-1:] in (["fsync"], ["fdatasync"]))


def _child(*arguments: str, before: list[str] | None = None) -> str:
    command = [*(before or []), sys.executable, "-m", "benchmarks.child", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ)
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout
