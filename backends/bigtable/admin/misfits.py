"""Rows that the models would not find: their ``row_key_join``, ``key_style`` or ``family=`` is not the declared one.

``create()`` and ``odm apply`` read a few rows of a table that exists, and refuse it if a row is evidence: the models
with one of these options changed read an item of it, and make exactly the row key that it has, and the models as they
are do not. So a row of another program, or of an entity that the models do not have, is never evidence.

The few rows are a sample, spread over the kinds of rows that the table has.
"""

from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import product
from typing import ClassVar, Final, NamedTuple

from google.api_core.exceptions import NotFound
from grpc import StatusCode

from odm.backends.bigtable.client.errors import status
from odm.backends.bigtable.client.filters import First, Newest, chain
from odm.backends.bigtable.client.native import FAMILY, Column, Row, Steps
from odm.backends.bigtable.client.native_admin import Families, GetTable, TableInfo
from odm.backends.bigtable.client.retry import Retry, answers_of
from odm.backends.bigtable.rows.cells import REVISION, qualifier, write
from odm.backends.bigtable.rows.keys import Layout, layout_of, row_key_of, with_row_keys
from odm.backends.bigtable.rows.pages import MOST_CELLS, any_kind, sample_rows
from odm.backends.bigtable.rows.placement import Spot
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.errors import BackendError, OdmError
from odm.immutable import evolve
from odm.schema.entity import EntitySchema, Key
from odm.schema.evidence import FEW, Stored, key_made, refusal, style_of, with_keys
from odm.schema.model import Schema
from odm.schema.row_keys import UNAMBIGUOUS


def describe(table: str, most: int, retry: Retry) -> Steps[tuple[Families, list[Row]]]:
    """The column families of a table of other programs, and some of its rows with the newest cells.

    Args:
        table: the table.
        most: the maximum number of rows.
        retry: how long to retry.

    Raises:
        BackendError: there is no such table.
    """
    [info] = yield from answers_of((GetTable(table),), retry, NotFound)
    if not isinstance(info, TableInfo):
        raise BackendError(f"there is no table {table!r} in this instance") from info
    rows = yield from sample_rows(table, most, retry, chain(Newest(), First(MOST_CELLS)), any_kind)
    return info.families, rows


CELLS = 200
"""The maximum number of cells that are read of a row."""


def misfit(schema: Schema, retry: Retry) -> Steps[str | None]:
    """Why the models would not find rows of their table, judged by a few rows of each kind; None: no row shows it.

    Credentials that may not read rows see none.
    """
    variant = _FORMS.get(layout_of(schema))
    if variant is None or not schema.entities:
        return None
    try:
        rows = yield from sample_rows(schema.name, FEW, retry, chain(Newest(), First(CELLS)))
    except BackendError as error:
        cause = error.__cause__
        if isinstance(cause, Exception) and status(cause) is StatusCode.PERMISSION_DENIED:
            return None
        raise
    forms = variant(schema)
    return next((text for row in rows if (text := forms.judge(row)) is not None), None)


class _Item(NamedTuple):
    """An item that some form of the models reads in a row, and makes the row key of."""

    id: str
    entity: EntitySchema


class _Other(NamedTuple):
    """The models with other options for keys, and these options."""

    schema: Schema
    has: tuple[str, ...] = ()
    says: tuple[str, ...] = ()


class _Forms:
    """The models of rows of items, and the same with other options.

    Args:
        schema: the schema of the models.
    """

    _one_item: ClassVar[bool] = True  # a row has no more

    def __init__(self, schema: Schema) -> None:
        self._schema, self._writer = schema, Writer(schema)
        self._writers: dict[tuple[int, str, str], Writer] = {}

    def judge(self, row: Row) -> str | None:
        """Why the models would not find an item of a row; None: they do, or no other form of them does."""
        if moved := self._moved(row):
            return moved
        items = {item.id for item in _items(self._writer, row)}
        if items and self._one_item:
            return None
        for (family, tag), number in product((("", ""), *self._homes(row)), range(len(self._others))):
            if not (family or number):
                continue
            writer = self._writers.get((number, family, tag))
            if writer is None:
                writer = self._writers[number, family, tag] = Writer(_at(self._others[number].schema, family, tag))
            for item in _items(writer, row):
                if item.id not in items and (not tag or item.entity.tag == tag):
                    return self._refused(item, self._others[number], family if tag else None)
        return None

    @cached_property
    def _others(self) -> tuple[_Other, ...]:
        """The models as they are, and with other options for keys."""
        return tuple(_others(self._schema))

    def _homes(self, row: Row) -> Iterator[tuple[str, str]]:
        """The families that may have items of an entity whose family is another one, each with its tag."""
        entities = self._schema.entities
        tags = {write(tag): tag for tag in entities}
        for (family, name), value in zip(row.columns, row.values, strict=True):
            if name == TAG.encode() and value in tags and family != (entities[tags[value]].family or FAMILY):
                yield family, tags[value]

    def _refused(self, item: _Item, other: _Other, family: str | None) -> str:
        name = item.entity.name
        if not other.has and family is not None:
            has, says = _of_class(family), _of_class(self._schema.entities[item.entity.tag].family or FAMILY)
            return refusal(self._schema, item.id, name, has, says)
        return refusal(self._schema, item.id, name, " and ".join(other.has), " and ".join(other.says))

    def _moved(self, row: Row) -> str | None:
        """Why the models would not find an attribute of an item: its cell is in another of odm's families.

        Another program has no cells there, in the row of an item.
        """
        entity = _entity_of(self._schema, row)
        if entity is None:
            return None
        owned, placement = self._writer.form.owned, self._writer.form.placement(entity.tag)
        columns = {*row.columns}
        for name in sorted({*entity.codec.stored.values()}):
            usual, spot = qualifier(name), placement.spots.get(name)
            if spot is not None and spot.own is not None:
                continue
            family, cell = (placement.home, usual) if spot is None else (spot.family, spot.cell or usual)
            if Column(family, cell.encode()) in columns:
                continue
            for before in sorted({placement.home, *owned.families} - {family}):
                if Column(before, usual.encode()) in columns:
                    has, says = _of_field(before, placement.home), _of_field(family, placement.home, spot)
                    return refusal(self._schema, row.text, f"{entity.name}.{name}", has, says)
        return None


class _WideForms(_Forms):
    """The models of wide rows, and the same with other options."""

    _one_item: ClassVar[bool] = False

    def _homes(self, row: Row) -> Iterator[tuple[str, str]]:
        unread = {column.family for column in row.columns} - self._writer.places.whole_families()
        return product(sorted(unread), self._schema.entities)

    def _moved(self, row: Row) -> str | None:
        return None


_FORMS: Final[Mapping[Layout, type[_Forms]]] = {"row_per_item": _Forms, "row_per_partition": _WideForms}
"""By layout; a row of another program is never evidence."""


def _entity_of(schema: Schema, row: Row) -> EntitySchema | None:
    """The entity of the item that odm wrote to a row, by its tag and revision; None: there is no such item."""
    for (family, name), value in zip(row.columns, row.values, strict=True):
        if name == TAG.encode() and Column(family, REVISION.encode()) in row.columns:
            for tag, entity in schema.entities.items():
                if value == write(tag) and family == (entity.family or FAMILY):
                    return entity
    return None


def _of_field(family: str, home: str, spot: Spot | None = None) -> str:
    """How a field declares its place."""
    if spot is not None and spot.cell is not None:
        return f'Cell("{family}:{spot.cell}")'
    return "no family of its own" if family == home else f'Stored(family="{family}")'


def _of_class(family: str) -> str:
    return "no family" if family == FAMILY else f'family="{family}"'


def _at(schema: Schema, family: str, tag: str) -> Schema:
    """The schema with the items of an entity in another family; without a tag, the schema itself."""
    if not tag:
        return schema
    moved = evolve(schema.entities[tag], family=None if family == FAMILY else family)
    return evolve(schema, entities={**schema.entities, tag: moved})


def _others(schema: Schema) -> Iterator[_Other]:
    """The models as they are, and then with other options for keys."""
    yield _Other(schema)
    turns = (False,) if schema.wide else (False, True)  # a wide table without sort keys has other column families
    for verbatim, flipped in product((schema.verbatim, not schema.verbatim), turns):
        sorts = schema.hash_only is flipped
        variant = schema
        if verbatim is not schema.verbatim or (flipped and sorts):
            other = with_keys(schema, verbatim=verbatim, sorts=sorts)
            if other is None:
                continue
            variant = other
        differ = [] if verbatim is schema.verbatim else [(style_of(variant), style_of(schema))]
        if flipped:
            differ.append(_SORTS if sorts else (_SORTS[1], _SORTS[0]))
        variant = evolve(variant, hash_only=not sorts)
        for join in (variant.row_key_join,) if variant.has_verbatim_keys or variant.wide else ("#", UNAMBIGUOUS):
            # Keys as they are need "##", which no table declares for them.
            joins = (f'row_key_join="{join}"', f'row_key_join="{schema.row_key_join}"')
            declared = not (variant.has_verbatim_keys or schema.has_verbatim_keys)
            joined = [joins] if declared and join != schema.row_key_join else []
            if differ or joined:
                has, says = zip(*differ, *joined, strict=True)
                if schema.has_verbatim_keys and not (variant.has_verbatim_keys or variant.wide) and join == UNAMBIGUOUS:
                    has = (*has, joins[0])
                yield _Other(with_row_keys(evolve(variant, row_key_join=join)), has, says)


_SORTS: Final = ("a sort template in an entity of the table", "no sort template in it")


def _items(writer: Writer, row: Row) -> Iterator[_Item]:
    """The items of a row that the models of a writer read, and make the row key of."""
    places, schema, owned = writer.places, writer.schema, writer.form.owned
    families = places.whole_families()
    named = {(family, name.encode()) for family, name in owned.cells}
    cells = [cell for cell in row.cells if cell.family in families or (cell.family, cell.qualifier) in named]
    try:
        rows = places.items([Row(row.key, cells)])
    except OdmError:
        return
    for one in rows:
        try:
            stored = places.stored(one)
            if stored is None:
                continue
            key = key_made(schema, Stored(Key(one.text), stored.item, {}))
            if key is None or row_key_of(schema, key) != one.text:
                continue
        except OdmError:
            continue
        entity = schema.entities[str(stored.item[TAG])]
        if places.shows(entity, row):
            yield _Item(one.text, entity)
