"""Finds, installs and runs the JavaScript libraries that pages of docs/ compare odm with: see `tests.servers`.

npm installs them, and the AWS SDK that they use, into `tests.servers.CACHE`, without scripts of packages.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests import servers

VARIABLE = "ODM_NODE_MODULES"
INSTALLED = servers.CACHE / "node"
VERSIONS: Final = {
    "@aws-sdk/client-dynamodb": "3.1169.0",
    "@aws-sdk/lib-dynamodb": "3.1169.0",
    "dynamodb-onetable": "2.7.7",
    "dynamodb-toolbox": "2.10.6",
    "dynamoose": "4.2.0",
    "electrodb": "3.9.3",
}
"""The packages, each with the version that the pages were tried with."""
SECONDS = 60


def find(environ: Mapping[str, str]) -> Path:
    """The folder ``node_modules``: that in the environment variable, otherwise the installed one.

    Raises:
        Missing: there is no Node, or the folder does not have all packages in these versions.
    """
    if shutil.which("node", path=environ.get("PATH")) is None:
        raise servers.Missing("no Node: install Node 20 or later, and npm")
    folder = Path(environ.get(VARIABLE) or INSTALLED / "node_modules")
    for package, version in VERSIONS.items():
        if _version(folder / package) != version:
            raise servers.Missing(
                f"no {package} {version} in {folder}: run `python -m tests.node fetch`, or set {VARIABLE} to a folder "
                "node_modules that has it"
            )
    return folder


def _version(package: Path) -> str | None:
    """The version of an installed package, or None."""
    try:
        description = json.loads((package / "package.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return str(description["version"])


def fetch() -> None:
    """Install the packages with npm."""
    INSTALLED.mkdir(parents=True, exist_ok=True)
    packages = [f"{package}@{version}" for package, version in VERSIONS.items()]
    options = ["--no-save", "--no-package-lock", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
    servers.fetched(["npm", "install", *options, "--prefix", str(INSTALLED), *packages])


def printed(program: Path, modules: Path, *arguments: str) -> str:
    """Run a program with Node; returns what it prints. The folder of the program gets a link to the packages.

    Raises:
        RuntimeError: it fails; the message has what it said.
    """
    link = program.parent / "node_modules"
    if not link.exists():
        link.symlink_to(modules, target_is_directory=True)
    done = subprocess.run(
        ["node", "--no-warnings", program.name, *arguments],  # of the SDK, about the end of support for this Node
        capture_output=True,
        check=False,
        cwd=program.parent,
        encoding="utf-8",
        env=dict(os.environ),
        timeout=SECONDS,
    )
    if done.returncode:
        raise RuntimeError(f"{program.name} failed: {done.stderr or done.stdout}")
    return done.stdout


if __name__ == "__main__":
    sys.exit(servers.main(find, fetch, sys.argv[1:]))
