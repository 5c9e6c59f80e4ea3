"""Where the command `odm` starts: what goes wrong becomes one clear line and exit code 1, never a traceback."""

import io
import sys

from odm.errors import OdmError

EXTRAS = "the odm command line needs packages that are not installed: pip install 'single-table-odm[cli]'"
INTERRUPTED = 130
"""What a shell expects of a program that Ctrl-C ended: 128 + SIGINT."""


def main() -> None:
    """Run the command line with the arguments of this process, and exit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal without some letter shows "?" in its place
    try:
        from odm.cli.commands import app

        app(prog_name="odm")
    except ModuleNotFoundError as missing:
        if (missing.name or "").split(".")[0] not in {"click", "rich", "typer"}:
            raise
        _fail(f"{EXTRAS} (no {missing.name})")
    except OdmError as error:
        _fail(str(error))
    except KeyboardInterrupt:
        _fail("interrupted", INTERRUPTED)


def _fail(message: str, code: int = 1) -> None:
    sys.stderr.write(f"odm: {message}\n")
    sys.exit(code)
