"""The codec: entities to stored items and back, and conditions and actions to what backends get (lowering).

`compile_codec` makes one `EntityCodec` per entity class. Every fault of the class itself is reported there.
"""

from odm.codec.attributes import OTHERS, TAG, TTL_ATTRIBUTE, VERSION, WAS, attribute_name, ttl_seconds
from odm.codec.conditions import When
from odm.codec.entity import EntityCodec, compile_codec
from odm.codec.lazy import Lazy, NativeItem, NativeItems
from odm.codec.texts import ItemText, ItemTexts, TextLoader, tag_of
from odm.codec.upgrades import Upgrades
from odm.codec.writers import Draft

__all__ = [
    "OTHERS",
    "TAG",
    "TTL_ATTRIBUTE",
    "VERSION",
    "WAS",
    "Draft",
    "EntityCodec",
    "ItemText",
    "ItemTexts",
    "Lazy",
    "NativeItem",
    "NativeItems",
    "TextLoader",
    "Upgrades",
    "When",
    "attribute_name",
    "compile_codec",
    "tag_of",
    "ttl_seconds",
]
