"""Write sharding, also called key salting: the component that spreads one partition over several.

It stands behind the partition template as a component of its own, so it takes part in comparing templates, and its
texts are of one width, so that they keep the order of the numbers.
"""

from collections.abc import Mapping
from enum import Enum
from functools import cache
from random import Random
from typing import Any, Final
from zlib import crc32

from pydantic.fields import FieldInfo

from odm._published import public
from odm.errors import SchemaError
from odm.immutable import Immutable, evolve
from odm.keys.grammar import near
from odm.keys.shapes import DIGITS, Shape
from odm.keys.template import Template, compile_template

MOST: Final = 1000
"""Most shards of a partition, all of which a query may have to read."""


@public
class Shards(Immutable):
    """Spreads each partition of a key over several, for more writes than one partition takes.

    The partition key ends with the shard's number: ``OPEN#3``, or ``OPEN#03`` where there are more than ten. A query
    reads all shards together and merges them; if it knows the field ``by``, it reads one.

    Args:
        count: how many, 2 to 1000. With another count most stored entries are no longer found, except those in
            the shards of ``was``.
        by: the field that selects the shard, which differs between the items of a partition: CRC-32 of its text
            modulo ``count``. The text of a str is its UTF-8, of any other type its text in a key. None: a random
            shard at every write of the entry.
        was: the former number of shards, while entries are still in them: queries read these shards too. 1: there were
            no shards. Each write of an entry moves it, and ``db.reshard(query)`` moves the rest. Only for access
            patterns.
    """

    count: int
    by: str | None = None
    was: int | None = None

    def __repr__(self) -> str:
        by = "" if self.by is None else f', by="{self.by}"'
        was = "" if self.was is None else f", was={self.was}"
        return f"Shards({self.count}{by}{was})"


def sharded(template: Template, shards: Shards) -> Template:
    """The partition template as it compares with others: with the shard behind it."""
    widths = dict.fromkeys(len(ends[0]) - 1 for ends in map(_numbered, (shards.count, shards.was or 1)) if ends[0])
    return evolve(template, behind=(tuple(Shape((DIGITS,) * width) for width in widths),))


def suffixes(shards: Shards | None) -> tuple[str, ...]:
    """The suffixes of a partition key, one for each shard, in order; only "" without shards."""
    return ("",) if shards is None else _numbered(shards.count)


@cache  # every read of a sharded pattern asks for them, and shards are declared, so there are few
def suffixes_read(shards: Shards | None) -> tuple[str, ...]:
    """The suffixes under which entries can be: those of former shards that no longer exist, then the current ones."""
    now = suffixes(shards)
    was = () if shards is None or shards.was is None else _numbered(shards.was)
    return (*(suffix for suffix in was if suffix not in now), *now)


@cache
def suffixes_leaving(shards: Shards | None) -> frozenset[str]:
    """The suffixes of the shards from which entries move to other shards that are read."""
    if shards is None or shards.was is None:
        return frozenset()
    was = frozenset(_numbered(shards.was))
    # Of 8 shards, once there are 4, each of the first four keeps its own: what was 5 modulo 8 is 1 modulo 4.
    return was.difference(suffixes(shards)) if shards.was % shards.count == 0 else was


def random_suffix(shards: Shards, random: Random) -> str:
    """The suffix of a random shard."""
    return _numbered(shards.count)[random.randrange(shards.count)]


def suffix_of(shards: Shards, hashed: Template, value: Any) -> str:
    """The suffix of the shard that a value of the field ``by`` selects.

    Args:
        shards: of the pattern.
        hashed: what `compile_hashed` made.
        value: of the field, not None.

    Raises:
        KeyValueError: the value cannot be used in a key.
    """
    return _numbered(shards.count)[_hash(shards, hashed, value) % shards.count]


def suffixes_of(shards: Shards, hashed: Template, value: Any) -> tuple[str, ...]:
    """The shards that can hold an entry with this value of the field ``by``: the former one, then the current one."""
    code = _hash(shards, hashed, value)
    endings = (_numbered(count)[code % count] for count in (shards.was, shards.count) if count is not None)
    return tuple(dict.fromkeys(endings))


def _hash(shards: Shards, hashed: Template, value: Any) -> int:
    plain = value.value if isinstance(value, Enum) else value
    text = plain if isinstance(plain, str) else hashed.encode({str(shards.by): value})
    assert text is not None
    return crc32(text.encode("utf-8", "surrogatepass"))


def compile_hashed(shards: Any, partition: Template, fields: Mapping[str, FieldInfo], *, owner: str) -> Template | None:
    """Check the declaration of shards; the template that writes the field ``by``, or None where it has none.

    Raises:
        SchemaError: the counts or the field cannot be used.
    """
    if not isinstance(shards, Shards):
        raise SchemaError(f"{owner}: shards={shards!r} is not a Shards: write shards=Shards(8) or Shards(8, by=...)")
    _check_counts(shards, owner)
    if shards.by is None:
        return None
    if shards.by not in fields:
        raise SchemaError(f"{owner}: {shards!r}: {near(shards.by, fields)}")
    if shards.by in set(partition.fields) - partition.lossy:
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} is in the partition key, so all items of a partition would be in "
            "one shard: use a field that differs between them, or leave by= out for random shards"
        )
    return compile_template(f"{{{shards.by}}}", fields, owner=f"{owner}: {shards!r}")


def _check_counts(shards: Shards, owner: str) -> None:
    """Raise for a count of one shard, or for more shards than a query can read."""
    if type(shards.count) is not int or not 2 <= shards.count <= MOST:
        raise SchemaError(f"{owner}: {shards!r}: the number of shards is an int from 2 to {MOST}")
    if shards.was is None:
        return
    if type(shards.was) is not int or not 1 <= shards.was <= MOST or shards.was == shards.count:
        raise SchemaError(
            f"{owner}: {shards!r}: was= is the number of shards that there were, an int from 1, for none, to {MOST}, "
            f"and not {shards.count}: leave it out where no entry is in other shards"
        )
    if len(suffixes_read(shards)) > MOST:
        raise SchemaError(
            f"{owner}: {shards!r}: a query reads {len(suffixes_read(shards))} shards while entries move, and {MOST} "
            "are the most: go to fewer shards, or give the pattern a new index name and backfill it"
        )


@cache
def _numbered(count: int) -> tuple[str, ...]:
    """The suffixes of this number of shards, in order and of one width; a single shard has no suffix."""
    width = len(str(count - 1))
    return ("",) if count == 1 else tuple(f"#{number:0{width}}" for number in range(count))
