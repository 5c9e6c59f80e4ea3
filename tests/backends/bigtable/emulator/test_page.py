"""The examples of docs/bigtable_emulator.md run, and print what it shows."""

import contextlib
import io
from pathlib import Path
from typing import Any

import pytest

from tests.readme import blocks

pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[4] / "docs" / "bigtable_emulator.md"

pytest_plugins = ["pytester"]


def test_its_examples_run(pytester: pytest.Pytester) -> None:
    first, printed, tests = [one for one in blocks(PAGE) if one.language in ("python", "python pytest", "text")]
    with contextlib.redirect_stdout(io.StringIO()) as output:
        names: dict[str, Any] = {"__name__": "page"}
        exec(compile(first.text, "page.md", "exec"), names)
    assert output.getvalue() == printed.text
    pytester.makepyfile(f"{first.text}\n\n{tests.text}")
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
