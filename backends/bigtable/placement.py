"""In which cells the attributes of an entity stand, if they are not all in odm's own families.

All procedures handle an item as a row of odm's own form: its attributes are cells of ``d`` under their names, in odm's
encoding, with the tag, ``~r`` and ``_ix``. That is the *usual* form. A `Placement` maps its columns, mutations and
filters to the cells that are stored, and stored cells back to it:

* ``class Comment(Entity, family="comments")``: the tag, ``~r``, ``_ix`` and all attributes stand in ``comments``. So
  garbage collection by age takes the whole item, and never leaves a part of it in ``d``.
* ``Stored(family="stats")``: the attribute stands in ``stats``, under its name.
* ``Cell("MD:ASK", "float64be")``: the attribute is that cell, in that encoding.

Counters stay in ``c``.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from attrs import Factory, evolve, field, frozen

from odm.backends.bigtable.cell_forms import CellForm, form_of
from odm.backends.bigtable.cells import qualifier, read, read_qualifier, read_text, write, write_text
from odm.backends.bigtable.columns import LISTED, REVISION
from odm.backends.bigtable.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    Interleave,
    Unless,
)
from odm.backends.bigtable.native import COUNTERS, FAMILY, DeleteColumn, Mutation, Row, SetCell
from odm.backends.bigtable.native import Column as Place
from odm.codec import TAG
from odm.codec.stored import StoredType
from odm.codec.unions import bare
from odm.errors import BackendError, BadValue
from odm.expressions.nodes import Value
from odm.keys import VerbatimKey
from odm.schema.entity import EntitySchema

_MARKS: Final = frozenset({TAG, REVISION, LISTED})


@frozen
class Spot:
    """Where an attribute stands.

    Attributes:
        family: its family.
        cell: the qualifier of its only cell; None: its columns have the usual qualifiers.
        form: the encoding of that cell; None: odm's own.
        declared: the models declare the attribute as text, which the usual form of its cell depends on.
        stored: the type of its values.
    """

    family: str
    cell: str | None = None
    form: CellForm | None = None
    declared: bool = False
    stored: StoredType | None = field(default=None, eq=False, repr=False)

    def value(self, usual: bytes) -> bytes:
        """The cell that is stored for a cell of the usual form."""
        if self.form is None:
            return usual
        return self.form.write((read_text if self.declared else read)(usual))

    def usual(self, cell: bytes) -> bytes:
        """A cell of the usual form for a stored one; if that cannot be read, one that no field of the type accepts."""
        if self.form is None:
            return cell
        try:
            value = self.form.read(cell)
        except (ValueError, ArithmeticError, RecursionError) as fault:
            return write(cell if self.declared else self._refused(cell, fault))
        return (write_text if self.declared else write)(value)

    def _refused(self, cell: bytes, fault: Exception) -> Value:
        kinds = frozenset() if self.stored is None else bare(self.stored).kinds
        if "M" not in kinds:
            return {str(fault): cell}
        if "L" not in kinds:
            return [str(fault), cell]
        raise BackendError(
            f"a cell {self.family}:{self.cell} cannot be read ({fault}): another program wrote it; correct the cell, "
            "or declare another encoding"
        ) from fault


Plan = tuple[tuple[int, ...], tuple[Place, ...], tuple["Spot | None", ...]]
"""Which cells of a row its usual form has, their columns in it, and how to convert them."""


@frozen
class Placement:
    """Where the cells of one entity stand.

    Attributes:
        home: the family of its tag, revision, index entries, and of all attributes that ``spots`` does not name.
        spots: attributes that stand elsewhere, by stored name.
    """

    home: str = FAMILY
    spots: Mapping[str, Spot] = Factory(dict)
    _exact: Mapping[Place, str] = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(
            lambda self: {
                Place(spot.family, spot.cell.encode()): name
                for name, spot in self.spots.items()
                if spot.cell is not None
            },
            takes_self=True,
        ),
    )
    _families: frozenset[str] = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(
            lambda self: frozenset(spot.family for spot in self.spots.values() if spot.cell is None), takes_self=True
        ),
    )
    _places: dict[str, tuple[str, str, Spot | None]] = field(init=False, factory=dict, repr=False, eq=False)

    @property
    def usual(self) -> bool:
        """Whether all cells stand where they usually do."""
        return self.home == FAMILY and not self.spots

    def place(self, column: str) -> tuple[str, str, Spot | None]:
        """The family and qualifier of a usual column of ``d``, and the spot of its attribute, if it has one."""
        found = self._places.get(column)
        if found is None:
            spot = None if column in _MARKS else self.spots.get(read_qualifier(column.encode())[0])
            if spot is None:
                found = (self.home, column, None)
            else:
                found = (spot.family, column if spot.cell is None else spot.cell, spot)
            if len(self._places) < 4096:  # columns of members may have any name
                self._places[column] = found
        return found

    def mutations(self, usual: Iterable[Mutation]) -> tuple[Mutation, ...]:
        """The mutations that write what these write in the usual form.

        Raises:
            BadValue: a value has no bytes in the encoding of its cell.
        """
        return tuple(map(self._mutation, usual))

    def _mutation(self, one: Mutation) -> Mutation:
        match one:
            case SetCell(column, value, time, family) if family == FAMILY:
                at, name, spot = self.place(column)
                try:
                    return SetCell(name, value if spot is None else spot.value(value), time, at)
                except BadValue as error:
                    attribute = read_qualifier(column.encode())[0]
                    raise BadValue(f"attribute {attribute!r}, in the cell {at}:{name}: {error}") from error
            case DeleteColumn(column, family, before) if family == FAMILY:
                at, name, _ = self.place(column)
                return DeleteColumn(name, at, before)
            case _:
                return one

    def filter(self, usual: Filter) -> Filter:
        """The filter for the cells that this one returns in the usual form."""
        if self.usual:
            return usual
        match usual:
            case Column(family, column) if family == FAMILY:
                return Column(*self.place(column)[:2])
            case ColumnRange(family, start, end) if family == FAMILY:  # of the members of an attribute
                return ColumnRange(self.place(start)[0], start, end)
            case Chain(parts):
                return Chain(tuple(map(self.filter, parts)))
            case Interleave(parts):
                return Interleave(tuple(map(self.filter, parts)))
            case Unless(condition, otherwise):
                return Unless(self.filter(condition), self.filter(otherwise))
            case _:
                return usual

    def plan(self, columns: tuple[Place, ...]) -> Plan:
        """How to make the usual form of a row with these columns."""
        at: dict[Place, tuple[int, Spot | None]] = {}
        others: dict[Place, tuple[int, Spot | None]] = {}
        for number, (family, column) in enumerate(columns):
            name = self._exact.get(Place(family, column))
            if name is not None:
                at[Place(FAMILY, qualifier(name).encode())] = (number, self.spots[name])
            elif family == COUNTERS:
                at[Place(family, column)] = (number, None)
            elif family == self.home or family in self._families:
                self._add(Place(family, column), number, at, others)
        found = {**others, **at}
        numbers, spots = zip(*found.values(), strict=True) if found else ((), ())
        return numbers, tuple(found), spots

    def _add(self, place: Place, number: int, at: dict[Place, Any], others: dict[Place, Any]) -> None:
        """Add a cell of a family of attributes; a cell where no attribute of the model stands gives way to others."""
        try:
            name, _ = read_qualifier(place.qualifier)
        except ValueError:  # not UTF-8, so odm did not write it
            return
        spot = self.spots.get(name)
        if spot is None:
            into = at if place.family == self.home else others
            into[Place(FAMILY, place.qualifier)] = (number, None)
        elif spot.cell is None and spot.family == place.family:
            at[Place(FAMILY, place.qualifier)] = (number, None)


USUAL: Final = Placement()


def placement_of(entity: EntitySchema, texts: frozenset[str], *, rows: bool = False) -> Placement:
    """Where the cells of an entity stand.

    Args:
        entity: the entity.
        texts: the attributes that the models declare as text.
        rows: each attribute is a single cell, in a row of other programs; those that the row key holds have none.
    """
    spots = {stored: Spot(family) for stored, family in entity.families.items()}
    types = {part.stored: part.type for part in entity.codec.record.fields.values()}
    for stored, (family, cell, encoding) in entity.cells.items():
        type_ = types[stored]
        form = None if encoding is None else form_of(encoding, bare(type_))
        spots[stored] = Spot(family, cell, form, stored in texts, type_)
    if rows:
        for stored in types.keys() - key_only(entity).keys():
            spot = spots.get(stored, Spot(entity.family or FAMILY))
            spots[stored] = spot if spot.cell is not None else evolve(spot, cell=qualifier(stored))
    return Placement(entity.family or FAMILY, spots)


def key_only(entity: EntitySchema) -> dict[str, str]:
    """The fields of an entity that stand in the row key and have no cell: stored name to field."""
    assert entity.row is not None
    told = {slot.name for slot in entity.row.slots if isinstance(slot.type, VerbatimKey)}
    return {entity.codec.stored[name]: name for name in told if entity.codec.stored[name] not in entity.cells}


def usual_row(row: Row, plan: Plan) -> Row:
    """The usual form of a row."""
    numbers, columns, spots = plan
    values, times = row.values, row.timestamps
    if any(spots):
        cells = tuple(
            [values[n] if spot is None else spot.usual(values[n]) for n, spot in zip(numbers, spots, strict=True)]
        )
    else:
        cells = tuple([values[n] for n in numbers])
    return Row.parted(row.key, columns, cells, tuple([times[n] for n in numbers]))
