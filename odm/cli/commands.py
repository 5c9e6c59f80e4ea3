"""The commands and their options. What a command does lies in a module of its own, imported when it runs."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer

from odm.cli import files, live

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:TABLE",
        help="The module that declares the entities, found from this folder first, and the Table in it.",
    ),
]
Lock = Annotated[Path, typer.Option("--file", metavar="PATH", help="The lock file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

LOCK = Path("odm.lock")

app = typer.Typer(
    invoke_without_command=True,
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
    context: typer.Context,
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Single-table design for DynamoDB and Bigtable."""
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit(2)


@app.command()
def demo(
    file: Annotated[
        Path, typer.Option("--file", metavar="PATH", help="The database file; it is created when it is not there.")
    ] = Path("odm-demo.db"),
    reset: Annotated[bool, typer.Option("--reset", help="Delete the demo's data and load it again.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Show all fourteen questions, each with its whole plan.")
    ] = False,
) -> None:
    """Load real airports and a made-up shop into a file, and run three queries on it.

    Each query is shown in Python, with the index and key range that it
    reads and its first results. Run it again and it finds its data.
    """
    from odm.cli.demo.run import run

    run(file, reset=reset, every=every)


@app.command(epilog="Example: odm lock shop.models:shop")
def lock(
    target: Target,
    file: Lock = LOCK,
    accept: Annotated[bool, typer.Option("--accept", help="Write it even if stored data is orphaned.")] = False,
    json: Json = False,
) -> None:
    """Write down where and how a table's items are stored, in a file to commit.

    The file holds tags, key templates, encodings, indexes, stored names, types
    and limits. Run it again after each change of the models: it says what the
    change does to stored data, and leaves the file alone if some is orphaned.
    """
    from odm.cli import lock as command

    raise typer.Exit(command.lock(target, file, accept=accept, as_json=json))


@app.command(epilog="Example: odm check shop.models:shop")
def check(target: Target, file: Lock = LOCK, json: Json = False) -> None:
    """Compare the models with the lock file: for a continuous integration job.

    Ends with exit code 0 if they are equal. Otherwise with 1, and a line for
    each change: "orphans" if the new models lose or misread stored data,
    "backfill" if stored items must be written again, "safe" if neither. Each
    line says what to do. Once that is seen to, run odm lock.
    """
    from odm.cli import lock as command

    raise typer.Exit(command.check(target, file, as_json=json))


@app.command(epilog="Example: odm lint shop.models:shop --ignore missing-ttl")
def lint(
    target: Target,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULE", help="Leave out a rule; may be given again.")
    ] = None,
    backend: Annotated[
        Literal["dynamodb", "bigtable"] | None,
        typer.Option("--backend", help="Only what matters there. Default: what matters on either."),
    ] = None,
    json: Json = False,
) -> None:
    """Look for designs that will be hot, slow or lose items in a cloud.

    Ends with exit code 1 if it finds one. Each finding names the rule, the
    declaration with its line, why it matters with the vendor's page, and the
    declaration as it could be. A comment on the line, as in
    "# odm: ignore[hot-partition]", silences a rule there.
    """
    from odm.cli import lint as command

    raise typer.Exit(command.lint(target, ignore or [], backend, as_json=json))


@app.command(epilog="Example: odm schema shop.models:shop")
def schema(target: Target, json: Json = False) -> None:
    """Show the compiled key schema: entities, patterns with example keys, indexes.

    With --json, as it stands in a lock file.
    """
    from odm.cli.schema import show_schema

    show_schema(target, as_json=json)


@app.command(epilog="Example: odm explain shop.models:shop 'select(Order).where(Order.total > 5)'")
def explain(
    target: Target,
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPRESSION", help="What you would write between the parentheses of db.explain(...)."),
    ],
    backend: Annotated[
        Literal["memory", "dynamodb", "bigtable"],
        typer.Option("--backend", help="Whose native request to show. No credentials are needed."),
    ] = "memory",
    json: Json = False,
) -> None:
    """Show what a query or a write will do, without sending anything.

    The expression is Python and it is run, with the names of your module and
    of odm: it can do whatever your own code can.
    """
    from odm.cli import explain as command

    command.explain(target, expression, backend, as_json=json)


live.add_to(app)
files.add_to(app)
