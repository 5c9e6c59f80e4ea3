"""The results as Markdown: every figure, or the table of the README."""

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from benchmarks.candidates import ENTRIES, TRANSACTED
from benchmarks.results import Results, machine
from benchmarks.targets import judge
from benchmarks.timing import BATCH, Samples

SHOWN: Final = {
    "get": "get",
    "put": "put",
    "query": "query of 100",
    "query index": "query of 100 by an index",
    "update": "update",
    "batch": f"batch put of {BATCH}, an item",
    "transact": f"transaction of {TRANSACTED} puts, an item",
}
NONE: Final = "–"
README: Final = (
    "Memory",
    "LocalFile",
    "dynamoxy",
    "dynalite + boto3",
    "moto + boto3",
    "PynamoDB + moto",
    "dict + SortedDict",
)


def full(results: Results) -> str:
    """Everything that was found."""
    parts = [_machine(), *(_operations(results, size) for size in results.operations)]
    if results.memory:
        parts.append(_by_size(f"Memory, bytes an item (as plain JSON: {results.json:.0f})", results.memory))
    if results.file:
        parts.append(_by_size("File, bytes an item", results.file))
    if results.syncs:
        rows = [[who, f"{syncs:.2f}"] for who, syncs in results.syncs.items()]
        parts.append("## Syncs a put\n\n" + table(["", "fsync + fdatasync"], rows))
    if results.startup:
        rows = [[what, f"{taken:.2f}"] for what, taken in results.startup.items()]
        parts.append("## Start, ms of CPU\n\n" + table(["", "ms"], rows))
    parts.append(_verdicts(results))
    if results.missing:
        rows = [[what, why] for what, why in results.missing.items()]
        parts.append("## Not available\n\n" + table(["what", "why"], rows))
    return "\n\n".join(parts) + "\n"


def readme(results: Results) -> str:
    """The table that the README shows: microseconds of the operations, sizes under one another."""
    shown = [who for who in README if any(who in times for by in results.operations.values() for times in by.values())]
    rows = []
    for size, by_name in results.operations.items():
        for name, times in by_name.items():
            if times and name != "query index":
                cells = [us(times[who].median) if who in times else NONE for who in shown]
                rows.append([f"{SHOWN[name]}", f"{size:,}", *cells])
    for size, taken in results.memory.items():
        cells = [f"{taken[who]:,.0f} B" if who in taken else NONE for who in shown]
        rows.append(["memory an item", f"{size:,}", *cells])
    return table(["µs", "items", *shown], rows) + "\n\n" + _line() + "\n"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are set to the right."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def us(value: float) -> str:
    """Microseconds with three figures or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _machine() -> str:
    return "# The bundled engine beside its peers\n\n" + _line()


def _line() -> str:
    return ", ".join(f"{name} {version}" for name, version in machine().items())


def _operations(results: Results, size: int) -> str:
    by_name = {name: times for name, times in results.operations[size].items() if times}
    shown = [entry.name for entry in ENTRIES if any(entry.name in times for times in by_name.values())]
    rows = [
        [SHOWN[name], *(us(times[who].median) if who in times else NONE for who in shown)]
        for name, times in by_name.items()
    ]
    head = f"## {size:,} items, microseconds (CPU; dynalite on the clock)\n\n"
    walls = [
        [
            f"{SHOWN[name]}, on the clock",
            *(us(_wall(by_name[name], who)) if who in by_name[name] else NONE for who in shown),
        ]
        for name in ("put", "batch")
        if name in by_name
    ]
    return head + table(["", *shown], rows + walls)


def _wall(times: Mapping[str, Samples], who: str) -> float:
    return median(times[who].wall)


def _by_size(head: str, figures: Mapping[int, Mapping[str, float]]) -> str:
    sizes = list(figures)
    names = dict.fromkeys(who for by_name in figures.values() for who in by_name)
    rows = [[who, *(f"{figures[size][who]:,.0f}" if who in figures[size] else NONE for size in sizes)] for who in names]
    return f"## {head}\n\n" + table(["", *(f"{size:,} items" for size in sizes)], rows)


def _verdicts(results: Results) -> str:
    rows = [
        [str(v.row), v.what, v.ours, v.other, v.ratio, v.target, "hit" if v.hit else "MISS"] for v in judge(results)
    ]
    return "## Targets\n\n" + table(["row", "what", "ours", "other", "ratio", "target", ""], rows)
