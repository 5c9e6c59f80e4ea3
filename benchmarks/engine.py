"""The bundled engine next to its peers and floors, in one run: ``python -m benchmarks.engine --sizes 10k,100k,1m``.

Prints Markdown on stdout: the times of every operation, what items take of memory and file, start-up, and how all that
stands to the targets. What is being done goes to stderr. Peers come with ``pip install -e '.[bench]'``; dynalite is
installed by npm at its first use.
"""

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

from benchmarks import report
from benchmarks.candidates import ENTRIES, entries
from benchmarks.sections import SECTIONS, Settings, run

T = TypeVar("T")

_UNITS: Final = {"k": 1_000, "m": 1_000_000}


def size(text: str) -> int:
    """A number of items, as ``10k`` or ``1m``."""
    unit = _UNITS.get(text[-1:].lower(), 1)
    return int(text if unit == 1 else text[:-1]) * unit


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the arguments ask for, and print it."""
    given = parser().parse_args(arguments)
    results = run(
        Settings(
            sizes=given.sizes,
            sections=given.only,
            entries=entries(given.candidates),
            rounds=given.rounds,
            seconds=given.turn / 1000,
            folder=given.folder,
        )
    )
    if given.json:
        text = json.dumps(results.as_json(), indent=2) + "\n"
    else:
        text = report.readme(results) if given.readme else report.full(results)
    sys.stdout.write(text)


def parser() -> argparse.ArgumentParser:
    """The options."""
    names = ", ".join(entry.name for entry in ENTRIES)
    options = argparse.ArgumentParser("python -m benchmarks.engine", description=(__doc__ or "").split("\n\n")[0])
    add = options.add_argument
    add(
        "--sizes",
        type=list_of(size),
        default=[10_000, 100_000, 1_000_000],
        help="items, as 1k,10k,1m (all of 10k to 1m)",
    )
    add("--only", type=list_of(_section), default=list(SECTIONS), help=f"sections: {', '.join(SECTIONS)} (all)")
    add("--candidates", type=list_of(_candidate), help=f"of: {names} (all)")
    add("--rounds", type=int, default=9, help="turns of each candidate (9)")
    add("--turn", type=float, default=30, help="length of a turn, in milliseconds (30)")
    add("--folder", type=Path, help="where files are kept meanwhile, on a disk that syncs (the system's)")
    add("--json", action="store_true", help="print JSON")
    add("--readme", action="store_true", help="print the README's table alone")
    return options


def list_of(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """The type of an option that takes several, between commas."""
    return lambda text: [kind(part.strip()) for part in text.split(",")]


def _section(name: str) -> str:
    return one_of(SECTIONS, name)


def _candidate(name: str) -> str:
    return one_of([entry.name for entry in ENTRIES], name)


def one_of(names: Sequence[str], name: str) -> str:
    """The name, or the error of an option that takes one of these."""
    if name not in names:
        raise argparse.ArgumentTypeError(f"{name!r} is not one of: {', '.join(names)}")
    return name


if __name__ == "__main__":
    main()
