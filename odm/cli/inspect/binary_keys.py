"""Row keys of Bigtable with bytes that are not text → their parts, as far as the bytes show them.

A time of 8 bytes at the end is recognized, also one that is subtracted from the highest number. In front of it stands
text, divided by one separator, or bytes of a fixed number. All other keys are one field of bytes: the bytes do not show
where numbers, hashes and ids begin.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from odm.cli.inspect.row_keys import KeyPart

UNKNOWN_BYTES: Final = "binary; if you know its parts, declare them, as in {hash:bytes4} and {at:int64be}"

_SIZE: Final = 8
_HIGHEST: Final = 2**63 - 1
_YEAR: Final = 31_556_952
_UNITS: Final = {"s": 1, "ms": 1000, "us": 1_000_000}
_YEARS: Final = range(2000, 2100)
_MARKS: Final = "#|:/~^@_-\0"


def has_other_bytes(key: bytes) -> bool:
    """Whether a row key is not text that can be printed."""
    try:
        return not key.decode().isprintable()
    except UnicodeDecodeError:
        return True


def binary_parts(keys: Sequence[bytes]) -> tuple[KeyPart, ...]:
    """What the keys consist of; empty if all are text.

    Keys are text in the parts: bytes that are not UTF-8 are surrogates.
    """
    if not any(map(has_other_bytes, keys)):
        return ()
    time = _time([key[-_SIZE:] for key in keys])
    if time is None:
        return (_whole(keys),)
    heads = [key[:-_SIZE] for key in keys]
    if not any(heads):
        return (time,)
    is_text = not any(map(has_other_bytes, heads)) or all(head[-1:] == b"\0" for head in heads)
    if is_text and (parts := tuple(_texts([_text(head) for head in heads]))):
        return (*parts, time)
    sizes = {len(head) for head in heads}
    if len(sizes) > 1:
        return (_whole(keys),)
    size = sizes.pop()
    head = KeyPart(type="bytes", format=f"bytes{size}", word="head", why=UNKNOWN_BYTES, values=tuple(map(_text, heads)))
    return head, KeyPart(""), time


def _whole(keys: Sequence[bytes]) -> KeyPart:
    texts = tuple(map(_text, keys))
    return KeyPart(type="bytes", format="bytes", word="row_key", why=UNKNOWN_BYTES, values=texts)


def _time(tails: Sequence[bytes]) -> KeyPart | None:
    """The time that all tails of 8 bytes are, between the years 2000 and 2100."""
    if any(len(tail) != _SIZE for tail in tails):
        return None
    numbers = [int.from_bytes(tail, "big") for tail in tails]
    for desc in (False, True):
        values = [_HIGHEST - number for number in numbers] if desc else numbers
        for unit, factor in _UNITS.items():
            first, last = ((year - 1970) * _YEAR * factor for year in (_YEARS.start, _YEARS.stop))
            if all(first <= value < last for value in values):
                form = f"int64be{':desc' * desc}"
                texts = tuple(map(_text, tails))
                return KeyPart(type="datetime", options=f'epoch="{unit}"', format=form, word="at", values=texts)
    return None


def _texts(heads: Sequence[str]) -> Iterator[KeyPart]:
    """The texts in front of a time and the separators behind each; nothing if no separator ends all of them."""
    mark = heads[0][-1:]
    divided = [head.split(mark)[:-1] for head in heads if mark and head.endswith(mark)]
    counts = {len(texts) for texts in divided}
    if mark not in _MARKS or len(divided) < len(heads) or len(counts) != 1:
        return
    for texts in zip(*divided, strict=True):
        yield KeyPart(format="empty" if "" in texts else "", values=texts)
        yield KeyPart(mark)


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")
