"""The results of the linter: a `LintFinding` of one of the `RULES`."""

from collections.abc import Mapping
from typing import Final, Literal

from odm._published import public_in
from odm.immutable import Immutable

Severity = Literal["error", "warning", "advice"]
Cloud = Literal["dynamodb", "bigtable"]

SEVERITIES: Final[tuple[Severity, ...]] = ("error", "warning", "advice")
"""Worst first. "error": items are lost, or a backend refuses the model. "warning": it is refused or slow under load.
"advice": it works, but costs more than it needs to, or its cost grows forever."""

BOTH: Final[tuple[Cloud, ...]] = ("dynamodb", "bigtable")

_AWS: Final = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide"
_GOOGLE: Final = "https://docs.cloud.google.com/bigtable/docs"

AVOID: Final = f"{_GOOGLE}/schema-design#row-keys-avoid"


class Rule(Immutable):
    """A rule of the linter.

    Attributes:
        name: the name, which suppresses it in a comment.
        source: the vendor's page.
    """

    name: str
    severity: Severity
    source: str


@public_in("odm.extend")
class LintFinding(Immutable):
    """A problem that the linter found.

    Attributes:
        rule: the name of the rule, which suppresses it in a comment.
        severity: "error", "warning" or "advice".
        where: the declaration, such as ``Order.by_date``; only the entity if it is about the whole entity.
        what: the problem.
        why: its consequence.
        source: the page that documents it.
        fix: a better declaration, or another fix.
        backends: the backends that it applies to, "dynamodb" and "bigtable".
        file, line: the location of the declaration; None if its source cannot be found.
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
CONSTANT_KEY: Final = Rule("constant-key", "error", f"{_AWS}/HowItWorks.CoreComponents.html")
NON_UNIQUE_KEY: Final = Rule("non-unique-key", "error", f"{_AWS}/HowItWorks.CoreComponents.html")
LOSSY_KEY: Final = Rule("lossy-key", "error", f"{_AWS}/HowItWorks.CoreComponents.html")
UNBOUNDED_COLLECTION: Final = Rule("unbounded-collection", "warning", f"{_AWS}/LSI.html#LSI.ItemCollections.SizeLimit")
UNBOUNDED_ROW: Final = Rule("unbounded-row", "warning", f"{_GOOGLE}/schema-design#rows")
FILTERED_READS: Final = Rule("filtered-reads", "advice", f"{_AWS}/Query.FilterExpression.html")
EQUAL_INDEXES: Final = Rule("equal-indexes", "advice", f"{_AWS}/bp-indexes-general.html")
TEXT_ORDER: Final = Rule("text-order", "advice", f"{_AWS}/bp-sort-keys.html")
LONG_NAMES: Final = Rule("long-names", "advice", f"{_AWS}/CapacityUnitCalculations.html")
MISSING_TTL: Final = Rule("missing-ttl", "advice", f"{_AWS}/TTL.html")
DELETED_BY_AGE: Final = Rule("deleted-by-age", "advice", f"{_GOOGLE}/garbage-collection")
UNSTABLE_VALUE: Final = Rule("unstable-value", "error", "https://docs.pydantic.dev/latest/concepts/validators/")
UNUSED_IGNORE: Final = Rule("unused-ignore", "advice", "")

RULES: Final[Mapping[str, Rule]] = {
    rule.name: rule
    for rule in (
        AMBIGUOUS_ROW_KEYS,
        CONSTANT_KEY,
        NON_UNIQUE_KEY,
        LOSSY_KEY,
        HOT_PARTITION,
        MONOTONIC_KEY,
        UNBOUNDED_COLLECTION,
        UNBOUNDED_ROW,
        FILTERED_READS,
        EQUAL_INDEXES,
        TEXT_ORDER,
        LONG_NAMES,
        MISSING_TTL,
        DELETED_BY_AGE,
        UNSTABLE_VALUE,
        UNUSED_IGNORE,
    )
}
"""The rules by name, in the order in which findings of one declaration are reported."""


def lint_finding(
    rule: Rule, where: str, *, what: str, why: str, fix: str, backends: tuple[Cloud, ...] = BOTH, source: str = ""
) -> LintFinding:
    """A finding of a rule; ``source`` replaces the rule's."""
    return LintFinding(rule.name, rule.severity, where, what, why, source or rule.source, fix, backends)
