"""Scans in parts: where a table is cut, so that no partition is.

Bigtable tells row keys that lie about evenly in the bytes of a table, and others each time it is asked: a cut is good
for all parts of one call, and nobody else can find it again.
"""

from collections.abc import Sequence

from odm.backends.bigtable.native import Sample
from odm.keys import can_be_key
from odm.protocol.requests import Part
from odm.schema.model import Schema
from odm.schema.row_keys import UNAMBIGUOUS

CONCURRENT_ONLY = (
    "scan(segment=...) on Bigtable: the server cuts a table otherwise each time it is asked, so parts that are read by "
    "different calls would miss items or have them twice. Read all parts in one call, scan(segments=4), or give each "
    "worker partitions of its own to query"
)
"""Why no `odm.protocol.requests.Scan` with a ``segment`` is done."""


def cut(schema: Schema, samples: Sequence[Sample], most: int) -> tuple[Part, ...]:
    """Parts of about one size, ``most`` at most: as many as the samples and the partitions allow."""
    total = max((sample.offset for sample in samples), default=0)
    chosen = {_nearest(samples, total * number // most).key for number in range(1, most)} if samples else set()
    texts = (key.decode("utf-8", "surrogateescape") for key in sorted(chosen))
    starts = [start for start in dict.fromkeys(_start_of_partition(schema, text) for text in texts) if start]
    starts.sort(key=lambda start: start.encode("utf-8", "surrogateescape"))
    return tuple(Part(start, end) for start, end in zip(("", *starts), (*starts, None), strict=True))


def _nearest(samples: Sequence[Sample], offset: int) -> Sample:
    return min(samples, key=lambda sample: abs(sample.offset - offset))


def _start_of_partition(schema: Schema, row_key: str) -> str:
    """Where to cut near a row key: a text that begins with no partition and what joins it to a sort key.

    All rows of a partition begin with these, so they are all before the cut, or all behind it.
    """
    if schema.hash_only:
        return row_key
    if schema.row_key_join == UNAMBIGUOUS:
        return row_key.split(UNAMBIGUOUS, 1)[0]
    components = row_key.split("#")
    partitions = (entity.primary.partition for entity in schema.entities.values())
    lengths = [len(one.components) for one in partitions if can_be_key(one, components[:-1])]
    return "#".join(components[: min(lengths, default=len(components))])
