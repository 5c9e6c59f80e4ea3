"""DynamoDB Local is found where people have it."""

from pathlib import Path

import pytest

from tests import dynamodb_local
from tests.dynamodb_local import find
from tests.servers import Missing


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH on which there is a Java."""
    program(tmp_path / "bin" / "java", "")
    return str(tmp_path / "bin")


@pytest.fixture
def fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where it would have been fetched to, so that one in this checkout does not answer for a test."""
    folder = tmp_path / "cache" / "dynamodb-local"
    monkeypatch.setattr(dynamodb_local, "FETCHED", folder)
    return folder


def program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def installed(folder: Path, jar: str = "DynamoDBLocal.jar") -> Path:
    folder.mkdir(parents=True)
    (folder / jar).touch()
    return folder


def test_the_variable_wins(tmp_path: Path, path: str, fetched: Path) -> None:
    installed(fetched)
    named = installed(tmp_path / "named")
    assert find({"PATH": path, "ODM_DYNAMODB_LOCAL": str(named)}) == named


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path, path: str, fetched: Path) -> None:
    installed(fetched)
    with pytest.raises(Missing, match="gone is not a folder with DynamoDBLocal"):
        find({"PATH": path, "ODM_DYNAMODB_LOCAL": str(tmp_path / "gone")})


def test_what_was_fetched_is_found(path: str, fetched: Path) -> None:
    installed(fetched, "DynamoDBLocal-2.6.1.jar")
    assert find({"PATH": path}) == fetched


def test_none_says_what_to_do(path: str, fetched: Path) -> None:
    with pytest.raises(Missing, match=r"python -m tests\.dynamodb_local fetch"):
        find({"PATH": path})


def test_without_java_that_is_said(tmp_path: Path, fetched: Path) -> None:
    installed(fetched)
    with pytest.raises(Missing, match="install Java 17"):
        find({"PATH": str(tmp_path)})
