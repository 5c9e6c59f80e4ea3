"""In which cells the attributes of an entity stand, if they are not all in odm's own families.

All procedures handle an item as a row of odm's own form: its attributes are cells of ``d`` under their names, in odm's
encoding, with the tag, ``~r`` and ``_ix``. That is the *usual* form. A `Placement` maps its columns, mutations and
filters to the cells that are stored, and stored cells back to it:

* ``class Comment(Entity, family="comments")``: the tag, ``~r``, ``_ix`` and all attributes stand in ``comments``. So
  garbage collection by age takes the whole item, and never leaves a part of it in ``d``.
* ``Stored(family="stats")``: the attribute stands in ``stats``, under its name.
* ``Cell("MD:ASK", "float64be")``: the attribute is that cell, in that encoding.
* ``CellVersions(5)``: the attribute stands in ``v``. In the usual form, its former values are the attribute ``_was``;
  they are stored as older versions of the cell.
* ``Sum``, ``Min`` and ``Max``: the attribute stands in the aggregate family of that name, as a 64-bit number.
* ``Columns, Cell("hours:h", "int64be")``: a dict in rows of other programs, whose entries are cells: the key ``05`` is
  the cell ``hours:h05``. In the usual form, they are the columns of an attribute in Columns. See `Entries`.

Those of ``CellVersions``, ``Sum``, ``Min`` and ``Max`` are *own* spots. If the cell there is missing, the attribute may
still have a plain cell, from before it had the marker; an aggregate counts both. So conditions on them are evaluated on
the item that is read.

Counters stay in ``c``.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from odm.backends.bigtable.client.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    Interleave,
    Unless,
    utf8,
)
from odm.backends.bigtable.client.native import COUNTERS, FAMILY, AddToCell, DeleteColumn, Mutation, Row, SetCell
from odm.backends.bigtable.client.native import Column as Place
from odm.backends.bigtable.rows.cell_forms import CellForm, IntForm, behind, form_of
from odm.backends.bigtable.rows.cells import (
    LISTED,
    REVISION,
    Misread,
    member_qualifier,
    qualifier,
    read,
    read_counter,
    read_qualifier,
    read_text,
    write,
    write_text,
)
from odm.codec import TAG, WAS
from odm.codec.types.containers import DictType
from odm.codec.types.stored import StoredType, unreadable_cell
from odm.codec.types.unions import bare
from odm.errors import BadValue
from odm.expressions.nodes import Value
from odm.immutable import Immutable, evolve, field
from odm.keys import VerbatimKey
from odm.schema.cells import MAX_QUALIFIER
from odm.schema.entity import EntitySchema

_MARKS: Final = frozenset({TAG, REVISION, LISTED})

VERSIONS: Final = "v"
"""The family of attributes whose former values are kept."""

Own: TypeAlias = Literal["versions", "sum", "min", "max"]
"""What odm's own family of an attribute is for."""

JOINED: Final[Mapping[str, Callable[[tuple[int, int]], int]]] = {"sum": sum, "min": min, "max": max}
"""The value of an aggregate that is in two cells."""


class Spot(Immutable):
    """Where an attribute stands.

    Attributes:
        family: its family.
        cell: the qualifier of its only cell; None: its columns have the usual qualifiers.
        form: the encoding of that cell; None: odm's own.
        declared: the models declare the attribute as text, which the usual form of its cell depends on.
        stored: the type of its values.
        own: what its family is for, if that is one of odm's own.
        count: how many values are kept, of an attribute whose former values are.
    """

    family: str
    cell: str | None = None
    form: CellForm | None = None
    declared: bool = False
    stored: StoredType | None = field(default=None, eq=False, repr=False)
    own: Own | None = None
    count: int = 1

    @property
    def adds(self) -> bool:
        """Whether the server adds to the cell."""
        return self.own is not None and self.own != "versions"

    def text(self, value: Value) -> bytes:
        """The cell of the usual form with this value."""
        return (write_text if self.declared else write)(value)

    def plain(self, usual: bytes) -> Value:
        """The value of a cell of the usual form."""
        return (read_text if self.declared else read)(usual)

    def value(self, usual: bytes) -> bytes:
        """The cell that is stored for a cell of the usual form."""
        if self.form is None:
            return usual
        return self.form.write(self.plain(usual))

    def usual(self, cell: bytes) -> bytes:
        """A cell of the usual form for a stored one; if that cannot be read, one that no field of the type accepts."""
        if self.form is None:
            return cell
        try:
            value = self.form.read(cell)
        except (ValueError, ArithmeticError, RecursionError) as fault:
            return Misread(write(cell if self.declared else self._refused(cell, fault)))
        if self.declared and not isinstance(value, str):  # as JSON may have
            return Misread(write(cell))
        return self.text(value)

    def _refused(self, cell: bytes, fault: Exception) -> Value:
        kinds = frozenset() if self.stored is None else bare(self.stored).kinds
        if "M" not in kinds:
            return {str(fault): cell}
        if "L" not in kinds:
            return [str(fault), cell]
        return unreadable_cell(str(fault), cell)


class Entries(Spot, dict=True):
    """Where the entries of a dict stand in rows of other programs: each is a cell, whose qualifier ends with the key.

    Its ``cell`` is the text in front of the keys, and ``form``, ``declared`` and ``stored`` are those of the values.

    Attributes:
        span: the columns that can be entries, together with those that another field names.
    """

    @cached_property
    def span(self) -> ColumnRange:
        return _columns_with(self.family, str(self.cell))

    @property
    def whole(self) -> bool:
        """Whether each column of the family is an entry, unless another field names it."""
        return not self.cell

    def column(self, key: str) -> Place:
        """The column of an entry."""
        return Place(self.family, utf8(f"{self.cell}{key}"))

    def key(self, column: bytes) -> str:
        """The key of a column.

        Raises:
            ValueError: the column has no key.
        """
        key = column[len(utf8(str(self.cell))) :]
        if not key:
            raise ValueError("its name is a prefix without a key" if self.cell else "its name is empty")
        try:
            return key.decode()
        except UnicodeDecodeError:
            raise ValueError("its name is not text in UTF-8") from None

    def of(self, name: str, column: bytes) -> tuple[Place, Spot]:
        """The usual column of an entry of this attribute, and how to convert its cell."""
        try:
            return Place(FAMILY, member_qualifier(name, self.key(column)).encode()), self
        except ValueError as fault:
            text = f"{self.family}:{column.decode(errors='backslashreplace')}"
            unfit = Nameless(self.family, reason=f"has the column {text}, which is not an entry, because {fault}")
            return Place(FAMILY, member_qualifier(name, "").encode()), unfit


def _columns_with(family: str, prefix: str) -> ColumnRange:
    """The columns of a family whose qualifiers begin with a text."""
    end = behind(utf8(prefix)) if prefix else None
    return ColumnRange(family, prefix, "" if end is None else end.decode("utf-8", "surrogateescape"))


class Nameless(Spot, kw_only=True):
    """A cell among the entries of a dict whose qualifier has no key; it is read under the empty key, which no dict has.

    Attributes:
        reason: which column it is, and why.
    """

    reason: str = field(default="")

    def usual(self, cell: bytes) -> bytes:
        return Misread(write({self.reason: cell}))


class Plan(Immutable):
    """How to make the usual form of a row.

    Attributes:
        numbers: which of its cells the usual form has.
        columns: their columns in it.
        spots: how to convert them.
        joined: aggregates that are in two cells: the position among ``numbers``, and the number of the plain cell.
        versions: the cells of attributes whose former values are kept, newest first, by stored name.
        sums: the positions among ``numbers`` of sums in families of other programs.
    """

    numbers: tuple[int, ...]
    columns: tuple[Place, ...]
    spots: tuple[Spot | None, ...]
    joined: tuple[tuple[int, int], ...] = ()
    versions: Mapping[str, Sequence[int]] = field(factory=dict)
    sums: tuple[int, ...] = ()


class Placement(Immutable, dict=True):
    """Where the cells of one entity stand.

    Attributes:
        home: the family of its tag, revision, index entries, and of all attributes that ``spots`` does not name.
        spots: attributes that stand elsewhere, by stored name.
        entries: those of them that are dicts with a cell for each entry.
    """

    home: str = FAMILY
    spots: Mapping[str, Spot] = field(factory=dict)

    @cached_property
    def _exact(self) -> Mapping[Place, str]:
        return {
            Place(spot.family, spot.cell.encode()): name
            for name, spot in self.spots.items()
            if spot.cell is not None and not isinstance(spot, Entries)
        }

    @cached_property
    def entries(self) -> Mapping[str, Entries]:
        return {name: spot for name, spot in self.spots.items() if isinstance(spot, Entries)}

    @cached_property
    def _families(self) -> frozenset[str]:
        return frozenset(spot.family for spot in self.spots.values() if spot.cell is None)

    @cached_property
    def _versioned(self) -> Mapping[str, Spot]:
        return {name: spot for name, spot in self.spots.items() if spot.own == "versions"}

    @cached_property
    def _places(self) -> dict[str, tuple[str, str, Spot | None]]:
        return {}

    @property
    def usual(self) -> bool:
        """Whether all cells stand where they usually do."""
        return self.home == FAMILY and not self.spots

    def place(self, column: str) -> tuple[str, str, Spot | None]:
        """The family and qualifier of a usual column of ``d``, and the spot of its attribute, if it has one."""
        place = self._places.get(column)
        if place is None:
            name, member = read_qualifier(column.encode())
            spot = None if column in _MARKS else self.spots.get(name)
            if spot is None:
                place = (self.home, column, None)
            elif isinstance(spot, Entries):
                place = (spot.family, f"{spot.cell}{member or ''}", spot)
            else:
                place = (spot.family, column if spot.cell is None else spot.cell, spot)
            if len(self._places) < 4096:  # columns of members may have any name
                self._places[column] = place
        return place

    def mutations(self, usual: Iterable[Mutation]) -> tuple[Mutation, ...]:
        """The mutations that write what these write in the usual form.

        Raises:
            BadValue: a value has no bytes in the encoding of its cell.
        """
        mutations = tuple(usual)
        if not self._versioned:
            return tuple(mutation for usual_mutation in mutations for mutation in self._mutations(usual_mutation))
        was = {mutation.qualifier: mutation for mutation in mutations if isinstance(mutation, SetCell)}.get(
            qualifier(WAS)
        )
        former: dict[str, list[list[Value]]] = {} if was is None else read(was.value)
        kept = {qualifier(name): its for name, its in former.items() if name in self._versioned}
        stay = {mutation.qualifier for mutation in mutations if isinstance(mutation, DeleteColumn)} & {
            c for c in kept if len(kept[c]) > 1
        }
        placed: list[Mutation] = []
        for one in mutations:
            if isinstance(one, SetCell) and one.qualifier in kept:
                placed += self._version_cells(one, kept[one.qualifier], update=one.qualifier in stay)
            elif isinstance(one, DeleteColumn) and one.qualifier in stay:
                placed.append(DeleteColumn(one.qualifier, self.home))  # of a plain cell: the older versions stay
            elif not isinstance(one, SetCell | DeleteColumn) or one.qualifier != qualifier(WAS):
                placed += self._mutations(one)
        return tuple(placed)

    def _version_cells(self, cell: SetCell, former: list[list[Value]], *, update: bool) -> Iterable[SetCell]:
        """The cells of a value and of those before it; in an update, older ones than the last are stored already."""
        at, name, spot = self.place(cell.qualifier)
        assert spot is not None
        (newest,), *others = former
        for time, value in reversed(others[:1] if update else others):
            yield SetCell(name, spot.text(value), time * 1000, at)
        yield SetCell(name, cell.value, newest * 1000, at)

    def _mutations(self, mutation: Mutation) -> Iterable[Mutation]:
        match mutation:
            case SetCell(column) | DeleteColumn(column) if mutation.family == FAMILY and self._is_marker(column):
                return  # a dict is there without a cell of its own
            case SetCell(column, value, time, family) if family == FAMILY:
                at, name, spot = self.place(column)
                try:
                    self._check_entry(spot, Place(at, name.encode("utf-8", "replace")), name)
                    cell = value if spot is None else spot.value(value)
                except BadValue as error:
                    attribute = read_qualifier(column.encode())[0]
                    raise BadValue(f"attribute {attribute!r}, in the cell {at}:{name}: {error}") from error
                if spot is not None and spot.adds:
                    yield AddToCell(name, read_counter(cell), at)
                else:
                    yield SetCell(name, cell, time, at)
            case DeleteColumn(column, family, before) if family == FAMILY:
                at, name, spot = self.place(column)
                yield DeleteColumn(name, at, before)
                if spot is not None and spot.own is not None and spot.cell is None:
                    yield DeleteColumn(name, self.home, before)
            case AddToCell(column, by, family) if family == FAMILY:
                at, name, _ = self.place(column)
                yield AddToCell(name, by, at)
            case _:
                yield mutation

    def _is_marker(self, column: str) -> bool:
        """Whether a usual column is the plain cell of a dict whose entries are cells."""
        return "#" not in column and any(qualifier(name) == column for name in self.entries)

    def _check_entry(self, spot: Spot | None, place: Place, column: str) -> None:
        """Check that a cell to write can be an entry.

        Raises:
            BadValue: it cannot.
        """
        if not isinstance(spot, Entries):
            return
        if place in self._exact:
            raise BadValue(f"the cell is that of the attribute {self._exact[place]!r}: take another key")
        try:
            size = len(column.encode())
        except UnicodeEncodeError as error:
            raise BadValue("a key holds a lone surrogate: give text that UTF-8 can encode") from error
        if size > MAX_QUALIFIER:
            raise BadValue(f"the column has a name of {size} bytes, and Bigtable allows {MAX_QUALIFIER}")

    def was(self, row: Row, plan: Plan) -> bytes | None:
        """The usual cell of the former values of a row that was read with them, see `odm.codec.WAS`."""
        groups: dict[str, list[list[Value]]] = {}
        for name, numbers in plan.versions.items():
            spot = self._versioned[name]
            newest, *others = numbers[: spot.count]
            older = [[row.timestamps[n] // 1000, spot.plain(row.values[n])] for n in others]
            groups[name] = [[row.timestamps[newest] // 1000], *older]
        return write(groups) if groups else None

    def filter(self, usual: Filter) -> Filter:
        """The filter for the cells that this one returns in the usual form."""
        if self.usual:
            return usual
        match usual:
            case Column(family, column) if family == FAMILY:
                return Column(*self.place(column)[:2])
            case ColumnRange(family, start, end) if family == FAMILY:  # of the members of an attribute
                at, _, spot = self.place(start)
                return spot.span if isinstance(spot, Entries) else ColumnRange(at, start, end)
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
        versions: dict[str, list[int]] = {}
        for number, (family, column) in enumerate(columns):
            if family == VERSIONS and self._versioned:
                name = next((name for name in self._versioned if qualifier(name).encode() == column), None)
                if name is not None:
                    versions.setdefault(name, []).append(number)
                    at.setdefault(Place(FAMILY, column), (number, None))
                continue
            name = self._exact.get(Place(family, column))
            if name is not None:
                at[Place(FAMILY, qualifier(name).encode())] = (number, self.spots[name])
            elif (entries := self._entries_at(family, column)) is not None:
                place, spot = self.entries[entries].of(entries, column)
                at[place] = (number, spot)
            elif family == COUNTERS:
                at[Place(family, column)] = (number, None)
            elif family == self.home or family in self._families:
                self._add(Place(family, column), number, at, others)
        places = {**others, **at}
        numbers, spots = zip(*places.values(), strict=True) if places else ((), ())
        doubled = enumerate((spots[place], others.get(column)) for place, column in enumerate(places))
        joined = ((place, it[0]) for place, (spot, it) in doubled if spot is not None and spot.adds and it is not None)
        sums = (place for place, spot in enumerate(spots) if spot is not None and spot.adds and spot.cell is not None)
        return Plan(numbers, tuple(places), spots, tuple(joined), versions, tuple(sums))

    def _entries_at(self, family: str, column: bytes) -> str | None:
        """The attribute of which a column is an entry; None: of none."""
        for name, spot in self.entries.items():
            if spot.span.has(family, column):
                return name
        return None

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
            at[Place(FAMILY, place.qualifier)] = (number, spot if spot.form is not None else None)
        elif spot.own is not None and place.family == self.home:
            others[Place(FAMILY, place.qualifier)] = (number, None)


USUAL: Final = Placement()


def placement_of(entity: EntitySchema, texts: frozenset[str], *, wide: bool, rows: bool) -> Placement:
    """Where the cells of an entity stand.

    Args:
        entity: the entity.
        texts: the attributes that the models declare as text.
        wide: the table has wide rows, in which an item is one cell.
        rows: each attribute is a single cell, in a row of other programs; those that the row key holds have none.
    """
    spots = {stored: Spot(family) for stored, family in entity.families.items()}
    types = {part.stored: part.type for part in entity.codec.record.fields.values()}
    columns = {entity.codec.stored[name] for name in entity.columns}
    sums = {entity.codec.stored[name] for name, kind in entity.aggregates.items() if kind == "sum"}
    for stored, (family, cell, encoding) in entity.cells.items():
        type_ = types[stored]
        if stored in sums:
            spots[stored] = Spot(family, cell, IntForm(), stored=type_, own="sum")
            continue
        whole = bare(type_)
        entries = stored in columns and isinstance(whole, DictType)
        values = whole.item if entries and isinstance(whole, DictType) else type_
        form = None if encoding is None else form_of(encoding, bare(values), exact=rows)
        spots[stored] = (Entries if entries else Spot)(family, cell, form, stored in texts, values)
    if rows:
        for stored in types.keys() - key_only(entity).keys():
            spot = spots.get(stored, Spot(entity.family or FAMILY))
            spots[stored] = spot if spot.cell is not None else evolve(spot, cell=qualifier(stored))
    elif not wide:
        for name, count in entity.versioned.items():
            stored = entity.codec.stored[name]
            spots[stored] = Spot(VERSIONS, None, None, stored in texts, types[stored], "versions", count)
        for name, kind in entity.aggregates.items():
            assert kind != "hll"  # is refused when a table is compiled
            stored = entity.codec.stored[name]
            spots[stored] = Spot(kind, None, IntForm(), stored=types[stored], own=kind)
    return Placement(entity.family or FAMILY, spots)


def key_only(entity: EntitySchema) -> dict[str, str]:
    """The fields of an entity that stand in the row key and have no cell: stored name to field."""
    assert entity.row is not None
    told = {slot.name for slot in entity.row.slots if isinstance(slot.type, VerbatimKey)}
    return {entity.codec.stored[name]: name for name in told if entity.codec.stored[name] not in entity.cells}


def misread(row: Row) -> frozenset[str]:
    """The attributes of a row of the usual form whose cells their encodings cannot read, by stored name."""
    cells = zip(row.columns, row.values, strict=True)
    return frozenset(read_qualifier(column.qualifier)[0] for column, cell in cells if type(cell) is Misread)


def usual_row(row: Row, plan: Plan, was: Callable[[Row, Plan], bytes | None] | None = None) -> Row:
    """The usual form of a row.

    Args:
        row: the stored row.
        plan: the plan for its columns.
        was: makes the cell of former values; None: it is left out, because the row was read without them.
    """
    numbers, columns, spots = plan.numbers, plan.columns, plan.spots
    values, times = row.values, row.timestamps
    if any(spots):
        cells = tuple(
            [values[n] if spot is None else spot.usual(values[n]) for n, spot in zip(numbers, spots, strict=True)]
        )
    else:
        cells = tuple([values[n] for n in numbers])
    if plan.joined:
        cells = _joined(cells, values, plan)
    if plan.sums:
        cells = _of_one_time(cells, [times[n] for n in numbers], plan)
    stamps = tuple([times[n] for n in numbers])
    former = None if was is None or not plan.versions else was(row, plan)
    if former is not None:
        columns, cells, stamps = (*columns, _WAS), (*cells, former), (*stamps, 0)
    return Row.parted(row.key, columns, cells, stamps)


_WAS: Final = Place(FAMILY, qualifier(WAS).encode())


def _of_one_time(cells: tuple[bytes, ...], times: Sequence[int], plan: Plan) -> tuple[bytes, ...]:
    """The cells, without the sums of another time than that of odm: the server adds up each time of a column apart."""
    wrong = {
        place: f"it has the timestamp {times[place]}, and odm adds to that of 0" for place in plan.sums if times[place]
    }
    return tuple(Misread(write({wrong[at]: cell})) if at in wrong else cell for at, cell in enumerate(cells))


def _joined(cells: tuple[bytes, ...], values: Sequence[bytes], plan: Plan) -> tuple[bytes, ...]:
    """The cells with those aggregates put together of which a part is in a plain cell."""
    copies = [*cells]
    for place, number in plan.joined:
        spot, added, before = plan.spots[place], read(cells[place]), read(values[number])
        assert spot is not None
        if type(added) is type(before) is int:
            copies[place] = spot.text(JOINED[str(spot.own)]((before, added)))
    return tuple(copies)
