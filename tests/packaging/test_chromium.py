"""Chromium is found where people have it."""

from pathlib import Path

import pytest

from tests.chromium import find
from tests.servers import Missing


def program(path: Path) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


def test_the_variable_takes_precedence_over_path(tmp_path: Path) -> None:
    on_path, named = program(tmp_path / "bin" / "chromium-browser"), program(tmp_path / "named")
    assert find({"PATH": str(on_path.parent)}) == on_path
    assert find({"PATH": str(on_path.parent), "ODM_CHROMIUM": str(named)}) == named


def test_without_one_the_error_says_what_to_do() -> None:
    with pytest.raises(Missing, match="apt-get install chromium"):
        find({"PATH": ""})
