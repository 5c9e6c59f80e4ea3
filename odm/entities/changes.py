"""Changes of items, as every change feed delivers them: `Inserted`, `Changed` and `Removed`.

They come from DynamoDB Streams, Kinesis, Bigtable's change streams, and the change log of the bundled engine.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Generic, TypeVar

from odm._published import public_in
from odm.entities.entity import Entity
from odm.immutable import Immutable, field

E_co = TypeVar("E_co", bound=Entity, covariant=True)


@public_in("odm.changes")
class Change(Immutable, Generic[E_co], kw_only=True):
    """The change that a write made to one item; the base of `Inserted`, `Changed` and `Removed`.

    Attributes:
        key: the item's partition key and sort key, as text; "" if it has no sort key.
        old, new: the item before and after the write; None if it did not exist, or if the feed does not contain it.
        at: the time of the write in UTC, as precise as the feed has it; None if it has none.
        order: text that is larger for a later change of the same item; equal if a feed delivers a change twice.
        sequence: the number of the change in its feed. A Lambda function reports a failed record with it.
        expired: the item was deleted by TTL and not by a caller.
        record: the feed's own record.
    """

    key: tuple[str, str]
    old: E_co | None = None
    new: E_co | None = None
    at: datetime | None = None
    order: str = ""
    sequence: str = ""
    expired: bool = False
    record: Mapping[str, Any] = field(factory=dict, repr=False, eq=False)

    @property
    def entity(self) -> type[E_co] | None:
        """The class of the item; None if the feed contains neither `old` nor `new`."""
        item = self.new if self.new is not None else self.old
        return None if item is None else type(item)

    @property
    def changed(self) -> frozenset[str]:
        """The fields in which `old` and `new` differ; empty if one of them is None or their classes differ.

        A `Changed` has none if the write changed only attributes outside of the model.
        """
        old, new = self.old, self.new
        if old is None or new is None or type(old) is not type(new):
            return frozenset()
        return frozenset(name for name in type(new).model_fields if getattr(old, name) != getattr(new, name))


@public_in("odm.changes")
class Inserted(Change[E_co], kw_only=True):
    """An item was created: `old` is None."""


@public_in("odm.changes")
class Changed(Change[E_co], kw_only=True):
    """An item was replaced or updated."""


@public_in("odm.changes")
class Removed(Change[E_co], kw_only=True):
    """An item was deleted: `new` is None."""
