"""How the attributes of a table are stored, according to the declarations of its entities."""

from collections.abc import Callable, Collection, Mapping
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from odm.backends.bigtable.cells import qualifier, read, read_text, write, write_text
from odm.backends.bigtable.filters import Filter, ValueIs, chain, interleave, newest
from odm.backends.bigtable.layout import is_wide
from odm.backends.bigtable.native import Row
from odm.backends.bigtable.ownership import Owned, owned_by
from odm.backends.bigtable.placement import USUAL, Placement, misread, placement_of
from odm.cache import Cache
from odm.codec import TAG
from odm.codec.stored import NULL, TEXT
from odm.expressions.nodes import Item, Value
from odm.immutable import Immutable, field
from odm.schema.model import Schema

NO_NAMES: Final = frozenset[str]()

Kind: TypeAlias = Literal["counter", "columns"]


class Form(Immutable, dict=True):
    """How the attributes of a table are stored; an attribute not named here is in one cell that shows its type.

    Attributes:
        kinds: which attributes are Counters or in Columns, by stored name.
        disputed: stored names that have different kinds in different entities of the table. They are written to one
            cell, and only after a read of the row.
        texts: stored names that all entities of the table declare as text, if they have them.
        tags: the tags of the entities; an item with another tag belongs to another program. None: every tag is odm's.
        owned: distinguishes odm's rows from those of other programs.
        placements: where the cells of entities stand, by tag; an entity that is not named here has the usual form.
        aging: by tag, the entities whose items Bigtable deletes by their age, with the attributes that have a family or
            a cell of their own.
        aged_families: the families whose garbage collection may delete also the newest cell of a column, by its age.
        readers: how to read the cells of ``texts``.
        encodes: some attributes have encodings of their own, which may not be able to read a cell.
    """

    kinds: Mapping[str, Kind]
    disputed: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()
    tags: frozenset[str] | None = None
    owned: Owned = field(factory=Owned)
    placements: Mapping[str, Placement] = field(factory=dict)
    aging: Mapping[str, frozenset[str]] = field(factory=dict)
    aged_families: frozenset[str] = frozenset()

    @cached_property
    def readers(self) -> Mapping[str, Callable[[bytes], Value]]:
        return dict.fromkeys(self.texts, read_text)

    @cached_property
    def predicates(self) -> Cache[tuple[object, ...], Any]:
        """By condition; Any, because `odm.backends.bigtable.expressions`, which fills it, imports this module."""
        return Cache()

    @cached_property
    def updates(self) -> Cache[tuple[object, ...], Any]:
        """By kind of update; Any, because `odm.backends.bigtable.actions`, which fills it, imports this module."""
        return Cache()

    @cached_property
    def encodes(self) -> bool:
        return any(spot.form for one in self.placements.values() for spot in one.spots.values())

    @classmethod
    def of(cls, schema: Schema) -> "Form":
        """The form of a table's attributes."""
        said: dict[str, set[Kind | None]] = {}
        others: set[str] = set()
        counters: set[str] = set()
        wide = is_wide(schema)  # then Counters are in an aggregate family, too
        for entity in schema.entities.values():
            for part in entity.codec.record.fields.values():
                counted = part.name in entity.counters or (wide and entity.aggregates.get(part.name) == "sum")
                kind: Kind | None = "counter" if counted else "columns" if part.name in entity.columns else None
                said.setdefault(part.stored, set()).add(kind)
                if kind == "counter":
                    counters.add(qualifier(part.stored))
                if part.type.kinds - NULL != TEXT:
                    others.add(part.stored)
        agreed: dict[str, Kind] = {
            name: kind for name, kinds in said.items() if len(kinds) == 1 for kind in kinds if kind is not None
        }
        disputed = frozenset(name for name, kinds in said.items() if len(kinds) > 1)
        texts = frozenset(said.keys() - others)
        rows = schema.verbatim_rows
        found = {tag: placement_of(entity, texts, wide=wide, rows=rows) for tag, entity in schema.entities.items()}
        placements = {tag: placement for tag, placement in found.items() if not placement.usual}
        tags = frozenset(schema.entities) or None  # without entities, any tag may be odm's
        aged = frozenset(name for name, rule in schema.families.items() if rule is not None and rule.by_age)
        owned = owned_by(frozenset(counters), placements)
        return cls(agreed, disputed, texts, tags, owned, placements, _aging(schema), aged)

    def placement(self, tag: Value) -> Placement:
        """Where the cells of an item with this tag stand."""
        return self.placements.get(tag, USUAL) if isinstance(tag, str) else USUAL

    def misread(self, row: Row) -> frozenset[str]:
        """The attributes of a row of the usual form whose cells their encodings cannot read, by stored name."""
        return misread(row) if self.encodes else NO_NAMES

    def is_strange(self, tag: Value) -> bool:
        """Whether an item with this tag belongs to another program."""
        return not isinstance(tag, str) or (self.tags is not None and tag not in self.tags)

    def other_tags(self, tag: str) -> Filter | None:
        """Returns the tag of an item of another entity of the table; None if there is no other."""
        homes: dict[str, list[str]] = {}
        for other in sorted(self.tags or ()):
            if other != tag:
                homes.setdefault(self.placement(other).home, []).append(other)
        tags = (
            chain(newest(home, TAG), interleave(*(ValueIs(write(one)) for one in them))) for home, them in homes.items()
        )
        return interleave(*tags) if homes else None

    def renewed(self, item: Item) -> Collection[str]:
        """The attributes that every write of an item writes again, also unchanged ones.

        Bigtable deletes cells by their age, each by itself. So in an item that is deleted by its age, all cells are as
        old as the last write: otherwise the tag would be deleted before the attributes that were written later.
        """
        tag = item.get(TAG)
        apart = self.aging.get(tag) if isinstance(tag, str) else None
        return () if apart is None else [name for name in item if name not in apart]

    def kind(self, name: str) -> Kind | None:
        """How an attribute is stored; None: in one plain cell."""
        return self.kinds.get(name)

    def read(self, name: str, cell: bytes) -> Value:
        """The value in the plain cell of an attribute; the errors are those of `odm.backends.bigtable.cells.read`."""
        return self.readers.get(name, read)(cell)

    def write(self, name: str, value: Value) -> bytes:
        """The plain cell of an attribute.

        Raises:
            BadValue: the value cannot be stored, or is not text although the attribute is declared as text.
        """
        return write_text(value) if name in self.texts else write(value)


def _aging(schema: Schema) -> dict[str, frozenset[str]]:
    rules = {tag: schema.families.get(entity.family or "") for tag, entity in schema.entities.items()}
    aged = {tag for tag, rule in rules.items() if rule is not None and rule.by_age}
    apart = {tag: (*schema.entities[tag].families, *schema.entities[tag].cells) for tag in aged}
    return {tag: frozenset(names) for tag, names in apart.items()}
