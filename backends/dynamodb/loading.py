"""Attributes → entities, without decoding the items first; see `odm.codec.loading`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

from odm.backends.dynamodb.attributes import Attributes, from_attribute
from odm.backends.dynamodb.errors import MALFORMED
from odm.backends.dynamodb.generate import AttributeReads
from odm.codec import TAG, EntityCodec, NativeItem, NativeItems
from odm.codec.loading import Loader as EntityLoader
from odm.codec.loading import Loads
from odm.errors import BackendError


class AttributesItem(NativeItem):
    """A stored item as its attributes.

    Args:
        attributes: the attributes by name, including key attributes.
        hidden: the names of attributes that are not part of the item.
        loader: loads the entities.
    """

    __slots__ = ("_hidden", "_loader", "attributes")

    def __init__(self, attributes: Attributes, hidden: frozenset[str], loader: "Loader") -> None:
        self._made = None  # inlined from the base class for speed
        self.attributes = attributes
        self._hidden = hidden
        self._loader = loader

    def load(self) -> Any:
        return self._loader.load(self.attributes, self.attributes.get(TAG, {}).get("S"))

    def _make(self) -> dict[str, Any]:
        hidden = self._hidden
        try:
            return {name: from_attribute(value) for name, value in self.attributes.items() if name not in hidden}
        except MALFORMED as error:
            raise _unreadable(error) from error

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; the others are not decoded."""
        found = None if name in self._hidden else self.attributes.get(name)
        try:
            return default if found is None else from_attribute(found)
        except MALFORMED as error:
            raise _unreadable(error) from error


def _unreadable(error: Exception) -> BackendError:
    return BackendError(
        f"an attribute of an item is not as DynamoDB sends it, at {type(error).__name__}: {error}: check endpoint_url, "
        "and any proxy in between"
    )


class AttributesItems(NativeItems[Attributes]):
    """A page of stored items as their attributes; see `AttributesItem`."""

    __slots__ = ("_loader",)

    def __init__(self, parts: Sequence[Attributes], hidden: frozenset[str], loader: "Loader") -> None:
        super().__init__(parts, lambda attributes: AttributesItem(attributes, hidden, loader))
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)


class DescribedItem(NativeItem):
    """A stored item as its attributes, in a table whose items have the form of other programs.

    Args:
        attributes: the attributes by name, including key attributes.
        read: makes the item; see `odm.backends.dynamodb.described`.
    """

    __slots__ = ("_read", "attributes")

    def __init__(self, attributes: Attributes, read: Callable[[Attributes], dict[str, Any]]) -> None:
        self._made = None
        self.attributes = attributes
        self._read = read

    def load(self) -> Any:
        return None

    def _make(self) -> dict[str, Any]:
        try:
            return self._read(self.attributes)
        except MALFORMED as error:
            raise _unreadable(error) from error


class DescribedItems(NativeItems[Attributes]):
    """A page of such items."""

    def __init__(self, parts: Sequence[Attributes], read: Callable[[Attributes], dict[str, Any]]) -> None:
        super().__init__(parts, lambda attributes: DescribedItem(attributes, read))

    def load_all(self) -> list[Any] | None:
        return None


class Loader(EntityLoader[Attributes]):
    """Loads entities from the attributes of their items.

    Args:
        codecs: the codecs of the entities.
    """

    def __init__(self, codecs: Iterable[EntityCodec] = ()) -> None:
        super().__init__(_LOADS, codecs)


def _tag(attributes: Attributes) -> str:
    tag: str = attributes[TAG]["S"]
    return tag


_LOADS: Final = Loads(AttributeReads, _tag)
