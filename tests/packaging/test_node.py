"""The JavaScript libraries of the pages are found where people have them, in the versions that were tried."""

import json
from pathlib import Path

import pytest

from tests import node
from tests.node import VERSIONS, find
from tests.servers import Missing


def modules(folder: Path, **versions: str) -> Path:
    """A folder with all packages, in these versions."""
    for package, version in (VERSIONS | versions).items():
        (folder / package).mkdir(parents=True)
        (folder / package / "package.json").write_text(json.dumps({"name": package, "version": version}))
    return folder


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which Node is."""
    program = tmp_path / "bin" / "node"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    return str(program.parent)


@pytest.fixture(autouse=True)
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where they would be installed, so that those in this checkout do not answer for a test."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(node, "INSTALLED", folder)
    return folder / "node_modules"


def test_the_variable_wins(tmp_path: Path, path: str, installed: Path) -> None:
    modules(installed)
    named = modules(tmp_path / "named")
    assert find({"ODM_NODE_MODULES": str(named), "PATH": path}) == named


def test_those_that_were_installed_are_found(path: str, installed: Path) -> None:
    modules(installed)
    assert find({"PATH": path}) == installed


def test_another_version_is_an_error(path: str, installed: Path) -> None:
    modules(installed, dynamoose="1.0.0")
    with pytest.raises(Missing, match=r"no dynamoose 4\.2\.0 in .*python -m tests\.node fetch"):
        find({"PATH": path})


def test_none_says_what_to_do(path: str) -> None:
    with pytest.raises(Missing, match=r"python -m tests\.node fetch"):
        find({"PATH": path})


def test_without_node_they_are_of_no_use(installed: Path) -> None:
    modules(installed)
    with pytest.raises(Missing, match="no Node: install Node 20"):
        find({"PATH": ""})
