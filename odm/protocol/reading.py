"""What reads ask for and return: positions, parts of a table, fields, and pages."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from odm.expressions.nodes import Item, Path
from odm.immutable import Immutable, field, force_setattr
from odm.schema.entity import Key


class Position(NamedTuple):
    """The position of one item in a query or scan: its key, and its index key if an index is read."""

    key: Key
    index_key: Key | None = None


class Part(NamedTuple):
    """A part of a table. Only the backend that made it understands its two limits."""

    start: str
    end: str | None


class Only(Immutable):
    """What a read needs of the items of an entity; of other items it needs the tag. A backend may return more.

    Attributes:
        tag: the tag of the entity.
        paths: paths by stored names, of which none contains another, and none has a list position. Tag, version, expiry
            and the fields of the key are among them. A part that is asked for stands in the response where it stands in
            the item.
    """

    tag: str
    paths: tuple[Path, ...]

    @property
    def roots(self) -> tuple[str, ...]:
        """The attributes, each once."""
        return tuple(dict.fromkeys(path.root for path in self.paths))


class Partitions(NamedTuple):
    """The partition keys ``[lo, hi)``; ``hi`` None: to the end of the table."""

    lo: str
    hi: str | None

    @property
    def empty(self) -> bool:
        """Whether no key is in the range."""
        return self.hi is not None and self.lo >= self.hi

    def has(self, partition: str) -> bool:
        """Whether a partition key is in the range."""
        return self.lo <= partition and (self.hi is None or partition < self.hi)


class Sample(Immutable):
    """A random sample: each item, or on a backend that draws whole partitions each partition, with a probability.

    Attributes:
        share: the probability.
        seed: for a backend that draws itself.
    """

    share: float
    seed: int = field(eq=False, repr=False)


_OF_ITEMS: Final = -1


class Page(Immutable):
    """One page of a query or scan.

    ``positions`` are in the order of ``items``. ``next`` is the position after which the next page begins; None exactly
    if the backend knows that no item follows. An empty page may have a ``next``. ``entries``, if a `Scan` requested
    them, are in the order of ``items``: index name to stored index key. ``strangers``: the number of items, counted by
    a request with ``count``, that have a tag that no entity of the schema has, or that have no tag. ``examined``: the
    number of items that were read before the filter.
    """

    items: Sequence[Item] = ()
    positions: Sequence[Position] = ()
    next: Position | None = None
    count: int = _OF_ITEMS
    entries: Sequence[Mapping[str, Key]] = ()
    strangers: int = 0
    examined: int = field(default=_OF_ITEMS, eq=False)

    def __post_init__(self) -> None:
        if self.count == _OF_ITEMS:
            force_setattr(self, "count", len(self.items))
        if self.examined == _OF_ITEMS:
            force_setattr(self, "examined", self.count)
