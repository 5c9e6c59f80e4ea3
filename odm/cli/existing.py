"""The commands on tables that exist already: `odm inspect`, `odm import` and `odm export`."""

from pathlib import Path
from typing import Annotated

import typer


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command("inspect", epilog="Example: odm inspect dynamodb:eu-west-1 Orders > models.py")(inspect)
    app.command("import", epilog="Example: odm import workbench.json > models.py")(import_)
    app.command("export", epilog="Example: odm export --workbench shop.models:shop > workbench.json")(export)


def inspect(
    location: Annotated[
        str,
        typer.Argument(
            metavar="LOCATION",
            help="dynamodb:REGION, with ?endpoint_url= for others; or bigtable:PROJECT/INSTANCE, "
            "with ?endpoint= for an emulator.",
        ),
    ],
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The name of the table.")],
    sample: Annotated[
        int, typer.Option("--sample", min=0, max=100_000, help="At most so many items or rows are read.")
    ] = 1000,
) -> None:
    """Write the models of a table that exists on DynamoDB or Bigtable.

    They follow from its description and a sample of its items; comments say
    what was guessed. Before they are written, every item of the sample was
    read with them, and would be written back as it is.
    """
    from odm.cli.inspect.live import source_at

    typer.echo(source_at(location, table, sample), nl=False)


def import_(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A data model of NoSQL Workbench, as JSON.")],
    table: Annotated[str | None, typer.Option("--table", help="The table of the model. Default: its only one.")] = None,
    into: Annotated[
        str | None,
        typer.Option("--into", metavar="LOCATION", help="Create the table there too, with the sample data."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Write the models of a table of NoSQL Workbench.

    With --into it asks before it writes sample items to a table that has items.
    """
    from odm.cli.ask import NOT_CONFIRMED, may_replace_items, number_of
    from odm.cli.inspect.models import models_of
    from odm.cli.inspect.workbench import facts_in

    facts = facts_in(file, table)
    models = models_of(facts)
    if into is not None:
        from odm.cli.locations import store_at

        with store_at(into, models.table) as db:
            db.create()
            # Raw items have the attributes, too, that the models left out.
            items = list(models.raw_items(facts.items))
            action = f"Write {number_of(len(items), 'sample item')} to table {db.name}"
            if not (yes or may_replace_items(db, action)):
                typer.echo(f"odm: table {db.name} is unchanged: the import was {NOT_CONFIRMED}", err=True)
                raise typer.Exit(1)
            db.put_raw(items)
    typer.echo(models.source, nl=False)


def export(
    target: Annotated[
        str, typer.Argument(metavar="MODULE:TABLE", help="The module that declares the entities, and its Table.")
    ],
    location: Annotated[
        str | None, typer.Argument(metavar="[LOCATION]", help="A store whose items become the sample data.")
    ] = None,
    workbench: Annotated[bool, typer.Option("--workbench", help="In the format of NoSQL Workbench.")] = False,
    sample: Annotated[int, typer.Option("--sample", min=0, max=10_000, help="At most so many items.")] = 100,
) -> None:
    """Write a table as a data model of NoSQL Workbench."""
    from odm.cli.inspect.workbench import export_workbench
    from odm.cli.target import load_target
    from odm.cli.usage import BadUsage

    if not workbench:
        raise BadUsage("odm export writes one format: add --workbench")
    typer.echo(export_workbench(load_target(target), location, sample))
