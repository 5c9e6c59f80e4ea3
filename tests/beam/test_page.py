"""The page on Beam: its examples run."""

import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.readme import blocks

pytest.importorskip("apache_beam", reason="apache_beam is not installed: see the extra test-beam")

PAGE = Path(__file__).parents[2] / "docs" / "beam.md"


def test_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import apache_beam as beam  # pyright: ignore[reportMissingImports]
    from apache_beam.runners.portability.fn_api_runner import (  # pyright: ignore[reportMissingImports]
        FnApiRunner,
    )

    monkeypatch.setattr(beam, "Pipeline", partial(beam.Pipeline, FnApiRunner()))
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(PAGE):
        if file := re.search(r"file=(\S+)", block.language):
            Path(file[1]).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            exec(compile("\n" * (block.line - 1) + block.text, PAGE.name, "exec"), names)
    assert names["found"] is not None
    sys.modules.pop("jobs", None)
