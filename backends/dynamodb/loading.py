"""Attributes → entities, past the decoded item; `NativeItem` says where such items stand.

What generated code (`odm.backends.dynamodb.generate`) and pydantic do not make an entity of is decoded and looked at by
`EntityCodec.decode`, which finds the value or words the fault.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final
from weakref import WeakKeyDictionary

from odm.backends.dynamodb.attributes import Attributes, from_attribute
from odm.backends.dynamodb.generate import generated_load
from odm.codec import TAG, EntityCodec, NativeItem, NativeItems
from odm.codec.validation import validating


class AttributesItem(NativeItem):
    """A stored item as its attributes.

    Args:
        attributes: by name, those of keys too.
        hidden: the names of attributes that are no part of the item.
        loader: of the entities that it may be of.
    """

    __slots__ = ("_hidden", "_loader", "attributes")

    def __init__(self, attributes: Attributes, hidden: frozenset[str], loader: "Loader") -> None:
        super().__init__()
        self.attributes = attributes
        self._hidden = hidden
        self._loader = loader

    def load(self) -> Any:
        return self._loader.load(self.attributes)

    def _make(self) -> dict[str, Any]:
        hidden = self._hidden
        return {name: from_attribute(value) for name, value in self.attributes.items() if name not in hidden}

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute, which alone is decoded."""
        found = None if name in self._hidden else self.attributes.get(name)
        return default if found is None else from_attribute(found)


class AttributesItems(NativeItems[Attributes]):
    """A page of stored items as their attributes; see `AttributesItem`."""

    __slots__ = ("_loader",)

    def __init__(self, parts: Sequence[Attributes], hidden: frozenset[str], loader: "Loader") -> None:
        super().__init__(parts, lambda attributes: AttributesItem(attributes, hidden, loader))
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)


class Loader:
    """Entities from the attributes of their items.

    Args:
        codecs: of the entities.
    """

    def __init__(self, codecs: Iterable[EntityCodec] = ()) -> None:
        self._codecs = {codec.tag: codec for codec in codecs}

    def load(self, attributes: Attributes) -> Any:
        """The entity, as `NativeItem.load` gives it."""
        try:
            loads = self._loads(attributes[TAG]["S"])
        except (KeyError, TypeError):
            return None
        found = loads.all((attributes,))
        return found and found[0]

    def load_all(self, parts: Sequence[Attributes]) -> list[Any] | None:
        """The entities of a page, as `NativeItems.load_all` gives them: each kind together, then back in order."""
        if not parts:
            return []
        try:
            tag = parts[0][TAG]["S"]
            found = self._loads(tag).all(parts) if parts[-1][TAG]["S"] == tag else None
            return self._load_each(parts) if found is None else found
        except (KeyError, TypeError):
            return None

    def _load_each(self, parts: Sequence[Attributes]) -> list[Any] | None:
        tags = [part[TAG]["S"] for part in parts]
        kinds = {tag: self._loads(tag) for tag in set(tags)}
        if len(kinds) == 1:
            return None  # they were tried together
        found: dict[str, Iterator[Any]] = {}
        for tag, loads in kinds.items():
            entities = loads.all([part for part, its in zip(parts, tags, strict=True) if its == tag])
            if entities is None:
                return None
            found[tag] = iter(entities)
        return [next(found[tag]) for tag in tags]

    def _loads(self, tag: str) -> "_EntityLoads":
        codec = self._codecs[tag]
        loads = _LOADS.get(codec)
        if loads is None:
            loads = _LOADS[codec] = _EntityLoads(codec)
        return loads


class _EntityLoads:
    """What loads the items of one entity; made when the first of them is read."""

    def __init__(self, codec: EntityCodec) -> None:
        # Not the codec itself: these stand in a dict with weak references to codecs.
        self._validator = codec.record.validator
        self._load = generated_load(codec)

    def all(self, parts: Sequence[Attributes]) -> list[Any] | None:
        """The entities of the items, or None."""
        try:
            return self._load(parts, validating(self._validator))
        except Exception:  # noqa: BLE001  # generated code does not say what is wrong
            return None


_LOADS: Final[WeakKeyDictionary[EntityCodec, _EntityLoads]] = WeakKeyDictionary()
