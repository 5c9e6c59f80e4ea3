"""Finds, fetches and runs Google's Bigtable emulator, for the tests and for `.ci/run`: see `tests.servers`.

Where it is missing, or with ``ODM_OWN_EMULATOR=1`` in the environment, most tests run on odm's own emulator.
"""

import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests import servers

VARIABLE = "ODM_BIGTABLE_EMULATOR"
SOURCE = "cloud.google.com/go/bigtable/cmd/emulator@v1.58.0"
OWN = "ODM_OWN_EMULATOR"
BUILT = servers.CACHE / "bin" / "emulator"
IN_SDK = Path("platform", "bigtable-emulator", "cbtemulator")


def find(environ: Mapping[str, str]) -> Path:
    """The emulator's program: in the environment variable, otherwise on PATH, in the gcloud SDK, or built by `fetch`.

    Raises:
        Missing: no emulator was found, or the variable does not name a program.
    """
    if program := servers.first_program(VARIABLE, environ, _candidates(environ)):
        return program
    raise servers.Missing(
        "no Bigtable emulator: run `gcloud components install bigtable`, or install Go and let .ci/run build it, "
        f"or set {VARIABLE} to the program"
    )


def _candidates(environ: Mapping[str, str]) -> Iterator[Path]:
    path = environ.get("PATH", "")
    if program := shutil.which("cbtemulator", path=path):
        yield Path(program)
    if gcloud := shutil.which("gcloud", path=path):
        yield Path(gcloud).resolve().parents[1] / IN_SDK
    if home := environ.get("HOME"):
        yield Path(home, "google-cloud-sdk") / IN_SDK
    yield BUILT


def fetch() -> None:
    """Build the emulator from source with Go."""
    servers.fetched(["go", "install", SOURCE], GOBIN=str(BUILT.parent))


@contextmanager
def running(program: Path) -> Iterator[str]:
    """Run the emulator, empty, on a free port of the loopback interface during the block; yields its "host:port"."""
    command = [str(program), "-host", "127.0.0.1", "-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            greeting = process.stdout.readline()
            if "running on " not in greeting:
                raise RuntimeError(f"{program} said {greeting!r} where its address was expected")
            yield greeting.rsplit("running on ", 1)[1].strip()
        finally:
            process.terminate()


def is_own(environ: Mapping[str, str]) -> bool:
    """Whether tests run on odm's own emulator. In CI they do only with the variable."""
    if environ.get(OWN):
        return True
    try:
        find(environ)
    except servers.Missing:
        return environ.get("CI") != "true"
    return False


@contextmanager
def either(environ: Mapping[str, str]) -> Iterator[str]:
    """Run Google's emulator or odm's during the block; yields its "host:port"."""
    if not is_own(environ):
        with running(find(environ)) as address:
            yield address
        return
    from odm.backends.bigtable.emulator import Emulator

    with Emulator() as own:
        yield own.address


if __name__ == "__main__":
    sys.exit(servers.main(find, fetch, sys.argv[1:]))
