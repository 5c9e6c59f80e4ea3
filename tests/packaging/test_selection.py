"""What the light run leaves out runs whole with ``--full --rest``, and when the command line names its file."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import effort

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
MODULES = ("tests/backends/bigtable/test_transaction_stops.py", "tests/conformance/test_bigtable_wide_transactions.py")
"""One that is marked ``slow``, and one that runs the suite with options of a backend."""


def collected(*options: str, whole: bool = False) -> set[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ODM_TESTS_")}
    environment |= {effort.WHOLE: "1"} if whole else {}
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", *options, *MODULES]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    return {line for line in run.stdout.splitlines() if "::" in line}


def test_slow_modules_run_whole_with_rest_and_when_they_are_named() -> None:
    named = collected()
    assert {test.partition("::")[0] for test in named} == {*MODULES}
    assert collected(whole=True) == set()
    assert named <= collected("--full", "--rest")
