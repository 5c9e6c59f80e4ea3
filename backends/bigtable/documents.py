"""The beginning of a document: its tag, its version and the names of its counters; and filters for them.

A document is the JSON of an item in a wide row, see `odm.backends.bigtable.wide`::

    {"_t": "Video", "_v": 2, "_c": ["likes", "views"], ...

So a range of values has the documents with a tag, or with a tag and a version.
"""

import re
from typing import Final

from odm.backends.bigtable.cells import write
from odm.backends.bigtable.filters import Filter, ValueMatches, ValueRange, interleave
from odm.codec import TAG, VERSION
from odm.expressions.nodes import Value

COUNTED: Final = "_c"
"""The attribute of a document that names the item's Counters; it is not one of the item."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")


def has_tag(tag: str) -> Filter:
    """The documents with this tag."""
    return _beginning(_opening(tag))


def has_other_tag(tag: str) -> Filter:
    """All others, including values that are not documents."""
    start = _opening(tag)
    return interleave(ValueRange(b"", start), ValueRange(_past(start)))


def has_version(tag: str, version: Value) -> Filter:
    """The documents with this tag and version."""
    start = _opening(tag) + f', "{VERSION}": {version}'.encode()
    return interleave(_beginning(start + b","), _beginning(start + b"}"))


def has_first_version(tag: str) -> Filter:
    """The documents with this tag and the first version, which is not stored."""
    start = _opening(tag)
    later = start + f', "{VERSION}"'.encode()
    return interleave(ValueRange(start, later), ValueRange(_past(later), _past(start)))


def has_counter(tag: str, name: str) -> Filter | None:
    """The documents with this tag that name this counter; None if no filter can express the name."""
    if not (_PLAIN.fullmatch(name) and tag.isascii()):
        return None
    start = re.escape(_opening(tag)).decode()
    named = f'{start}(, "{VERSION}": [0-9]+)?, "{COUNTED}": \\[[^]]*"{re.escape(name)}"[^]]*\\]\\C*'
    return ValueMatches(named.encode())


def _opening(tag: str) -> bytes:
    """The first bytes of the documents with this tag."""
    return write({TAG: tag}).removesuffix(b"}")


def _beginning(start: bytes) -> ValueRange:
    return ValueRange(start, _past(start))


def _past(start: bytes) -> bytes:
    """The first value above all that begin with this one, which is ASCII at its end."""
    return start[:-1] + bytes([start[-1] + 1])
