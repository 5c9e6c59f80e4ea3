"""Progress bars on the error output."""

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn


@contextmanager
def bars(*, visible: bool) -> Iterator[Progress]:
    """Progress bars, if the error output is a terminal; the field ``items`` of a task is the text after its bar."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[items]}"),
        TimeElapsedColumn(),
    )
    console = Console(stderr=True)
    with Progress(*columns, console=console, disable=not (visible and console.is_terminal)) as progress:
        yield progress
