"""`odm plan` and `odm apply`: the changes from the table in a cloud to the models, and making them."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import asdict
from typer import echo

from odm.cli.ask import NOT_CONFIRMED, agreed
from odm.cli.clouds import Cloud
from odm.cli.lock import gone_tables, read_file
from odm.cli.target import Target, load_target
from odm.immutable import Immutable, evolve
from odm.protocol.admin import Admin, Survey, TableChange
from odm.schema.lockfile import OF_KEYS, Finding, backfill_of, compare, describe, unfilled
from odm.schema.lockfile.finding import TARGET


class Options(Immutable):
    """The options of both commands, unparsed."""

    cloud: Cloud
    prefix: str
    drop: bool
    accept: bool
    sample: int
    file: Path
    remove_most: bool = False


class Plan(Immutable):
    """The changes to make, and what prevents them.

    Attributes:
        table: its name in the cloud.
        changes: changes of the table; what is extra is kept unless ``drop`` is set.
        findings: how changed models affect stored data, from the lock file and from stored keys.
        read: the number of items that were compared; None: none.
        accept: continue even if stored items are orphaned.
        drop: also delete what is extra, and fix problems that deletes can fix.
        indexes: how many indexes the table has now.
    """

    table: str
    changes: tuple[TableChange, ...]
    findings: tuple[Finding, ...]
    read: int | None
    accept: bool
    drop: bool
    indexes: int = 0

    @property
    def removals(self) -> list[TableChange]:
        """The changes to make that delete stored data."""
        return [change for change in self.to_make if change.kind in ("extra", "problem")]

    @property
    def removed_indexes(self) -> list[TableChange]:
        """The changes to make that delete an index."""
        return [change for change in self.removals if change.what.startswith("index ")]

    @property
    def to_make(self) -> list[TableChange]:
        """The changes to make."""
        kinds = {"create", "add", "change", *(["extra", "problem"] if self.drop else [])}
        return [change for change in self.changes if change.kind in kinds and change.call is not None]

    @property
    def problems(self) -> list[TableChange]:
        """The problems that the changes do not fix."""
        pending = self.to_make
        return [change for change in self.changes if change.kind == "problem" and change not in pending]

    @property
    def done(self) -> bool:
        """Whether there is nothing to do, neither to the table nor to stored items."""
        of_items = any(finding.level != "safe" for finding in self.findings)
        return not (self.to_make or self.problems or self.refusals or of_items)

    @property
    def refusals(self) -> list[TableChange | Finding]:
        """The reasons why no change may be made."""
        orphaned = [] if self.accept else [finding for finding in self.findings if finding.level == "orphans"]
        return [*(change for change in self.changes if change.kind == "refused"), *orphaned]


def plan(target: str, options: Options, *, as_json: bool) -> int:
    """Print the changes that `apply` would make.

    Args:
        target: ``module:table``.
        options: of the command line.
        as_json: print it as JSON.

    Returns:
        The exit code: 0 if there is nothing to do, otherwise 1.

    Raises:
        BadUsage: an option cannot be used.
        OdmError: the models do not compile, or the table cannot be read.
    """
    _, table_plan = _look(target, options)
    if as_json:
        _print_json(table_plan, ok=table_plan.done)
    else:
        _print(table_plan)
    if not table_plan.done:
        differs = f"odm: table {table_plan.table} does not match the models"
        echo(f"{differs}: {_count(table_plan)}; {_next(table_plan)}", err=True)
    return int(not table_plan.done)


def apply(target: str, options: Options, *, as_json: bool, yes: bool) -> int:
    """Make the changes, unless one of them is refused.

    Args:
        target: ``module:table``.
        options: of the command line.
        as_json: print the changes as JSON.
        yes: do not ask.

    Returns:
        The exit code: 1 if a change was refused or the user did not confirm.

    Raises:
        BadUsage: an option cannot be used.
        OdmError: the models do not compile, or the table cannot be read or changed.
    """
    admin, table_plan = _look(target, options)
    if not as_json:
        _print(table_plan)
    stop = ""
    if table_plan.refusals:
        accept = "; to make the changes anyway, add --accept" if _only_orphaned(table_plan) else ""
        stop = f"table {table_plan.table} is unchanged: {_count(table_plan)}{accept}"
    elif 2 * len(table_plan.removed_indexes) > table_plan.indexes and not options.remove_most:
        stop = (
            f"table {table_plan.table} is unchanged: --drop would delete {len(table_plan.removed_indexes)} of its "
            f"{table_plan.indexes} indexes: check that these are the models of this table; if they are, add "
            "--remove-most"
        )
    elif table_plan.to_make and not yes and not agreed(_question(table_plan)):
        stop = f"table {table_plan.table} is unchanged: the changes were {NOT_CONFIRMED}"
    elif table_plan.to_make:
        admin.apply(drop=table_plan.drop, tell=_tell)
    if as_json:
        _print_json(table_plan, ok=not stop)
    elif not (stop or table_plan.done):
        # Changes of the table do not fix stored items.
        remaining = _count(evolve(table_plan, changes=tuple(table_plan.problems)))
        but = "but problems remain" if table_plan.problems else "but its items do not"
        echo(f"table {table_plan.table} matches the models{remaining and f', {but}: {remaining}'}")
    if stop:
        echo(f"odm: {stop}", err=True)
    return int(bool(stop))


def _look(target: str, options: Options) -> tuple[Admin, Plan]:
    models = load_target(target)
    schema = evolve(models.schema, name=options.prefix + models.schema.name, prefix=options.prefix)
    admin = options.cloud.admin(schema)
    survey = admin.survey(options.sample)
    findings = (*_locked(models, options, survey), *survey.findings)
    if schema.verbatim and options.cloud.backend == "dynamodb":  # on Bigtable, odm keeps the indexes of such a table
        findings = tuple(map(_without_backfill, findings))
    named = tuple(finding.named(models.text, options.cloud.location(options.prefix)) for finding in findings)
    table_plan = Plan(schema.name, survey.changes, named, survey.read, options.accept, options.drop)
    missing = sum(change.kind == "add" and change.what.startswith("index ") for change in table_plan.changes)
    return admin, evolve(table_plan, indexes=len(schema.indexes) - missing + len(table_plan.removed_indexes))


def _without_backfill(finding: Finding) -> Finding:
    """The finding on a table of other programs, which no backfill may write: its keys are theirs."""
    if TARGET not in finding.fix:
        return finding
    level = "rewrites" if finding.level == "backfill" else finding.level
    fix = (
        "let the model make the keys that the other programs write, with a template, when= or a field that may be None"
    )
    return evolve(finding, level=level, fix=fix)


def _locked(target: Target, options: Options, survey: Survey) -> tuple[Finding, ...]:
    """Changes of keys since the models were locked; a table without items has nothing to orphan."""
    lock = read_file(options.file)
    empty = survey.read == 0 or any(change.kind == "create" for change in survey.changes)
    if lock is None or target.table.name not in lock.tables or empty:
        return ()
    gone = gone_tables(target, lock.tables)
    locked, models = lock.tables[target.table.name], describe(target.schema)
    if options.cloud.backend == "bigtable":  # which has no key attributes: odm writes the entries of every index
        locked, models = (side.model_copy(update={"index_keys": {}}) for side in (locked, models))
    findings = compare(target.table.name, locked, models, gone)
    of_keys = tuple(finding for finding in findings if finding.change in OF_KEYS and finding.level != "safe")
    effect = "stored items may be missing from the results of its queries"
    waiting = (
        Finding("backfill", name, "not backfilled", effect=effect, fix=backfill_of(name))
        for name in unfilled(locked, models, by_fields=options.cloud.backend == "dynamodb")
    )
    moved = {finding.where for finding in of_keys}
    return of_keys + tuple(finding for finding in waiting if finding.where not in moved)


def _only_orphaned(table_plan: Plan) -> bool:
    return all(isinstance(refusal, Finding) for refusal in table_plan.refusals)


def _question(table_plan: Plan) -> str:
    removed = [f"{change.what} ({change.held})" if change.held else change.what for change in table_plan.removals]
    more = f"; {len(removed)} of which delete data: {', '.join(removed)}" if removed else ""
    return f"Make {_changes(table_plan)} to table {table_plan.table}{more}?"


def _tell(change: TableChange) -> None:
    """Print the change that begins."""
    verb = {"extra": "remove", "problem": "change"}.get(change.kind, change.kind)
    echo(f"... {verb} {change.what}", err=True)


def _next(table_plan: Plan) -> str:
    """What to do next about a plan."""
    if table_plan.refusals:
        return "fix the stored items first" if _only_orphaned(table_plan) else "fix what is refused first"
    if table_plan.to_make:
        return "odm apply with the same options makes the changes"
    if table_plan.problems:
        return "fix the problems"
    levels = {finding.level for finding in table_plan.findings}
    if "unknown" in levels:
        return "declare the entities of these items, or fix them"
    return "declare what a put would change" if "rewrites" in levels else "backfill the items"


def _print(table_plan: Plan) -> None:
    lines: Sequence[TableChange | Finding] = (*table_plan.changes, *table_plan.findings)
    for line in lines:
        echo(str(line))
    if table_plan.done:
        looked = (
            f", and so do the keys of {table_plan.read} items" if table_plan.read and not table_plan.findings else ""
        )
        echo(f"table {table_plan.table} matches the models{looked}")


def _print_json(table_plan: Plan, *, ok: bool) -> None:
    answer: dict[str, Any] = {
        "table": table_plan.table,
        "ok": ok,
        "refused": bool(table_plan.refusals),
        "items": table_plan.read,
    }
    answer["changes"] = [
        {"kind": change.kind, "what": change.what, "text": change.text} | ({"held": change.held} if change.held else {})
        for change in table_plan.changes
    ]
    answer["findings"] = [asdict(finding) for finding in table_plan.findings]
    echo(json.dumps(answer, indent=2))


def _count(table_plan: Plan) -> str:
    """Such as "1 change, 2 refused"."""
    levels = Counter(finding.level for finding in table_plan.findings)
    refused = sum(change.kind == "refused" for change in table_plan.changes)
    words = [
        (refused, "refused"),
        (len(table_plan.problems), "problem" if len(table_plan.problems) == 1 else "problems"),
        (levels["orphans"], "orphans stored data" if levels["orphans"] == 1 else "orphan stored data"),
        (levels["rewrites"], f"attribute{'s' * (levels['rewrites'] > 1)} that a put would change"),
        (levels["unknown"], f"kind{'s' * (levels['unknown'] > 1)} of items that no entity reads"),
        (levels["backfill"], "needs a backfill" if levels["backfill"] == 1 else "need a backfill"),
    ]
    said = [f"{number} {text}" for number, text in words if number]
    return ", ".join([_changes(table_plan), *said] if table_plan.to_make else said)


def _changes(table_plan: Plan) -> str:
    return "1 change" if len(table_plan.to_make) == 1 else f"{len(table_plan.to_make)} changes"
