"""Items on their way to a backend, which has written them in its own form already."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

from attrs import frozen

from odm.codec.attributes import TAG, VERSION
from odm.codec.emitter import Writes
from odm.codec.lazy import LazyDict
from odm.codec.records import RecordType
from odm.expressions.nodes import Value

F = TypeVar("F")


@frozen(eq=False)
class Drafts(Generic[F]):
    """A backend's form of items that are to be written; see `EntityCodec.draft`.

    Attributes:
        emitter: of an entity's record, marks and TTL field; what it writes has at most as many bytes as ``most`` says.
        read: the item of a form.
    """

    emitter: Callable[[RecordType, Mapping[str, Value], str | None], Writes]
    read: Callable[[F], dict[str, Value]]


class Draft(LazyDict, Generic[F]):
    """An item that is to be written, in the form that the backend sends; it is read back from that when looked at.

    Args:
        form: of the item: a text, or its cells.
        most: bytes that the item has at most, as `odm.protocol.limits.item_size` counts them.
        read: the item of a form.
        marks: its tag and version, which alone are often asked for; see `EntityCodec.marks`.
        made: the item, where it is made already.
    """

    __slots__ = ("_marks", "_read", "form", "most")

    def __init__(
        self,
        form: F,
        most: int,
        read: Callable[[F], dict[str, Value]],
        marks: Mapping[str, Value],
        made: dict[str, Value] | None = None,
    ) -> None:
        self._made = made  # without a call of the base
        self.form = form
        self.most = most
        self._read = read
        self._marks = marks

    def __getitem__(self, name: str) -> Value:
        return self._marks[name] if name in (TAG, VERSION) else self.made[name]

    def _make(self) -> dict[str, Value]:
        return self._read(self.form)
