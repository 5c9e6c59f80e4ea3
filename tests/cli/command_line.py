"""Running the command line `odm` in a folder, with its output in a pipe: as a program, or in this process."""

import os
import subprocess
import sys
from contextlib import chdir, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from unittest.mock import patch

import pytest

from odm.cli.app import main

ROOT = Path(__file__).parents[2]
RUN = "from odm.cli.app import main; main()"


def each(*commands: list[str], before: str = "pass") -> str:
    """For ``run``: one program that runs several command lines, and writes on stderr how each ended.

    Args:
        commands: what follows `odm`.
        before: a statement that precedes each.
    """
    return f"""
import os, sys
from odm.cli.app import main
for sys.argv[1:] in {commands}:
    {before}
    try:
        main()
    except SystemExit as ended:
        print("exit", ended.code, file=sys.stderr)
"""


def odm(folder: Path, *arguments: str, run: str = RUN, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the program in a folder, as a user does."""
    return subprocess.run(
        [sys.executable, "-c", run, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONIOENCODING": "utf-8", "COLUMNS": "80", **environment},
        capture_output=True,
        encoding="utf-8",
        check=False,
    )


def odm_here(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the same command line in this process, which takes a tenth of the time."""
    out, err = (TextIOWrapper(BytesIO(), encoding="utf-8") for _ in range(2))
    with (
        chdir(folder),
        patch.dict(os.environ, {"COLUMNS": "80", **environment}),
        patch.object(sys, "argv", ["odm", *arguments]),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    assert isinstance(ended.value.code, int)
    return subprocess.CompletedProcess(arguments, ended.value.code, *(_text(stream) for stream in (out, err)))


def _text(stream: TextIOWrapper) -> str:
    stream.seek(0)  # which flushes
    return stream.read()


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
