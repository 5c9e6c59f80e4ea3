"""Reads of some fields: ``only=[Order.total]``. `Selection` is what was asked for, and `Partial` what is found.

A `Selection` is compiled once a query. A backend gets the stored paths to read (`odm.protocol.reading.Only`). If parts
of an item cannot be read alone, whole items are read, and the parts are taken out of them.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Generic, NoReturn, TypeVar

from odm._published import public_in
from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.codec.parts import FieldPart
from odm.codec.types.stored import NOTHING
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, SchemaError, brief
from odm.expressions.nodes import Item, Path, text_of
from odm.expressions.references import path_of
from odm.immutable import Immutable, evolve
from odm.procedures.context import Context
from odm.protocol.reading import Only, Position
from odm.schema.entity import EntitySchema, Key

E = TypeVar("E", bound=Entity)
T = TypeVar("T")

_Segments = tuple[str | int, ...]

_MARKS: Final = (TAG, VERSION, TTL_ATTRIBUTE)


class Selection(Immutable, eq=False):
    """The fields that a read asks for.

    Attributes:
        entity: the entity of the items.
        parts: the fields and parts of fields, with those of the key, by their paths.
        only: what a backend must read; None: whole items.
        why: why whole items must be read; "" if not.
    """

    entity: EntitySchema
    parts: Mapping[_Segments, FieldPart]
    only: Only | None
    why: str = ""

    def parts_of(self, context: Context, items: Sequence[Item], positions: Sequence[Position]) -> list[Any]:
        """The parts of a page of stored items; the errors are those of `Context.decode_all`."""
        return [self.of(context, item, position.key) for item, position in zip(items, positions, strict=True)]

    def of(self, context: Context, item: Item, key: Key) -> "Partial[Any] | None":
        """The parts of a stored item; None if the store skips the item, or it belongs to another entity.

        Raises:
            ItemInvalid: the tag is unknown, or a value does not fit the model.
        """
        entity, codec = self.entity, self.entity.codec
        if self.only is None or item.get(TAG) != entity.tag or item.get(VERSION, 1) != codec.upgrades.version:
            return self._of_whole(context, item, key)
        text = str(key)
        values = {segments: codec.read_part(part, item, text) for segments, part in self.parts.items()}
        if not context.schema.exclusive:
            named = {str(segments[0]): value for segments, value in values.items() if len(segments) == 1}
            context.schema.check_values(entity, named, item, key)
        return Partial(self, values)

    def _of_whole(self, context: Context, item: Item, key: Key) -> "Partial[Any] | None":
        if self.only is not None and context.schema.knows(item) and item.get(TAG) != self.entity.tag:
            return None  # only its tag was read
        instance = context.decode(item, key)
        if type(instance) is not self.entity.cls:
            return None
        return Partial(self, {segments: part.of_entity(instance) for segments, part in self.parts.items()})

    def with_fields(self, fields: Sequence[str]) -> "Selection":
        """The same, but these fields are read too, for a check of the stored item."""
        assert self.only is not None
        parts = [self.entity.codec.part(Path((name,))) for name in fields]
        return evolve(self, only=Only(self.entity.tag, _stored([*self.parts.values(), *parts])))

    @property
    def explained(self) -> str:
        """The fields, and why whole items are read nevertheless."""
        return f"{self}, taken out of whole items: {self.why}" if self.why else str(self)

    def __str__(self) -> str:
        return ", ".join(str(Path(segments)) for segments in self.parts)


@public_in("odm.results")
class Partial(Generic[E]):
    """Some fields of an item, from a read with ``only=``: ``part[Order.total]``.

    The fields of the key are always among them.
    """

    __slots__ = ("_selection", "_values")
    __hash__ = None  # type: ignore[assignment]  # its values may be mutable

    def __init__(self, selection: Selection, values: Mapping[_Segments, Any]) -> None:
        self._selection = selection
        self._values = values

    @property
    def key(self) -> Query[E]:
        """The key of the item: ``db.get(part.key)`` reads the whole of it."""
        primary = self._selection.entity.primary
        values = {name: self._values[name,] for name in primary.fields}
        return Query(self._selection.entity.cls, primary.name, values)

    def __getitem__(self, field: T, /) -> T:
        """The value of a field that was asked for, or of a part of one.

        Args:
            field: the field, such as ``Order.total`` or ``Day.readings["0015"]``.

        Raises:
            BadValue: the field was not asked for, or the item has no value there, such as a member of a dict.
        """
        path, value = self._value(field)
        if value is NOTHING:
            raise BadValue(
                f"{self._selection.entity.name}.{path} has no value in the item {self.key}: part.get(...) of it gives "
                "None"
            )
        field_value: T = value
        return field_value

    def get(self, field: T, /) -> T | None:
        """The same; None if the item has no value there.

        Args:
            field: as for ``part[field]``.

        Raises:
            BadValue: the field was not asked for.
        """
        value = self._value(field)[1]
        return None if value is NOTHING else value

    def _value(self, field: object) -> tuple[Path, Any]:
        path, entity = _path(field, "part[...]"), self._selection.entity
        mine = path.owner is None or issubclass(entity.cls, path.owner)
        for length in range(len(path.segments), 0, -1) if mine else ():
            part = self._selection.parts.get(path.segments[:length])
            if part is not None:
                value = self._values[path.segments[:length]]
                if length == len(path.segments) or value is NOTHING:
                    return path, value
                return path, entity.codec.part(path).inside(value, length)
        name = entity.name if path.owner is None else path.owner.__name__
        raise BadValue(
            f"{name}.{path} was not asked for: this part of a {entity.name} has {self._selection}; add the field to "
            "only="
        )

    def __iter__(self) -> Any:
        raise TypeError(
            f"{self!r} has the fields that only= names: take one with part[{self._selection.entity.name}.x]"
        )

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: object) -> NoReturn:
        raise SchemaError(
            f"{source!r} has the fields that only= names in a call, so pydantic has no schema for it: as a response, "
            "return a model of your own with these fields, made of part[Order.total] and so on"
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Partial):
            return NotImplemented
        return self._selection.entity.cls is other._selection.entity.cls and self._values == other._values

    def __repr__(self) -> str:
        keys = {(name,) for name in self._selection.entity.primary.fields}
        there = {path: value for path, value in self._values.items() if path not in keys and value is not NOTHING}
        return f"Partial({', '.join([str(self.key), *(f'{Path(path)}={text_of(it)}' for path, it in there.items())])})"


def selection_of(context: Context, cls: type | None, only: object, call: str) -> Selection | None:
    """Compile ``only=`` of a call.

    Args:
        context: the context of the store.
        cls: the entity of the items; None: items of any entity.
        only: the argument; None: whole items.
        call: the name of the call, for messages.

    Raises:
        BadValue: it is not a list of fields of the entity.
    """
    if only is None:
        return None
    if cls is None:
        raise BadValue(f"{call}(only=...) reads fields of one entity: name the entity, or leave only= out")
    entity = context.schema.entity(cls)
    if not isinstance(only, Sequence) or isinstance(only, str | bytes) or not only:
        raise BadValue(
            f"{call}(only={brief(only)}): give a list of one or more fields, such as [{entity.name}.{_any(entity)}]"
        )
    asked = [_path(field, f"{call}(only=...)") for field in only]
    named = dict.fromkeys(Path((name,)) for name in entity.primary.sources)
    parts = {path.segments: entity.codec.part(path) for path in (*named, *asked)}
    for path in asked:
        if entity.codec.stored.get(path.root) in entity.blobs:
            raise BadValue(f"{call}(only=...): {entity.name}.{path} may be in a blob: read the whole item with get()")
    why = _why_whole(entity, parts.values())
    return Selection(entity, parts, None if why else Only(entity.tag, _stored(parts.values())), why)


def _path(reference: object, where: str) -> Path:
    try:
        return path_of(reference)
    except TypeError as error:
        raise BadValue(f"{where}: {error}") from None


def _any(entity: EntitySchema) -> str:
    """A field to show in a message."""
    names = [name for name in entity.codec.stored if name not in entity.primary.sources]
    return names[0] if names else next(iter(entity.codec.stored))


def _why_whole(entity: EntitySchema, parts: Any) -> str:
    if entity.version > 1:
        return "items of older versions are upgraded as a whole"
    if entity.match is not None:
        return "match= judges the item"
    if entity.codec.needs_whole:
        return "the model has code that sees all fields"
    seen = sorted({part.path.root for part in parts if part.whole})
    return f"the validation of {seen[0]} sees the other fields" if seen else ""


def _stored(parts: Any) -> tuple[Path, ...]:
    """The stored paths to read, without those inside another."""
    paths = dict.fromkeys([*(Path((name,)) for name in _MARKS), *(part.stored for part in parts)])
    kept = {path.segments for path in paths}
    return tuple(
        path for path in paths if not any(path.segments[:length] in kept for length in range(1, len(path.segments)))
    )
