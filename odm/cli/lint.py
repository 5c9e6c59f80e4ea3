"""`odm lint`: problems of a table's models in a cloud, with exit codes for continuous integration."""

import json
import os
from collections import Counter
from collections.abc import Sequence

from msgspec.structs import asdict
from typer import echo

from odm.cli.target import load_target
from odm.cli.usage import BadUsage
from odm.errors import BadValue
from odm.immutable import evolve
from odm.schema.lint.finding import SEVERITIES, Cloud, LintFinding


def lint(target: str, ignore: Sequence[str], backend: Cloud | None, *, as_json: bool) -> int:
    """Print the findings of the linter.

    Args:
        target: ``module:table``.
        ignore: names of rules to skip.
        backend: only findings for this backend; None: for both.
        as_json: print the findings as JSON.

    Returns:
        The exit code: 0 if there are no findings, otherwise 1.

    Raises:
        BadUsage: there is no such rule.
        OdmError: the table cannot be loaded or does not compile.
    """
    models = load_target(target)
    try:
        findings = [_from_here(finding) for finding in models.table.lint(ignore=ignore, backend=backend)]
    except BadValue as error:
        raise BadUsage(str(error)) from error
    if as_json:
        answer = {"table": models.table.name, "ok": not findings, "findings": [asdict(finding) for finding in findings]}
        echo(json.dumps(answer, indent=2))
    elif findings:
        echo("\n\n".join(map(str, findings)))
    else:
        echo(f"table {models.table.name}: nothing found")
    if findings:
        echo(f"odm: table {models.table.name}: {_count(findings)}; {_next(findings)}", err=True)
    return int(bool(findings))


def _from_here(finding: LintFinding) -> LintFinding:
    """The finding with its file relative to the current folder, if the file is below it."""
    if finding.file is None:
        return finding
    try:
        near = os.path.relpath(finding.file)
    except ValueError:  # another drive of Windows
        return finding
    return finding if near.startswith("..") else evolve(finding, file=near)


def _count(findings: Sequence[LintFinding]) -> str:
    """Such as "1 error, 2 warnings"."""
    numbers = Counter(finding.severity for finding in findings)
    words = {"error": "errors", "warning": "warnings", "advice": "advice"}
    return ", ".join(
        f"{numbers[severity]} {severity if numbers[severity] == 1 else words[severity]}"
        for severity in SEVERITIES
        if numbers[severity]
    )


def _next(findings: Sequence[LintFinding]) -> str:
    return f"to suppress a finding, add a comment to its line: # odm: ignore[{findings[0].rule}]"
