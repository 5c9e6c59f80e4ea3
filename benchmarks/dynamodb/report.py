"""The figures as Markdown: every one, or the table of the README."""

from collections.abc import Callable, Mapping
from statistics import median
from typing import Final

from benchmarks.dynamodb.races import Figures
from benchmarks.dynamodb.verdicts import judge
from benchmarks.report import NONE, table, us, verdicts
from benchmarks.results import versions
from benchmarks.timing import Samples

PACKAGES: Final = (
    "pydantic", "pydantic-core", "boto3", "botocore", "aiobotocore", "pynamodb", "dynamoxy", "pydynox",
)  # fmt: skip

TITLES: Final[Mapping[str, str]] = {
    "decode": "Decode a page, an item: row 1",
    "validators": "Decode orders whose classes take part in their validation, an item: row 3",
    "shapes": "Decode other shapes, an item: row 4",
    "encode": "Encode a model: row 5",
    "calls": "Calls, answered in this process: row 6",
    "http": "Calls over HTTP on the loopback: row 6",
}
README: Final = (
    "odm", "by hand", "boto3 resource + Pydantic", "PynamoDB", "odm, async", "dynamoxy, async", "pydynox",
    "pydynox, async",
)  # fmt: skip
COLUMNS: Final[Mapping[str, str]] = {"boto3": "boto3 resource + Pydantic"}
"""Encoders that stand in the column of a contender."""
README_SECTIONS: Final[Mapping[str, str]] = {
    "decode": "decode a page of {}, an item",
    "encode": "encode a {}",
    "calls": "{}, answered in the process",
    "http": "{}, over HTTP",
}


def full(figures: Figures) -> str:
    """Everything that was found."""
    parts = [f"# The DynamoDB backend next to its peers\n\n{_line()}"]
    for section, races in figures.times.items():
        shown = list(dict.fromkeys(who for times in races.values() for who in times))
        rows = [_row(name, times, shown, _cpu) for name, times in races.items()]
        if section == "http":
            rows += [_row(f"{name}, on the clock", times, shown, _wall) for name, times in races.items()]
        parts.append(f"## {TITLES[section]} (microseconds of CPU)\n\n" + table(["", *shown], rows))
    parts.append("## Targets\n\n" + verdicts(judge(figures)))
    if figures.missing:
        parts.append("## Not available\n\n" + table(["who", "why"], map(list, figures.missing.items())))
    return "\n\n".join(parts) + "\n"


def readme(figures: Figures) -> str:
    """The table that the README shows."""
    races = {
        text.format(name): (section, times)
        for section, text in README_SECTIONS.items()
        for name, times in figures.times.get(section, {}).items()
    }
    shown = [who for who in README if any(who in times for _, times in races.values())]
    rows: list[list[str]] = []
    for name, (section, times) in races.items():
        named = {COLUMNS.get(who, who): samples for who, samples in times.items()}
        rows.append(_row(name, named, shown, _cpu))
        if section == "http":
            rows.append(_row(f"{name}, on the clock", named, shown, _wall))
    return table(["µs", *shown], rows) + "\n\n" + _line() + "\n"


def _row(name: str, times: Mapping[str, Samples], shown: list[str], text: Callable[[Samples], str]) -> list[str]:
    return [name, *(text(times[who]) if who in times else NONE for who in shown)]


def _cpu(samples: Samples) -> str:
    return us(median(samples.cpu))


def _wall(samples: Samples) -> str:
    return us(median(samples.wall))


def _line() -> str:
    return ", ".join(f"{name} {version}" for name, version in versions(PACKAGES).items())
