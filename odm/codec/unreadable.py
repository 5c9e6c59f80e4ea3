"""`Unreadable`: what `StoredType.load` returns for a stored value of another form; and cells that cannot be read."""

import secrets
from typing import Final

from odm.expressions.nodes import Value

_MARK: Final = secrets.token_bytes(16)
"""Only this process makes a value with it, and no request contains one."""


def unreadable_cell(reason: str, cell: bytes) -> Value:
    """Stands for a cell that Bigtable's encoding of a field cannot read, and whose field takes values of any type."""
    return frozenset({_MARK + b"r" + reason.encode(errors="replace"), _MARK + b"c" + cell})


def refusal_of(stored: Value) -> tuple[str, bytes] | None:
    """The reason and the bytes of `unreadable_cell`; None: it is another value."""
    if type(stored) is not frozenset:
        return None
    parts = {part[len(_MARK) :][:1]: part for part in stored if isinstance(part, bytes) and part.startswith(_MARK)}
    if parts.keys() != {b"r", b"c"}:
        return None
    start = len(_MARK) + 1
    return parts[b"r"][start:].decode(), parts[b"c"][start:]


class Unreadable:
    """Stands for a stored value that has another form, so that validation refuses it.

    Args:
        value: the stored value.
        reason: what is wrong with it, for the message; "": the reason that pydantic gives.
    """

    def __init__(self, value: Value, reason: str = "") -> None:
        self.value = value
        self.reason = reason

    def __repr__(self) -> str:
        return repr(self.value)
