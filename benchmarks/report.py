"""The results as Markdown: every figure, or the table of the README."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final, TypeVar

from benchmarks.candidates import ENTRIES, TRANSACTED
from benchmarks.results import Results, machine
from benchmarks.targets import Verdict, judge
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
T = TypeVar("T")

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
README_GROWTH: Final = ("get", "put", "query")


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
    parts.append("## Targets\n\n" + verdicts(judge(results)))
    if results.missing:
        rows = [[what, why] for what, why in results.missing.items()]
        parts.append("## Not available\n\n" + table(["what", "why"], rows))
    return "\n\n".join(parts) + "\n"


def readme(results: Results) -> str:
    """The table that the README shows: all operations at the smallest size, then how the first ones grow."""
    shown = [who for who in README if any(who in times for by in results.operations.values() for times in by.values())]
    rows = [row for size in sorted(results.operations) for row in _readme_rows(results, size, shown)]
    return table(["µs", *shown], rows) + "\n\n" + _line() + "\n"


def _readme_rows(results: Results, size: int, shown: Sequence[str]) -> Iterator[list[str]]:
    first = size == min(results.operations)
    for name, times in results.operations[size].items():
        if times and (name in README_GROWTH or (first and name != "query index")):
            yield [f"{SHOWN[name]}, {size:,} items", *_cells(times, shown, lambda samples: us(samples.median))]
            if first and name == "put":
                yield [f"{SHOWN[name]}, {size:,} items, on the clock", *_cells(times, shown, _wall)]
    if size in results.memory:
        yield [f"memory an item, {size:,} items", *_cells(results.memory[size], shown, lambda held: f"{held:,.0f} B")]


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table; all columns but the first are set to the right."""
    lines = [head, ["---", *("--:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def us(value: float) -> str:
    """Microseconds with three figures or so."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def _machine() -> str:
    return "# The bundled engine next to its peers\n\n" + _line()


def _line() -> str:
    return ", ".join(f"{name} {version}" for name, version in machine().items())


def _operations(results: Results, size: int) -> str:
    by_name = {name: times for name, times in results.operations[size].items() if times}
    shown = [entry.name for entry in ENTRIES if any(entry.name in times for times in by_name.values())]
    rows = [[SHOWN[name], *_cells(times, shown, lambda s: us(s.median))] for name, times in by_name.items()]
    clock = [
        [f"{SHOWN[name]}, on the clock", *_cells(by_name[name], shown, _wall)]
        for name in ("put", "batch")
        if name in by_name
    ]
    head = f"## {size:,} items, microseconds (CPU; dynalite on the clock)\n\n"
    return head + table(["", *shown], rows + clock)


def _cells(figures: Mapping[str, T], names: Iterable[str], text: Callable[[T], str]) -> list[str]:
    return [text(figures[name]) if name in figures else NONE for name in names]


def _wall(samples: Samples) -> str:
    return us(median(samples.wall))


def _by_size(head: str, figures: Mapping[int, Mapping[str, float]]) -> str:
    sizes = list(figures)
    names = dict.fromkeys(who for by_name in figures.values() for who in by_name)
    rows = [[who, *(f"{figures[size][who]:,.0f}" if who in figures[size] else NONE for size in sizes)] for who in names]
    return f"## {head}\n\n" + table(["", *(f"{size:,} items" for size in sizes)], rows)


def verdicts(found: Iterable[Verdict]) -> str:
    """The table of targets."""
    rows = [[str(v.row), v.what, v.ours, v.other, v.ratio, v.target, "hit" if v.hit else "MISS"] for v in found]
    return table(["row", "what", "ours", "other", "ratio", "target", ""], rows)
