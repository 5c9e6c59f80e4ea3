"""Compressed text and bytes: `odm.Compressed`.

The stored value is text or bytes as they are, or one plain zstd or gzip frame, recognized by its magic number. So other
programs can read and write it, and the algorithm of a field can be changed while values of the other one are stored.
"""

import importlib
import sys
import zlib
from typing import Any, Final

from odm.codec.types.containers import DictType, FixedTupleType, ListType
from odm.codec.types.records import RecordType
from odm.codec.types.scalars import BYTES, STR
from odm.codec.types.stored import BINARY, LIST, MAP, TEXT, StoredType, Unfit, Unreadable
from odm.codec.types.unions import Around, UnionType, bare
from odm.entities.markers import Compressed
from odm.errors import brief
from odm.expressions.nodes import Value

ZSTD: Final = b"\x28\xb5\x2f\xfd"
GZIP: Final = b"\x1f\x8b"
MOST_FRAMES: Final = 1024
"""The most frames in a value: each costs a copy of those that follow it."""

_LEVELS: Final = {"zstd": (1, 22), "gzip": (1, 9)}
_NO_ZSTD: Final = (
    "zstd needs a library before Python 3.14: pip install 'single-table-odm[zstd]', or write Compressed(\"gzip\")"
)


class Corrupt(Exception):
    """A stored value cannot be decompressed; the message follows the field's name."""


def zstd() -> Any:
    """The zstd module of Python 3.14, or its backport.

    Raises:
        ImportError: it is not installed.
    """
    return importlib.import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


class CompressedType(StoredType):
    """A str or bytes that is stored compressed if it is long.

    Attributes:
        inner: `STR` or `BYTES`.
        how: the algorithm with its level, the threshold and the maximum size.
    """

    inner: StoredType
    how: Compressed

    def dump(self, value: Any) -> Value:
        plain = self.inner.dump(value)
        data: bytes = plain.encode() if isinstance(plain, str) else plain
        if len(data) > self.how.max_size:
            why = f"has {len(data)} bytes, more than max_size={self.how.max_size}, which could not be read back"
            raise Unfit(f"{why}: give a larger max_size to Compressed", value)
        if len(data) <= self.how.over and (isinstance(plain, str) or not plain.startswith((ZSTD, GZIP))):
            return plain
        if self.how.algorithm == "gzip":
            import gzip

            return gzip.compress(data, 6 if self.how.level is None else self.how.level, mtime=0)
        frame: bytes = zstd().compress(data, 3 if self.how.level is None else self.how.level)
        return frame

    def load(self, value: Value) -> Any:
        if not isinstance(value, bytes):
            return value
        framed = value.startswith((ZSTD, GZIP))
        if self.inner == BYTES and not framed:
            return value
        try:
            if not framed:
                raise Corrupt("its bytes are neither a zstd nor a gzip frame")
            data = decompressed(value, self.how.max_size)
            return data if self.inner == BYTES else data.decode()
        except (Corrupt, UnicodeDecodeError) as error:
            return Unreadable(value, f"the compressed value cannot be read: {error}")

    def loose(self, value: Any) -> Value:
        raise Unfit(
            "is compared with a compressed field, whose stored bytes have no order and more than one form", value
        )

    def lax(self) -> bool:
        return False


def compressed_type(type_: StoredType, how: Compressed) -> CompressedType:
    """The type of a field with the marker.

    Raises:
        ValueError: the type or an option of the marker cannot be used; the message follows the type.
    """
    if type_ not in (STR, BYTES):
        raise ValueError("is neither str nor bytes, so it cannot be Compressed")
    least, most = _LEVELS.get(how.algorithm, (0, 0))
    if not most:
        raise ValueError(f"has Compressed({brief(how.algorithm)}), and the algorithms are 'zstd' and 'gzip'")
    if how.level is not None and not (type(how.level) is int and least <= how.level <= most):
        raise ValueError(f"has level={brief(how.level)}, and {how.algorithm} has the levels {least} to {most}")
    for name, number in (("over", how.over), ("max_size", how.max_size)):
        if type(number) is not int or number < 0:
            raise ValueError(f"has {name}={brief(number)}, which is not a number of bytes")
    if how.algorithm == "zstd":
        try:
            zstd()
        except ImportError:
            raise ValueError(f"cannot be Compressed: {_NO_ZSTD}") from None
    kinds = BINARY if type_ == BYTES else TEXT | BINARY
    return CompressedType(f"compressed {type_.text}", kinds, type_, how)


def decompressed(data: bytes, most: int) -> bytes:
    """The content of zstd or gzip frames, one after another.

    Args:
        data: it begins with a magic number.
        most: how many bytes the content may have; no more are ever held in memory.

    Raises:
        Corrupt: it is damaged, cut off or larger, or the zstd library is not installed.
    """
    parts: list[bytes] = []
    while data:
        if len(parts) == MOST_FRAMES:
            raise Corrupt(f"it has more than {MOST_FRAMES} frames")
        chunk, data = _frame(data, most + 1)
        most -= len(chunk)
        if most < 0:
            raise Corrupt("it is larger than max_size=")
        parts.append(chunk)
    return b"".join(parts)


def _frame(data: bytes, most: int) -> tuple[bytes, bytes]:
    """The content of the first frame, cut after ``most`` bytes, and what follows the frame."""
    if data.startswith(GZIP):
        gunzip = zlib.decompressobj(zlib.MAX_WBITS | 16)
        try:
            chunk = gunzip.decompress(data, most)
        except zlib.error as error:
            raise Corrupt(str(error)) from None
        return _whole(chunk, most, gunzip.eof, gunzip.unused_data.lstrip(b"\0"))  # padding is allowed after a member
    try:
        module = zstd()
    except ImportError:
        raise Corrupt(_NO_ZSTD) from None
    decompressor = module.ZstdDecompressor()
    try:
        chunk = decompressor.decompress(data, most)
    except module.ZstdError as error:
        raise Corrupt(str(error)) from None
    return _whole(chunk, most, decompressor.eof, decompressor.unused_data)


def _whole(chunk: bytes, most: int, eof: bool, rest: bytes) -> tuple[bytes, bytes]:
    if not eof and len(chunk) < most:
        raise Corrupt("it is cut off")
    return chunk, rest if eof else b""


def holds_compressed(type_: StoredType) -> bool:
    """Whether a value of a type is compressed, or has a compressed part."""
    inner = bare(type_)
    if not inner.kinds & (LIST | MAP):  # fast path: it has no parts
        return isinstance(inner, CompressedType)
    return any(isinstance(part, CompressedType) for part in parts_of(type_))


def parts_of(type_: StoredType) -> tuple[StoredType, ...]:
    """A type and all types inside it, each once."""
    seen: dict[int, StoredType] = {}
    pending = [type_]
    while pending:
        part = pending.pop()
        if id(part) in seen:
            continue
        seen[id(part)] = part
        match part:
            case Around():
                pending.append(part.inner)
            case ListType() | DictType():
                pending.append(part.item)
            case FixedTupleType():
                pending.extend(part.items)
            case UnionType():
                pending.extend(part.members)
            case RecordType():
                pending.extend(field.type for field in part.fields.values())
    return tuple(seen.values())
