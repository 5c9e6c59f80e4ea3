"""Items that a backend keeps as JSON: pydantic validates their text, a whole page in one call.

A backend may return an `ItemText` in place of an item. It is decoded when it is read. If it is proved (`proofs`) that
the entity is the same, pydantic validates the text directly.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, lru_cache
from operator import methodcaller
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import CoreSchema, core_schema, from_json, to_json

from odm.codec.attributes import TAG, VERSION
from odm.codec.entity import EntityCodec
from odm.codec.lazy import NativeItem, NativeItems
from odm.codec.types.validation import validating_text, validator_of
from odm.expressions.nodes import Value

HEAD: Final = (VERSION, TAG)
"""The attributes at the start of a text, in this order."""

_HEAD: Final = re.compile(rb'\[?\{(?:"%b":\d+,)?"%b":("(?:[^"\\]|\\.)*")' % (VERSION.encode(), TAG.encode()))
"""The start of a text, up to its tag; the first element of an array is the object."""


def tag_of(text: bytes) -> str | None:
    """The tag in an item's text, found without decoding the text; None if it has none."""
    match = _HEAD.match(text)
    return None if match is None else _tag_in(match[1])


@lru_cache(maxsize=256)
def _named(name: str) -> bytes:
    return to_json(name)


@lru_cache(maxsize=256)  # a page has few tags; those of other programs may be any text
def _tag_in(text: bytes) -> str:
    return str(from_json(text))


class ItemText(NativeItem):
    """A stored item as JSON text.

    Args:
        text: an object with the attributes by stored name, those of `HEAD` first; its numbers are JSON numbers, its
            sets arrays, and it has no other types. Or any other text, which only ``decode`` reads.
        decode: returns the item of a text, as new objects at every call.
        loader: of the entities.
    """

    __slots__ = ("_decode", "_loader", "text")

    def __init__(self, text: bytes, decode: Callable[[bytes], dict[str, Value]], loader: "TextLoader") -> None:
        self._content = None  # as the base does, without a call
        self.text = text
        self._decode = decode
        self._loader = loader

    def load(self) -> Any:
        return self._loader.load(self.text)

    def _make(self) -> dict[str, Any]:
        return self._decode(self.text)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; the text is decoded only if it contains the name."""
        if name == TAG and self._content is None and (tag := tag_of(self.text)) is not None:
            return tag
        return self.content.get(name, default) if self._content is not None or _named(name) in self.text else default


class ItemTexts(NativeItems[bytes]):
    """A page of stored items as JSON texts.

    Args:
        texts: see `ItemText`.
        decode: see `ItemText`.
        loader: see `ItemText`.
    """

    __slots__ = ("_loader",)

    def __init__(
        self, texts: Sequence[bytes], decode: Callable[[bytes], dict[str, Value]], loader: "TextLoader"
    ) -> None:
        self.parts = texts  # as the base does, without a call
        self._make = lambda text: ItemText(text, decode, loader)
        self._loader = loader

    def load_all(self) -> list[Any] | None:
        return self._loader.load_all(self.parts)


class TextLoader:
    """Loads entities from the JSON texts of their items.

    Args:
        codecs: of the entities; those without `EntityCodec.json_schema`, and exact ones, are ignored.
    """

    def __init__(self, codecs: Iterable[EntityCodec]) -> None:
        known = [codec for codec in codecs if codec.json_schema is not None and not codec.exact]
        self._schemas = {codec.tag: cast("CoreSchema", codec.json_schema) for codec in known}
        # Includes the version, if any: the codec upgrades or refuses an item of another version.
        starts = (to_json({name: codec.marks[name] for name in HEAD if name in codec.marks}) for codec in known)
        self._may_load = methodcaller("startswith", tuple(start[:-1] + b"," for start in starts))

    @cached_property
    def _load_one(self) -> Callable[[bytes], Any]:
        return validating_text(validator_of(_any_of(self._schemas, lambda item: item)))

    @cached_property
    def _page(self) -> Callable[[bytes], list[Any]]:
        return validating_text(validator_of(_any_of(self._schemas, core_schema.list_schema)))

    def load(self, text: bytes) -> Any:
        """The entity, as `NativeItem.load` returns it."""
        if not self._may_load(text):
            return None
        try:
            return self._load_one(text)
        except ValidationError:
            return None

    def load_all(self, texts: Sequence[bytes]) -> list[Any] | None:
        """The entities of a page, as `NativeItems.load_all` returns them."""
        if not texts or not all(map(self._may_load, texts)):
            return None
        try:
            return self._page(b"[%b]" % b",".join(texts))
        except ValidationError:
            return None


def _any_of(schemas: Mapping[str, CoreSchema], around: Callable[[CoreSchema], CoreSchema]) -> CoreSchema:
    """One schema for items of several entities, distinguished by their tags.

    Definitions move to the top level, where each is defined once for all entities.
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
