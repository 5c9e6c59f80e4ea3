"""The DynamoDB backend next to its peers, in one run: ``python -m benchmarks.dynamodb``.

Prints Markdown on stdout: the times of every race, and how they stand to the targets. What is being done goes to
stderr. Peers come with ``pip install -e '.[async,bench]'``.
"""

import argparse
import json
import sys
from collections.abc import Sequence

from benchmarks.dynamodb import report
from benchmarks.dynamodb.races import SECTIONS, Settings, measure
from benchmarks.engine import list_of, one_of


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure what the arguments ask for, and print it."""
    given = parser().parse_args(arguments)
    sections = given.only or list(report.README_SECTIONS if given.readme else SECTIONS)
    figures = measure(Settings(sections, given.size, given.rounds, given.turn / 1000))
    if given.json:
        text = json.dumps(figures.as_json(), indent=2) + "\n"
    else:
        text = report.readme(figures) if given.readme else report.full(figures)
    sys.stdout.write(text)


def parser() -> argparse.ArgumentParser:
    """The options."""
    options = argparse.ArgumentParser("python -m benchmarks.dynamodb", description=(__doc__ or "").split("\n\n")[0])
    add = options.add_argument
    add("--only", type=list_of(_section), help=f"sections: {', '.join(SECTIONS)} (all, or those of the README's table)")
    add("--size", type=int, default=1000, help="items of a page that is decoded (1000)")
    add("--rounds", type=int, default=15, help="turns of each contender (15)")
    add("--turn", type=float, default=30, help="length of a turn, in milliseconds (30)")
    add("--json", action="store_true", help="print JSON")
    add("--readme", action="store_true", help="print the README's table alone")
    return options


def _section(name: str) -> str:
    return one_of(list(SECTIONS), name)


if __name__ == "__main__":
    main()
