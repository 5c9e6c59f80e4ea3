"""What runs found, as Markdown, and how it stands to the targets."""

import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from math import inf
from statistics import median
from typing import Final

from attrs import frozen

from benchmarks.timing import Clock, Samples, ratio

NONE: Final = "–"
WHOLE: Final = ("B", "calls")
"""Units whose figures are shown without decimals."""

UNSAID: Final = ("us", "calls")
"""Units that are not repeated in each cell: the head of the table, or the label, names them."""

Figure = Samples | float


@frozen
class Row:
    """One row of a table: the figures of all contenders.

    Attributes:
        section: the heading of its table.
        name: its first cell.
        figures: times in microseconds an item, or other figures in the unit, by contender.
        label: its first cell in the README's table, and what targets call it.
        shown: whether the README's table has it.
        clock: whose time it shows; None: each contender's own.
        unit: of the figures, if they are not microseconds.
    """

    section: str
    name: str
    figures: Mapping[str, Figure]
    label: str
    shown: bool = False
    clock: Clock | None = None
    unit: str = "us"

    def cells(self, who: Iterable[str], unit: str = "") -> list[str]:
        """The figures of these contenders."""
        return [self._cell(self.figures[each]) + unit if each in self.figures else NONE for each in who]

    def _cell(self, found: Figure) -> str:
        if isinstance(found, Samples):
            found = median(found.of(self.clock)) if self.clock else found.median
        if found >= 100 or self.unit in WHOLE:
            return f"{found:,.0f}"
        return f"{found:.{2 if self.unit == 'syncs' else 1}f}"


@frozen
class Target:
    """How fast something has to be next to something else of the same run, or a limit.

    Attributes:
        number: of its row in the list of targets.
        label: how the labels of the rows begin that it is about.
        ours: the contender that has to be fast.
        peer: the one it is compared with; None: the figure itself has a limit.
        bound: how many times faster than the peer at least, or how many times slower at most, or the limit.
        faster: which of the two.
        clock: whose time.
        least: a limit below, for a figure that must not be smaller; it may be the only one, with infinity as bound.
    """

    number: int
    label: str
    ours: str
    peer: str | None
    bound: float
    faster: bool = False
    clock: Clock = "cpu"
    least: float = 0


@frozen
class Verdict:
    """One target and what the run found: texts to print, and whether it is met."""

    number: int
    texts: Sequence[str]
    hit: bool


def judge(rows: Sequence[Row], targets: Iterable[Target]) -> list[Verdict]:
    """The verdicts on all targets that the run has figures for, in order."""
    found = [verdict for target in targets for row in rows if not row.clock for verdict in _verdict(row, target)]
    return sorted(found, key=lambda verdict: verdict.number)


def _verdict(row: Row, target: Target) -> Iterator[Verdict]:
    ours = row.figures.get(target.ours)
    peer = row.figures.get(target.peer or "")
    if not row.label.startswith(target.label) or ours is None or (target.peer and peer is None):
        return
    what, unit = f"{row.label}: {target.ours}", f" {row.unit}"
    if isinstance(ours, float | int) and not isinstance(peer, Samples):
        times = ours / peer if peer else ours
        texts = [
            f"{what} / {target.peer}" if peer else what,
            f"{ours:,.2f}{unit}",
            f"{peer:,.2f}{unit}" if peer else "",
        ]
        hit = target.least <= times <= target.bound
    else:
        assert isinstance(ours, Samples)
        assert isinstance(peer, Samples)
        clock: Clock = "wall" if "wall" in (target.clock, ours.clock, peer.clock) else "cpu"
        times = ratio(peer, ours, clock) if target.faster else ratio(ours, peer, clock)
        medians = [f"{median(one.of(clock)):,.1f}{unit}" for one in (ours, peer)]
        texts = [f"{what} / {target.peer} ({clock})", *medians]
        hit = times >= target.bound if target.faster else times <= target.bound
    of = "x" if target.peer else unit
    bound = f"{'>=' if target.faster else '<='} {target.bound:g}{of}{' faster' if target.faster else ''}"
    if target.bound == inf:
        bound = f">= {target.least:g}{of}"
    yield Verdict(target.number, [*texts, f"{times:.2f}{of}", bound], hit)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are set to the right."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def full(title: str, rows: Sequence[Row], targets: Iterable[Target], missing: Mapping[str, str], line: str) -> str:
    """Everything that was found."""
    parts = [f"# {title}\n\n{line}"]
    for section in dict.fromkeys(row.section for row in rows):
        of = [row for row in rows if row.section == section]
        who = list(dict.fromkeys(name for row in of for name in row.figures))
        parts.append(f"## {section}\n\n" + table(["", *who], ([row.name, *row.cells(who)] for row in of)))
    verdicts = [[str(v.number), *v.texts, "hit" if v.hit else "MISS"] for v in judge(rows, targets)]
    parts.append("## Targets\n\n" + table(["row", "what", "ours", "other", "found", "target", ""], verdicts))
    if missing:
        parts.append("## Not available\n\n" + table(["what", "why"], map(list, missing.items())))
    return "\n\n".join(parts) + "\n"


def readme(rows: Sequence[Row], columns: Sequence[str], line: str) -> str:
    """The table that the documentation shows."""
    shown = [row for row in rows if row.shown]
    who = [name for name in columns if any(name in row.figures for row in shown)]
    cells = ([row.label, *row.cells(who, "" if row.unit in UNSAID else f" {row.unit}")] for row in shown)
    return table(["µs", *who], cells) + f"\n\n{line}\n"


def versions(packages: Iterable[str], more: Mapping[str, str]) -> str:
    """Where this runs, and the versions of packages."""
    found = {"python": platform.python_version(), "cores": str(os.cpu_count()), "system": platform.system()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return ", ".join(f"{name} {value}" for name, value in {**found, **more}.items())
