"""What one run found; the sections fill it, the report reads it."""

import os
import platform
import sqlite3
from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from statistics import median
from typing import Any, Final

from attrs import define, field

from benchmarks import dynalite
from benchmarks.timing import Samples

PACKAGES: Final = (
    "pydantic", "pydantic-core", "sortedcontainers", "attrs", "boto3", "moto", "pynamodb", "dynamoxy",
)  # fmt: skip


@define
class Results:
    """The figures of a run, by size where they have one, then by operation, then by candidate.

    Attributes:
        operations: times of operations.
        memory: bytes of memory an item.
        file: bytes of the file an item.
        reopen: milliseconds to the first answer from a closed file.
        syncs: of the disk, a put.
        startup: milliseconds, by what was started.
        json: bytes of the item as plain JSON.
        missing: why a figure is not there, by candidate or section.
    """

    operations: dict[int, dict[str, dict[str, Samples]]] = field(factory=dict)
    memory: dict[int, dict[str, float]] = field(factory=dict)
    file: dict[int, dict[str, float]] = field(factory=dict)
    reopen: dict[int, float] = field(factory=dict)
    syncs: dict[str, float] = field(factory=dict)
    startup: dict[str, float] = field(factory=dict)
    json: float = 0
    missing: dict[str, str] = field(factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Everything, for a program to read; times are medians in microseconds an item."""
        times = {
            str(size): {
                name: {who: {"cpu": median(s.cpu), "wall": median(s.wall)} for who, s in samples.items()}
                for name, samples in by_name.items()
            }
            for size, by_name in self.operations.items()
        }
        return {
            "machine": machine(),
            "microseconds": times,
            "memory_bytes": self.memory,
            "file_bytes": self.file,
            "reopen_ms": self.reopen,
            "syncs_per_put": self.syncs,
            "startup_ms": self.startup,
            "json_bytes": self.json,
            "missing": self.missing,
        }


def machine() -> dict[str, str]:
    """The versions of everything that is measured, and where."""
    return {**versions(PACKAGES), "sqlite": sqlite3.sqlite_version, "dynalite": dynalite.VERSION}


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Where this runs, and the versions of packages."""
    found = {"python": platform.python_version(), "cores": str(os.cpu_count()), "system": platform.system()}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
