"""Builds the release and checks it: ``python -m tests.release``.

It makes the sdist and the wheel in dist/, has twine check them, and installs the wheel in an empty environment of each
Python that odm supports and this machine has, where the README's first query must run with warnings as errors. The
first one has the oldest pydantic, attrs and msgspec that odm allows.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

from tests.readme import blocks

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
SUPPORTED = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))


def main() -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:  # a clone of the last commit: no leftover of an earlier build gets in
        run("git", "clone", "-q", str(ROOT), f"{folder}/odm")
        run(sys.executable, "-m", "build", "--outdir", str(DIST), f"{folder}/odm")
    files = sorted(map(str, DIST.iterdir()))
    run(sys.executable, "-m", "twine", "check", "--strict", *files)
    say(", ".join(Path(file).name for file in files))
    for version in SUPPORTED:
        if python := interpreter(version):
            check(version, python)
            say(f"Python {version}: the README's first query runs")
        else:
            say(f"Python {version}: not tried, this machine does not have it")


def interpreter(version: str) -> str | None:
    """The path of a Python that is on PATH, or that pyenv has installed."""
    environ = {**os.environ}
    if pyenv := shutil.which("pyenv"):
        installed = subprocess.run([pyenv, "versions", "--bare"], capture_output=True, text=True, check=True).stdout
        environ["PYENV_VERSION"] = ":".join(installed.split())
    command = [f"python{version}", "-c", "import sys; sys.stdout.write(sys.executable)"]
    try:
        found = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return found.stdout


def check(version: str, python: str) -> None:
    oldest = [required.replace(">=", "~=") + ".0" for required in PROJECT["dependencies"]]  # ~=2.11.0 is 2.11
    query, shown = blocks()[1], blocks()[2]
    assert (query.language, shown.language) == ("python", "text"), "the README's first query and what it prints"
    with tempfile.TemporaryDirectory() as folder:
        run(python, "-m", "venv", f"{folder}/venv")
        inside = Path(folder, "venv", "Scripts" if os.name == "nt" else "bin", "python")
        wheel = next(DIST.glob("*.whl"))
        run(str(inside), "-m", "pip", "install", "-q", str(wheel), *(oldest if version == SUPPORTED[0] else []))
        command = [str(inside), "-W", "error", "-c", query.text]
        printed = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if (printed.stdout, printed.returncode) != (shown.text, 0):
        raise SystemExit(f"the README's first query on Python {version}:\n{printed.stdout}{printed.stderr}")


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)}\n{done.stdout}{done.stderr}")


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


if __name__ == "__main__":
    main()
