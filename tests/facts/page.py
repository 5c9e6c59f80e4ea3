"""docs/facts.md, made of the tables: ``python -m tests.facts.page`` writes it, and a test compares."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from tests.facts.fact import Fact, shown
from tests.facts.tables import TABLES

PAGE: Final = Path(__file__).parents[2] / "docs" / "facts.md"
GUIDE: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
HEAD: Final = """# Facts

What DynamoDB does, and with it odm on `Memory`, `LocalFile` and DynamoDB: {count} facts. `tests/facts` asks `Memory`,
`LocalFile`, DynamoDB Local and Dynoxide for each of them through odm, and compares the outcome. Where a server has
another outcome than DynamoDB, the last column says so. This page is made of the tables there.

Who says what DynamoDB does:

* **S**: a test of [a suite](https://github.com/nubo-db/dynamodb-conformance) whose expectations were recorded on AWS,
  in the file named, has this fact or the rule that it is an example of
* **D**: the page of AWS's developer guide
* **L**: DynamoDB Local does it; nobody is known to have asked AWS

[Differences](differences.md) shows requests that odm never sends, and what moto does.
"""
AREAS: Final = {
    "sizes": (
        "Sizes and keys",
        (
            "The bytes of a value are those that capacity units show: 1,024 bytes are one write unit, one byte more\n"
            "is another one. odm refuses what is too large before it is sent."
        ),
    ),
    "conditions": (
        "Conditions",
        (
            "An item has the field `x` with the first value, and the text `y` in its field `y`. Whether the condition\n"
            "holds, as a filter and as the condition of a write."
        ),
    ),
    "updates": (
        "Updates",
        (
            "An item has the field `x` with the first value. Its value after the actions, or the error, after which\n"
            "the item is unchanged."
        ),
    ),
    "values": ("Values", "What is read back of a value in a field of type `Any`, with its type."),
    "queries": (
        "Queries and pages",
        (
            "The sort keys that a query returns, in order; the lengths of pages; the number of items and of requests.\n"
            "Keys of odm are texts that sort as their values do."
        ),
    ),
    "writes": (
        "Conditional writes, transactions, batches and expiry",
        "What the call returns, or what is stored afterwards; of a failed transaction, its reasons.",
    ),
    "indexes": ("Indexes and units", "The sort keys of what an index returns, and capacity units."),
    "limits": (
        "Limits of expressions and tables",
        "What odm refuses before it is sent, and the figures of rewrites and pages.",
    ),
}


def page() -> str:
    """The text of the page."""
    parts = [HEAD.format(count=sum(map(len, TABLES.values())))]
    parts += ["\n".join(_area(area, rows)) for area, rows in TABLES.items()]
    pages = sorted({fact.source[2:] for rows in TABLES.values() for fact in rows if fact.source.startswith("D ")})
    parts.append("\n".join(f"[{name}]: {GUIDE}/{name}.html" for name in pages))
    return "\n".join(parts) + "\n"


def _area(area: str, rows: Any) -> Iterator[str]:
    title, text = AREAS[area]
    yield f"## {title}\n\n{text}\n\n| what | outcome | source | other outcome |\n|---|---|---|---|"
    for fact in rows:
        yield f"| {fact.text} | {_outcome(fact)} | {_source(fact.source)} | {_wrong(fact)} |"
    yield ""


def _outcome(fact: Fact) -> str:
    if isinstance(fact.outcome, type):
        return f"`{fact.outcome.__name__}`"
    if isinstance(fact.outcome, tuple):
        return ", ".join(f"`{_value(part)}`" for part in fact.outcome)
    return "done" if fact.outcome is None and "`" not in fact.text else f"`{_value(fact.outcome)}`"


def _value(value: object) -> str:
    return value if isinstance(value, str) and value.isidentifier() else shown(value)


def _source(source: str) -> str:
    return f"D [{source[2:]}]" if source.startswith("D ") else source


def _wrong(fact: Fact) -> str:
    return "; ".join(f"{server} {reason}" for server, reason in fact.wrong.items())


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
