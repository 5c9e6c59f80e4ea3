"""How the demo looks: progress bars while it loads, then each question with its code, plan and answer.

Made for 80 columns and more, for colours and for none: nothing here decides by itself whether there is a terminal, rich
does.
"""

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from itertools import groupby
from typing import Any

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress import Progress
from rich.syntax import Syntax
from rich.text import Text

from odm import Entity
from odm.cli.demo.models import Airport, Customer, Order
from odm.cli.demo.questions import PAGE_SIZE, Answer, Question, ship
from odm.results import Explanation

INDENT = 2
ROWS = 5
"""Rows of an answer that are shown; the rest is counted."""

COLUMNS: dict[type[Entity], tuple[str, ...]] = {
    Airport: ("iata", "name", "city", "state", "country"),
    Customer: ("customer_id", "name", "country", "email"),
    Order: ("order_id", "customer_id", "placed_at", "total", "warehouse", "status"),
}

BRIEF = 2
"""Rows of an answer where three questions share a screen."""

SENDING = {
    "query": "db.query(query)",
    "count": "db.count(query)",
    "page": f"page = db.page(query, size={PAGE_SIZE})\ndb.page(query, size={PAGE_SIZE}, after=page.cursor)",
}


def track(console: Console, items: Sequence[Entity], name: str) -> Iterable[Entity]:
    """Pass the items on, with a progress bar on a terminal."""
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        yield from progress.track(items, description=f"  {name:<10}")
    console.print(f"  {name:<10} {len(items):>6,} items loaded")


def show_question(console: Console, number: int, question: Question, answer: Answer) -> None:
    """A query: in plain words, in Python, its plan and its answer."""
    code = body_of(question.query).replace("return ", "query = ") + "\n" + SENDING[question.send]
    _show(console, number, question.query, code, answer)
    items = "item" if answer.total == 1 else "items"
    _show_end(console, f"{answer.total:,} {items} in {_time(answer.seconds)}")


def show_briefly(console: Console, number: int, question: Question, answer: Answer) -> None:
    """A query in a few lines: in plain words, in Python, what it reads, and its first results."""
    words, _, _ = (inspect.getdoc(question.query) or "").partition("\n\n")
    console.rule(f"{number}  {words}", align="left", style="dim")
    _show_code(console, f"db.query({body_of(question.query).removeprefix('return ')})")
    plan = dict(answer.plan.rows())
    ranged = "" if plan.get("sort key") in {None, "all"} else f", sort key {plan['sort key']}"
    _print_filled(console, f"reads {plan['index']}: partition {plan['partition']}{ranged}", "dim")
    items = answer.parts[0][1]
    _show_table_of(console, items[:BRIEF])
    _print_line(console, Text(f"{answer.total:,} items in {_time(answer.seconds)}", "green"))


def show_shipping(console: Console, number: int, answer: Answer) -> None:
    """The update: the same, with the index before and after it."""
    _show(console, number, ship, body_of(ship), answer)
    _show_end(console, f"1 order updated in {_time(answer.seconds)}, then set back for the next run")


def _show(console: Console, number: int, asked: Callable[..., Any], code: str, answer: Answer) -> None:
    words, _, remark = (inspect.getdoc(asked) or "").partition("\n\n")
    console.print()
    console.rule(f"{number}  {words}", align="left", style="dim")
    if remark:
        _print_filled(console, remark, "italic")
        console.print()
    _show_code(console, code)
    console.print()
    _show_plan(console, answer.plan)
    for caption, items in answer.parts:
        console.print()
        if caption:
            _print_line(console, Text(caption, "bold"))
        _show_items(console, items)


def _show_code(console: Console, code: str) -> None:
    highlighted = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code)
    for line in highlighted.split():
        _print_line(console, line)


def _show_plan(console: Console, plan: Explanation) -> None:
    """What `print(db.explain(...))` prints, less the call, which stands above it, and the native request."""
    for name, text in plan.rows():
        if name not in {"call", "native"}:
            _print_filled(console, f"{name:<10} {text}", "dim", hanging=11)


def _show_items(console: Console, items: Sequence[Entity]) -> None:
    """The first items, a table for each run of one entity, and how many more there are."""
    rows = items[:ROWS]
    _show_table_of(console, rows)
    if len(items) > len(rows):
        _print_line(console, Text(f"... and {len(items) - len(rows):,} more", "dim"))


def _show_table_of(console: Console, items: Sequence[Entity]) -> None:
    for number, (entity, group) in enumerate(groupby(items, key=type)):
        if number:
            console.print()
        _show_table(console, COLUMNS[entity], [[_cell(getattr(i, name)) for name in COLUMNS[entity]] for i in group])


def _show_table(console: Console, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need be; a rich table would fill lines with spaces, which a pipe would keep."""
    widths = [max(map(cell_len, column)) for column in zip(head, *rows, strict=True)]
    for style, row in (("cyan", head), *(("", row) for row in rows)):
        cells = (set_cell_size(cell, width) for cell, width in zip(row, widths, strict=True))
        _print_line(console, Text("  ".join(cells).rstrip(), style))


def _print_filled(console: Console, text: str, style: str, *, hanging: int = 0) -> None:
    """Print a paragraph broken at the console's width, all lines but the first ``hanging`` further in."""
    indent = " " * INDENT
    filled = textwrap.fill(
        text,
        console.width,
        initial_indent=indent,
        subsequent_indent=indent + " " * hanging,
        break_on_hyphens=False,
    )
    console.print(Text(filled, style))


def _print_line(console: Console, line: Text) -> None:
    console.print(Text(" " * INDENT) + line, no_wrap=True, overflow="ellipsis")


def _show_end(console: Console, text: str) -> None:
    console.print()
    _print_line(console, Text(text, "green"))


def body_of(function: Callable[..., Any]) -> str:
    """The source of a function without its head and docstring: what runs is what is shown."""
    source = textwrap.dedent(inspect.getsource(function))
    [tree] = ast.parse(source).body
    assert isinstance(tree, ast.FunctionDef)
    return textwrap.dedent("\n".join(source.splitlines()[tree.body[1].lineno - 1 :]))


def _cell(value: object) -> str:
    if isinstance(value, datetime):
        return f"{value:%Y-%m-%d %H:%M}"
    return f"{value:7.2f}" if isinstance(value, Decimal) else str(value)


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"
