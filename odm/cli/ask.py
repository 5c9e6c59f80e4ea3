"""The question before a command removes or overwrites something."""

import sys

from typer import echo

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


def number_of(count: int, what: str) -> str:
    """A number and what is counted: ``1 blob``, ``1,234 blobs``."""
    return f"{count:,} {what}{'s' * (count != 1)}"
