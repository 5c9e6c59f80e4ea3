"""Large values: the marker `Blob` of a field, and `LazyBytes`, a value that is read when asked.

A value that is longer than ``Blob(over=...)`` is kept outside the table, in a blob; the item has a pointer to it.
"""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Protocol

from pydantic import GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from odm._published import public
from odm.entities.markers import Marker
from odm.errors import BadValue
from odm.immutable import Immutable


@public
class Blob(Marker, Immutable):
    """Keep a long value outside the table: ``body: Annotated[bytes, Blob(over=100_000)]``.

    The field is ``bytes``, which `odm.Store.get` reads with the item, or `odm.LazyBytes`, which is read when asked, or
    one of them or None. The store has a place for blobs: ``Store(..., blobs="s3://bucket/prefix")``.

    Args:
        over: a value of more bytes than this is kept in a blob; 0 or more. An item with its inline values must fit the
            limit of the store, portably 400 KB.

    Raises:
        SchemaError: when the table is compiled, if the field is part of a key, has another type or role, or its class
            has companions; or for a negative number.
    """

    _odm_usage = "Annotated[LazyBytes, Blob(over=100_000)]"

    over: int


class BlobSource(Protocol):
    """Reads the blob of a value for the store that read its item."""

    def read(self) -> bytes: ...

    async def aread(self) -> bytes: ...


@public
class LazyBytes:
    """A value of a field with `odm.Blob` that is read when asked.

    ``LazyBytes(data)`` holds the bytes. What a store returns holds them too if they are stored in the item; else it
    refers to a blob, and each `read` reads it again. Two values are equal if they have the same size and SHA-256.
    Immutable.

    Args:
        content: the bytes.

    Raises:
        BadValue: the argument is not bytes.
    """

    __slots__ = ("_content", "_pointer", "_sha256", "_source")

    def __init__(self, content: bytes | bytearray) -> None:
        if not isinstance(content, bytes | bytearray):
            raise BadValue(f"LazyBytes takes bytes, not an object of type {type(content).__name__}")
        self._content: bytes | None = bytes(content)
        self._pointer: Mapping[str, Any] | None = None
        self._sha256: str | None = None
        self._source: BlobSource | None = None

    @classmethod
    def of_pointer(cls, pointer: Mapping[str, Any]) -> "LazyBytes":
        """The value that a stored pointer refers to; a store binds it to its blobs."""
        blob = cls(b"")
        blob._content, blob._pointer = None, dict(pointer)
        return blob

    def bind(self, source: BlobSource) -> None:
        """Set what reads the blob; done by the store that read the item."""
        self._source = source

    @property
    def pointer(self) -> Mapping[str, Any] | None:
        """The stored pointer to the blob; None: the value is held here."""
        return self._pointer

    @property
    def size(self) -> int:
        """The number of bytes; known without a read."""
        return len(self._content) if self._pointer is None else int(self._pointer["size"])  # type: ignore[arg-type]

    @property
    def sha256(self) -> str:
        """The SHA-256 of the bytes, in hexadecimal; known without a read."""
        if self._pointer is not None:
            return str(self._pointer["sha256"])
        if self._sha256 is None:
            self._sha256 = sha256(self._content or b"").hexdigest()
        return self._sha256

    def read(self) -> bytes:
        """The bytes. Blocks while a blob is read; in a coroutine, use `aread`.

        Raises:
            Conflict: the blob was removed, because the item was changed or deleted since it was read: read it again.
            ItemInvalid: the item refers to the blob, and it does not exist, or its size or SHA-256 is another.
            BackendError: the blob cannot be read.
            BadValue: no store has read the value.
            Unsupported: the store that read the item has no ``blobs=``.
        """
        return self._content if self._content is not None else self._bound().read()

    async def aread(self) -> bytes:
        """As `read`, without blocking the event loop."""
        return self._content if self._content is not None else await self._bound().aread()

    def _bound(self) -> BlobSource:
        if self._source is None:
            raise BadValue(
                f"{self!r} was not read by a store with blobs=, so it is not known where its blob is: get() the item "
                "from Store(..., blobs=...)"
            )
        return self._source

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LazyBytes):
            return NotImplemented
        return (self.size, self.sha256) == (other.size, other.sha256)

    def __hash__(self) -> int:
        return hash((self.size, self.sha256))

    def __repr__(self) -> str:
        where = "" if self._pointer is None else f", blob {self._pointer['blob']}"
        return f"<LazyBytes of {self.size} bytes{where}>"

    def __copy__(self) -> "LazyBytes":
        return self

    def __deepcopy__(self, memo: object) -> "LazyBytes":
        return self

    def __reduce__(self) -> tuple[Any, ...]:  # without what reads it, which belongs to a store
        if self._pointer is not None:
            return LazyBytes.of_pointer, (dict(self._pointer),)
        return LazyBytes, (self._content,)

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        serialization = core_schema.plain_serializer_function_ser_schema(
            _serialized, return_schema=core_schema.dict_schema(), when_used="json"
        )
        return core_schema.no_info_plain_validator_function(
            _validated, serialization=serialization, json_schema_input_schema=core_schema.bytes_schema()
        )


def _validated(value: object) -> LazyBytes:
    if isinstance(value, LazyBytes):
        return value
    if isinstance(value, bytes | bytearray):
        return LazyBytes(value)
    raise ValueError("give bytes or LazyBytes")


def _serialized(value: LazyBytes) -> dict[str, object]:
    """The value in JSON, which does not hold the bytes."""
    return {"size": value.size, "sha256": value.sha256}
