"""One run of the demo: find or load the data, then ask the questions."""

from functools import partial
from pathlib import Path
from time import perf_counter

from rich.console import Console

from odm import Store
from odm.backends.local import LocalFile
from odm.cli.demo import models
from odm.cli.demo.load import load, loaded
from odm.cli.demo.questions import FIRST, QUESTIONS, ask, ask_to_ship
from odm.cli.demo.show import show_briefly, show_question, show_shipping, track


def run(file: Path, console: Console, *, reset: bool, every: bool) -> None:
    """Run the demo on a file.

    Args:
        file: the database file; created if it does not exist.
        console: where to print.
        reset: load the data again even if it is there.
        every: show all questions; otherwise three, on one screen.

    Raises:
        BackendError: the file cannot be used, such as one of another program.
        Unsupported: the data cannot be loaded, because the airports are not installed.
    """
    with Store(models.demo, LocalFile(file)) as db:
        db.create()
        data = None if reset else loaded(db)
        if data is None:
            console.print(f"Loading {file}", style="bold")
            start = perf_counter()
            try:
                data = load(db, partial(track, console))
            except KeyboardInterrupt:
                console.print("  interrupted: the next run loads again", style="yellow")
                raise
            console.print(f"  done in {perf_counter() - start:.1f} s; the next run finds it loaded", style="green")
        else:
            console.print(f"Found the data of an earlier run in {file} (--reset loads it again):", style="bold")
            console.print(f"  {data.airports:,} airports, {data.customers:,} customers, {data.orders:,} orders")
        if every:
            for number, question in enumerate(QUESTIONS, start=1):
                show_question(console, number, question, ask(db, question))
            show_shipping(console, len(QUESTIONS) + 1, ask_to_ship(db))
            console.print(f"\nRead next: {models.__file__}", soft_wrap=True)
        else:
            for number, question in enumerate(FIRST, start=1):
                show_briefly(console, number, question, ask(db, question))
            console.print("odm demo --all shows all fourteen, with their plans", style="bold")
