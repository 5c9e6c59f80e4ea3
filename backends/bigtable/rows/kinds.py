"""Which rows of other programs are items of an entity, and what such an entity cannot have; see `declared`."""

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Final

from odm.backends.bigtable.client.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    Interleave,
    interleave,
    one_column,
    utf8,
)
from odm.backends.bigtable.client.native import FAMILY, DeleteColumn, DeleteFamily, Mutation, Row
from odm.backends.bigtable.client.native import Column as Place
from odm.backends.bigtable.rows.cells import REVISION
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.placement import Entries, Placement, Plan, key_only
from odm.backends.bigtable.rows.predicates import predicate
from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.errors import SchemaError
from odm.expressions.nodes import Path, Value, paths
from odm.immutable import Immutable
from odm.schema.described import rivals_of
from odm.schema.entity import EntitySchema
from odm.schema.model import Schema

_ODMS: Final = frozenset({TAG, TTL_ATTRIBUTE, VERSION, REVISION})
"""The attributes that odm adds to items, which these rows do not have."""

_MOST_PLANS: Final = 256
_MOST_COLUMNS: Final = 256
"""The most plans that are kept of an entity, and the most columns of one: few rows with more have the same columns."""


class Kind(Immutable, dict=True):
    """The rows of one entity.

    Attributes:
        entity: the entity.
        placement: the cells of its fields.
        in_key: the fields that are read from the row key, by stored name.
        rivals: see `rivals_of`.
        columns: the cells of single fields.
        ranges: all columns of the entity's cells; without those that are in another of the ranges, too.
    """

    entity: EntitySchema
    placement: Placement
    in_key: Mapping[str, str]
    rivals: tuple[EntitySchema, ...] = ()

    @cached_property
    def columns(self) -> tuple[Place, ...]:
        return tuple(
            Place(spot.family, str(spot.cell).encode())
            for spot in self.placement.spots.values()
            if not isinstance(spot, Entries)
        )

    @cached_property
    def ranges(self) -> tuple[ColumnRange, ...]:
        return tuple(self._ranges())

    @cached_property
    def _plans(self) -> dict[tuple[Place, ...], Plan]:
        return {}

    def _ranges(self) -> Iterator[ColumnRange]:
        spans = [spot.span for spot in self.placement.entries.values()]
        yield from spans
        for column in self.columns:
            if not any(span.has(*column) for span in spans):
                yield one_column(column.family, column.qualifier.decode())

    @property
    def entries(self) -> Mapping[str, Entries]:
        """The dicts with a cell for each entry, by stored name."""
        return self.placement.entries

    def has(self, column: Place) -> bool:
        """Whether a column is one of the entity's."""
        return any(span.has(*column) for span in self.ranges)

    @property
    def ttl(self) -> str | None:
        """The stored name of the field with the expiry."""
        return None if self.entity.ttl is None else self.entity.codec.stored[self.entity.ttl]

    def plan(self, columns: tuple[Place, ...]) -> Plan:
        """How to make the usual form of a row with these columns; the plans of the last rows are kept."""
        if len(columns) > _MOST_COLUMNS:
            return self.placement.plan(columns)
        plan = self._plans.get(columns)
        if plan is None:
            plan = self.placement.plan(columns)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.clear()
            self._plans[columns] = plan
        return plan

    def read(self, row_key: str) -> dict[str, Value] | None:
        """The stored values of the fields in a row key, by stored name; None if it is not one of this entity."""
        assert self.entity.row is not None
        found = self.entity.row.read(row_key)
        return None if found is None else {stored: found[name] for stored, name in self.in_key.items()}

    @property
    def needs_row(self) -> bool:
        """Whether only the row shows which cells an item has: Bigtable deletes columns and families, but no range."""
        return not all(spot.whole for spot in self.entries.values())

    def gone(self, row: Row | None) -> tuple[Mutation, ...]:
        """The mutations that delete the cells of an item; ``row`` is its row, see `needs_row`."""
        families = {spot.family for spot in self.entries.values() if spot.whole}
        columns = dict.fromkeys(self.columns)
        columns |= dict.fromkeys(column for column in (() if row is None else row.columns) if self.has(column))
        return (
            *map(DeleteFamily, sorted(families)),
            *(
                DeleteColumn(column.decode("utf-8", "surrogateescape"), family)
                for family, column in columns
                if family not in families
            ),
        )

    def place(self, path: Path) -> "Place | Entries | None":
        """The cell at a path: of a field, or of an entry; the entries of a dict; None: it has no cell."""
        spot = self.placement.spots.get(path.root)
        if isinstance(spot, Entries):
            return spot.column(str(path.segments[1])) if len(path.segments) > 1 else spot
        return None if spot is None else Place(spot.family, str(spot.cell).encode())


def matching(kind: Kind, form: Form) -> Filter | None:
    """Returns a cell if the row fits ``match=`` of the entity; None if no filter can express it."""
    found = predicate(kind.entity.match, form, kind.entity.tag)
    names = {Place(FAMILY, name.encode()) for name in _ODMS}
    if found is None or not found.holds or names & _columns_in(found.filter):
        return None
    return found.filter


@lru_cache(maxsize=256)
def cells_of(ranges: tuple[ColumnRange, ...]) -> Filter:
    """The cells of some columns. Cached, because a filter that is kept keeps its encoded message."""
    return interleave(*(span.shortest for span in ranges))


def ranges_of(kinds: Iterable[Kind]) -> tuple[ColumnRange, ...]:
    """All columns of these rows, each once."""
    spans = dict.fromkeys(span for kind in kinds for span in kind.ranges)
    apart: list[ColumnRange] = []
    # from the longest on, of which others are parts
    for span in sorted(spans, key=lambda span: (span.shortest is not span, len(span.start), span.family, span.start)):
        apart += span.without(apart)
    return tuple(sorted(apart, key=lambda span: (span.family, utf8(span.start))))


def kinds_of(schema: Schema, form: Form) -> dict[str, Kind]:
    """The kinds of rows of a schema, by tag."""
    return {
        tag: Kind(entity, form.placement(tag), key_only(entity), rivals_of(schema, entity))
        for tag, entity in schema.entities.items()
    }


def check_rows(schema: Schema, form: Form) -> None:
    """Refuse models for which rows of other programs would need cells of odm.

    Raises:
        SchemaError: the reason.
    """
    for kind in kinds_of(schema, form).values():
        entity = kind.entity
        fault: str | None = None
        if entity.patterns:
            fault = (
                "its access patterns need cells of odm in the row, the revision and the list of index entries: remove "
                "them, and declare the entries as a class in a table of its own"
            )
        elif entity.companions:
            fault = f"{entity.companions[0].name} needs the revision of an item, a cell of odm: remove it"
        elif entity.counters:
            fault = (
                f"the Counter {min(entity.counters)!r} needs cells of odm: declare a plain int with "
                'Cell(..., "int64be"), which increment() changes atomically'
            )
        elif unnamed := [name for name in entity.columns if entity.codec.stored[name] not in entity.cells]:
            fault = (
                f"{min(unnamed)!r} in Columns has many cells: name their family and encoding, as in "
                'Annotated[dict[str, int], Columns, Cell("stats:", "int64be")], or use json'
            )
        elif disputed := [stored for stored in kind.entries if stored in form.disputed]:
            fault = (
                f"{disputed[0]!r} has a cell for each entry here, and a single cell in another class: give one of the "
                'two another stored name, with Stored("...")'
            )
        elif entity.match is not None and any(path.root in kind.entries for path in paths(entity.match)):
            fault = "match= cannot ask for entries of a dict in Columns: compare a field with a cell of its own"
        elif of_odm := [
            *entity.versioned,
            *(n for n in entity.aggregates if entity.codec.stored[n] not in entity.cells),
        ]:
            fault = (
                f"the role of {min(of_odm)!r} needs a family of odm: remove CellVersions, Min or Max, and name "
                'the cell of a Sum, as in Annotated[int, Sum, Cell("agg:total")]'
            )
        elif entity.version != 1:
            fault = "a version needs a cell of odm: give new fields a default instead"
        elif not kind.placement.spots:
            fault = "all of its fields stand in the row key, and a row without cells does not exist: add one"
        elif entity.match is not None and matching(kind, form) is None:
            fault = 'match= must be a filter of Bigtable: compare a field with = or is_in, with Cell(..., "text")'
        if fault is not None:
            raise SchemaError(f'{entity.name}: in Table({schema.name!r}, row_style="verbatim") {fault}')


def _columns_in(wanted: Filter) -> frozenset[Place]:
    match wanted:
        case Column(family, name):
            return frozenset({Place(family, name.encode())})
        case Chain(parts) | Interleave(parts):
            return frozenset().union(*map(_columns_in, parts))
        case _:
            return frozenset()
