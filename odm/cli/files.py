"""The commands on a file of `LocalFile`: `odm compact` and `odm snapshot`."""

import json as to_json
from pathlib import Path
from typing import Annotated

import typer

File = Annotated[Path, typer.Argument(metavar="FILE", help="A file of LocalFile. Other programs may have it open.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0, max=86_400, help="Seconds to wait for other writers.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog="Example: odm compact shop.db")(compact)
    app.command(epilog="Example: odm snapshot shop.db backup/shop-monday.db")(snapshot)


def compact(file: File, json: Json = False, timeout: Timeout = 60.0) -> None:
    """Return the space of deleted items in a file to the disk.

    Programs that write to the file wait meanwhile; programs that read do not.
    It needs as much free disk space as the file has. If it is interrupted, the
    file is unchanged.
    """
    from odm.backends.local import LocalFile

    done = LocalFile(file, timeout=timeout).compact()
    if json:
        typer.echo(to_json.dumps({"file": str(file), "before": done.before, "after": done.after}))
    else:
        typer.echo(f"{file}: {done.before:,} bytes before, {done.after:,} bytes after")


def snapshot(
    file: File,
    to: Annotated[Path, typer.Argument(metavar="TO", help="The path of the copy, which must not exist yet.")],
    json: Json = False,
    timeout: Timeout = 60.0,
) -> None:
    """Copy a file at one point in time, while programs read and write it.

    The copy appears when it is complete. Other tools, such as cp, miss what is
    still in the file's log, or mix pages of different times.
    """
    from odm.backends.local import LocalFile

    LocalFile(file, timeout=timeout).copy(to)
    size = to.stat().st_size
    typer.echo(to_json.dumps({"file": str(file), "to": str(to), "bytes": size}) if json else f"{to}: {size:,} bytes")
