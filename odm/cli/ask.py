"""The question before a command removes or overwrites something."""

import sys
from typing import TYPE_CHECKING

from typer import echo

if TYPE_CHECKING:
    from odm.stores.sync import Store

NOT_CONFIRMED = "not confirmed; to skip the question, add --yes"
"""The end of the message of a command that was not confirmed, or that has nobody to ask."""


def agreed(question: str) -> bool:
    """Ask at the terminal; without an answer, as in a scheduled job, it is no.

    Args:
        question: what would be done and to how much, with a question mark.
    """
    echo(f"{question} [y/N] ", nl=False, err=True)
    if sys.stdin is None or sys.stdin.closed:
        return False
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def may_replace_items(store: "Store", action: str) -> bool:
    """Ask before a command writes to a table that has items; not if it has none.

    Args:
        store: the table.
        action: what the command does, such as "Copy into table shop".

    Raises:
        ItemInvalid: the table has an item that no model has.
    """
    cursor: str | None = None
    while True:
        page = store.scan_page(cursor, size=1, expired=True)
        if page.items:
            return agreed(f"{action}, which has {store.measure()}, and replace items with the same keys?")
        if page.cursor is None:
            return True
        cursor = page.cursor


def number_of(count: int, noun: str) -> str:
    """A number and what is counted: ``1 blob``, ``1,234 blobs``."""
    return f"{count:,} {noun}{'s' * (count != 1)}"
