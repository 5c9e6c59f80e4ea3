"""Finds blobs that no item refers to: those of stopped programs, expired items, batches, and deletes by others.

The blobs are listed first, then the whole table is read. A blob that is referred to when it is old was so all the time
since it was written: a name is never used again, and a write that keeps a blob has the condition that the stored item
refers to it. So only a writer that takes longer than the grace, from its upload to its write, could lose a blob.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from odm._published import public_in
from odm.codec.types.blobs import BLOB, pointer_of
from odm.errors import BadValue, Unsupported, brief
from odm.immutable import Immutable, evolve
from odm.procedures import raw
from odm.procedures.blobs import claim, gathered
from odm.procedures.concurrent import sent_together
from odm.procedures.context import Context
from odm.protocol import requests as req
from odm.protocol.blobs import BlobFolder, CheckFolder, ListBlobs, Listing, RemoveBlob
from odm.protocol.connection import CoreGen

HOUR: Final = 3600.0

PARTS: Final = 8
"""The parts of the table that are read together."""

TOGETHER: Final = 16
"""The blobs that are removed together."""


@public_in("odm.results")
class Swept(Immutable):
    """What a sweep found.

    Attributes:
        orphans: the names of the blobs that no item refers to, in order.
        removed: how many of them it removed.
        items: how many items it read; 0 if no blob is old enough.
        blobs: how many blobs the folder had, of any age.
        bytes: the bytes of the orphans.
    """

    orphans: tuple[str, ...]
    removed: int
    items: int
    blobs: int = 0
    bytes: int = 0


Confirm: TypeAlias = Callable[[Swept], bool]
"""Decides whether what a sweep has found is removed."""


def sweep(
    context: Context,
    *,
    grace: float,
    remove: bool,
    force: bool,
    remove_most: bool = False,
    confirm: Confirm | None = None,
) -> CoreGen[Swept]:
    """Find, and with ``remove`` remove, blobs older than ``grace`` seconds that no item refers to.

    Raises:
        BadValue: the grace is not a number of an hour or more, or of 0 or more with ``force``; the folder belongs to
            another table; or it would remove more than half of the blobs, or blobs of a table without items, without
            ``remove_most``.
        Unsupported: the store has no ``blobs=``.
        BackendError: the blobs cannot be listed or removed.
    """
    least = 0.0 if force else HOUR
    if isinstance(grace, bool) or not isinstance(grace, int | float) or not least <= grace < float("inf"):
        raise BadValue(
            f"grace={brief(grace)}: give the age in seconds from which a blob may be removed, {HOUR:.0f} or "
            "more: a writer "
            "uploads a blob before the item that refers to it. force=True allows less, if nobody writes"
        )
    folder = context.blobs
    if folder is None:
        raise Unsupported(f"a sweep of {context.schema.name!r} needs the place of its blobs: Store(..., blobs=...)")
    table: req.TableIdentity = yield req.IdentifyTable()
    yield CheckFolder(folder, table)
    listing: Listing = yield ListBlobs(folder, grace)
    orphans, items = set(listing.old), 0
    if orphans:
        items = yield from _read(orphans)
    report = Swept(tuple(sorted(orphans)), 0, items, listing.count, sum(listing.old[name] for name in orphans))
    if not remove or not orphans:
        return report
    if not remove_most:
        _check_few(context.schema.name, report)
    if confirm is not None and not confirm(report):
        return report
    yield from claim(folder)
    yield from _remove(folder, report.orphans)
    return evolve(report, removed=len(orphans))


def _check_few(table: str, report: Swept) -> None:
    """Refuse what looks like the wrong table or the wrong folder.

    Raises:
        BadValue: no item was read, or more than half of the blobs would go.
    """
    count = len(report.orphans)
    if report.items and 2 * count <= report.blobs:
        return
    why = "of the folder" if report.items else "though the table has no items"
    raise BadValue(
        f"a sweep of table {table!r} would remove {count} of {report.blobs} blobs ({report.bytes:,} bytes) {why}, so "
        "it removed none: check that the table and blobs= (--blobs) belong together; if they do, sweep with "
        "remove_most=True (--remove-most)"
    )


def _read(orphans: set[str]) -> CoreGen[int]:
    """Read the table, and discard the names that an item refers to. Returns the number of items."""
    segments, items = (yield from raw.segments(PARTS)), 0
    scans: Sequence[req.Scan] = [
        req.Scan(
            None, consistent=True, after=segment.after, segment=segment.number, part=segment.part, pattern="scan()"
        )
        for segment in segments
    ]
    while scans:
        pages = yield from sent_together(scans)
        for page in pages:
            items += len(page.items)
            for item in page.items:
                orphans.difference_update(_names(dict(item)))
        scans = [
            evolve(scan, after=page.next) for scan, page in zip(scans, pages, strict=True) if page.next is not None
        ]
    return items


def _names(value: Any) -> Iterator[str]:
    """The blobs that a stored value refers to, at any depth, also in items of other programs and older models."""
    pointer = pointer_of(value)
    if pointer is not None:
        yield pointer[BLOB]
    elif isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _names(part)


def _remove(folder: BlobFolder, names: Sequence[str]) -> CoreGen[None]:
    for start in range(0, len(names), TOGETHER):
        for answer in (yield from gathered([RemoveBlob(folder, name) for name in names[start : start + TOGETHER]])):
            if isinstance(answer, req.Failed):
                raise answer.error
