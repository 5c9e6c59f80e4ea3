"""Running the program `odm` as a user does: in a folder, with its output in a pipe."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUN = "from odm.cli.app import main; main()"


def odm(folder: Path, *arguments: str, run: str = RUN, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a folder, with its output in a pipe."""
    return subprocess.run(
        [sys.executable, "-c", run, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80", **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    """What a run printed that went well."""
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def failure(done: subprocess.CompletedProcess[str], code: int = 1) -> str:
    """The one line that a run failed with."""
    assert done.returncode == code
    assert done.stderr.startswith("odm: ")
    assert done.stderr.count("\n") == 1
    return done.stderr
