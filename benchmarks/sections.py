"""The parts of a run, each of which adds its figures to the results."""

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, get_args

from attrs import frozen

from benchmarks import footprint, startup
from benchmarks.candidates import Candidate, Entry, Operation, Unavailable
from benchmarks.orders import json_bytes
from benchmarks.ours import InFile
from benchmarks.results import Results
from benchmarks.timing import Samples, measure

SECTIONS: Final = ("operations", "memory", "syncs", "startup")
OPERATIONS: Final[tuple[Operation, ...]] = get_args(Operation)
IN_MEMORY: Final = ("Memory", "Memory + index", "dict + SortedDict", "moto + boto3", "dynamoxy")
SCALED: Final = "Memory"
"""The candidate whose smallest size stays loaded, to be measured in turns with the larger ones."""


@frozen
class Settings:
    """What to measure, and how long.

    Attributes:
        sizes: numbers of orders.
        sections: of `SECTIONS`.
        entries: the candidates.
        rounds: how often each has its turn.
        seconds: how long a turn takes, about.
        folder: where files are kept while it runs; None for the system's.
    """

    sizes: Sequence[int]
    sections: Sequence[str]
    entries: Sequence[Entry]
    rounds: int
    seconds: float
    folder: Path | None = None


def run(settings: Settings) -> Results:
    """Measure all that is asked for."""
    results = Results(json=json_bytes())
    if "startup" in settings.sections:
        _say("startup")
        results.startup.update(startup.import_ms(settings.rounds))
        results.startup.update(startup.compile_ms(settings.rounds))
    if "syncs" in settings.sections:
        _syncs(settings, results)
    if "memory" in settings.sections:
        _memory(settings, results)
    if "operations" in settings.sections:
        with ExitStack() as kept:
            small: dict[str, Candidate] = {}
            for size in sorted(settings.sizes):
                _operations(settings, size, results, small, kept)
    return results


def scaled_name(size: int) -> str:
    """How the smallest is called among the candidates of a larger size."""
    return f"{SCALED}, {size:,} items"


def _syncs(settings: Settings, results: Results) -> None:
    for entry in _of(settings, ("LocalFile", "LocalFile + index", "sqlite3", "append + fdatasync")):
        _say(f"syncs of {entry.name}")
        with _excused(results, f"syncs of {entry.name}"):
            results.syncs[entry.name] = footprint.syncs_per_put(entry.name)


def _memory(settings: Settings, results: Results) -> None:
    for size in settings.sizes:
        for entry in _of(settings, IN_MEMORY):
            if entry.most is None or size <= entry.most:
                _say(f"memory of {entry.name}, {size:,} items")
                with _excused(results, f"memory of {entry.name}"):
                    results.memory.setdefault(size, {})[entry.name] = footprint.memory_per_item(entry.name, size)


def _operations(settings: Settings, size: int, results: Results, small: dict[str, Candidate], kept: ExitStack) -> None:
    """Load every candidate with so many orders, and time each operation among those that have it."""
    gc.collect()
    gc.freeze()  # no candidate pays for collecting what was made at the start
    with ExitStack() as stack, TemporaryDirectory(dir=settings.folder) as folder:
        found: dict[str, Candidate] = {}
        for entry in settings.entries:
            if entry.most is not None and size > entry.most:
                continue
            _say(f"loading {size:,} items into {entry.name}")
            with _excused(results, entry.name):
                found[entry.name] = entry.loaded(size, Path(folder))
                keep = entry.name == SCALED and not small
                (kept if keep else stack).callback(found[entry.name].close)
        for name in OPERATIONS:
            having = {who: each for who, each in {**found, **small}.items() if each.operation(name) is not None}
            _say(f"{name}, {size:,} items")
            results.operations.setdefault(size, {})[name] = _measured(settings, having, name)
        if not small and SCALED in found:
            small[scaled_name(size)] = found[SCALED]
        stack.close()
        _files(found, size, results)


def _measured(settings: Settings, having: dict[str, Candidate], name: Operation) -> dict[str, Samples]:
    return measure(having, name, settings.rounds, settings.seconds) if having else {}


def _files(found: dict[str, Candidate], size: int, results: Results) -> None:
    """What closed files are, and how soon one answers again."""
    for who, candidate in found.items():
        if isinstance(candidate, InFile):
            results.file.setdefault(size, {})[who] = candidate.path.stat().st_size / size
            if who == "LocalFile":
                with _excused(results, "reopen"):
                    results.reopen[size] = footprint.reopen_ms(candidate.path, size // 2)


def _of(settings: Settings, names: Sequence[str]) -> list[Entry]:
    return [entry for entry in settings.entries if entry.name in names]


@contextmanager
def _excused(results: Results, what: str) -> Iterator[None]:
    try:
        yield
    except Unavailable as reason:
        results.missing[what] = str(reason)


def _say(doing: str) -> None:
    """Tell who waits what is being done; results go to stdout, this does not."""
    sys.stderr.write(f"... {doing}\n")
