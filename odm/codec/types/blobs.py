"""How the value of a field with `odm.Blob` is stored: its bytes if it is short, else a pointer to its blob.

A pointer is the map ``{"blob": name, "size": bytes, "sha256": hex}``. The name is random and never used again, so the
content of a blob never changes.
"""

from collections.abc import Collection, Mapping
from hashlib import sha256
from re import fullmatch
from secrets import token_hex
from typing import Any, Final

from odm.codec.types.scalars import BYTES
from odm.codec.types.stored import BINARY, MAP, StoredType, Unfit, unfit
from odm.entities.blobs import LazyBytes
from odm.errors import Unsupported
from odm.expressions.nodes import Item, Value

KINDS: Final = BINARY | MAP

BLOB: Final = "blob"
"""The name of the part of a pointer that has the name of the blob."""

_NAME: Final = "[0-9a-f]{32}"
_PARTS: Final = {BLOB, "size", "sha256"}
_MOST: Final = 2**20


class Pointer(dict[str, Value]):
    """The pointer of a value that is not stored yet, with its bytes, which a write uploads.

    Args:
        data: the value.
    """

    def __init__(self, data: bytes) -> None:
        super().__init__({BLOB: token_hex(16), "size": len(data), "sha256": sha256(data).hexdigest()})
        self.data = data


def kept_inline(names: Collection[str], before: Item, after: dict[str, Value]) -> dict[str, Value]:
    """A stored item that was read and is written again, with the long values that are in the item left there.

    Only a write of the field moves its value to a blob: others upload nothing.

    Args:
        names: the stored names of the fields with Blob.
        before: the attributes from which the item was made.
        after: the item.
    """
    kept = {
        name: before[name] for name in names if isinstance(after.get(name), Pointer) and type(before.get(name)) is bytes
    }
    return {**after, **kept} if kept else after


def is_name(text: str) -> bool:
    """Whether this is the name of a blob."""
    return fullmatch(_NAME, text) is not None


def placeholders(eager: Mapping[str, bool], item: Item) -> Item:
    """The item with zeros in place of the large values that are not read here, to look at its other fields.

    Args:
        eager: see `odm.schema.entity.EntitySchema`.
        item: a stored item.
    """
    pointers = {name: pointer_of(item.get(name)) for name, is_eager in eager.items() if is_eager}
    zeros = {name: bytes(min(pointer["size"], _MOST)) for name, pointer in pointers.items() if pointer is not None}
    return {**item, **zeros} if zeros else item


def pointer_of(value: object) -> Mapping[str, Any] | None:
    """The stored value, if it is a pointer; another program may have stored anything."""
    if not isinstance(value, dict) or not value.keys() >= _PARTS:
        return None
    name, size, digest = value[BLOB], value["size"], value["sha256"]
    named = isinstance(name, str) and is_name(name)  # it becomes a part of a path
    return value if named and type(size) is int and size >= 0 and isinstance(digest, str) else None


class BlobType(StoredType):
    """Bytes that are stored in the item, or in a blob if there are more than ``over``.

    Attributes:
        over: the most bytes that are stored in the item.
        lazy: the values are `odm.LazyBytes`; else bytes.
        where: the field, for messages.
    """

    over: int
    lazy: bool
    where: str

    def dump(self, value: Any) -> Value:
        if not self.lazy:
            return self._stored(BYTES.dump(value))
        if not isinstance(value, LazyBytes):
            raise unfit("LazyBytes", value)
        return self._stored(value.read()) if value.pointer is None else dict(value.pointer)

    def _stored(self, data: bytes) -> Value:
        return Pointer(data) if len(data) > self.over else data

    def load(self, value: Value) -> Any:
        if type(value) is bytes:
            return LazyBytes(value) if self.lazy else value
        if isinstance(value, Pointer):
            return LazyBytes(value.data) if self.lazy else value.data
        pointer = pointer_of(value)
        if pointer is None:
            return value
        if not self.lazy:
            raise Unsupported(
                f"{self.where} is kept in a blob, and this call reads no blobs: read the item with get() or "
                f"get_many(), or declare the field as Annotated[LazyBytes, Blob(over={self.over})]"
            )
        return LazyBytes.of_pointer(pointer)

    def loose(self, value: Any) -> Value:
        raise Unfit("is compared with a field with Blob, whose value may be outside the table: compare it with None")

    def lax(self) -> bool:
        return False
