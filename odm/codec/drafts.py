"""Items to write, already encoded in the backend's form."""

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

from odm.codec.attributes import TAG, VERSION
from odm.codec.emitter import Writes
from odm.codec.lazy import LazyDict
from odm.codec.records import RecordType
from odm.expressions.nodes import Value
from odm.immutable import Immutable

F = TypeVar("F")


class Drafts(Immutable, Generic[F], eq=False):
    """How a backend encodes items to write; see `EntityCodec.draft`.

    Attributes:
        emitter: of an entity's record, marks and TTL field; its function returns the form and ``most`` of a `Draft`.
        read: decodes a form.
    """

    emitter: Callable[[RecordType, Mapping[str, Value], str | None], Writes]
    read: Callable[[F], dict[str, Value]]


class Draft(LazyDict, Generic[F]):
    """An item to write, in the form that the backend sends; it is decoded from that form when it is read.

    Args:
        form: a text, or cells.
        most: the maximum size of the item in bytes, as `odm.protocol.limits.item_size` counts it.
        read: decodes a form.
        marks: the tag and version, which are often the only attributes read; see `EntityCodec.marks`.
        made: the decoded item, if it is known already.
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

    def get(self, name: str, default: Any = None) -> Any:
        """The value of an attribute; most items have no version, which the base finds out by an exception."""
        return self._marks.get(name, default) if name in (TAG, VERSION) else self.made.get(name, default)

    def _make(self) -> dict[str, Value]:
        return self._read(self.form)

    def fresh(self) -> dict[str, Value]:
        """The item decoded from the form: unlike ``made``, it shares nothing with the entity."""
        return self._read(self.form)
