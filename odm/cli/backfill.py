"""`odm backfill`: bring stored items up to date with the models, with a progress bar."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, TypeAlias

from attrs import define, field
from pydantic import BaseModel
from typer import echo

from odm.backends.local import LocalFile
from odm.cli.bars import bars
from odm.cli.locations import store_at
from odm.cli.lock import note_filled
from odm.cli.target import load_target
from odm.cli.usage import BadUsage, checked
from odm.errors import BadValue, ItemInvalid
from odm.immutable import Immutable
from odm.patterns.state_file import StateFile
from odm.procedures.upkeep.backfill import MOST_FAILURES, Backfilled, wanted_by
from odm.schema.model import Schema
from odm.stores.sync import Store

FORMAT: Final = 1
"""The version of the state file's format."""

PARTS: Final = 32
"""The parts of the table, read one after the other; the progress bar counts them."""


class Options(Immutable):
    """How to backfill.

    Attributes:
        rate: items to read per second; None: no limit.
        state: the file that records the progress.
        file: the lock file, in which the patterns are recorded as backfilled.
    """

    rate: float | None
    state: Path
    file: Path


class _Failure(BaseModel):
    """An item that was not written."""

    partition: str
    sort: str
    error: str


class _Content(BaseModel):
    """The state file: what is filled and where, and how far it is.

    Attributes:
        parts: the cursor of each part that is not complete.
    """

    format: int
    target: str
    store: str
    parts: list[str]
    done: int = 0
    seen: int = 0
    written: int = 0
    failed: int = 0
    failures: list[_Failure] = []  # pydantic copies it


Show: TypeAlias = Callable[[_Content], object]


def backfill(target: str, filled_name: str, place: str, options: Options, *, as_json: bool) -> int:
    """Backfill a table, and print the result.

    Args:
        target: ``module:table``.
        filled_name: what to fill: ``Order.by_status``, or ``Order`` for whole items.
        place: where the table is, in the syntax of `odm.cli.locations.store_at`.
        options: how.
        as_json: print JSON, without a progress bar.

    Returns:
        The exit code: 1 if an item could not be written.

    Raises:
        BadUsage: there is no such table, target or location, or the state cannot be used.
        OdmError: the models do not compile, or the table cannot be read or written.
    """
    models = load_target(target)
    filled = _filled(models.schema, filled_name)
    with store_at(place, models.table) as store:
        run = _Run(store, filled, filled_name, options.rate, StateFile(options.state, _Content, "a backfill"))
        with checked(after=" with --state"):
            run.load()
        if isinstance(store.backend, LocalFile):  # elsewhere odm apply adds indexes
            with suppress(ItemInvalid):  # the backfill reports it
                store.scan_page(None, size=1)  # fails for a missing file before anything is created
            store.create()
        try:
            with _bar(visible=not as_json) as show:
                run.run(show)
        except BaseException:
            if options.state.exists():
                echo(f"... {run.far.seen:,} items read; to continue, run the same command again", err=True)
            raise
    _say(filled_name, run.far, as_json=as_json)
    if not run.far.failed and note_filled(models, options.file, _patterns(models.schema, filled)):
        echo(f"... {options.file} has {filled_name} as backfilled: commit it when that is so in each place", err=True)
    return int(run.far.failed > 0)


def _patterns(schema: Schema, filled: object) -> list[str]:
    """The access patterns that a backfill fills."""
    return [
        pattern.full_name
        for filling in wanted_by(schema, filled).values()
        for pattern in (filling.entity.patterns.values() if filling.whole else filling.patterns)
    ]


def _filled(schema: Schema, filled_name: str) -> object:
    """The entity, or the attribute of its class, of this name.

    Raises:
        BadUsage: there is no such entity or attribute, or it cannot be filled.
    """
    name, dot, attribute = filled_name.partition(".")
    classes = [entity.cls for entity in schema.entities.values() if entity.name == name]
    if not classes:
        names = ", ".join(entity.name for entity in schema.entities.values() if "." not in entity.name)
        raise BadUsage(f"{filled_name!r}: table {schema.name!r} has no entity {name!r}; it has {names}")
    if len(classes) > 1:
        modules = " and ".join(sorted(cls.__module__ for cls in classes))
        raise BadUsage(f"{filled_name!r}: there is a class {name} in {modules}: rename one; its tag can stay")
    filled: object = getattr(classes[0], attribute, None) if dot else classes[0]
    try:
        wanted_by(schema, filled)
    except BadValue as error:
        entity = schema.by_class[classes[0]]
        known = [*entity.patterns, *(companion.name for companion in entity.companions)]
        fits = ", ".join([name, *(f"{name}.{pattern}" for pattern in known)])
        raise BadUsage(f"{filled_name!r} cannot be filled: write one of {fits}") from error
    return filled


@define
class _Run:
    """One backfill, part after part of the table."""

    store: Store
    filled: object
    filled_name: str
    rate: float | None
    file: StateFile[_Content]
    far: _Content = field(init=False)

    def load(self) -> None:
        """Load the state of an earlier run, if there is one.

        Raises:
            BadValue: the file is not a state, belongs to another backfill, or cannot be read or written.
        """
        store = f"{self.store.name} on {self.store.backend!r}"
        self.far = _Content(format=FORMAT, target=self.filled_name, store=store, parts=[])
        kept_state = self.file.load()
        if kept_state is None:
            return
        if (kept_state.format, kept_state.target, kept_state.store) != (FORMAT, self.filled_name, store):
            kept = f"{kept_state.target} of {kept_state.store}"
            raise BadValue(f"{self.file.path} is the state of a backfill of {kept}: name another file")
        self.far = kept_state

    def run(self, show: Show) -> None:
        """Backfill what is left; deletes the state at the end."""
        if not self.far.parts:
            self.far.parts = self.store.parts(PARTS)
        while self.far.parts:
            before = self.far.model_copy()
            self.store.backfill(
                self.filled,
                rate=self.rate,
                after=self.far.parts[0],
                on_progress=lambda done, before=before: self._note(before, done, show),  # type: ignore[misc]
            )
        self.file.remove()

    def _note(self, before: _Content, done: Backfilled, show: Show) -> None:
        """Record the progress: ``done`` of a part, after what was ``before`` it."""
        others, ended = before.parts[1:], done.cursor is None
        new = [
            _Failure(partition=failure.partition, sort=failure.sort, error=str(failure.error))
            for failure in done.failures
        ]
        self.far = before.model_copy(
            update={
                "parts": others if done.cursor is None else [done.cursor, *others],
                "done": before.done + ended,
                "seen": before.seen + done.seen,
                "written": before.written + done.written,
                "failed": before.failed + done.failed,
                "failures": [*before.failures, *new][:MOST_FAILURES],
            }
        )
        self.file.save(self.far)
        show(self.far)


@contextmanager
def _bar(*, visible: bool) -> Iterator[Show]:
    """A progress bar; yields the function that updates it."""
    with bars(visible=visible) as progress:
        task = progress.add_task("read, parts", total=None, items="")

        def move(far: _Content) -> None:
            items = f"{far.seen:,} items, {far.written:,} written"
            progress.update(task, completed=far.done, total=far.done + len(far.parts), items=items)

        yield move


def _say(filled_name: str, far: _Content, *, as_json: bool) -> None:
    skipped = far.seen - far.written - far.failed
    if as_json:
        answer = far.model_dump(include={"target", "seen", "written", "failed", "failures"})
        echo(json.dumps({**answer, "skipped": skipped}, indent=2))
        return
    for failure in far.failures:
        echo(f"not written: {' | '.join(filter(None, (failure.partition, failure.sort)))}: {failure.error}")
    if far.failed > len(far.failures):
        echo(f"... and {far.failed - len(far.failures):,} more")
    failed = f", {far.failed:,} could not be written" * bool(far.failed)
    echo(f"{filled_name}: {far.seen:,} items read, {far.written:,} written, {skipped:,} right already{failed}")
