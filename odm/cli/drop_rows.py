"""`odm drop-rows`: delete all rows of a Bigtable table whose keys have a prefix."""

import json

from typer import echo

from odm.backends.bigtable import Bigtable
from odm.cli.ask import NOT_CONFIRMED, agreed
from odm.cli.target import load_target
from odm.cli.usage import BadUsage
from odm.immutable import evolve


def drop_rows(
    target: str, backend: Bigtable, *, prefix: str, rows: str | None, every: bool, as_json: bool, yes: bool
) -> int:
    """Delete the rows, unless some of them hold cells of other programs.

    Args:
        target: ``module:table``.
        backend: the Bigtable instance.
        prefix: the store's prefix.
        rows: the beginning of the row keys.
        every: all rows, also those of the indexes.
        as_json: print JSON.
        yes: do not ask.

    Returns:
        The exit code: 1 if a row has cells of other programs, or the user did not confirm.

    Raises:
        BadUsage: not exactly one of ``rows`` and ``every`` is given, or ``rows`` is empty.
        OdmError: the models do not compile, or the table cannot be read or changed.
    """
    from odm.backends.bigtable.maintenance.drop_rows import Dropper  # imports Google's packages

    if every is (rows is not None) or rows == "":
        raise BadUsage("write --rows with the beginning of the row keys, as in --rows 'CUSTOMER#c1#', or --all")
    models = load_target(target)
    schema = evolve(models.schema, name=prefix + models.schema.name, prefix=prefix)
    dropper = Dropper(backend, schema, rows)
    look = dropper.look()
    which = "all rows" if rows is None else f"the rows that begin with {rows!r}"
    stop = ""
    if look.foreign is not None:
        where = f" of table {look.table}" * (look.table != schema.name)
        stop = f"row {look.foreign!r}{where} has cells of another program; delete the items with store.delete_all(...)"
    elif (
        look.first is not None
        and not yes
        and not agreed(_question(schema.name, which, look.first, look.rows, more=look.more))
    ):
        stop = f"the deletion was {NOT_CONFIRMED}"
    elif look.first is not None:
        dropper.drop()
    dropped = not stop and look.first is not None
    if as_json:
        echo(json.dumps({"table": schema.name, "dropped": dropped, "foreign": look.foreign}, indent=2))
    elif not stop:
        echo(_done(schema.name, which, dropped=dropped, indexed=bool(schema.indexes) and rows is not None))
    if stop:
        echo(f"odm: table {schema.name} is unchanged: {stop}", err=True)
    return int(bool(stop))


def _question(table: str, which: str, first: str, count: int, *, more: bool) -> str:
    number = f"at least {count}" if more else str(count)
    return f"Delete {which} of table {table}, {number}, such as {first!r}, with all their cells?"


def _done(table: str, which: str, *, dropped: bool, indexed: bool) -> str:
    if not dropped:
        return f"table {table}: there are no such rows"
    rest = "; their index entries are removed by odm scrub, when they are an hour old" if indexed else ""
    return f"table {table}: deleted {which}{rest}"
