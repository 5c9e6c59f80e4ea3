"""Processes of their own: nothing is loaded in them yet."""

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.services import Unavailable

T = TypeVar("T")

ROOT: Final = Path(__file__).parents[1]


def printed(*arguments: str, before: Sequence[str] = (), variables: Mapping[str, str] | None = None) -> str:
    """What Python prints with these arguments.

    Args:
        arguments: of Python.
        before: the command that runs Python.
        variables: the variables of the environment that differ.

    Raises:
        Unavailable: it fails.
    """
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [*before, sys.executable, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=ROOT, env=environment | dict(variables or {})
    )
    if done.returncode != 0:
        raise Unavailable(f"{' '.join(arguments)}: {done.stderr.strip().splitlines()[-1:]}")
    return done.stdout


def in_turns(found: Mapping[str, Callable[[], T]], runs: int) -> dict[str, list[T]]:
    """What each of several processes finds in so many runs, in turns, so that a busy time affects all of them."""
    results: dict[str, list[T]] = {name: [] for name in found}
    for turn in range(runs + 1):
        for name, find in found.items():
            result = find()
            if turn > 0:  # the first turn fills the bytecode caches
                results[name].append(result)
    return results
