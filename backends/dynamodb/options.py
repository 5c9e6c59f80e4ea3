"""What a table has that the models do not tell: how it is paid for, and whether its changes are streamed."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import field, frozen

from odm.errors import BadValue

Stream: TypeAlias = Literal["new_and_old_images", "new_image", "old_image", "keys_only"]
"""What a stream record has of an item that was written, as DynamoDB's StreamViewType."""

STREAMS: Final = get_args(Stream)

ON_DEMAND: Final = "on-demand"


@frozen
class Provisioned:
    """Capacity that is paid for by the hour, used or not; beyond it requests are throttled.

    Args:
        read: read units a second, 1 or more: each is one consistent read of up to 4 KB.
        write: write units a second, 1 or more: each is one write of up to 1 KB.
        indexes: by index name, the capacity of a global index; that of others is the table's.

    Raises:
        BadValue: a number is no int of 1 or more, or an index has no `Provisioned` of its own.
    """

    read: int
    write: int
    indexes: "Mapping[str, Provisioned]" = field(factory=dict, kw_only=True)

    def __attrs_post_init__(self) -> None:
        for name, units in (("read", self.read), ("write", self.write)):
            if type(units) is not int or units < 1:
                raise BadValue(f"Provisioned({name}={units!r}): give the units a second, an int of 1 or more")
        for index, given in self.indexes.items():
            if not isinstance(given, Provisioned) or given.indexes:
                raise BadValue(f"Provisioned(indexes=...): {index!r} is {given!r}: write Provisioned(read=5, write=5)")

    def of(self, index: str) -> "Provisioned":
        """The capacity of a global index."""
        return self.indexes.get(index, self)

    @property
    def throughput(self) -> dict[str, Any]:
        """As DynamoDB writes it."""
        return {"ReadCapacityUnits": self.read, "WriteCapacityUnits": self.write}


Billing: TypeAlias = Provisioned | Literal["on-demand"]


@frozen
class Options:
    """The options of a table; what is None is left as it is, and a new table is on-demand and has no stream."""

    billing: Billing | None = None
    stream: Stream | None = None


NO_OPTIONS: Final = Options()


def checked_options(billing: object, stream: object) -> Options:
    """The options that a user gave.

    Raises:
        BadValue: one of them cannot be used.
    """
    if billing is not None and billing != ON_DEMAND and not isinstance(billing, Provisioned):
        raise BadValue(f"billing={billing!r}: write 'on-demand' or Provisioned(read=5, write=5)")
    if stream is not None and stream not in STREAMS:
        raise BadValue(f"stream={stream!r}: write one of {', '.join(map(repr, STREAMS))}, or None")
    return Options(billing, stream)  # type: ignore[arg-type]  # just seen to be right
