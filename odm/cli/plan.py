"""`odm plan` and `odm apply`: what lies between the models and the table in a cloud, and to make it."""

import json
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attrs import asdict, evolve, frozen
from typer import echo

from odm.cli.clouds import Cloud
from odm.cli.lock import gone_tables, read_file
from odm.cli.target import Target, load_target
from odm.protocol.admin import Admin, Survey, TableChange
from odm.schema.lockfile import OF_KEYS, Finding, compare, describe


@frozen
class Options:
    """What the command line gives to both commands, as it was written."""

    cloud: Cloud
    prefix: str
    drop: bool
    accept: bool
    sample: int
    file: Path


@frozen
class Plan:
    """What is to be done, and what is in the way.

    Attributes:
        table: its name in the cloud.
        changes: of the table; one that is extra is left alone unless it is to be dropped.
        findings: what a change of the models does to stored data, by the lock file and by stored keys.
        read: how many items were compared; None: none.
        accept: orphaned data is no reason to stop.
        drop: changes are to be made that are extra or a problem.
    """

    table: str
    changes: tuple[TableChange, ...]
    findings: tuple[Finding, ...]
    read: int | None
    accept: bool
    drop: bool

    @property
    def to_make(self) -> list[TableChange]:
        """The changes that are to be made."""
        kinds = {"create", "add", "change", *(["extra", "problem"] if self.drop else [])}
        return [change for change in self.changes if change.kind in kinds and change.call is not None]

    @property
    def problems(self) -> list[TableChange]:
        """What is wrong and stays so when the changes are made."""
        made = self.to_make
        return [change for change in self.changes if change.kind == "problem" and change not in made]

    @property
    def done(self) -> bool:
        """Nothing is to be done, neither here nor to stored items."""
        of_items = any(finding.level != "safe" for finding in self.findings)
        return not (self.to_make or self.problems or self.refusals or of_items)

    @property
    def refusals(self) -> list[TableChange | Finding]:
        """Why nothing may be made."""
        orphaned = [] if self.accept else [finding for finding in self.findings if finding.level == "orphans"]
        return [*(change for change in self.changes if change.kind == "refused"), *orphaned]


def plan(target: str, options: Options, *, as_json: bool) -> int:
    """Print what would be done.

    Args:
        target: ``module:table``.
        options: of the command line.
        as_json: print it as JSON.

    Returns:
        The exit code: 0 when there is nothing to do, otherwise 1.

    Raises:
        BadUsage: an option cannot be used.
        OdmError: the models do not compile, or the table cannot be read.
    """
    _, made = _look(target, options)
    if as_json:
        _print_json(made, ok=made.done)
    else:
        _print(made)
    if not made.done:
        echo(f"odm: table {made.table} is not as the models ask: {_count(made)}; {_next(made)}", err=True)
    return int(not made.done)


def apply(target: str, options: Options, *, as_json: bool, yes: bool) -> int:
    """Make what is to be done, unless something is refused.

    Args:
        target: ``module:table``.
        options: of the command line.
        as_json: print what was done as JSON.
        yes: do not ask.

    Returns:
        The exit code: 1 when it was refused, by the table or by who was asked.

    Raises:
        BadUsage: an option cannot be used.
        OdmError: the models do not compile, or the table cannot be read or changed.
    """
    admin, made = _look(target, options)
    if not as_json:
        _print(made)
    stop = ""
    if made.refusals:
        accept = "; to make the changes all the same, add --accept" if _only_orphaned(made) else ""
        stop = f"table {made.table} stays as it is: {_count(made)}{accept}"
    elif made.to_make and not yes and not _agreed(made):
        stop = f"table {made.table} stays as it is: nobody said yes; where nobody is asked, add --yes"
    elif made.to_make:
        admin.apply(drop=made.drop, tell=_tell)
    if as_json:
        _print_json(made, ok=not stop)
    elif not (stop or made.done):
        left = _count(evolve(made, changes=tuple(made.problems)))  # no change of the table fixes what is stored
        but = "but not all is well" if made.problems else "its items are not"
        echo(f"table {made.table} is as the models ask{left and f', {but}: {left}'}")
    if stop:
        echo(f"odm: {stop}", err=True)
    return int(bool(stop))


def _look(target: str, options: Options) -> tuple[Admin, Plan]:
    found = load_target(target)
    schema = evolve(found.schema, name=options.prefix + found.schema.name, prefix=options.prefix)
    admin = options.cloud.admin(schema)
    survey = admin.survey(options.sample)
    findings = (*_locked(found, options.file, survey), *survey.findings)
    return admin, Plan(schema.name, survey.changes, findings, survey.read, options.accept, options.drop)


def _locked(found: Target, file: Path, survey: Survey) -> tuple[Finding, ...]:
    """What was changed about keys since the models were locked; a table without items has nothing to orphan."""
    lock = read_file(file)
    empty = survey.read == 0 or any(change.kind == "create" for change in survey.changes)
    if lock is None or found.table.name not in lock.tables or empty:
        return ()
    gone = gone_tables(found, lock.tables)
    findings = compare(found.table.name, lock.tables[found.table.name], describe(found.schema), gone)
    return tuple(finding for finding in findings if finding.change in OF_KEYS and finding.level != "safe")


def _only_orphaned(made: Plan) -> bool:
    return all(isinstance(refusal, Finding) for refusal in made.refusals)


def _agreed(made: Plan) -> bool:
    """Ask whoever sits at the terminal."""
    echo(f"Make {_changes(made)} to table {made.table}? [y/N] ", nl=False, err=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _tell(change: TableChange) -> None:
    """Say which change is begun."""
    verb = {"extra": "remove", "problem": "change"}.get(change.kind, change.kind)
    echo(f"... {verb} {change.what}", err=True)


def _next(made: Plan) -> str:
    """What to do about a plan."""
    if made.refusals:
        return "see to the stored data first" if _only_orphaned(made) else "see to what is refused"
    if made.to_make:
        return "odm apply with the same options makes them"
    return "see to the problems" if made.problems else "write the items again"


def _print(made: Plan) -> None:
    lines: Sequence[TableChange | Finding] = (*made.changes, *made.findings)
    for line in lines:
        echo(str(line))
    if made.done:
        looked = f", and so are the keys of {made.read} items" if made.read and not made.findings else ""
        echo(f"table {made.table} is as the models ask{looked}")


def _print_json(made: Plan, *, ok: bool) -> None:
    answer: dict[str, Any] = {"table": made.table, "ok": ok, "refused": bool(made.refusals), "items": made.read}
    answer["changes"] = [{"kind": one.kind, "what": one.what, "text": one.text} for one in made.changes]
    answer["findings"] = [asdict(finding) for finding in made.findings]
    echo(json.dumps(answer, indent=2))


def _count(made: Plan) -> str:
    """Such as "1 change, 2 refused"."""
    levels = Counter(finding.level for finding in made.findings)
    refused = sum(change.kind == "refused" for change in made.changes)
    words = [
        (refused, "refused"),
        (len(made.problems), "problem" if len(made.problems) == 1 else "problems"),
        (levels["orphans"], "orphans stored data" if levels["orphans"] == 1 else "orphan stored data"),
        (levels["backfill"], "needs a backfill" if levels["backfill"] == 1 else "need a backfill"),
    ]
    said = [f"{number} {text}" for number, text in words if number]
    return ", ".join([_changes(made), *said] if made.to_make else said)


def _changes(made: Plan) -> str:
    return "1 change" if len(made.to_make) == 1 else f"{len(made.to_make)} changes"
