"""Removing what writers that stopped halfway have left behind: ``odm scrub``, and the same for programs.

Reads are right without it: what it removes is passed over by every one of them, and only costs them time, and storage.
So it need not run often, once a day say. It may run while others write, several at a time too, and be stopped at any
moment::

    from odm.backends.bigtable import Bigtable
    from odm.backends.bigtable.scrub import scrub

    print(scrub(Bigtable("my-project", "shop"), table))

It removes index columns that no item lists (a write stopped before its item was written, or before what the item
had listed was removed), what increments of Counters leave where there is no item, and with ``expired=True`` items whose
TTL has passed. What is younger than the lease, one hour, is left alone: its writer may still be at it. Rows, cells and
column families of other programs are neither removed nor changed.

With ``repair=True`` it also writes index entries again that items list and that are missing, because an index table was
deleted by hand or restored from a backup; see `odm.backends.bigtable.repair`.
"""

from collections.abc import Callable

from attrs import evolve

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.commit import LEASE_SECONDS
from odm.backends.bigtable.garbage import Rules, Scrubbed, collect
from odm.backends.bigtable.writer import Writer
from odm.errors import BadValue
from odm.protocol.connection import arun, run
from odm.schema.model import Schema
from odm.schema.table import Table

__all__ = ["Scrubbed", "ascrub", "scrub"]

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
) -> Scrubbed:
    """Remove what no item has.

    Args:
        backend: the instance.
        table: whose table and indexes.
        prefix: that of the `odm.Store`.
        expired: also remove items whose TTL has passed, with their index entries. The whole table is read for that, as
            it is where a model has a Counter.
        repair: also write index entries again that items list and that are missing. The whole table is read for that.
        rate: rows a second at most; None: as many as there are.
        after: go on where an earlier call stopped: the last `Scrubbed.following` that ``tell`` was told.
        tell: is told after each 500 rows what has been done so far.
        lease: seconds for which what no item lists is left alone. Writers rely on an hour: less only where nobody
            writes.
        clock: seconds since the epoch, for tests; None: the server's time, by which it stamps what is written.

    Returns:
        What was done.

    Raises:
        BadValue: an argument makes no sense.
        SchemaError: the models are not for Bigtable.
        Throttled: the server did not answer in time.
        OdmError: it refused a call.
    """
    schema, rules = _named(table, prefix), Rules(lease, expired, rate, after, clock, repair)
    _check(rules)
    connection = backend.connect(schema)
    try:
        return run(collect(Writer(schema), rules, tell or _silent), connection.call)
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
) -> Scrubbed:
    """Remove what no item has, without blocking the event loop; as `scrub`."""
    schema, rules = _named(table, prefix), Rules(lease, expired, rate, after, clock, repair)
    _check(rules)
    connection = backend.connect(schema)
    try:
        return await arun(collect(Writer(schema), rules, tell or _silent), connection.acall)
    finally:
        await connection.aclose()


def _named(table: Table, prefix: str) -> Schema:
    schema = table.compile()
    return evolve(schema, name=prefix + schema.name, prefix=prefix)


def _check(rules: Rules) -> None:
    for name, value in (("lease", rules.lease), ("rate", 1 if rules.rate is None else rules.rate)):
        if not value > 0:
            raise BadValue(f"scrub({name}={value!r}): give a number above 0")


def _silent(_done: Scrubbed) -> None:
    """Tell nobody."""
