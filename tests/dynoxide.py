"""Finds, fetches and runs Dynoxide, a server of DynamoDB's API, for the tests and for `.ci/run`: see `tests.servers`.

It passes a conformance suite whose expectations were recorded on AWS, so where it differs from DynamoDB Local it is
usually the one that is right. All access keys and regions have the same tables.
"""

import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from functools import cache
from pathlib import Path

from tests import servers

VARIABLE = "ODM_DYNOXIDE"
VERSION = "3.2.0"  # of the crate; the program calls itself another
BUILT = servers.CACHE / "bin" / "dynoxide"


def find(environ: Mapping[str, str]) -> Path:
    """The program: in the environment variable, otherwise on PATH, or built by `fetch`.

    Raises:
        Missing: no program was found, or the variable does not name one.
    """
    if program := servers.first_program(VARIABLE, environ, _candidates(environ)):
        return program
    raise servers.Missing(
        f"no Dynoxide: run `python -m tests.dynoxide fetch` (with Cargo, of Rust), or set {VARIABLE} to the program"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    if program := shutil.which("dynoxide", path=environ.get("PATH", "")):
        yield Path(program)
    yield BUILT


@cache
def available() -> bool:
    """Whether Dynoxide can run here."""
    return servers.can_run(find)


def fetch() -> None:
    """Build Dynoxide with Cargo, which takes minutes."""
    where = ["--root", str(servers.CACHE)]
    servers.fetched(["cargo", "install", "--locked", "--version", VERSION, *where, "dynoxide-rs"])


def running(program: Path) -> AbstractContextManager[str]:
    """Run Dynoxide, empty and in memory, on a free port during the block; yields its endpoint."""
    return servers.running("Dynoxide", lambda port: [str(program), "serve", "--port", str(port)])


if __name__ == "__main__":
    sys.exit(servers.main(find, fetch, sys.argv[1:]))
