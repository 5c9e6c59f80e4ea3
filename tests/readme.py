"""The README's commands and examples, read from it: ``python -m tests.readme tests`` prints a command."""

import re
import sys
from pathlib import Path
from typing import NamedTuple

README = Path(__file__).parent.parent / "README.md"


class Block(NamedTuple):
    """A fenced block: its language with whatever stands behind it, its text, and its first line's number."""

    language: str
    text: str
    line: int


def blocks(page: Path = README) -> list[Block]:
    """The fenced blocks of a page, the README's by default, in order."""
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\S[^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [Block(m[1], m[2], text.count("\n", 0, m.start()) + 2) for m in found]


def command(marker: str, language: str = "sh", page: Path = README) -> str:
    """The text of the block under the comment ``<!-- marker -->``."""
    found = re.search(rf"<!-- {marker} -->\n```{language}\n(.+?)\n```", page.read_text(encoding="utf-8"), re.DOTALL)
    if found is None:
        raise LookupError(f"{page.name} has no command under <!-- {marker} -->")
    return found[1]


if __name__ == "__main__":
    sys.stdout.write(command(sys.argv[1]) + "\n")
