"""The commands on existing tables: `odm plan`, `apply`, `backfill`, `scrub`, `sweep`, `copy`, and others."""

from math import inf
from pathlib import Path
from typing import Annotated, Literal

import typer

from odm.cli.usage import BadUsage

Target = Annotated[
    str, typer.Argument(metavar="MODULE:TABLE", help="The module that declares the entities, and the Table in it.")
]
BackendName = Annotated[Literal["dynamodb", "bigtable"], typer.Option("--backend", help="Where the table is.")]
Region = Annotated[str | None, typer.Option("--region", help="The AWS region. Default: boto3's.")]
Profile = Annotated[str | None, typer.Option("--profile", help="The AWS profile.")]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", metavar="URL", help="An endpoint other than AWS.")]
Project = Annotated[str | None, typer.Option("--project", help="The Google Cloud project.")]
Instance = Annotated[str | None, typer.Option("--instance", help="The Bigtable instance in it.")]
AppProfile = Annotated[str | None, typer.Option("--app-profile", help="The app profile. Default: the instance's.")]
Emulator = Annotated[
    str | None,
    typer.Option("--endpoint", metavar="HOST:PORT", help="A Bigtable emulator. Default: BIGTABLE_EMULATOR_HOST."),
]
Prefix = Annotated[str, typer.Option("--prefix", help="The table name prefix, as in Store(prefix=...).")]
BillingText = Annotated[
    str | None, typer.Option("--billing", metavar="BILLING", help="on-demand, or READ,WRITE units. Default: unchanged.")
]
StreamName = Annotated[
    str | None,
    typer.Option(
        "--stream",
        metavar="STREAM",
        help="What records hold, such as new_image; on Bigtable the days to retain changes. Default: unchanged.",
    ),
]
Protection = Annotated[
    bool | None,
    typer.Option(
        "--deletion-protection/--no-deletion-protection",
        help="Whether tables on Bigtable cannot be deleted. Default: unchanged.",
    ),
]
Backups = Annotated[
    float | None,
    typer.Option("--automated-backups", metavar="DAYS", help="Days to keep daily backups on Bigtable."),
]
Splits = Annotated[
    list[str] | None,
    typer.Option("--initial-split", metavar="KEY", help="A row key at which to divide a new table on Bigtable."),
]
Drop = Annotated[
    bool,
    typer.Option("--drop", help="Delete indexes that no model has; on Bigtable also older cell versions."),
]
Accept = Annotated[bool, typer.Option("--accept", help="Continue even if stored items are orphaned.")]
Sample = Annotated[int, typer.Option("--sample", min=0, max=10_000, help="Number of items whose keys to compare.")]
Lock = Annotated[Path, typer.Option("--file", metavar="PATH", help="The lock file, if there is one.")]


def _rate(value: float | None) -> float | None:
    """Check an option ``--rate``."""
    if value is not None and not 0 < value < inf:
        raise BadUsage(f"--rate {value:g}: give a number above 0")
    return value


Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
RemoveMost = Annotated[bool, typer.Option("--remove-most", help="Continue even if it removes most of what there is.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog="Example: odm plan shop.models:shop --backend dynamodb")(plan)
    app.command(epilog="Example: odm apply shop.models:shop --backend dynamodb")(apply)
    app.command(epilog="Example: odm backfill shop.models:shop Order.by_status dynamodb:eu-west-1")(backfill)
    app.command(epilog="Example: odm copy shop.models:shop shop.db dynamodb:eu-west-1")(copy)
    app.command(
        name="drop-rows",
        epilog="Example: odm drop-rows shop.models:shop --project my-project --instance shop --rows 'CUSTOMER#c1#'",
    )(drop_rows)
    app.command(epilog="Example: odm invalid shop.models:shop dynamodb:eu-west-1 --entity Order")(invalid)
    app.command(epilog="Example: odm rotate meters.models:readings dynamodb:eu-west-1 --drop --yes")(rotate)
    app.command(epilog="Example: odm scrub shop.models:shop --project my-project --instance shop")(scrub)
    app.command(epilog="Example: odm sweep shop.models:shop dynamodb:eu-west-1 --blobs s3://bucket/prefix")(sweep)


def plan(
    context: typer.Context,
    target: Target,
    backend: BackendName,
    region: Region = None,
    profile: Profile = None,
    endpoint_url: Endpoint = None,
    billing: BillingText = None,
    stream: StreamName = None,
    project: Project = None,
    instance: Instance = None,
    app_profile: AppProfile = None,
    endpoint: Emulator = None,
    deletion_protection: Protection = None,
    automated_backups: Backups = None,
    initial_split: Splits = None,
    prefix: Prefix = "",
    drop: Drop = False,
    accept: Accept = False,
    sample: Sample = 200,
    file: Lock = Path("odm.lock"),
    json: Json = False,
) -> None:
    """Compare the models with the table in the cloud, and change nothing.

    Prints a line for each change: what to create, add or update; "extra" for
    what no model has, "refused" for a change that cannot be made, "problem" for
    what you must fix, and how. It reads some stored items, on Bigtable also some
    index rows, and compares their keys with those that the models make:
    "orphans" if they differ, "unknown" for items that no entity reads, "backfill"
    if index entries are missing. Exit code 0: nothing to do.
    """
    from odm.cli.clouds import Cloud
    from odm.cli.plan import Options, plan

    options = Options(Cloud.of_options(context.params), prefix, drop, accept, sample, file)
    raise typer.Exit(plan(target, options, as_json=json))


def apply(
    context: typer.Context,
    target: Target,
    backend: BackendName,
    region: Region = None,
    profile: Profile = None,
    endpoint_url: Endpoint = None,
    billing: BillingText = None,
    stream: StreamName = None,
    project: Project = None,
    instance: Instance = None,
    app_profile: AppProfile = None,
    endpoint: Emulator = None,
    deletion_protection: Protection = None,
    automated_backups: Backups = None,
    initial_split: Splits = None,
    prefix: Prefix = "",
    drop: Drop = False,
    remove_most: RemoveMost = False,
    accept: Accept = False,
    sample: Sample = 200,
    file: Lock = Path("odm.lock"),
    json: Json = False,
    yes: Yes = False,
) -> None:
    """Change the table in the cloud to match the models.

    Prints the plan, asks for confirmation, and makes the changes one by one,
    waiting for each. If it is interrupted, run it again: it continues with the
    remaining changes. It changes nothing if stored keys differ from the models,
    and with --drop it deletes at most half of the indexes without --remove-most.
    """
    from odm.cli.clouds import Cloud
    from odm.cli.plan import Options, apply

    options = Options(Cloud.of_options(context.params), prefix, drop, accept, sample, file, remove_most)
    raise typer.Exit(apply(target, options, as_json=json, yes=yes))


def backfill(
    target: Target,
    filled_name: Annotated[
        str, typer.Argument(metavar="ENTITY[.NAME]", help="Order.by_status: an access pattern or another declaration.")
    ],
    place: Annotated[str, typer.Argument(metavar="PLACE", help="Where the table is: a location, see above.")],
    rate: Annotated[float | None, typer.Option("--rate", callback=_rate, help="Maximum items read per second.")] = None,
    state: Annotated[Path, typer.Option("--state", metavar="PATH", help="The file that records the progress.")] = Path(
        "odm-backfill.state"
    ),
    file: Lock = Path("odm.lock"),
    json: Json = False,
) -> None:
    """Write what a changed model makes of stored items, while other programs write.

    Order.by_status fills an access pattern, Customer.unique_email the items of a
    declaration such as a pointer or a unique value, Order whole items, such as
    those of an older version. An item that is right costs no write, and no
    write of another program is lost.

    A location is the path of a LocalFile, dynamodb:REGION, or
    bigtable:PROJECT/INSTANCE, with options as for odm copy. In a cloud, add new
    indexes with odm apply first.

    If it is interrupted, run it again: it continues where it stopped. At the end
    it records in the lock file, if there is one, that the pattern is backfilled.
    Exit code 1: it names items that it could not write, and why.
    """
    from odm.cli.backfill import Options, backfill

    raise typer.Exit(backfill(target, filled_name, place, Options(rate, state, file), as_json=json))


def scrub(
    target: Target,
    project: Annotated[str, typer.Option("--project", help="The Google Cloud project.")],
    instance: Annotated[str, typer.Option("--instance", help="The Bigtable instance in it.")],
    app_profile: AppProfile = None,
    endpoint: Emulator = None,
    prefix: Prefix = "",
    expired: Annotated[bool, typer.Option("--expired", help="Also remove items whose TTL has passed.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Also write missing index entries again.")] = False,
    rate: Annotated[float | None, typer.Option("--rate", callback=_rate, help="Maximum rows read per second.")] = None,
    after: Annotated[str | None, typer.Option("--after", help="Continue where an earlier run stopped.")] = None,
    remove_most: RemoveMost = False,
    json: Json = False,
    yes: Yes = False,
) -> None:
    """Remove what interrupted writers left behind on Bigtable.

    It removes index columns that no item lists, and counters of items that do
    not exist. They never make a read wrong; they only cost time and storage.
    Data younger than an hour is kept, so other programs may write meanwhile.
    Data of other programs in the tables is kept.

    An index table that was deleted or restored from a backup lacks entries that
    items list: --repair reads the items and writes these entries again.

    It reads the tables first to count what it would remove, then asks. It refuses
    to remove more than half of the index columns or of the items without
    --remove-most; with it and --yes, the tables are read once.
    """
    from odm.backends.bigtable import Bigtable
    from odm.cli.scrub import scrub

    settings = Bigtable(project, instance, app_profile=app_profile, endpoint=endpoint)
    code = scrub(
        target,
        settings,
        prefix=prefix,
        expired=expired,
        repair=repair,
        rate=rate,
        after=after,
        as_json=json,
        remove_most=remove_most,
        yes=yes,
    )
    raise typer.Exit(code)


def sweep(
    target: Target,
    place: Annotated[
        str,
        typer.Argument(metavar="WHERE", help="shop.db, dynamodb:REGION?prefix=... or bigtable:PROJECT/INSTANCE?..."),
    ],
    blobs: Annotated[str, typer.Option("--blobs", metavar="URL", help="The place of blobs, as in Store(blobs=...).")],
    grace: Annotated[float, typer.Option("--grace", metavar="HOURS", min=0, help="Keep younger blobs, in hours.")] = 24,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the blobs. Default: only list them.")] = False,
    remove_most: RemoveMost = False,
    force: Annotated[bool, typer.Option("--force", help="Allow a grace below an hour: nobody writes.")] = False,
    json: Json = False,
    yes: Yes = False,
) -> None:
    """List the blobs of large values that no item refers to, or remove them.

    They are left by programs that stopped during a write, by items that expired
    or that other programs deleted, and by batches. It lists the blobs of the
    table and reads the whole table. Other programs may write meanwhile: a blob
    younger than the grace is kept. A file in the folder of the blobs names their
    table: the folder of another table or database is refused.

    With --remove it asks first. It refuses to remove more than half of the blobs,
    or blobs of a table without items, unless you add --remove-most.
    """
    from odm.cli.sweep import Options, sweep

    raise typer.Exit(sweep(target, place, blobs, Options(grace, remove, remove_most, force, yes), as_json=json))


def drop_rows(
    target: Target,
    project: Annotated[str, typer.Option("--project", help="The Google Cloud project.")],
    instance: Annotated[str, typer.Option("--instance", help="The Bigtable instance in it.")],
    app_profile: AppProfile = None,
    endpoint: Emulator = None,
    prefix: Prefix = "",
    rows: Annotated[
        str | None, typer.Option("--rows", metavar="BEGINNING", help="The beginning of the row keys to delete.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Delete all rows, also those of the indexes.")] = False,
    json: Json = False,
    yes: Yes = False,
) -> None:
    """Delete all rows on Bigtable whose keys begin with a text, or all rows.

    Bigtable deletes whole rows without reading them: fast, and without the
    checks of delete_all(). So it asks first. It refuses if one of the first 100
    rows has cells of other programs, but does not look at the rest. End the text
    with "#": CUSTOMER#c1 also begins the keys of customer c10.

    Index entries of the rows stay, and odm scrub removes them later. Items that
    other declarations keep of them, such as unique values, stay too.
    """
    from odm.backends.bigtable import Bigtable
    from odm.cli.drop_rows import drop_rows

    settings = Bigtable(project, instance, app_profile=app_profile, endpoint=endpoint)
    code = drop_rows(target, settings, prefix=prefix, rows=rows, every=every, as_json=json, yes=yes)
    raise typer.Exit(code)


def copy(
    target: Target,
    source: Annotated[str, typer.Argument(metavar="FROM", help="The source: a location, see above.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="The target: a location, see above.")],
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=64, help="Parts to read in parallel.")] = 4,
    rate: Annotated[
        float | None, typer.Option("--rate", callback=_rate, help="Maximum items copied per second.")
    ] = None,
    state: Annotated[Path, typer.Option("--state", metavar="PATH", help="The file that records the progress.")] = Path(
        "odm-copy.state"
    ),
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Write to a table that already has items.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare source and target at the end.")] = True,
    json: Json = False,
    yes: Yes = False,
) -> None:
    """Copy a table from one location to another, with its stored attributes.

    A location is the path of a LocalFile, dynamodb:REGION, or
    bigtable:PROJECT/INSTANCE. Options follow a "?", joined by "&": prefix=prod-
    anywhere; profile= and endpoint_url= for dynamodb; app_profile= and endpoint=
    for bigtable. The target table is created if it does not exist.
    A table that has items is refused; with --into-existing it asks, and replaces
    items with the same keys.

    If it is interrupted, run it again: it continues where it stopped. At the end
    both sides are compared, by count and checksum of each partition. Exit code
    1: they differ.
    """
    from odm.cli.copy import Options, copy

    options = Options(parallel, rate, state, into_existing, verify, yes)
    raise typer.Exit(copy(target, source, to, options, as_json=json))


def invalid(
    target: Target,
    place: Annotated[str, typer.Argument(metavar="LOCATION", help="Where the table is: a location, see above.")],
    entity: Annotated[str | None, typer.Option("--entity", help="Only items of this entity. Default: of all.")] = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Stop after so many such items. Default: read the whole table.")
    ] = None,
    format: Annotated[Literal["table", "json"], typer.Option("--format", help="How to print them.")] = "table",
    delete: Annotated[bool, typer.Option("--delete", help="Delete them, if they are still as they were read.")] = False,
    remove_most: Annotated[
        bool, typer.Option("--remove-most", help="Continue even if it removes most of what there is.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """List the stored items that do not fit their models, or delete them.

    Prints the key, entity and field of each, Pydantic's reason, the stored value
    and a call that fixes it. Exit code 1 if there are such items. It reads the
    whole table; items of no entity and expired ones are left out.

    With --delete it asks, and deletes those that nobody has changed meanwhile.
    It refuses if they are most of the items, unless you add --remove-most. What
    other declarations keep of them, such as unique values, stays.

    A location is the path of a LocalFile, dynamodb:REGION, or
    bigtable:PROJECT/INSTANCE, with options as for odm copy.
    """
    from odm.cli.invalid import Options, invalid

    raise typer.Exit(invalid(target, place, Options(entity, limit, format, delete, remove_most, yes)))


def rotate(
    series: Annotated[
        str, typer.Argument(metavar="MODULE:SERIES", help="The module that declares the TimeSeries, and its name.")
    ],
    place: Annotated[str, typer.Argument(metavar="PLACE", help="Where the tables are: a location, see above.")],
    drop: Annotated[bool, typer.Option("--drop", help="Delete the tables beyond keep=, with their items.")] = False,
    remove_most: RemoveMost = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the steps, and change nothing.")] = False,
    json: Json = False,
    yes: Yes = False,
) -> None:
    """Make, change and drop the tables of a time series, one for each period.

    Prints the steps, asks for confirmation, and makes them: the tables of the
    present and of the next periods; the settings of tables of past periods, on
    DynamoDB; with --drop it deletes the tables beyond keep=, but not more than
    half of all without --remove-most. Other tables are left alone. Run it every
    night: a step that is done already is not made again, and an interrupted run
    is finished by the next.

    A location is the path of a LocalFile, dynamodb:REGION, or
    bigtable:PROJECT/INSTANCE, with options as for odm copy.
    """
    from odm.cli.rotate import Options, rotate

    raise typer.Exit(rotate(series, place, Options(drop, remove_most, dry_run, yes), as_json=json))
