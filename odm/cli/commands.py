"""The commands and their options. What a command does lies in a module of its own, imported when it runs."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"odm {version('single-table-odm')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Single-table design for DynamoDB and Bigtable."""


@app.command()
def demo(
    file: Annotated[
        Path, typer.Option("--file", metavar="PATH", help="The database file; it is created when it is not there.")
    ] = Path("odm-demo.db"),
    reset: Annotated[bool, typer.Option("--reset", help="Throw the demo's data away and load it again.")] = False,
) -> None:
    """Load real airports and a made-up shop into a file, and ask it a dozen questions.

    Each question comes with the Python that asks it, the plan that odm
    makes for it, and the answer. Run it again and it finds its data.
    """
    from odm.cli.demo.run import run

    run(file, reset=reset)
