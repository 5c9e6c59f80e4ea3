"""The Bigtable backend next to Google's data client, in one run: ``python -m benchmarks.bigtable``.

Prints Markdown on stdout: the times of every call, and how they stand to the targets. What is being done goes to
stderr. Single calls and bulk writes go to Google's emulator, found as the tests find it; scans go to a server of ours,
since the emulator sends every row in a message of its own, which hides what reading them costs.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.bigtable import report
from benchmarks.bigtable.races import RACES, Settings, measure
from benchmarks.engine import list_of, one_of


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the arguments ask for, and print it."""
    given = parser().parse_args(arguments)
    figures = measure(Settings(given.only, given.size, given.rounds, given.turn / 1000))
    if given.json:
        text = json.dumps(figures.as_json(), indent=2) + "\n"
    else:
        text = report.readme(figures) if given.readme else report.full(figures)
    sys.stdout.write(text)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser("python -m benchmarks.bigtable", description=(__doc__ or "").split("\n\n")[0])
    add = options.add_argument
    add("--only", type=list_of(_call), default=list(RACES), help=f"calls: {', '.join(RACES)} (all)")
    add("--size", type=int, default=1000, help="rows of a scan and of a bulk write (1000)")
    add("--rounds", type=int, default=15, help="turns of each contender (15)")
    add("--turn", type=float, default=60, help="length of a turn, in milliseconds (60)")
    add("--json", action="store_true", help="print JSON")
    add("--readme", action="store_true", help="print the README's table alone")
    return options


def _call(name: str) -> str:
    return one_of(list(RACES), name)


if __name__ == "__main__":
    main()
