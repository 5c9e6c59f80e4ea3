"""What the linter says: a `LintFinding`, of one of the `RULES`."""

from collections.abc import Mapping
from typing import Final, Literal

from attrs import frozen

Severity = Literal["error", "warning", "advice"]
Cloud = Literal["dynamodb", "bigtable"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "advice")
"""Worst first. "error": items are lost, or a backend refuses the model. "warning": it is refused or slow under load.
"advice": it works, and costs more than it must, or for ever."""

BOTH: Final[tuple[Cloud, ...]] = ("dynamodb", "bigtable")

_AWS: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
_GOOGLE: Final = "https://docs.cloud.google.com/bigtable/docs"

AVOID: Final = f"{_GOOGLE}/schema-design#row-keys-avoid"


@frozen
class Rule:
    """A kind of finding.

    Attributes:
        name: as it is silenced by.
        source: where the vendor says it.
    """

    name: str
    severity: Severity
    source: str


@frozen
class LintFinding:
    """One thing that the linter would change.

    Attributes:
        rule: its name, by which it is silenced.
        severity: how bad it is: "error", "warning" or "advice".
        where: the declaration, as in ``Order.by_date``; the entity alone where it is about all of it.
        what: what is the matter.
        why: what comes of it.
        source: where that is written.
        fix: the declaration as it could be, or what else to do.
        backends: where it matters, of "dynamodb" and "bigtable".
        file, line: where the declaration stands; None where its source cannot be found.
    """

    rule: str
    severity: Severity
    where: str
    what: str
    why: str
    source: str
    fix: str
    backends: tuple[Cloud, ...] = BOTH
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        place = "" if self.file is None else f"  {self.file}:{self.line}"
        fix = self.fix.replace("\n", f"\n{'':10}")
        parts = ("what", self.what), ("why", self.why), ("see", self.source), ("fix", fix)
        lines = (f"    {name:<4}  {text}" for name, text in parts if text)
        return "\n".join((f"{self.severity:<7}  {self.rule}  {self.where}{place}", *lines))


HOT_PARTITION: Final = Rule("hot-partition", "warning", f"{_AWS}/bp-partition-key-uniform-load.html")
MONOTONIC_KEY: Final = Rule("monotonic-key", "warning", AVOID)
AMBIGUOUS_ROW_KEYS: Final = Rule("ambiguous-row-keys", "error", f"{_GOOGLE}/schema-design#row-keys")
NON_UNIQUE_KEY: Final = Rule("non-unique-key", "error", f"{_AWS}/HowItWorks.CoreComponents.html")
LOSSY_KEY: Final = Rule("lossy-key", "error", f"{_AWS}/HowItWorks.CoreComponents.html")
UNBOUNDED_COLLECTION: Final = Rule("unbounded-collection", "warning", f"{_AWS}/LSI.html#LSI.ItemCollections.SizeLimit")
FILTERED_READS: Final = Rule("filtered-reads", "advice", f"{_AWS}/Query.FilterExpression.html")
LONG_NAMES: Final = Rule("long-names", "advice", f"{_AWS}/CapacityUnitCalculations.html")
MISSING_TTL: Final = Rule("missing-ttl", "advice", f"{_AWS}/TTL.html")
UNUSED_IGNORE: Final = Rule("unused-ignore", "advice", "")

RULES: Final[Mapping[str, Rule]] = {
    rule.name: rule
    for rule in (
        AMBIGUOUS_ROW_KEYS,
        NON_UNIQUE_KEY,
        LOSSY_KEY,
        HOT_PARTITION,
        MONOTONIC_KEY,
        UNBOUNDED_COLLECTION,
        FILTERED_READS,
        LONG_NAMES,
        MISSING_TTL,
        UNUSED_IGNORE,
    )
}
"""By name, in the order in which findings of one declaration are told."""


def found(
    rule: Rule, where: str, *, what: str, why: str, fix: str, backends: tuple[Cloud, ...] = BOTH, source: str = ""
) -> LintFinding:
    """A finding of a rule; ``source`` where it is another than the rule's."""
    return LintFinding(rule.name, rule.severity, where, what, why, source or rule.source, fix, backends)
