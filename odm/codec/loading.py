"""Items in a backend's form (see `NativeItem`) → entities, without decoding the items first.

`EntityCodec.decode` handles every item that generated code or pydantic cannot load, and reports its fault.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from odm.codec.attributes import TAG
from odm.codec.emitter import Reads
from odm.codec.entity import EntityCodec
from odm.expressions.nodes import Item

P = TypeVar("P")

Load: TypeAlias = Callable[[Sequence[P]], list[Any] | None]
"""Items to their entities, validated; None if it cannot."""


def _decline(_: Sequence[Any]) -> None:
    """Loads no item: the caller decodes each."""


class Loads(Generic[P]):
    """The functions that load the items of each entity, generated when the first item of the entity is read.

    Args:
        emitter: makes the emitter of such a function.
        tag: returns the tag of an item; raises KeyError or TypeError if it has none.
    """

    def __init__(self, emitter: Callable[[], Reads], tag: Callable[[P], str]) -> None:
        self.tag = tag
        self._emitter = emitter
        self._by_codec: WeakKeyDictionary[EntityCodec, Load[P]] = WeakKeyDictionary()

    def of(self, codec: EntityCodec) -> Load[P]:
        """The function that loads the items of an entity."""
        load = self._by_codec.get(codec)
        if load is None:
            # It must not refer to the codec, which would keep its entry in the weak dict alive.
            # Generated code reads some other forms, too; `EntityCodec.decode` checks the form of each field.
            load = _decline if codec.exact or codec.any_cells else self._emitter().loader(codec.record, codec.marks)
            self._by_codec[codec] = load
        return load


class Loader(Generic[P]):
    """Loads entities from items in a backend's form.

    Args:
        loads: of the backend.
        codecs: of the entities.
    """

    def __init__(self, loads: Loads[P], codecs: Iterable[EntityCodec] = ()) -> None:
        self._kinds = loads
        self._codecs = {codec.tag: codec for codec in codecs}

    def strangers(self, items: Iterable[Item]) -> int:
        """How many of the items have no tag, or a tag of no known entity."""
        tags = [item.get(TAG) for item in items]
        return sum(not isinstance(tag, str) or tag not in self._codecs for tag in tags)

    @property
    def tags(self) -> Collection[str]:
        """The tags of the entities."""
        return self._codecs.keys()

    def load(self, part: P, tag: object) -> Any:
        """The entity of an item with this tag, as `NativeItem.load` returns it."""
        codec = self._codecs.get(tag) if isinstance(tag, str) else None
        entities = None if codec is None else self._kinds.of(codec)((part,))
        return entities and entities[0]

    def load_all(self, parts: Sequence[P]) -> list[Any] | None:
        """The entities of a page, as `NativeItems.load_all` returns them: loaded per entity, then put in order."""
        if not parts:
            return []
        tag_of = self._kinds.tag
        try:
            tag = tag_of(parts[0])
            instances = self._loads(tag)(parts) if tag_of(parts[-1]) == tag else None
            return self._load_each(parts) if instances is None else instances
        except (KeyError, TypeError):
            return None

    def _load_each(self, parts: Sequence[P]) -> list[Any] | None:
        tags = list(map(self._kinds.tag, parts))
        kinds = {tag: self._loads(tag) for tag in set(tags)}
        if len(kinds) == 1:
            return None  # they have been tried together
        by_tag: dict[str, Iterator[Any]] = {}
        for tag, loads in kinds.items():
            entities = loads([part for part, its in zip(parts, tags, strict=True) if its == tag])
            if entities is None:
                return None
            by_tag[tag] = iter(entities)
        return [next(by_tag[tag]) for tag in tags]

    def _loads(self, tag: str) -> Load[P]:
        return self._kinds.of(self._codecs[tag])
