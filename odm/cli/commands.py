"""The commands and their options. Each command is implemented in its own module, imported when it runs."""

from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Literal

import typer

from odm.cli import existing, files, live

Target = Annotated[
    str,
    typer.Argument(
        metavar="MODULE:TABLE",
        help="The module that declares the entities (the current folder is searched first) and its Table.",
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


def _print_version(requested: bool) -> None:
    if requested:
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
        Path, typer.Option("--file", metavar="PATH", help="The database file; created if it does not exist.")
    ] = Path("odm-demo.db"),
    reset: Annotated[bool, typer.Option("--reset", help="Delete the demo's data and load it again.")] = False,
    every: Annotated[bool, typer.Option("--all", help="Show all fourteen queries, each with its whole plan.")] = False,
) -> None:
    """Load real airports and a made-up shop into a file, and run three queries on it.

    Each query is shown in Python, with the index and key range that it
    reads and its first results. The next run uses the same data.
    """
    from odm.cli.demo.run import run
    from odm.cli.tables import make_console

    run(file, make_console(), reset=reset, every=every)


@app.command(epilog="Example: odm lock shop.models:shop")
def lock(
    target: Target,
    file: Lock = LOCK,
    accept: Annotated[bool, typer.Option("--accept", help="Write it even if the change orphans stored items.")] = False,
    json: Json = False,
) -> None:
    """Record where and how a table's items are stored, in a file to commit.

    The file holds tags, key templates, encodings, indexes, stored names, types
    and limits. Run it again after each change of the models: it reports how the
    change affects stored data, and keeps the file if stored items are orphaned.
    """
    from odm.cli import lock as command

    raise typer.Exit(command.lock(target, file, accept=accept, as_json=json))


@app.command(epilog="Example: odm check shop.models:shop")
def check(target: Target, file: Lock = LOCK, json: Json = False) -> None:
    """Compare the models with the lock file, for a continuous integration job.

    Exit code 0 if they are equal. Otherwise 1, and a line for each change:
    "orphans" if the new models cannot find or correctly read stored items,
    "backfill" if stored items must be written again, "safe" if neither. Each
    line says what to do. When that is done, run odm lock.
    """
    from odm.cli import lock as command

    raise typer.Exit(command.check(target, file, as_json=json))


@app.command(epilog="Example: odm lint shop.models:shop --ignore missing-ttl")
def lint(
    target: Target,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULE", help="Skip a rule; may be repeated.")
    ] = None,
    backend: Annotated[
        Literal["dynamodb", "bigtable"] | None,
        typer.Option("--backend", help="Only findings for this backend. Default: both."),
    ] = None,
    json: Json = False,
) -> None:
    r"""Find designs that cause hot partitions, slow queries or lost items in a cloud.

    Exit code 1 if there are findings. Each one names the rule, the declaration
    and its line, the reason with the vendor's page, and a better declaration.
    A comment on the line, "# odm: ignore\[hot-partition]", suppresses the rule
    there.
    """
    from odm.cli import lint as command

    raise typer.Exit(command.lint(target, ignore or [], backend, as_json=json))


@app.command(epilog="Example: odm schema shop.models:shop")
def schema(
    target: Target,
    location: Annotated[
        str | None,
        typer.Argument(metavar="[LOCATION]", help="With --bigquery: bigtable:PROJECT/INSTANCE, for the statements."),
    ] = None,
    json: Json = False,
    bigquery: Annotated[bool, typer.Option("--bigquery", help="Print SQL for a table on Bigtable; see below.")] = False,
) -> None:
    """Show the compiled key schema: entities, patterns with example keys, indexes.

    With --json, in the format of a lock file. With --bigquery, the statements
    that show a table on Bigtable as columns: the external table of BigQuery,
    and a query for each entity, for a logical view of Bigtable.
    """
    from odm.cli.schema import show_schema, show_sql

    if bigquery:
        show_sql(target, location)
    else:
        show_schema(target, as_json=json)


@app.command(epilog="Example: odm explain shop.models:shop 'select(Order).where(Order.total > 5)'")
def explain(
    target: Target,
    expression: Annotated[
        str,
        typer.Argument(metavar="EXPRESSION", help="The arguments of db.explain(...), as Python code."),
    ],
    backend: Annotated[
        Literal["memory", "dynamodb", "bigtable"],
        typer.Option("--backend", help="The backend whose native requests to show. No credentials are needed."),
    ] = "memory",
    json: Json = False,
) -> None:
    """Show the requests of a query or a write, without sending them.

    The expression is Python code that is run with the names of your module and
    of odm: it can do whatever your own code can. Never run one that you have
    not read.
    """
    from odm.cli import explain as command

    command.explain(target, expression, backend, as_json=json)


live.add_to(app)
files.add_to(app)
existing.add_to(app)
