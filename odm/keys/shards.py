"""Write sharding, also called key salting: the component that spreads one partition over several.

It stands behind the partition template as a component of its own, so it takes part in comparing templates, and its
texts are of one width, so that they keep the order of the numbers.
"""

from collections.abc import Mapping
from enum import Enum
from random import Random
from typing import Any, Final
from zlib import crc32

from attrs import evolve, frozen
from pydantic.fields import FieldInfo

from odm.errors import SchemaError
from odm.keys.grammar import near
from odm.keys.shapes import DIGITS, Shape
from odm.keys.template import Template, compile_template

MOST: Final = 1000
"""Most shards of a partition, all of which a query may have to read."""


@frozen(repr=False)
class Shards:
    """Spreads each partition of an access pattern over several, for more writes than one partition takes.

    The partition key ends with the shard's number: ``OPEN#3``, or ``OPEN#03`` where there are more than ten. A query
    reads all shards together and merges them; if it knows the field ``by``, it reads one.

    Args:
        count: how many, 2 to 1000. With another count most of the entries that are stored are no longer found.
        by: the field that tells the shard, which differs between the items of a partition: CRC-32 of its text
            modulo ``count``. The text of a str is its UTF-8, of any other type what stands in a key. None: a random
            shard at every write of the entry.
    """

    count: int
    by: str | None = None

    def __repr__(self) -> str:
        return f"Shards({self.count})" if self.by is None else f'Shards({self.count}, by="{self.by}")'


def sharded(template: Template, shards: Shards) -> Template:
    """The partition template as it compares with others: with the shard behind it."""
    return evolve(template, behind=((Shape((DIGITS,) * _width(shards)),),))


def suffixes(shards: Shards | None) -> tuple[str, ...]:
    """What follows the text of the partition template, one a shard, in order; "" alone without shards."""
    return ("",) if shards is None else tuple(_suffix(shards, number) for number in range(shards.count))


def random_suffix(shards: Shards, random: Random) -> str:
    """The suffix of a shard that any one is as likely as another."""
    return _suffix(shards, random.randrange(shards.count))


def suffix_of(shards: Shards, hashed: Template, value: Any) -> str:
    """The suffix of the shard that a value of the field ``by`` tells.

    Args:
        shards: of the pattern.
        hashed: what `compile_hashed` made.
        value: of the field, not None.

    Raises:
        KeyValueError: the value can not stand in a key.
    """
    plain = value.value if isinstance(value, Enum) else value
    text = plain if isinstance(plain, str) else hashed.encode({str(shards.by): value})
    assert text is not None
    return _suffix(shards, crc32(text.encode("utf-8", "surrogatepass")) % shards.count)


def compile_hashed(shards: Any, partition: Template, fields: Mapping[str, FieldInfo], *, owner: str) -> Template | None:
    """Check the declaration of shards; the template that writes the field ``by``, or None where it has none.

    Raises:
        SchemaError: the count or the field can not be used.
    """
    if not isinstance(shards, Shards):
        raise SchemaError(f"{owner}: shards={shards!r} is no Shards: write shards=Shards(8) or Shards(8, by=...)")
    if type(shards.count) is not int or not 2 <= shards.count <= MOST:
        raise SchemaError(f"{owner}: {shards!r}: the number of shards is an int from 2 to {MOST}")
    if shards.by is None:
        return None
    if shards.by not in fields:
        raise SchemaError(f"{owner}: {shards!r}: {near(shards.by, fields)}")
    if shards.by in set(partition.fields) - partition.lossy:
        raise SchemaError(
            f"{owner}: {shards!r}: {shards.by!r} stands in the partition key, so all items of a partition would be in "
            "one shard: use a field that differs between them, or leave by= out for random shards"
        )
    return compile_template(f"{{{shards.by}}}", fields, owner=f"{owner}: {shards!r}")


def _suffix(shards: Shards, number: int) -> str:
    return f"#{number:0{_width(shards)}}"


def _width(shards: Shards) -> int:
    return len(str(shards.count - 1))
