"""Items on their way to a backend, which has written them in its own text already."""

from collections.abc import Callable

from odm.codec.lazy import LazyDict
from odm.expressions.nodes import Value


class Draft(LazyDict):
    """An item that is to be written, as the text that the backend sends; it is read back from that when looked at.

    Args:
        text: of the item.
        most: bytes that the item has at most, as `odm.operations.limits.item_size` counts them.
        read: the item of a text.
        made: the item, where it is made already.
    """

    __slots__ = ("_read", "most", "text")

    def __init__(
        self, text: str, most: int, read: Callable[[str], dict[str, Value]], made: dict[str, Value] | None = None
    ) -> None:
        self._made = made  # without a call of the base
        self.text = text
        self.most = most
        self._read = read

    def _make(self) -> dict[str, Value]:
        return self._read(self.text)
