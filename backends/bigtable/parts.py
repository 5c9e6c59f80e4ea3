"""Parallel scans: where to divide a table, so that no partition is divided.

SampleRowKeys returns row keys that divide a table into parts of roughly equal bytes, and may return different keys in
each call. So the parts of one call belong together, and another call cannot reproduce them.
"""

from collections.abc import Sequence

from odm.backends.bigtable.layout import key_of
from odm.backends.bigtable.native import Sample
from odm.keys import can_be_key
from odm.protocol.requests import Part
from odm.schema.model import Schema
from odm.schema.row_keys import UNAMBIGUOUS

CONCURRENT_ONLY = (
    "scan(segment=...) on Bigtable: the server divides a table differently each time, so segments of different calls "
    "would miss items or return them twice. Read all segments in one call, scan(segments=4), or let each worker query "
    "its own partitions"
)
"""Why an `odm.protocol.requests.Scan` with a ``segment`` is not supported."""


def cut(schema: Schema, samples: Sequence[Sample], most: int) -> tuple[Part, ...]:
    """At most ``most`` parts of similar size: as many as the samples and the partitions allow."""
    total = max((sample.offset for sample in samples), default=0)
    chosen = {_nearest(samples, total * number // most).key for number in range(1, most)} if samples else set()
    texts = (key.decode("utf-8", "surrogateescape") for key in sorted(chosen))
    starts = [start for start in dict.fromkeys(_start_of_partition(schema, text) for text in texts) if start]
    starts.sort(key=lambda start: start.encode("utf-8", "surrogateescape"))
    return tuple(Part(start, end) for start, end in zip(("", *starts), (*starts, None), strict=True))


def _nearest(samples: Sequence[Sample], offset: int) -> Sample:
    return min(samples, key=lambda sample: abs(sample.offset - offset))


def _start_of_partition(schema: Schema, row_key: str) -> str:
    """The start of a part near a row key: a text that does not contain a whole partition and the separator after it.

    All rows of a partition begin with that partition and separator, so they are all before the start or all after it.
    """
    if schema.hash_only:
        return row_key
    if schema.verbatim_rows:
        keys = (key_of(schema, row_key, tag) for tag in schema.entities)
        return min((key.partition for key in keys if key is not None), default=row_key)
    if schema.row_key_join == UNAMBIGUOUS:
        return row_key.split(UNAMBIGUOUS, 1)[0]
    components = row_key.split("#")
    partitions = (entity.primary.partition for entity in schema.entities.values())
    lengths = [len(one.components) for one in partitions if can_be_key(one, components[:-1])]
    return "#".join(components[: min(lengths, default=len(components))])
