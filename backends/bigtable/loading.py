"""Rows → entities, without decoding the items first; see `odm.codec.loading`."""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any, Final

from odm.backends.bigtable.cells import read
from odm.backends.bigtable.codec import NO_MEMBERS, UNREADABLE, decode, is_item
from odm.backends.bigtable.columns import shape_of
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.generate import CellReads
from odm.backends.bigtable.native import Row
from odm.codec import TAG, EntityCodec, NativeItem, NativeItems
from odm.codec.loading import Loader as EntityLoader
from odm.codec.loading import Loads
from odm.expressions.nodes import Value

_SHORT: Final = 64
"""The maximum bytes of the cells of tags that are kept."""

_known_tag: Final = lru_cache(maxsize=1024)(read)


class RowItem(NativeItem):
    """A stored item as its row.

    Args:
        row: a row with an item.
        loader: loads the entities.
    """

    __slots__ = ("_loader", "row")

    def __init__(self, row: Row, loader: "Loader") -> None:
        self._made = None  # inlined from the base class for speed
        self.row = row
        self._loader = loader

    def load(self) -> Any:
        try:
            tag = _tag(self.row)
        except (KeyError, TypeError):
            return None
        return self._loader.load(self.row, tag)

    def _make(self) -> dict[str, Value]:
        made = decode(self.row, self._loader.form)
        assert made is not None
        return made

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; a plain cell is decoded without the others."""
        shape = shape_of(self.row.columns)
        if name in shape.parted or name in shape.counted:
            return self.made.get(name, default)
        place = shape.places.get(name)
        try:
            value = NO_MEMBERS if place is None else self._loader.readers.get(name, read)(self.row.values[place])
        except UNREADABLE:
            return self.made.get(name, default)  # raises a BackendError that names the cell
        return default if value == NO_MEMBERS else value


class RowItems(NativeItems[Row]):
    """A page of stored items as their rows; see `RowItem`."""

    __slots__ = ("_loader",)

    def __init__(self, parts: Sequence[Row], loader: "Loader") -> None:
        super().__init__(parts, loader.made_of)
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)

    @property
    def misread(self) -> Sequence[int]:
        form = self._loader.form
        return [at for at, row in enumerate(self.parts) if form.misread(row)] if form.encodes else ()


class Loader(EntityLoader[Row]):
    """Loads entities from the rows of their items.

    Args:
        form: the form of their table.
        codecs: the codecs of the entities.
    """

    def __init__(self, form: Form, codecs: Iterable[EntityCodec] = ()) -> None:
        super().__init__(_loads(form.texts), codecs)
        self.form = form
        self.readers = form.readers

    def item(self, row: Row | None) -> RowItem | None:
        """The item of a row; None if there is no row or no item in it."""
        if row is None:
            return None
        try:
            tag = shape_of(row.columns).places.get(TAG)
        except ValueError:
            tag = None
        has_tag = tag is not None and row.values[tag] != b""
        return RowItem(row, self) if has_tag or is_item(row, self.form) else None

    def made_of(self, row: Row) -> RowItem:
        """The item of a row that has one."""
        return RowItem(row, self)


def _tag(row: Row) -> str:
    try:
        cell = row.values[shape_of(row.columns).places[TAG]]
        tag: str = _known_tag(cell) if len(cell) <= _SHORT else read(cell)
    except UNREADABLE as fault:
        if isinstance(fault, KeyError):  # there is no tag
            raise
        raise TypeError("the tag cannot be read") from fault
    return tag


@lru_cache(maxsize=256)
def _loads(texts: frozenset[str]) -> Loads[Row]:
    """Loads the items of a table that declares these attributes as text; shared by its stores."""
    return Loads(partial(CellReads, texts), _tag)
