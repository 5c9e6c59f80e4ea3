"""Items that a backend keeps as JSON: read by pydantic straight from their text, a whole page in one call.

A backend may hand up an `ItemText` wherever it would hand up an item. It is the item, decoded when looked at; and its
text is validated without that where it is proved (`proofs`) that the entity comes out the same.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import methodcaller
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import CoreSchema, SchemaValidator, core_schema, from_json, to_json

from odm.codec.attributes import TAG, VERSION
from odm.codec.entity import EntityCodec
from odm.codec.lazy import NativeItem, NativeItems
from odm.codec.validation import validating_text
from odm.expressions.nodes import Value

HEAD: Final = (VERSION, TAG)
"""The attributes that a text begins with, in this order."""

_HEAD: Final = re.compile(rb'\[?\{(?:"%b":\d+,)?"%b":("(?:[^"\\]|\\.)*")' % (VERSION.encode(), TAG.encode()))
"""The beginning of a text, up to its tag; an array holds the object first."""


def tag_of(text: bytes) -> str | None:
    """The tag of an item's text, which is not decoded for it; None if it has none."""
    found = _HEAD.match(text)
    return None if found is None else _tag_in(found[1])


@lru_cache(maxsize=256)
def _tag_in(text: bytes) -> str:
    return str(from_json(text))


class ItemText(NativeItem):
    """A stored item as JSON text.

    Args:
        text: an object with the attributes by stored name; or anything else, which is only for ``decode``. The object
            begins with those of `HEAD` that it has. Its numbers are JSON numbers, its sets arrays; it holds nothing
            that would need more.
        decode: the item of a text; new objects at every call.
        loader: of the entities that it may be of.
    """

    __slots__ = ("_decode", "_loader", "text")

    def __init__(self, text: bytes, decode: Callable[[bytes], dict[str, Value]], loader: "TextLoader") -> None:
        self._made = None  # as the base does, without a call
        self.text = text
        self._decode = decode
        self._loader = loader

    def load(self) -> Any:
        return self._loader.load(self.text)

    def _make(self) -> dict[str, Any]:
        return self._decode(self.text)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; one that the text does not name is not looked for."""
        if name == TAG and self._made is None and (tag := tag_of(self.text)) is not None:
            return tag
        return self.made.get(name, default) if self._made is not None or to_json(name) in self.text else default


class ItemTexts(NativeItems[bytes]):
    """A page of stored items as JSON texts.

    Args:
        texts: of the items, as `ItemText` takes them.
        decode: as `ItemText` takes it.
        loader: as `ItemText` takes it.
    """

    __slots__ = ("_loader",)

    def __init__(
        self, texts: Sequence[bytes], decode: Callable[[bytes], dict[str, Value]], loader: "TextLoader"
    ) -> None:
        super().__init__(texts, lambda text: ItemText(text, decode, loader))
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)


class TextLoader:
    """Entities from the JSON texts of their items.

    Args:
        codecs: of the entities; only those with a `EntityCodec.json_schema` count.
    """

    def __init__(self, codecs: Iterable[EntityCodec]) -> None:
        known = [codec for codec in codecs if codec.json_schema is not None]
        self._schemas = {codec.tag: cast("CoreSchema", codec.json_schema) for codec in known}
        # With its version, where it has one: an item of another version is for the codec to upgrade or to refuse.
        starts = (to_json({name: codec.marks[name] for name in HEAD if name in codec.marks}) for codec in known)
        self._may_load = methodcaller("startswith", tuple(start[:-1] + b"," for start in starts))

    @cached_property
    def _one(self) -> Callable[[bytes], Any]:
        return validating_text(SchemaValidator(_any_of(self._schemas, lambda item: item)))

    @cached_property
    def _page(self) -> Callable[[bytes], list[Any]]:
        return validating_text(SchemaValidator(_any_of(self._schemas, core_schema.list_schema)))

    def load(self, text: bytes) -> Any:
        """The entity, as `NativeItem.load` gives it."""
        if not self._may_load(text):
            return None
        try:
            return self._one(text)
        except ValidationError:
            return None

    def load_all(self, texts: Sequence[bytes]) -> list[Any] | None:
        """The entities of a page, as `NativeItems.load_all` gives them."""
        if not texts or not all(map(self._may_load, texts)):
            return None
        try:
            return self._page(b"[%b]" % b",".join(texts))
        except ValidationError:
            return None


def _any_of(schemas: Mapping[str, CoreSchema], around: Callable[[CoreSchema], CoreSchema]) -> CoreSchema:
    """One schema for items of several entities, told apart by their tags.

    Definitions move to the top, where each may stand once, whoever refers to it.
    """
    definitions: dict[str, CoreSchema] = {}
    choices: dict[str, CoreSchema] = {}
    for tag, schema in schemas.items():
        inner: Any = schema
        while inner["type"] == "definitions":
            definitions.update((definition["ref"], definition) for definition in inner["definitions"])
            inner = inner["schema"]
        choices[tag] = inner
    whole = around(core_schema.tagged_union_schema(choices, discriminator=TAG))
    return core_schema.definitions_schema(whole, list(definitions.values())) if definitions else whole
