"""Removes the garbage of interrupted writers: ``odm scrub``, and the same as functions.

Reads are correct without a scrub: they ignore the garbage, which costs only time and storage. So run it rarely, for
example once a day. It may be stopped at any time, and run at the same time as other scrubs and writers::

    from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.maintenance.scrub import scrub

    print(scrub(Bigtable("my-project", "shop"), table))

It removes index columns that no item lists (a write stopped before its item was written, or before the item's previous
entries were removed), rows that increments of Counters left without an item, and with ``expired=True`` items whose TTL
has passed. It keeps index columns and counters younger than the lease of one hour, because their writer may still be
running. It neither removes nor changes rows, cells and column families of other programs.

With ``repair=True`` it also writes index entries again that items list but that are missing, because an index table was
deleted by hand or restored from a backup; see `odm.backends.bigtable.index.repair`.
"""

from collections.abc import Callable

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import Steps
from odm.backends.bigtable.client.retry import LEASE_SECONDS
from odm.backends.bigtable.maintenance.garbage import Rules, Scrubbed, check_after, collect
from odm.backends.bigtable.rows.keys import with_row_key_bytes
from odm.backends.bigtable.writer import Writer
from odm.errors import BadValue, brief
from odm.immutable import evolve
from odm.protocol.connection import arun, run
from odm.schema.model import Schema
from odm.schema.table import Table

Tell = Callable[[Scrubbed], object]


def scrub(  # noqa: PLR0913  # its options
    backend: Bigtable,
    table: Table,
    *,
    prefix: str = "",
    expired: bool = False,
    repair: bool = False,
    rate: float | None = None,
    after: str | None = None,
    tell: Tell | None = None,
    lease: float = LEASE_SECONDS,
    clock: Callable[[], float] | None = None,
    dry_run: bool = False,
) -> Scrubbed:
    """Remove garbage from the tables of a schema.

    Args:
        backend: the Bigtable instance.
        table: the table; its indexes are scrubbed, too.
        prefix: the prefix of the `odm.Store`.
        expired: also remove items whose TTL has passed, with their index entries. This reads the whole table, as does
            a scrub of a table in which a model has a Counter.
        repair: also write missing index entries again. This reads the whole table.
        rate: the maximum rows per second; None: no limit.
        after: continue an earlier call: the last `Scrubbed.following` that was passed to ``tell``.
        tell: called with the progress so far after each page of 500 rows.
        lease: the age in seconds up to which index columns and counters are kept. Writers rely on one hour; use less
            only if no program writes.
        clock: returns seconds since the epoch, for tests; None: the server's time, which is also that of the columns.
        dry_run: remove, resolve and repair nothing: count what would be removed, and of how many. Ghosts of increments
            are counted before it is known whether they are old enough.

    Returns:
        The rows read, and what was removed and repaired.

    Raises:
        BadValue: an argument is not valid.
        SchemaError: Bigtable cannot store the models.
        Throttled: the server did not answer in time.
        OdmError: the server refused a call.
    """
    schema, rules = _named(backend, table, prefix), Rules(lease, expired, rate, after, clock, repair, dry_run)
    _check(schema, rules)
    connection = backend.connect(schema)
    try:
        return run(_steps(schema, rules, tell), connection.call)
    finally:
        connection.close()


async def ascrub(  # noqa: PLR0913  # its options
    backend: Bigtable,
    table: Table,
    *,
    prefix: str = "",
    expired: bool = False,
    repair: bool = False,
    rate: float | None = None,
    after: str | None = None,
    tell: Tell | None = None,
    lease: float = LEASE_SECONDS,
    clock: Callable[[], float] | None = None,
    dry_run: bool = False,
) -> Scrubbed:
    """Remove garbage, without blocking the event loop; see `scrub`."""
    schema, rules = _named(backend, table, prefix), Rules(lease, expired, rate, after, clock, repair, dry_run)
    _check(schema, rules)
    connection = backend.connect(schema)
    try:
        return await arun(_steps(schema, rules, tell), connection.acall)
    finally:
        await connection.aclose()


def _steps(schema: Schema, rules: Rules, tell: Tell | None) -> Steps[Scrubbed]:
    return with_row_key_bytes(schema, collect(Writer(schema), rules, tell or _silent))


def _named(backend: Bigtable, table: Table, prefix: str) -> Schema:
    schema = backend.laid_out(table.compile())
    return evolve(schema, name=prefix + schema.name, prefix=prefix)


def _check(schema: Schema, rules: Rules) -> None:
    check_after(schema, rules.after)
    for name, value in (("lease", rules.lease), ("rate", 1 if rules.rate is None else rules.rate)):
        if not value > 0:
            raise BadValue(f"scrub({name}={brief(value)}): pass a number above 0")


def _silent(_done: Scrubbed) -> None:
    """Report no progress."""


__all__ = ["Scrubbed", "ascrub", "scrub"]
