"""The codec: entities to stored items and back, and conditions and actions to what backends see (lowering).

`compile_codec` makes one `EntityCodec` per entity class; everything it can refuse for good it refuses there.
"""

from odm.codec.attributes import TAG, TTL_ATTRIBUTE, ttl_seconds
from odm.codec.entity import EntityCodec, compile_codec

__all__ = ["TAG", "TTL_ATTRIBUTE", "EntityCodec", "compile_codec", "ttl_seconds"]
