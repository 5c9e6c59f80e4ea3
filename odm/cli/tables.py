"""Tables of text: drawn by rich in a terminal; elsewhere plain columns, a row a line whatever the width."""

from collections.abc import Sequence

from rich import box
from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.table import Table
from rich.text import Text


def show_table(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with a title; nothing when it has no rows."""
    if not rows:
        return
    if console.is_terminal:
        table = Table(*head, title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
        for row in rows:
            table.add_row(*map(Text, row))
        console.print(table)
        return
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    lines = (
        "  ".join(set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in (head, *rows)
    )
    console.print(Text("\n".join((title, *lines, ""))), soft_wrap=True)
