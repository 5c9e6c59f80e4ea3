"""Finds and runs Google's Bigtable emulator, for the tests and for `.ci/run`.

`python -m tests.emulator` prints where the emulator is, and exits with 1 if there is none.
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
    """The emulator's program: the variable's, else one on PATH, in the gcloud SDK, or built by `.ci/run`.

    Raises:
        EmulatorMissing: there is none, or the variable names no program.
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
    """Runs the emulator, empty, on a free port of the loopback; gives its "host:port" and stops it at the end."""
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
    """Prints the emulator's path; the exit code says whether there is one."""
    try:
        print(find(os.environ))  # noqa: T201 - the answer, for a shell to read
    except EmulatorMissing as missing:
        print(missing, file=sys.stderr)  # noqa: T201
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
