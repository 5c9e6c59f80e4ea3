"""``odm lock`` and `odm check`: write the lock file of an application, and compare the models with it."""

import json
import os
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from typer import echo

from odm.cli.target import Target, load_target
from odm.errors import BadValue
from odm.schema.lockfile import (
    FORMAT,
    Finding,
    Level,
    LockFile,
    TableLock,
    backfill_of,
    compare,
    describe,
    lock_at,
    unfilled,
    with_filled,
    with_unfilled,
    write_lock,
)
from odm.schema.table import Table


def lock(target: str, file: Path, *, accept: bool, as_json: bool) -> int:
    """Write the description of a table into a lock file, unless stored data would be orphaned.

    Args:
        target: ``module:table``.
        file: the lock file; other tables in it are kept.
        accept: write it even then.
        as_json: print the findings as JSON.

    Returns:
        The exit code: 1 if nothing was written because a change orphans stored data.

    Raises:
        BadValue: the file cannot be read or written, or is not a lock file.
    """
    models = load_target(target)
    old, new = read_file(file), describe(models.schema)
    tables = {} if old is None else dict(old.tables)
    before = tables.get(models.table.name)
    findings = _compared(models, before, new, tables)
    if before is None:  # a new table is expected here, not a finding
        findings = tuple(finding for finding in findings if finding.level != "safe")
    refused = any(finding.level == "orphans" for finding in findings) and not accept
    new = with_unfilled(before, new)
    changed = before != new
    if changed and not refused:
        _write(file, LockFile(format=FORMAT, tables={**tables, models.table.name: new}))
    if as_json:
        _print_json(models, file, findings, written=changed and not refused)
    else:
        _print_findings(findings)
    if refused:
        echo(f"odm: {file} is unchanged: {_count(findings)}; to lock the models anyway, add --accept", err=True)
    elif not as_json:
        outcome = f"written to {file}: commit it" if changed else f"is already in {file}"
        echo(f"table {models.table.name} {outcome}")
    return int(refused)


def _compared(
    target: Target, old: TableLock | None, new: TableLock, locked: Mapping[str, TableLock]
) -> tuple[Finding, ...]:
    """The changes of the table, with commands that name it."""
    findings = compare(target.table.name, old, new, gone_tables(target, locked))
    return tuple(finding.named(target.text) for finding in findings)


def gone_tables(target: Target, locked: Mapping[str, TableLock]) -> dict[str, TableLock]:
    """The locked tables that the module no longer declares."""
    declared = {value.name for value in vars(target.module).values() if isinstance(value, Table)}
    return {name: lock for name, lock in locked.items() if name not in declared}


def check(target: str, file: Path, *, as_json: bool) -> int:
    """Compare a table with its description in a lock file.

    Args:
        target: ``module:table``.
        file: the lock file.
        as_json: print the findings as JSON.

    Returns:
        The exit code: 0 if the two are equal, otherwise 1.

    Raises:
        BadValue: the file does not exist, cannot be read, or is not a lock file.
    """
    models = load_target(target)
    old, new = read_file(file), describe(models.schema)
    if old is None:
        raise BadValue(f"there is no file {file}: write it with odm lock {target}, and commit it")
    findings = _compared(models, old.tables.get(models.table.name), new, old.tables)
    if as_json:
        _print_json(models, file, findings, ok=not findings)
    elif findings:
        _print_findings(findings)
    else:
        echo(f"table {models.table.name} matches {file}: {_size(new)}")
        for name in unfilled(old.tables[models.table.name], new, by_fields=False):
            fill = Finding("backfill", name, "not backfilled", fix=backfill_of(name)).named(models.text).fix
            echo(f"{name} is not backfilled, by {file}: {fill}")
    if findings:
        levels = {finding.level for finding in findings}
        accept = " --accept" if "orphans" in levels else ""
        before = "review that, then" if levels == {"safe"} else "when that is done,"
        echo(
            f"odm: table {models.table.name} does not match {file}: {_count(findings)}; "
            f"{before} run odm lock {target}{accept}",
            err=True,
        )
    return int(bool(findings))


def read_file(file: Path) -> LockFile | None:
    """The lock file; None: it does not exist. Raises BadValue."""
    return lock_at(file, "--file")


def note_filled(target: Target, file: Path, names: Collection[str]) -> bool:
    """Record in a lock file that these patterns are backfilled; returns whether the file has changed.

    Raises:
        BadValue: the file cannot be read or written, or is not a lock file.
    """
    lock = lock_at(file, "--file")
    if lock is None or target.table.name not in lock.tables:
        return False
    before = lock.tables[target.table.name]
    after = with_filled(before, describe(target.schema), names)
    if after != before:
        _write(file, lock.model_copy(update={"tables": {**lock.tables, target.table.name: after}}))
    return after != before


def _write(file: Path, lock: LockFile) -> None:
    real = Path(os.path.realpath(file))
    part = real.with_name(f"{real.name}.part")
    try:
        part.write_text(write_lock(lock), encoding="utf-8", newline="\n")
        part.replace(real)  # atomic: the file also holds other tables
    except OSError as error:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise BadValue(f"{file} cannot be written: {error.strerror}; choose another path with --file") from error


def _print_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        echo(str(finding))


def _print_json(target: Target, file: Path, findings: Sequence[Finding], **result: bool) -> None:
    answer: dict[str, Any] = {"table": target.table.name, "file": str(file), **result}
    answer["findings"] = [asdict(finding) for finding in findings]
    echo(json.dumps(answer, indent=2))


def _count(findings: Sequence[Finding]) -> str:
    """Such as "1 change orphans stored data, 2 need a backfill"."""
    levels = Counter(finding.level for finding in findings)
    words: dict[Level, str] = {
        "orphans": "orphans stored data" if levels["orphans"] == 1 else "orphan stored data",
        "backfill": "needs a backfill" if levels["backfill"] == 1 else "need a backfill",
        "safe": "is safe" if levels["safe"] == 1 else "are safe",
    }
    first, *others = [(levels[level], text) for level, text in words.items() if levels[level]]
    whole = f"{first[0]} change{'s' * (first[0] != 1)} {first[1]}"
    return ", ".join([whole, *(f"{number} {text}" for number, text in others)])


def _size(table: TableLock) -> str:
    patterns = sum(len(entity.patterns) for entity in table.entities.values())
    return f"{_plural(len(table.entities), 'entity', 'entities')}, {_plural(patterns, 'pattern', 'patterns')}"


def _plural(number: int, singular: str, plural: str) -> str:
    return f"{number} {singular if number == 1 else plural}"
