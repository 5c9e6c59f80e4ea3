"""The native requests, as printable values, and the options of a table that are not part of the models.

Generators yield them and do no I/O; `odm.backends.dynamodb.driver` performs them.
"""

import logging
import random
import re
import reprlib
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args

from odm.errors import BadValue, brief
from odm.immutable import Immutable, field
from odm.protocol.connection import NativeGen
from odm.protocol.requests import Sleep

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


# An item may have 400 KB, so long values are cut. Expressions have at most 4 KB and are printed in full.
_PRINTER = reprlib.Repr()
_PRINTER.maxstring = _PRINTER.maxother = 120
_WIDTH = 120

R = TypeVar("R")

WRITES: Final = frozenset({"put_item", "update_item", "delete_item", "batch_write_item", "transact_write_items"})
"""The operations that write items."""

STREAM_READS: Final = frozenset({"describe_stream", "get_shard_iterator", "get_records"})
"""The operations of the API of streams, which has clients and endpoints of its own."""

Service: TypeAlias = Literal["dynamodb", "dynamodbstreams"]
"""boto3's name of an API."""

_PADDING = re.compile("\U0010ffff{4,}")  # the upper bound of a range is padded to 1,024 bytes


class Call(Immutable):
    """One request to DynamoDB.

    Attributes:
        operation: the name of the client's method.
        kwargs: its arguments.
        once: it must not be sent again if its response was lost, because it is not idempotent.
    """

    operation: str
    kwargs: Mapping[str, Any]
    once: bool = False

    def __str__(self) -> str:
        arguments = "".join(f"    {name}={_shown(value, 4, name)},\n" for name, value in self.kwargs.items())
        return f"{self.operation}(\n{arguments})"


def _shown(value: Any, indent: int = 0, name: str = "") -> str:
    """A value on the line of its name if it fits, otherwise with one entry per line."""
    if isinstance(value, Mapping):
        ends, entries = "{}", [(f"{key!r}: ", key, entry) for key, entry in value.items()]
    elif isinstance(value, list):
        ends, entries = "[]", [("", "", entry) for entry in value]
    else:
        return repr(value) if name.endswith("Expression") else _scalar(value)
    line = ", ".join(head + _shown(entry, name=key) for head, key, entry in entries)
    if not indent or not entries or indent + len(name) + len(line) < _WIDTH - len("'': {},"):
        return f"{ends[0]}{line}{ends[1]}"
    inner = indent + 4
    lines = "".join(f"{' ' * inner}{head}{_shown(entry, inner, key)},\n" for head, key, entry in entries)
    return f"{ends[0]}\n{lines}{' ' * indent}{ends[1]}"


def _scalar(value: Any) -> str:
    padding = _PADDING.search(value) if isinstance(value, str) else None
    if padding is None:
        return _PRINTER.repr(value)
    start, end = padding.span()
    head, tail = (f"{text!a}" if text else "" for text in (value[:start], value[end:]))
    return " + ".join(filter(None, [head, f"'\\U0010ffff' * {end - start}", tail]))


Native: TypeAlias = Call | Sleep

Steps: TypeAlias = NativeGen[Native, R]
"""Steps of this backend: yields native requests, is sent their responses, and returns a result."""

_LOG = logging.getLogger("odm.dynamodb")
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 5.0  # seconds


def backoff(failures: int, why: str = "not everything was processed") -> Sleep:
    """A pause of random length; its upper bound doubles with each consecutive failure.

    Args:
        failures: the number of consecutive failures.
        why: the kind of the last one, for the log: an error code without keys and values.
    """
    # Full jitter: clients that were throttled at the same time retry at different times.
    pause = Sleep(random.uniform(0, min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(failures, 10))))
    _LOG.warning("%s (failure %d in a row): a request to DynamoDB is retried in %.2f s", why, failures, pause.seconds)
    return pause
