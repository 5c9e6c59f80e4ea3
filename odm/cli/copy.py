"""`odm copy`: copy a table from one location to another, with a progress bar."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from attrs import asdict
from typer import echo

from odm.cli.ask import NOT_CONFIRMED, may_replace_items
from odm.cli.bars import bars
from odm.cli.locations import store_at
from odm.cli.target import load_target
from odm.cli.usage import checked
from odm.immutable import Immutable
from odm.patterns.copy import Copied, Tell, names_of
from odm.patterns.copy import Progress as Far
from odm.patterns.copy import copy as run_copy
from odm.patterns.copy_state import State


class Options(Immutable):
    """How to copy; see `odm.patterns.copy.Options`. ``yes``: do not ask before items are replaced."""

    parallel: int
    rate: float | None
    state: Path
    into_existing: bool
    verify: bool
    yes: bool


def copy(target: str, source: str, to: str, options: Options, *, as_json: bool) -> int:
    """Copy a table, and print the result.

    Args:
        target: ``module:table``.
        source: a location, in the syntax of `store_at`.
        to: the location to copy to.
        options: how.
        as_json: print JSON, without a progress bar.

    Returns:
        The exit code: 1 if the two sides differ afterwards, or the user did not confirm.

    Raises:
        BadUsage: the models have no such table, a location is not valid, or the state cannot be used.
        OdmError: the models do not compile, or an item cannot be read or written.
    """
    table = load_target(target).table
    with store_at(source, table) as here, store_at(to, table) as there:
        here.scan_page(None, size=1)  # fails for a missing source before anything is created at the target
        with checked(after=" with --state"):
            State(options.state).load(names_of(here, there))
        there.create()
        if options.into_existing and not (
            options.yes or options.state.exists() or may_replace_items(there, f"Copy into table {there.name}")
        ):
            echo(f"odm: table {there.name} is unchanged: the copy was {NOT_CONFIRMED}", err=True)
            return 1
        far = Far(0, 0, 0)

        def note(progress: Far) -> None:
            nonlocal far
            far = progress
            show(progress)

        try:
            with _bar(visible=not as_json) as show:
                done = run_copy(
                    here,
                    there,
                    parallel=options.parallel,
                    rate=options.rate,
                    state=options.state,
                    into_existing=options.into_existing,
                    check=options.verify,
                    tell=note,
                )
        except BaseException:
            if options.state.exists():
                echo(f"... {far.copied:,} items copied; to continue, run the same command again", err=True)
            raise
    _say(done, as_json=as_json)
    return 0 if done.verified is None or done.verified.same else 1


@contextmanager
def _bar(*, visible: bool) -> Iterator[Tell]:
    """A progress bar; yields the function that updates it."""
    with bars(visible=visible) as progress:
        copied = progress.add_task("copied, parts", total=None, items="")
        compared = progress.add_task("compared, items", total=None, items="", visible=False)

        def move(far: Far) -> None:
            progress.update(copied, completed=far.done, total=far.parts, items=f"{far.copied:,} items")
            if far.compared:
                progress.update(compared, completed=far.compared, total=2 * far.copied, visible=True)

        yield move


def _say(done: Copied, *, as_json: bool) -> None:
    verified = done.verified
    if as_json:
        same = None if verified is None else verified.same
        echo(json.dumps({"items": done.items, "same": same, "verified": verified and asdict(verified)}, indent=2))
        return
    echo(f"{done.items:,} items copied")
    if verified is None:
        return
    if verified.same:
        echo(f"{verified.items:,} items are the same on both sides, by count and checksum of each partition")
    for difference in verified.differences:
        echo(f"differs: {difference}")
    if verified.more:
        echo(f"... and more: {verified.more} groups of partitions also differ; the partitions were not listed")
