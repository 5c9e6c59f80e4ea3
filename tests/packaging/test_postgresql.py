"""PostgreSQL is found where people have it."""

from pathlib import Path

import pytest

from tests import postgresql
from tests.postgresql import find
from tests.servers import Missing


def programs(folder: Path) -> Path:
    folder.mkdir(parents=True)
    for name in postgresql.PROGRAMS:
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where Debian would install it, so that one of this machine does not answer for a test."""
    monkeypatch.setattr(postgresql, "INSTALLED", tmp_path / "installed")
    return tmp_path / "installed"


def test_the_variable_takes_precedence(tmp_path: Path) -> None:
    named, on_path = programs(tmp_path / "named"), programs(tmp_path / "bin")
    assert find({"ODM_POSTGRESQL": str(named), "PATH": str(on_path)}) == named
    with pytest.raises(Missing, match="gone is not a folder with the programs initdb and postgres"):
        find({"ODM_POSTGRESQL": str(tmp_path / "gone"), "PATH": str(on_path)})


def test_path_takes_precedence_over_an_installed_one(tmp_path: Path, installed: Path) -> None:
    programs(installed / "15" / "bin")
    on_path = programs(tmp_path / "bin")
    assert find({"PATH": str(on_path)}) == on_path


def test_the_newest_installed_one_is_found(installed: Path) -> None:
    for version in ("9.6", "15", "17"):
        programs(installed / version / "bin")
    assert find({"PATH": ""}) == installed / "17" / "bin"


def test_without_one_the_error_says_what_to_do() -> None:
    with pytest.raises(Missing, match="apt-get install postgresql"):
        find({"PATH": ""})
