"""Items that a backend keeps as JSON: read by pydantic straight from their text, a whole page in one call.

A backend may hand up an `ItemText` wherever it would hand up an item. It is the item, decoded when looked at; and its
text is validated without that where it is proved (`proofs`) that the entity comes out the same.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from operator import methodcaller
from typing import Any, Final, cast

from pydantic import ValidationError
from pydantic_core import CoreSchema, SchemaValidator, core_schema, to_json

from odm.codec.attributes import TAG, VERSION
from odm.codec.entity import EntityCodec
from odm.codec.lazy import Lazy
from odm.codec.validation import validated_text
from odm.expressions.nodes import Value

HEAD: Final = (VERSION, TAG)
"""The attributes that a text begins with, in this order."""


class ItemText(Mapping[str, Value]):
    """A stored item as JSON text.

    Args:
        text: an object with the attributes by stored name; or anything else, which is only for ``decode``. The object
            begins with those of `HEAD` that it has. Its numbers are JSON numbers, its sets arrays; it holds nothing
            that would need more.
        decode: the item of a text; new objects at every call.
    """

    __slots__ = ("_decode", "_item", "text")

    def __init__(self, text: bytes, decode: Callable[[bytes], dict[str, Value]]) -> None:
        self.text = text
        self._decode = decode
        self._item: dict[str, Value] | None = None

    @property
    def item(self) -> dict[str, Value]:
        """The item as a dict."""
        if self._item is None:
            self._item = self._decode(self.text)
        return self._item

    def __getitem__(self, name: str) -> Value:
        return self.item[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.item)

    def __len__(self) -> int:
        return len(self.item)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; one that the text does not name is not looked for."""
        return self.item.get(name, default) if self._item is not None or to_json(name) in self.text else default

    def __repr__(self) -> str:
        return repr(self.item)


class ItemTexts(Lazy[bytes, ItemText]):
    """A page of stored items as JSON texts.

    Args:
        texts: of the items, as `ItemText` takes them.
        decode: as `ItemText` takes it.
    """

    __slots__ = ()

    def __init__(self, texts: Sequence[bytes], decode: Callable[[bytes], dict[str, Value]]) -> None:
        super().__init__(texts, lambda text: ItemText(text, decode))


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
    def _one(self) -> SchemaValidator:
        return SchemaValidator(_any_of(self._schemas, lambda item: item))

    @cached_property
    def _page(self) -> SchemaValidator:
        return SchemaValidator(_any_of(self._schemas, core_schema.list_schema))

    def load(self, item: ItemText) -> Any:
        """The entity, or None where only the decoded item can tell what it is, or what is wrong with it."""
        if not self._may_load(item.text):
            return None
        try:
            return validated_text(self._one, item.text)
        except ValidationError:
            return None

    def load_all(self, items: Sequence[Mapping[str, Value]]) -> list[Any] | None:
        """The entities of a page, or None where one of its items must be looked at alone."""
        if not isinstance(items, ItemTexts) or not items or not all(map(self._may_load, items.parts)):
            return None
        try:
            entities: list[Any] = validated_text(self._page, b"[%b]" % b",".join(items.parts))
        except ValidationError:
            return None
        return entities


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
