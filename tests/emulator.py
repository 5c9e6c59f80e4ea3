"""Finds and runs Google's Bigtable emulator, for the tests and for `.ci/run`.

`python -m tests.emulator` prints the path of the emulator, and exits with 1 if it finds none.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

VARIABLE = "ODM_BIGTABLE_EMULATOR"
BUILT = Path(__file__).parents[1] / ".ci" / "cache" / "bin" / "emulator"  # where `.ci/run` builds one from source
IN_SDK = Path("platform", "bigtable-emulator", "cbtemulator")


class EmulatorMissing(Exception):
    """No emulator was found; the message says what to do."""


def find(environ: Mapping[str, str]) -> Path:
    """The emulator's program: in the environment variable, otherwise on PATH, in the gcloud SDK, or built by `.ci/run`.

    Raises:
        EmulatorMissing: no emulator was found, or the variable does not name a program.
    """
    if named := environ.get(VARIABLE):
        if program := shutil.which(named):
            return Path(program)
        raise EmulatorMissing(f"{VARIABLE}={named} is not a program")
    for candidate in _candidates(environ):
        if program := shutil.which(candidate):
            return Path(program)
    raise EmulatorMissing(
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


def main() -> int:
    """Print the emulator's path; returns the exit code, 1 if none was found."""
    try:
        print(find(os.environ))  # noqa: T201 - output for a shell
    except EmulatorMissing as missing:
        print(missing, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
