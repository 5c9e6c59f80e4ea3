"""Capacity units: the units that DynamoDB charges for reads and writes, by the sizes of items.

The rules are those of
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/read-write-operations.html, and for indexes of
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/GSI.html#GSI.ThroughputConsiderations. DynamoDB also
charges for a refused write or transaction, but does not report the units: here such a request counts zero units, on
every backend.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from odm.immutable import Immutable, field
from odm.protocol import requests as req
from odm.protocol.limits import stored_size
from odm.schema.entity import Key

READ_BYTES: Final = 4096
WRITE_BYTES: Final = 1024

TRANSACTION: Final = 2
"""The factor between the units of a transaction and those of its operations, of the table alone: DynamoDB reads or
writes each item twice, to prepare and to commit, and writes the entries of its indexes once. A check costs as much as
a write. Source: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/transaction-apis.html; that an index
entry is not doubled is what AWS reports (recorded by Dynoxide: table 2 and index 1 for a put with one index).
"""


class Units(Immutable):
    """The read and write units that a native request used.

    Attributes:
        read, write: the units by index; None is the table itself.
        by_key: the units by the key of the item, if the backend reports them.
    """

    read: Mapping[str | None, float] = field(factory=dict)
    write: Mapping[str | None, float] = field(factory=dict)
    by_key: Mapping[Key, float] = field(factory=dict)

    @property
    def total(self) -> float:
        """The sum of all read and write units."""
        return sum(self.read.values()) + sum(self.write.values())


def read_units(size: int, *, consistent: bool) -> float:
    """The units for reading an item or a page of this size; an absent item or an empty page uses one unit."""
    units = max(1, -(-size // READ_BYTES))
    return float(units) if consistent else units / 2


def write_units(size: int) -> float:
    """The units for writing an item of this size: of the larger item, if it replaces one."""
    return float(max(1, -(-size // WRITE_BYTES)))


def summed(parts: Iterable[tuple[str | None, float]], times: int = 1) -> dict[str | None, float]:
    """The sums of the units by index, without the indexes that used no unit.

    Args:
        parts: units, each with its index; None is the table.
        times: the factor of the table's units, `TRANSACTION` in a transaction.
    """
    totals: dict[str | None, float] = {}
    for index, units in parts:
        if units:
            totals[index] = totals.get(index, 0.0) + (units if index is not None else times * units)
    return totals


def computed(request: req.Request, answer: req.Response) -> Units | None:
    """The units of a request, computed from the request and its response, for a backend that does not report them.

    Items that a filter dropped or that a write replaced are not counted. None: the units are not known.
    """
    match request:
        case req.Get() | req.BatchGet():
            return Units(read={None: sum(_item_reads(request, answer))})
        case req.Query() | req.Scan():
            return Units(read={request.index if isinstance(request, req.Query) else None: _page_read(request, answer)})
        case _ if isinstance(answer, req.Refused | req.Refusals):
            return None
        case req.Put() | req.Update() | req.Delete():
            return Units(write=_writes(request))
        case req.Merge():
            return Units(write=_writes(request))
        case req.BatchWrite(operations) | req.BatchMerge(operations):
            return Units(write=_all_writes(operations))
        case req.Transact(operations):
            return Units(write=_all_writes(operations, TRANSACTION))
        case req.Split() | req.ListShards() | req.ReadChanges():
            return None
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return None
        case req.IdentifyTable() | req.MeasureTable():
            return None


def weights(request: req.Request, answer: req.Response, by_key: Mapping[Key, float]) -> dict[str, float]:
    """The weights by which the units of a request are split over the patterns that it serves.

    DynamoDB reports the units of a batch or transaction as a whole. They are split by the sizes of the items in the
    request and its response.

    Args:
        request: the request.
        answer: its response; any other value if it failed.
        by_key: the units by the keys of the items, as far as the backend reported them.
    """
    match request:
        case req.BatchGet(keys, patterns=patterns):
            named = list(zip(patterns or ("",) * len(keys), keys, _item_reads(request, answer), strict=True))
        case req.BatchWrite(operations) | req.BatchMerge(operations) | req.Transact(operations):
            times = TRANSACTION if isinstance(request, req.Transact) else 1
            named = [
                (operation.pattern, operation.key, sum(_all_writes([operation], times).values()))
                for operation in operations
            ]
        case req.CreateTables() | req.DropTables() | req.ListTables() | req.AlterTables():
            return {}
        case req.IdentifyTable() | req.MeasureTable():
            return {}
        case _:
            return {request.pattern: 1.0}
    totals: dict[str, float] = {}
    for pattern, key, units in named:
        totals[pattern] = totals.get(pattern, 0.0) + by_key.get(key, units)
    return totals


def _item_reads(request: req.Get | req.BatchGet, answer: req.Response) -> list[float]:
    """The units for each requested item, from the response."""
    keys, items = (request.keys, answer) if isinstance(request, req.BatchGet) else ((request.key,), (answer,))
    stored_items = items if isinstance(items, tuple) else (None,) * len(keys)  # the request failed
    sizes = [0 if item is None else stored_size(item, key, {}) for key, item in zip(keys, stored_items, strict=True)]
    times = TRANSACTION if isinstance(request, req.BatchGet) and request.atomic else 1
    return [times * read_units(size, consistent=request.consistent) for size in sizes]


def _page_read(request: req.Query | req.Scan, page: req.Page) -> float:
    size = sum(stored_size(item, place.key, {}) for item, place in zip(page.items, page.positions, strict=False))
    return read_units(size, consistent=request.consistent)


def _all_writes(operations: Iterable[req.Operation | req.Merge], times: int = 1) -> dict[str | None, float]:
    return summed((part for operation in operations for part in _writes(operation).items()), times)


def _writes(operation: req.Operation | req.Merge) -> dict[str | None, float]:
    """The units of a write, from its request: those of the new item, or one unit if its size is not known."""
    match operation:
        case req.Put(key, item, entries):
            units = write_units(stored_size(item, key, entries))
            return {None: units, **dict.fromkeys(entries, units)}
        case req.Update(entries=entries):
            return {None: 1.0, **dict.fromkeys(entries, 1.0)}
        case req.Delete() | req.Check() | req.Merge():
            return {None: 1.0}
