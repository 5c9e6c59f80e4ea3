"""Finds and installs Chromium, for the check of the site and for `.ci/run`: see `tests.servers`."""

import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from tests import servers

VARIABLE = "ODM_CHROMIUM"
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find(environ: Mapping[str, str]) -> Path:
    """The program that the environment variable names, otherwise the first of `NAMES` on PATH.

    Raises:
        Missing: Chromium was not found, or the variable does not name a program.
    """
    found = (shutil.which(name, path=environ.get("PATH")) for name in NAMES)
    if program := servers.first_program(VARIABLE, environ, [Path(path) for path in found if path]):
        return program
    raise servers.Missing(f"no Chromium: install it, as with `apt-get install chromium`, or set {VARIABLE} to its path")


def fetch() -> None:
    """Install Chromium with apt-get."""
    servers.installed("chromium")


if __name__ == "__main__":
    sys.exit(servers.main(find, fetch, sys.argv[1:]))
