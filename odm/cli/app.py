"""The entry point of the command `odm`: an error becomes one line and an exit code, never a traceback.

Exit codes: 0 success; 1 a check failed, or an error; 2 the command line is not valid.
"""

import errno
import io
import os
import sys
from typing import NoReturn

from odm.cli.usage import BadUsage
from odm.errors import OdmError

EXTRAS = "the odm command line needs packages that are not installed: pip install 'single-table-odm[cli]'"
INTERRUPTED = 130
"""The exit code of a program that was interrupted by Ctrl-C: 128 + SIGINT."""


def main() -> None:
    """Run the command line with the arguments of this process, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a character that the terminal cannot show becomes "?"
    try:
        sys.exit(_run())
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] in {"click", "rich", "typer"}:
            _fail(f"{EXTRAS} (no {missing.name})")
        from odm.backends.bigtable import not_installed  # for the commands that use Google's client themselves

        error = not_installed(missing)
        if error is missing:
            raise
        _fail(str(error))
    except BadUsage as error:
        _fail(str(error), 2)
    except OdmError as error:
        _fail(str(error))
    except OSError as error:
        _give_up_output()
        _fail(_said_by_system(error))
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)


def _run() -> int:
    from typer import TyperException

    from odm.cli.commands import app

    try:
        # The program prints its own errors, in one line.
        code: int = app(prog_name="odm", standalone_mode=False) or 0
    except TyperException as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "odm")
        message = " ".join(error.format_message().split())
        end = "." if message[-1:].isalnum() else ""
        _fail(f"{message}{end} See {command} --help.", error.exit_code)
    if code == INTERRUPTED:  # typer turns Ctrl-C into an exit code
        raise KeyboardInterrupt
    return code


def _said_by_system(error: OSError) -> str:
    if error.filename is not None:
        return f"{error.filename} cannot be used: {error.strerror}"
    if error.errno == errno.ENOENT:
        return "the current folder is not there any more; change to another one"
    return f"the output cannot be written: {error.strerror}"


def _give_up_output() -> None:
    """Discard unwritten output; otherwise Python writes it again at exit and prints a traceback."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _fail(message: str, code: int = 1) -> NoReturn:
    # Names and values of others: no control character reaches the terminal.
    printable = "".join(char if char.isprintable() or char == "\n" else repr(char)[1:-1] for char in message)
    sys.stderr.write(f"odm: {printable}\n")
    sys.exit(code)
