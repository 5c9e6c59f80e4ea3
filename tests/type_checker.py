"""mypy with the settings of pyproject.toml, for tests that check files: they share its cache, one after another."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".mypy_cache"


def mypy(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run it over files. The first run of a checkout reads all of odm, which takes most of a minute of one core."""
    command = [sys.executable, "-m", "mypy", *map(str, arguments)]
    with _alone():
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


@contextmanager
def _alone() -> Iterator[None]:
    """Two processes that write one cache make mypy fail, and two that fill it do the same work twice."""
    CACHE.mkdir(exist_ok=True)
    with (CACHE / "turn-of-tests").open("w") as turn:
        if os.name == "posix":
            import fcntl

            fcntl.flock(turn, fcntl.LOCK_EX)
        yield
