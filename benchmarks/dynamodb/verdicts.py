"""The targets of the DynamoDB backend, and how a run stands to them."""

from collections.abc import Iterator
from typing import Final

from attrs import evolve

from benchmarks.dynamodb.races import FEW, Figures
from benchmarks.targets import Target, Verdict, against

CLIENT: Final = "boto3 client + Pydantic"
RESOURCE: Final = "boto3 resource + Pydantic"
QUERY: Final = f"query of {FEW}, an item"

TARGETS: Final = (
    ("decode", Target(1, "", "odm", RESOURCE, 5.5, faster=True)),
    ("decode", Target(1, "", "odm", "PynamoDB", 7, faster=True)),
    ("validators", Target(3, "", "odm", "PynamoDB", 5, faster=True)),
    ("shapes", Target(4, "", "odm", CLIENT, 6, faster=True)),
    ("encode", Target(5, "", "odm", "PynamoDB", 12, faster=True)),
    ("encode", Target(5, "", "odm", "boto3", 18, faster=True)),
    ("encode", Target(5, "", "odm", "Pydantic to_json", 2.5)),
    ("calls", Target(6, "get", "odm", "PynamoDB", 1.6, faster=True)),
    ("http", Target(6, QUERY, "odm", RESOURCE, 4.5, faster=True)),
)
"""By section; one without an operation is of every race of its section."""


def judge(figures: Figures) -> list[Verdict]:
    """The verdicts on all targets that the run has figures for, in order."""
    return list(_judged(figures))


def _judged(figures: Figures) -> Iterator[Verdict]:
    for section, target in TARGETS:
        for name, times in figures.times.get(section, {}).items():
            if target.operation in ("", name) and target.ours in times and target.peer in times:
                where = evolve(target, operation=f"{section}: {name}")
                yield against(where, where.operation, times[target.ours], times[target.peer])
