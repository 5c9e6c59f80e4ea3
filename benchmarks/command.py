"""The command of each benchmark: measures the sections that its options name, and prints what was found."""

import argparse
import gc
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol, TypeVar

from attrs import Factory, define, frozen

from benchmarks import report
from benchmarks.contender import Call, Contender, Entry
from benchmarks.pages import Page
from benchmarks.report import Row, Target
from benchmarks.services import Service, Unavailable
from benchmarks.timing import Racer, Samples, race


class Named(Protocol):
    """A candidate: what a command measures, by name."""

    @property
    def name(self) -> str: ...


T = TypeVar("T")
N = TypeVar("N", bound=Named)

_UNITS: Final = {"k": 1_000, "m": 1_000_000}


@define
class Run:
    """What to measure, how long, and who cannot take part.

    Attributes:
        sizes: how many items.
        names: the contenders to measure; None: all.
        rounds: how often each has its turn.
        seconds: how long a turn takes, about.
        folder: where files are kept while it runs; None for the system's.
        missing: why a figure is not there, by contender or section.
    """

    sizes: Sequence[int]
    names: Sequence[str] | None
    rounds: int
    seconds: float
    folder: Path | None = None
    missing: dict[str, str] = Factory(dict)

    def race(self, what: str, racers: Mapping[str, Racer | None]) -> dict[str, Samples]:
        """The times of those that have the call."""
        say(what)
        gc.collect()
        gc.freeze()  # what was made at the start is nobody's to collect
        return race({who: racer for who, racer in racers.items() if racer is not None}, self.rounds, self.seconds)

    def calls(self, what: str, contenders: Mapping[str, Contender], call: Call) -> dict[str, Samples]:
        """The times of a call."""
        return self.race(f"{call}, {what}", {who: contender.racer(call) for who, contender in contenders.items()})

    @contextmanager
    def loaded(
        self, entries: Sequence[Entry], page: Callable[[Entry], Page], service: Callable[[Entry], Service]
    ) -> Iterator[dict[str, Contender]]:
        """The contenders that can run here, each with its page, checked."""
        with ExitStack() as stack:
            found = {}
            for entry in self.of(entries):
                of = page(entry)
                say(f"loading {of.size:,} items into {entry.name}")
                with self.excused(entry.name):
                    contender = stack.enter_context(entry.on(of, partial(service, entry)))
                    contender.load()
                    contender.check()
                    found[entry.name] = contender
            yield found

    def of(self, entries: Sequence[N]) -> list[N]:
        """Those that are asked for."""
        return [entry for entry in entries if self.names is None or entry.name in self.names]

    @contextmanager
    def excused(self, what: str) -> Iterator[None]:
        """A figure that may be missing."""
        try:
            yield
        except Unavailable as reason:
            self.missing[what] = str(reason)


def always(value: T) -> Callable[[object], T]:
    """The same for every contender."""
    return lambda _: value


@frozen
class Benchmark:
    """What a command measures.

    Attributes:
        module: what is run; ``title`` heads its report, the first sentence of ``text`` its help.
        sections: what is measured, by name.
        columns: the contenders that the documentation shows.
        packages: whose versions are printed, with ``more`` versions.
        shown: the sections that the documentation shows; none: all.
        sizes: defaults, like ``rounds`` and ``turn``, a length in milliseconds.
    """

    module: str
    title: str
    text: str | None
    entries: Sequence[Named]
    sections: Mapping[str, Callable[[Run], Iterator[Row]]]
    targets: Sequence[Target]
    columns: Sequence[str]
    packages: Sequence[str]
    shown: Sequence[str] = ()
    sizes: Sequence[int] = (1000,)
    rounds: int = 15
    turn: float = 30
    more: Mapping[str, str] = {}

    def main(self, arguments: Sequence[str] | None = None) -> None:
        """Measure what the arguments ask for, and print it."""
        given = self.parser().parse_args(arguments)
        run = Run(given.size, given.candidates, given.rounds, given.turn / 1000, given.folder)
        names = given.only or (self.shown if given.readme and self.shown else self.sections)
        rows = [row for name in names for row in self.sections[name](run)]
        line = report.versions(self.packages, self.more)
        if given.readme:
            sys.stdout.write(report.readme(rows, self.columns, line))
        else:
            sys.stdout.write(report.full(self.title, rows, self.targets, run.missing, line))

    def parser(self) -> argparse.ArgumentParser:
        """The options."""
        names = [entry.name for entry in self.entries]
        options = argparse.ArgumentParser(f"python -m {self.module}", description=(self.text or "").split("\n\n")[0])
        add, sections = options.add_argument, list(self.sections)
        sizes = f"how many items, as 1k,10k,1m ({','.join(f'{each:,}'.replace(',000', 'k') for each in self.sizes)})"
        add("--size", "--sizes", type=list_of(size), default=self.sizes, help=sizes)
        add(
            "--only",
            type=list_of(one_of(sections)),
            help=f"sections: {', '.join(sections)} (all, or those of the documentation's table)",
        )
        add("--candidates", type=list_of(one_of(names)), help=f"of: {', '.join(names)} (all)")
        add("--rounds", type=int, default=self.rounds, help=f"turns of each candidate ({self.rounds})")
        add("--turn", type=float, default=self.turn, help=f"length of a turn, in milliseconds ({self.turn:g})")
        add("--folder", type=Path, help="where files are kept meanwhile, on a disk that syncs (the system's)")
        add("--readme", action="store_true", help="print the documentation's table alone")
        return options


def size(text: str) -> int:
    """A number of items, as ``10k`` or ``1m``."""
    unit = _UNITS.get(text[-1:].lower(), 1)
    return int(text if unit == 1 else text[:-1]) * unit


def list_of(kind: Callable[[str], T]) -> Callable[[str], list[T]]:
    """The type of an option that takes several, between commas; a comma before a space belongs to a name."""
    return lambda text: [kind(part) for part in re.split(r",(?! )", text)]


def one_of(names: Sequence[str]) -> Callable[[str], str]:
    """The type of an option that takes one of these."""

    def known(name: str) -> str:
        if name not in names:
            raise argparse.ArgumentTypeError(f"{name!r} is not one of: {', '.join(names)}")
        return name

    return known


def say(doing: str) -> None:
    """Show who waits what is being done; figures go to stdout, this does not."""
    sys.stderr.write(f"... {doing}\n")
