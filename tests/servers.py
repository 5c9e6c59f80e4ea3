"""What the modules of the tests' servers share: their commands, and servers that end.

Each of `tests.emulator`, `tests.dynamodb_local`, `tests.dynoxide` and `tests.postgresql` finds its server with `find`,
runs it with `running`, and is a command for `.ci/run`, as is `tests.chromium`:
`python -m tests.dynoxide` prints where the server is, and exits with 1 if it cannot run here. With the argument
`fetch`, it first fetches the server if it is missing.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import TypeAlias

CACHE = Path(__file__).parents[1] / ".ci" / "cache"
"""Where servers are fetched to; those that are programs to its folder ``bin``."""

START_SECONDS = 60
ATTEMPTS = 3
"""How often a server is started, each time on another port: another program can take the first one before it does."""

Find: TypeAlias = Callable[[Mapping[str, str]], Path]
"""Finds a server for this environment, or raises `Missing`."""

# Runs a program and kills it when standard input ends, which is when the tests end, even if they are killed. It runs in
# a session of its own, so that Ctrl-C does not reach it: the tests still need their server while they clean up.
_KEEPER = """
import subprocess, sys, threading
program = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, user=sys.argv[1] or None)
threading.Thread(target=lambda: (sys.stdin.read(), program.kill()), daemon=True).start()
program.wait()
"""


class Missing(Exception):
    """A server cannot run here; the message says what to do."""


def first_program(variable: str, environ: Mapping[str, str], candidates: Iterable[Path]) -> Path | None:
    """The program that the environment variable names, otherwise the first candidate that is a program.

    Raises:
        Missing: the variable does not name a program.
    """
    if named := environ.get(variable):
        if program := shutil.which(named):
            return Path(program)
        raise Missing(f"{variable}={named} is not a program")
    return next((Path(program) for candidate in candidates if (program := shutil.which(candidate))), None)


def can_run(find: Find) -> bool:
    """Whether the server can run here."""
    try:
        find(os.environ)
    except Missing:
        return False
    return True


@contextmanager
def running(name: str, command: Callable[[int], Sequence[str]]) -> Iterator[str]:
    """Run a server of HTTP on a free port during the block; yields its endpoint.

    Args:
        name: the name of the server, for errors.
        command: makes the command from the port.
    """
    with running_on_port(name, command, _responds) as port:
        yield f"http://127.0.0.1:{port}"


@contextmanager
def running_on_port(
    name: str, command: Callable[[int], Sequence[str]], answers: Callable[[int], bool], user: str = ""
) -> Iterator[int]:
    """Run a server on a free port during the block; yields the port.

    Args:
        name: the name of the server, for errors.
        command: makes the command from the port.
        answers: whether the server answers at the port.
        user: the user to run it as. Default: the one that runs the tests.
    """
    said = ""
    for _ in range(ATTEMPTS):
        with socket.create_server(("127.0.0.1", 0)) as free:
            port: int = free.getsockname()[1]
        keeping = [sys.executable, "-c", _KEEPER, user, *command(port)]
        with (
            tempfile.TemporaryFile("w+") as log,
            subprocess.Popen(
                keeping, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
            ) as keeper,
        ):
            assert keeper.stdin is not None
            with keeper.stdin:
                if _answers(partial(answers, port), keeper):
                    yield port
                    return
            log.seek(0)
            said = log.read()
    raise RuntimeError(
        f"{name} did not start to answer, in {ATTEMPTS} attempts of {START_SECONDS} seconds; it said: {said}"
    )


def _answers(answers: Callable[[], bool], keeper: subprocess.Popen[bytes]) -> bool:
    """Wait until it answers; False if it ended or needs too long."""
    end = time.monotonic() + START_SECONDS
    while keeper.poll() is None and time.monotonic() < end:
        if answers():
            return True
        time.sleep(0.05)
    return False


def _responds(port: int) -> bool:
    """Whether a server of HTTP responds, with any status."""
    with suppress(OSError):
        connection = HTTPConnection("127.0.0.1", port, timeout=START_SECONDS)
        connection.request("GET", "/")
        connection.getresponse().read()
        connection.close()
        return True
    return False


def fetched(command: Sequence[str], **environ: str) -> None:
    """Run a command that fetches a server; what it prints goes to standard error."""
    subprocess.run(command, check=True, stdout=sys.stderr, env={**os.environ, **environ})


def installed(package: str) -> None:
    """Install a package of Debian with apt-get, by sudo for other users than root."""
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    install = f"apt-get install --yes {package}"
    script = f"{install} || {{ apt-get update && {install}; }}"  # a new machine has no list of packages
    fetched([*sudo, "sh", "-c", script], DEBIAN_FRONTEND="noninteractive")


def main(find: Find, fetch: Callable[[], None], arguments: Sequence[str]) -> int:
    """Print where the server is; returns the exit code, 1 if it cannot run."""
    try:
        if "fetch" in arguments and not can_run(find):
            fetch()
        print(find(os.environ))  # noqa: T201 - output for a shell
    except (Missing, OSError, subprocess.CalledProcessError) as failure:
        print(failure, file=sys.stderr)  # noqa: T201
        return 1
    return 0
