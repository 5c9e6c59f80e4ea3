"""The commands on tables as they are: `odm plan`, `odm apply`, `odm scrub` and `odm copy`."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Target = Annotated[
    str, typer.Argument(metavar="MODULE:TABLE", help="The module that declares the entities, and the Table in it.")
]
BackendName = Annotated[Literal["dynamodb", "bigtable"], typer.Option("--backend", help="Where the table is.")]
Region = Annotated[str | None, typer.Option("--region", help="The AWS region; else boto3 finds it.")]
Profile = Annotated[str | None, typer.Option("--profile", help="The profile in the AWS configuration.")]
Endpoint = Annotated[str | None, typer.Option("--endpoint-url", metavar="URL", help="Of another service than AWS.")]
Project = Annotated[str | None, typer.Option("--project", help="The Google Cloud project.")]
Instance = Annotated[str | None, typer.Option("--instance", help="The Bigtable instance in it.")]
AppProfile = Annotated[str | None, typer.Option("--app-profile", help="The app profile; else the instance's default.")]
Emulator = Annotated[
    str | None,
    typer.Option(
        "--endpoint", metavar="HOST:PORT", help="Of a Bigtable emulator; else as BIGTABLE_EMULATOR_HOST says."
    ),
]
Prefix = Annotated[str, typer.Option("--prefix", help="What Store(prefix=...) puts before the table's name.")]
BillingText = Annotated[
    str | None, typer.Option("--billing", metavar="BILLING", help='"on-demand", or READ,WRITE units; else as it is.')
]
StreamName = Annotated[
    Literal["new_and_old_images", "new_image", "old_image", "keys_only"] | None,
    typer.Option("--stream", help="What stream records hold; else as it is."),
]
Drop = Annotated[
    bool,
    typer.Option("--drop", help="Remove indexes that no model has; on Bigtable also older values of cells."),
]
Accept = Annotated[bool, typer.Option("--accept", help="Do not refuse because of orphaned data.")]
Sample = Annotated[int, typer.Option("--sample", min=0, max=10_000, help="Compare the keys of so many items.")]
Lock = Annotated[Path, typer.Option("--file", metavar="PATH", help="The lock file, if there is one.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def add_to(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    app.command(epilog="Example: odm plan shop.models:shop --backend dynamodb")(plan)
    app.command(epilog="Example: odm apply shop.models:shop --backend dynamodb")(apply)
    app.command(epilog="Example: odm copy shop.models:shop shop.db dynamodb:eu-west-1")(copy)
    app.command(epilog="Example: odm scrub shop.models:shop --project my-project --instance shop")(scrub)


def plan(
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
    prefix: Prefix = "",
    drop: Drop = False,
    accept: Accept = False,
    sample: Sample = 200,
    file: Lock = Path("odm.lock"),
    json: Json = False,
) -> None:
    """Compare the models with the table in the cloud, and change nothing.

    Prints a line for each thing to create, add or change; "extra" is what no
    model has, "refused" what cannot be made, "problem" what must be fixed, and
    how. On Bigtable some rows of the indexes are read. The keys of some stored items are
    read, and compared with those that the models make: "orphans" if they
    differ, "backfill" if index entries are lacking. Exit code 0: nothing to do.
    """
    from odm.cli.clouds import Cloud
    from odm.cli.plan import Options, plan

    cloud = Cloud(
        backend=backend,
        region=region,
        profile=profile,
        endpoint_url=endpoint_url,
        billing=billing,
        stream=stream,
        project=project,
        instance=instance,
        app_profile=app_profile,
        endpoint=endpoint,
    )
    options = Options(cloud, prefix, drop, accept, sample, file)
    raise typer.Exit(plan(target, options, as_json=json))


def apply(
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
    prefix: Prefix = "",
    drop: Drop = False,
    accept: Accept = False,
    sample: Sample = 200,
    file: Lock = Path("odm.lock"),
    json: Json = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Make the table in the cloud what the models ask for.

    Shows what odm plan shows, asks, and makes the changes one after the other,
    waiting for each. If it is interrupted, run it again: it goes on with what
    is left. It does nothing while a key template differs from stored data.
    """
    from odm.cli.clouds import Cloud
    from odm.cli.plan import Options, apply

    cloud = Cloud(
        backend=backend,
        region=region,
        profile=profile,
        endpoint_url=endpoint_url,
        billing=billing,
        stream=stream,
        project=project,
        instance=instance,
        app_profile=app_profile,
        endpoint=endpoint,
    )
    options = Options(cloud, prefix, drop, accept, sample, file)
    raise typer.Exit(apply(target, options, as_json=json, yes=yes))


def scrub(
    target: Target,
    project: Annotated[str, typer.Option("--project", help="The Google Cloud project.")],
    instance: Annotated[str, typer.Option("--instance", help="The Bigtable instance in it.")],
    app_profile: AppProfile = None,
    endpoint: Emulator = None,
    prefix: Prefix = "",
    expired: Annotated[bool, typer.Option("--expired", help="Also remove items whose TTL has passed.")] = False,
    repair: Annotated[bool, typer.Option("--repair", help="Also write index entries again that are missing.")] = False,
    rate: Annotated[float | None, typer.Option("--rate", help="Look at so many rows a second at most.")] = None,
    after: Annotated[str | None, typer.Option("--after", help="Go on where an earlier run stopped.")] = None,
    json: Json = False,
) -> None:
    """Remove what writers that stopped halfway have left behind on Bigtable.

    Index columns that no item lists, and counters where there is no item: no
    read is ever wrong because of them, they only cost time and storage. What is
    younger than an hour is left alone, so it may run while others write. What
    other programs keep in the tables stays.

    An index table that was deleted by hand or restored from a backup lacks
    entries that items list: --repair goes over the items and writes them again.
    """
    from odm.backends.bigtable import Bigtable
    from odm.cli.scrub import scrub

    settings = Bigtable(project, instance, app_profile=app_profile, endpoint=endpoint)
    scrub(target, settings, prefix=prefix, expired=expired, repair=repair, rate=rate, after=after, as_json=json)


def copy(
    target: Target,
    source: Annotated[str, typer.Argument(metavar="FROM", help="Where the items are: a place, see above.")],
    to: Annotated[str, typer.Argument(metavar="TO", help="Where they shall be: a place, see above.")],
    parallel: Annotated[int, typer.Option("--parallel", min=1, max=64, help="Read so many parts at a time.")] = 4,
    rate: Annotated[float | None, typer.Option("--rate", help="Copy so many items a second at most.")] = None,
    state: Annotated[Path, typer.Option("--state", metavar="PATH", help="Where to note how far it is.")] = Path(
        "odm-copy.state"
    ),
    into_existing: Annotated[
        bool, typer.Option("--into-existing", help="Write to a table that holds items already.")
    ] = False,
    verify: Annotated[bool, typer.Option("--verify/--no-verify", help="Compare both sides at the end.")] = True,
    json: Json = False,
) -> None:
    """Copy a table, items as they are stored, from one place to another.

    A place is the path of a LocalFile, dynamodb:REGION, or
    bigtable:PROJECT/INSTANCE; behind a "?" come options, joined by "&":
    prefix=prod- anywhere; profile= and endpoint_url= of dynamodb; app_profile=
    and endpoint= of bigtable. The table is created where it is not there.

    If it is stopped, run it again: it goes on where it was. At the end both
    sides are compared, by count and checksum of each partition. Exit code 1:
    they are not the same.
    """
    from odm.cli.copy import Options, copy

    raise typer.Exit(copy(target, source, to, Options(parallel, rate, state, into_existing, verify), as_json=json))
