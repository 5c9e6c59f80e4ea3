"""docs/lint.md has every rule, and its examples are what it says: before the fix, and after it."""

import re
from typing import Any

from odm import Table
from odm.schema.lint.finding import RULES
from tests.readme import README, blocks

PAGE = README.parent / "docs" / "lint.md"


def sections() -> dict[str, tuple[int, int]]:
    """The first and the last line of what is said of a rule."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    starts = [(at, line.removeprefix("## ")) for at, line in enumerate(lines, 1) if line.startswith("## ")]
    ends = [at for at, _ in starts[1:]] + [len(lines) + 1]
    return {name: (start, end) for (start, name), end in zip(starts, ends, strict=True)}


def test_each_rule_has_a_section_with_its_severity_and_its_source() -> None:
    text = PAGE.read_text(encoding="utf-8").splitlines()
    assert [*sections(), "unused-ignore"] == list(RULES)
    for name, (start, end) in sections().items():
        said = " ".join(text[start : end - 1])
        assert re.match(rf" \*{RULES[name].severity.title()}[,.]", said), name
        assert f"({RULES[name].source})" in said, name


def test_before_the_fix_a_rule_finds_it_and_afterwards_nothing_does() -> None:
    [first] = [block.text for block in blocks(PAGE) if block.language == "python first"]
    for name, (start, end) in sections().items():
        shown = [block for block in blocks(PAGE) if start < block.line < end]
        assert [block.language for block in shown][:2] == ["python before", "python after"], name
        for block in shown:
            names: dict[str, Any] = {"__name__": "shown"}
            exec(first + block.text, names)
            table = names["t"]
            assert isinstance(table, Table)
            assert [finding.rule for finding in table.lint()] == [name] * (block.language == "python before"), block
