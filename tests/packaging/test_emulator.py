"""The Bigtable emulator is found where people have it, and runs."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests import emulator
from tests.emulator import find
from tests.servers import Missing

ROOT = Path(__file__).parents[2]


def program(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return path


@pytest.fixture(autouse=True)
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a built emulator would be, so that one in this checkout does not answer for a test."""
    path = tmp_path / "cache" / "emulator"
    monkeypatch.setattr(emulator, "BUILT", path)
    return path


def test_the_variable_wins(tmp_path: Path) -> None:
    named, on_path = program(tmp_path / "named"), program(tmp_path / "bin" / "cbtemulator")
    assert find({"ODM_BIGTABLE_EMULATOR": str(named), "PATH": str(on_path.parent)}) == named


def test_a_variable_that_names_nothing_is_an_error(tmp_path: Path) -> None:
    on_path = program(tmp_path / "bin" / "cbtemulator")
    with pytest.raises(Missing, match="gone is not a program"):
        find({"ODM_BIGTABLE_EMULATOR": str(tmp_path / "gone"), "PATH": str(on_path.parent)})


@pytest.mark.parametrize(
    ("environ", "own"),
    [({}, True), ({"CI": "true"}, False), ({"CI": "true", "ODM_OWN_EMULATOR": "1"}, True), ({"PATH": "bin"}, False)],
)
def test_odms_own_emulator_is_used_where_there_is_no_other(
    tmp_path: Path, environ: dict[str, str], own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path / "bin" / "cbtemulator")
    monkeypatch.chdir(tmp_path)
    assert emulator.is_own(environ) is own


def test_path_comes_before_the_sdk(tmp_path: Path) -> None:
    program(tmp_path / "sdk" / emulator.IN_SDK)
    program(tmp_path / "sdk/bin/gcloud")
    on_path = program(tmp_path / "sdk/bin/cbtemulator")
    assert find({"PATH": str(on_path.parent)}) == on_path


def test_the_sdk_is_found_through_a_link_to_gcloud(tmp_path: Path) -> None:
    in_sdk = program(tmp_path / "sdk" / emulator.IN_SDK)
    gcloud = program(tmp_path / "sdk/bin/gcloud")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gcloud").symlink_to(gcloud)
    assert find({"PATH": str(tmp_path / "bin")}) == in_sdk


def test_the_sdk_is_found_in_the_home_folder(tmp_path: Path) -> None:
    in_sdk = program(tmp_path / "google-cloud-sdk" / emulator.IN_SDK)
    assert find({"PATH": "", "HOME": str(tmp_path)}) == in_sdk


def test_one_that_was_built_is_the_last_resort(built: Path) -> None:
    program(built)
    assert find({"PATH": ""}) == built


def test_none_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(Missing, match="gcloud components install bigtable"):
        find({"PATH": str(tmp_path)})


def test_the_command_prints_the_path(tmp_path: Path) -> None:
    named = program(tmp_path / "named")
    environ = {**os.environ, "ODM_BIGTABLE_EMULATOR": str(named)}
    command = [sys.executable, "-m", "tests.emulator"]
    result = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout) == (0, f"{named}\n")


def test_a_program_that_is_no_emulator_is_named(tmp_path: Path) -> None:
    silent = program(tmp_path / "silent")
    with pytest.raises(RuntimeError, match="silent said ''"), emulator.running(silent):
        pass


def test_it_runs_on_the_loopback(bigtable_emulator: str) -> None:
    assert re.fullmatch(r"127\.0\.0\.1:\d+", bigtable_emulator)
    host, port = bigtable_emulator.split(":")
    socket.create_connection((host, int(port))).close()
