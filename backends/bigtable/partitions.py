"""Scans of a range of partitions: the range of rows that holds them.

In a row key, the separator and the sort key follow the partition key. The separator sorts below all characters of a
value in a key of odm's. So a range of partition keys is one range of rows; only a bound directly behind a partition key
must be behind its rows, too.

Keys as they are may have characters below the separator. There, a partition key that is the beginning of the upper
bound may have rows behind it, so the range of rows ends behind these. The scan has a condition that leaves the others
out.
"""

from odm.backends.bigtable.native import RowRange
from odm.keys import next_prefix
from odm.protocol.requests import Partitions, Scan
from odm.schema.model import Schema


def rows_of(request: Scan, schema: Schema | None = None) -> RowRange:
    """The rows that a scan reads, before its position is taken into account.

    Args:
        request: the scan.
        schema: the schema of the table; None: a partition is a row.
    """
    part = RowRange() if request.part is None else RowRange(*request.part)
    if request.partitions is None:
        return part
    start, end = request.partitions
    if schema is not None and not schema.hash_only:
        start, end = _rows(schema, request.tag, request.partitions)
    ends = [one for one in (part.end, end) if one is not None]
    return RowRange(max(part.start, start), min(ends, default=None))


def _rows(schema: Schema, tag: str | None, partitions: Partitions) -> tuple[str, str | None]:
    lo, hi = partitions
    if not schema.verbatim_rows:
        return _behind(lo), None if hi is None else _behind(hi)
    return lo, None if hi is None else _widened(schema, tag, hi)


def _behind(bound: str) -> str:
    """A bound of partition keys as one of row keys: behind a partition key is behind its rows."""
    return f"{bound[:-1]}$" if bound.endswith("\0") else bound


def _widened(schema: Schema, tag: str | None, hi: str) -> str | None:
    """The end of the rows of all partitions below a bound, in a table with keys as they are."""
    entity = schema.entities.get(str(tag))
    if entity is None:
        return None
    read, join = entity.primary.partition.read, schema.row_key_join
    heads = [hi[:size] for size in range(1, len(hi)) if read(hi[:size]) is not None]
    ends = [next_prefix(head + join) for head in heads]
    return None if None in ends else max([hi, *(end for end in ends if end is not None)])
