"""Tables of text: drawn by rich in a terminal; elsewhere plain columns, one row per line at any width."""

from collections.abc import Sequence
from typing import Final

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLUMNS: Final = 80
"""The width if the terminal reports 0, at which rich prints nothing."""


def make_console() -> Console:
    """A console without markup or highlighting: names may contain brackets and numbers."""
    console = Console(markup=False, highlight=False, emoji=False)
    if not console.width:
        console.width = COLUMNS
    return console


def show_table(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a title, without empty columns; print nothing if it has no rows."""
    columns = [column for column in zip(head, *rows, strict=True) if any(column[1:])]
    if not columns:
        return
    names, *lines = zip(*columns, strict=True)
    if console.is_terminal:
        table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        for name in names:
            table.add_column(name, overflow="fold")  # show keys in full
        for line in lines:
            table.add_row(*map(Text, line))
        console.print(table)
        return
    widths = [max(map(cell_len, column)) for column in columns]
    texts = (
        "  ".join(set_cell_size(cell, width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in (names, *lines)
    )
    console.print(Text("\n".join((title, *texts, ""))), soft_wrap=True)
