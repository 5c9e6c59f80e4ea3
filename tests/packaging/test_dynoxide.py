"""Dynoxide is found where people have it."""

from pathlib import Path

import pytest

from tests import dynoxide
from tests.dynoxide import find
from tests.servers import Missing


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a built one would be, so that one in this checkout does not answer for a test."""
    path = tmp_path / "cache" / "dynoxide"
    monkeypatch.setattr(dynoxide, "BUILT", path)
    return path


def test_the_variable_wins(tmp_path: Path) -> None:
    named, on_path = program(tmp_path / "named"), program(tmp_path / "bin" / "dynoxide")
    assert find({"ODM_DYNOXIDE": str(named), "PATH": str(on_path.parent)}) == named


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "dynoxide")
    with pytest.raises(Missing, match="gone is not a program"):
        find({"ODM_DYNOXIDE": str(tmp_path / "gone"), "PATH": str(on_path.parent)})


def test_path_comes_before_one_that_was_built(tmp_path: Path, built: Path) -> None:
    program(built)
    on_path = program(tmp_path / "bin" / "dynoxide")
    assert find({"PATH": str(on_path.parent)}) == on_path


def test_one_that_was_built_is_found(built: Path) -> None:
    program(built)
    assert find({"PATH": ""}) == built


def test_none_says_what_to_do() -> None:
    with pytest.raises(Missing, match=r"python -m tests\.dynoxide fetch"):
        find({"PATH": ""})
