"""docs/bigtable.md is correct: its examples run on the emulator and print what it shows, except ids and times."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

from tests.readme import blocks

PAGE = Path(__file__).parents[3] / "docs" / "bigtable.md"


def same(text: str) -> str:
    """The text without ids and times."""
    return re.sub(r"\b[0-9a-f]{20}\b", "<id>", re.sub(r"@ \d{4}/\d\d/\d\d-\d\d:\d\d:\d\d\.\d{6}", "@", text))


def test_examples_run_and_print_what_the_page_shows(bigtable_emulator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
    names: dict[str, Any] = {"__name__": "__main__"}
    printed, compared = "", 0
    for block in blocks(PAGE):
        if block.language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile("\n" * (block.line - 1) + block.text, PAGE, "exec"), names)
            printed = output.getvalue()
        elif block.language == "text":
            assert same(printed) == same(block.text)
            compared += 1
    for store in ("db", "library", "accounts"):
        names[store].close()
    assert compared == 8
