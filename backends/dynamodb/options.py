"""The table's options that are not part of the models: its capacity mode, its table class and its stream."""

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, get_args

from odm.errors import BadValue, brief
from odm.immutable import Immutable, field

Stream: TypeAlias = Literal["new_and_old_images", "new_image", "old_image", "keys_only"]
"""What a stream record contains of the item: DynamoDB's StreamViewType in lower case."""

STREAMS: Final = get_args(Stream)

TableClass: TypeAlias = Literal["standard", "standard_infrequent_access"]
"""What storage and requests cost: DynamoDB's TableClass in lower case."""

CLASSES: Final = get_args(TableClass)

ON_DEMAND: Final = "on-demand"


class _Indexes(Immutable, kw_only=True):
    indexes: "Mapping[str, Provisioned]" = field(factory=dict)


class Provisioned(_Indexes):
    """Provisioned capacity: billed by the hour, used or not. Requests beyond it are throttled.

    Args:
        read: read capacity units, 1 or more: each is one strongly consistent read of up to 4 KB per second.
        write: write capacity units, 1 or more: each is one write of up to 1 KB per second.
        indexes: the capacity of global secondary indexes, by index name; other indexes have the table's capacity.

    Raises:
        BadValue: ``read`` or ``write`` is not an int of 1 or more, or a value of ``indexes`` is not a `Provisioned`
            without indexes.
    """

    read: int
    write: int

    def __post_init__(self) -> None:
        for name, units in (("read", self.read), ("write", self.write)):
            if type(units) is not int or units < 1:
                raise BadValue(f"Provisioned({name}={brief(units)}): pass the units per second, an int of 1 or more")
        for index, given in self.indexes.items():
            if not isinstance(given, Provisioned) or given.indexes:
                raise BadValue(
                    f"Provisioned(indexes=...): {index!r} is {brief(given)}: write Provisioned(read=5, write=5)"
                )

    def of(self, index: str) -> "Provisioned":
        """The capacity of a global secondary index."""
        return self.indexes.get(index, self)

    @property
    def throughput(self) -> dict[str, Any]:
        """The ProvisionedThroughput of DynamoDB's API."""
        return {"ReadCapacityUnits": self.read, "WriteCapacityUnits": self.write}


Billing: TypeAlias = Provisioned | Literal["on-demand"]


class TableOptions(Immutable):
    """The options of a table. None leaves a setting unchanged.

    Args:
        billing: the capacity mode, "on-demand" or ``Provisioned(read=5, write=5)``. A new table is on-demand by
            default. AWS allows four changes to on-demand in 24 hours.
        stream: the StreamViewType of the table's stream. A new table has none by default.
        table_class: "standard" or "standard_infrequent_access", whose storage costs less and whose requests cost more.
            AWS allows two changes in 30 days.

    Raises:
        BadValue: an option is not one of these values.
    """

    billing: Billing | None = None
    stream: Stream | None = None
    table_class: TableClass | None = None

    def __post_init__(self) -> None:
        if self.billing is not None and self.billing != ON_DEMAND and not isinstance(self.billing, Provisioned):
            raise BadValue(f"billing={brief(self.billing)}: write 'on-demand' or Provisioned(read=5, write=5)")
        for name, given, known in (("stream", self.stream, STREAMS), ("table_class", self.table_class, CLASSES)):
            if given is not None and given not in known:
                raise BadValue(f"{name}={brief(given)}: write one of {', '.join(map(repr, known))}, or None")


NO_OPTIONS: Final = TableOptions()
