"""The size limits of items and keys: by default the portable limits, which are the same on every backend.

The core checks every write here before it is sent. The portable limits are DynamoDB's, the lowest of all backends:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html. Sizes are computed as in
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/CapacityUnitCalculations.html. Only the limit of an
index key together with its item's key is Bigtable's, whose index rows hold both in one row key.
"""

from collections.abc import Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Final, TypeAlias, assert_never

from odm._published import public_in
from odm.codec import TAG, Draft
from odm.errors import BadValue, ItemTooLarge, KeyValueError, brief
from odm.expressions.evaluate import holds, kind_of
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    Append,
    DiscardFrom,
    Increment,
    Item,
    Number,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Value,
)
from odm.immutable import Immutable
from odm.schema.entity import EntitySchema, Key

PARTITION_BYTES: Final = 2048
SORT_BYTES: Final = 1024
ENTRY_BYTES: Final = 4090
"""A row key has at most 4096 bytes; six of them separate the parts."""

ITEM_BYTES: Final = 400 * 1024
MAP_KEY_BYTES: Final = 65_535
ACTIONS: Final = 100
TRANSACTION_BYTES: Final = 4 * 1024 * 1024


@public_in("odm.extend")
class Limits(Immutable):
    """The limits of writes. Sizes are in bytes; None means unlimited.

    Attributes:
        partition_bytes, sort_bytes: the partition key and the sort key, of the table or of an index.
        entry_bytes: an index key and the key of its item together.
        item_bytes: an item with its names, keys and index keys.
        actions: the number of operations in a transaction.
        transaction_bytes: all items of a transaction together.
        key_bytes: partition key and sort key of an item together.
        copies: whether the copies in local indexes count as part of the item.
        map_key_bytes: a key in a dict.
        expressions: whether conditions and updates are held to the limits of DynamoDB's expressions.
    """

    partition_bytes: int | None = PARTITION_BYTES
    sort_bytes: int | None = SORT_BYTES
    entry_bytes: int | None = ENTRY_BYTES
    item_bytes: int | None = ITEM_BYTES
    actions: int | None = ACTIONS
    transaction_bytes: int | None = TRANSACTION_BYTES
    key_bytes: int | None = None
    copies: bool = True
    map_key_bytes: int | None = MAP_KEY_BYTES
    expressions: bool = True


PORTABLE: Final = Limits()
"""The limits that hold on every backend: the default of every store."""

Local: TypeAlias = Mapping[str, Collection[str] | None]
"""Local indexes, each with the attributes that it holds on DynamoDB besides the keys; None: all attributes."""

_NO_LOCAL: Final[Local] = MappingProxyType({})
_KEY_NAMES: Final = len("pk") + len("sk")
_CONTAINER: Final = 3
_ELEMENT: Final = 1
_SCALAR: Final = 6
"""A quarter of the bytes of the largest number, 22, with the overhead of a list element, rounded up."""

_ACTION: Final = 22
"""The bytes of an action of an update, besides its path and operands; measured on AWS, in the stricter regions."""

_SIZED: Final = frozenset({str, bytes, list, dict, frozenset})
SHORT_KEY: Final = 256
"""The number of characters up to which a key, or two keys together, cannot exceed a limit."""


def check_item(
    item: Item,
    key: Key,
    entries: Mapping[str, Key],
    entity: EntitySchema | None = None,
    limits: Limits = PORTABLE,
    local: Local = _NO_LOCAL,
) -> None:
    """Refuse an item that a backend would refuse: checks its key, its index keys and its size.

    Args:
        item: the stored attributes.
        key: the item's key.
        entries: index name to index key.
        entity: the entity of the item, for messages.
        limits: the limits of the store.
        local: the local indexes, each with the attributes that it holds; see `Local`.

    Raises:
        BadValue: a key in a dict exceeds its limit (portably 65,535 bytes), or the item does not fit the condition that
            distinguishes the entity, ``match=``.
        KeyValueError: a partition key is empty.
        ItemTooLarge: a key or the item exceeds its limit. The size of an item (portably 400 KB) includes its names,
            its keys and its copies in local indexes.
    """
    if entity is not None and entity.match is not None and not holds(entity.match, item):
        raise BadValue(
            f"the {entity.name} under {key} does not fit match= of its class, {entity.match}, so it would not be read "
            "as one: give its fields the values that the condition asks for"
        )
    written = _written_at_most(item)
    if written > MAP_KEY_BYTES and (entity is None or entity.codec.nests):
        check_map_keys(item.values(), f"the {item.get(TAG, 'item')} under {key}", limits)
    if _surely_fits(written, key, entries, limits, len(local)):
        return
    check_keys(key, entries, entity, limits)
    if limits.item_bytes is None:
        return
    size = stored_size(item, key, entries, local)
    copies = _copied_size(item, key, entries, local, size) if limits.copies else 0
    if size + copies > limits.item_bytes:
        largest = max(item, key=lambda name: _value_size(item[name]))
        inside = f", {copies} of them in local indexes" if copies else ""
        raise ItemTooLarge(
            f"the {item.get(TAG, 'item')} under {key} has {size + copies} bytes with its names and keys{inside}, and "
            f"{limits.item_bytes} are the most; the largest attribute is {brief(largest)} with "
            f"{_value_size(item[largest])} bytes: keep large values outside of the table with Blob(...), compress "
            "them with Compressed(...), or split the item"
        )


def check_map_keys(values: Iterable[Value], where: object, limits: Limits = PORTABLE) -> None:
    """Refuse dicts in these values that have a key over the limit.

    Args:
        values: lists and dicts are searched, other values are not.
        where: the item or call, for the message.
        limits: the limits of the store.

    Raises:
        BadValue: a key exceeds its limit (portably 65,535 bytes).
    """
    most = limits.map_key_bytes
    if most is None:
        return
    for value in values:
        kind = type(value)
        if kind is dict:
            for key in value:
                if 4 * len(key) > most and (size := _text_size(key)) > most:
                    raise BadValue(
                        f"a dict in {where} has a key of {size} bytes, and {most} are the most; shorten "
                        f"it: {_short(key)}"
                    )
            check_map_keys(value.values(), where, limits)
        elif kind is list:
            check_map_keys(value, where, limits)


def _written_at_most(item: Item) -> int:
    """The maximum number of bytes of an item without its keys: a fast estimate that counts each character as 4."""
    return item.most if type(item) is Draft else 4 * (sum(map(len, item)) + _at_most(item.values()))


def _surely_fits(written: int, key: Key, entries: Mapping[str, Key], limits: Limits, copies: int) -> bool:
    """Whether the item certainly exceeds no limit: a fast check that counts each character as 4 bytes."""
    most = 2 * sum(map(len, entries))
    for index_key in (key, *entries.values()):
        length = len(index_key.partition) + len(index_key.sort)
        if not index_key.partition or length > SHORT_KEY:
            return False
        most += 1 + length
    return limits.item_bytes is None or (written + 4 * most) * (1 + copies) <= limits.item_bytes


def _at_most(values: Collection[Value]) -> int:
    """A quarter of the maximum number of bytes of these values, including list and map overhead."""
    most = _SCALAR * len(values)
    for value in values:
        kind = type(value)
        if kind is str:
            most += len(value)
        elif kind not in _SIZED:
            continue
        elif kind is dict:
            most += sum(map(len, value)) + _at_most(value.values())
        else:
            most += len(value) if kind is bytes else _at_most(value)
    return most


def check_transaction(operations: int, size: int, limits: Limits = PORTABLE) -> None:
    """Refuse a transaction that a backend would refuse.

    Args:
        operations: the number of its operations.
        size: the bytes of all items that it writes, by `stored_size`: AWS counts keys and index keys too.
        limits: the limits of the store.

    Raises:
        BadValue: it has too many operations (portably 100).
        ItemTooLarge: its items are too large together (portably 4 MB).
    """
    if limits.actions is not None and operations > limits.actions:
        raise BadValue(
            f"a transaction has {limits.actions} operations at most, those of pointers, unique values and versions "
            "among them: split the work into several, or use batch() where it need not be all or nothing"
        )
    if limits.transaction_bytes is not None and size > limits.transaction_bytes:
        raise ItemTooLarge(
            f"the items of a transaction have {size} bytes together, and {limits.transaction_bytes} are the most: "
            "split the work into several transactions, or use batch() where it need not be all or nothing"
        )


def check_keys(
    key: Key, entries: Mapping[str, Key], entity: EntitySchema | None = None, limits: Limits = PORTABLE
) -> None:
    """Refuse the key of an item, or its index keys, that a backend would refuse.

    Args:
        key: the item's key.
        entries: index name to index key.
        entity: the entity of the item, for messages.
        limits: the limits of the store.

    Raises:
        KeyValueError: a partition key is empty.
        ItemTooLarge: a partition key exceeds its limit (portably 2048 bytes), or a sort key (1024), or an index key
            and the item's key together (4090).
    """
    check_key(key, None, entity, limits)
    if limits.key_bytes is not None and (size := _key_size(key)) > limits.key_bytes:
        raise ItemTooLarge(
            f"both parts of the {_named(None, entity)} have together {size} bytes, and {limits.key_bytes} are the "
            f"most; shorten the values in it: {_short(key.partition)}, {_short(key.sort)}"
        )
    for index, index_key in entries.items():
        check_key(index_key, index, entity, limits)
        size = _key_size(index_key) + _key_size(key)
        if limits.entry_bytes is not None and size > limits.entry_bytes:
            raise ItemTooLarge(
                f"the {_named(index, entity)} and the key of its item have together {size} bytes, and "
                f"{limits.entry_bytes} are the most; shorten the values in them: {_short(index_key.partition)}, "
                f"{_short(key.partition)}"
            )


def check_key(key: Key, index: str | None, entity: EntitySchema | None, limits: Limits = PORTABLE) -> None:
    """Refuse a key of the table, or of an index, that a backend would refuse; raises as `check_keys`."""
    if not key.partition:
        raise KeyValueError(f"the partition part of the {_named(index, entity)} is empty: give the fields in it values")
    parts = (("partition", key.partition, limits.partition_bytes), ("sort", key.sort, limits.sort_bytes))
    for part, text, most in parts:
        if most is not None and (size := _text_size(text)) > most:
            raise ItemTooLarge(
                f"the {part} part of the {_named(index, entity)} has {size} bytes, and {most} are the most; shorten "
                f"the values in it: {_short(text)}"
            )


def _named(index: str | None, entity: EntitySchema | None) -> str:
    """The name of a key for a message; if the entity is known, with the fields of the key."""
    text = "key" if index is None else f"key of index {index!r}"
    if entity is None:
        return text
    pattern = next(p for p in (entity.primary, *entity.patterns.values()) if p.index == index)
    return f"{text} ({entity.name}.{pattern.name}, made of {', '.join(pattern.fields)})"


def stored_size(item: Item, key: Key, entries: Mapping[str, Key], local: Collection[str] = ()) -> int:
    """The bytes of an item with its key and its index keys, as DynamoDB counts them.

    Args:
        item: the stored attributes.
        key: the item's key.
        entries: index name to index key.
        local: the local indexes, which have the partition key of the item.
    """
    size = item_size(item) + _KEY_NAMES + _key_size(key)
    for index, index_key in entries.items():
        size += _text_size(index) + len("sk") + _text_size(index_key.sort)
        if index not in local:
            size += _text_size(index) + len("pk") + _text_size(index_key.partition)
    return size


def check_written(
    actions: Iterable[Action], entries: Mapping[str, Key | None], target: object, limits: Limits = PORTABLE
) -> None:
    """Refuse an update that writes too much, even if the item would stay small.

    In most regions DynamoDB holds what an update expression writes to the limit of an item, also the operands of
    `SetIfMissing` that are not stored. Measured on AWS: each action costs about 22 bytes besides its operands.

    Args:
        actions: the lowered actions.
        entries: the index keys that the update writes; None removes an entry.
        target: the item, for messages.
        limits: the limits of the store.

    Raises:
        ItemTooLarge: the names and values that the update writes exceed the limit of an item (portably 400 KB).
    """
    most = limits.item_bytes
    if most is None or not limits.expressions:
        return
    if not entries and 4 * _short_sets(actions) <= min(most, MAP_KEY_BYTES):
        return
    written = [(action.path, _operands(action)) for action in actions]
    written += [(Path((index,)), list(key)) for index, key in entries.items() if key is not None]
    names = sum([_ACTION + sum([len(str(part)) for part in path.segments]) for path, _ in written])
    at_most = 4 * (names + _at_most([value for _, value in written]))
    if at_most > MAP_KEY_BYTES:
        check_map_keys([value for _, value in written], target, limits)
    if at_most <= most:
        return
    sizes = [_ACTION + _text_size("".join(map(str, path.segments))) + _value_size(value) for path, value in written]
    if (size := sum(sizes)) > most:
        largest = written[sizes.index(max(sizes))][0]
        raise ItemTooLarge(
            f"the update of {target} writes {size} bytes with its names and index keys, and {most} are the most, also "
            f"if they replace others or are not stored; the largest part is {largest}: change less in one call, or put "
            "the whole item"
        )


def _short_sets(actions: Iterable[Action]) -> int:
    """A quarter of the most bytes of actions that set fields to text or numbers; for others, more than any item has."""
    most = 0
    for action in actions:
        if type(action) is not Set or len(action.path.segments) > 1:
            return ITEM_BYTES
        value = action.value
        if type(value) is str:
            most += len(value)
        elif type(value) is not int:
            return ITEM_BYTES
        most += _ACTION + _SCALAR + len(action.path.root)
    return most


def _operands(action: Action) -> Value:
    """The values that an action writes."""
    match action:
        case Set(_, value) | SetIfMissing(_, value) | AddValue(_, value):
            return value
        case Append(_, values, start) | Prepend(_, values, start):
            return [*start, *values]
        case AddTo(_, members) | DiscardFrom(_, members):
            return members
        case Increment(_, by, start):
            return [by, start]
        case Remove():
            return None
        case _:
            assert_never(action)


def _copied_size(item: Item, key: Key, entries: Mapping[str, Key], local: Local, whole: int) -> int:
    """The bytes of an item's entries in local indexes, which DynamoDB counts with the item."""
    size = 0
    for index, held in local.items():
        if index not in entries:
            continue
        if held is None:
            size += whole
        else:
            part = {name: item[name] for name in held if name in item}
            size += stored_size(part, key, {index: entries[index]}, local)
    return size


def item_size(item: Item) -> int:
    """The bytes of an item's names and values, as DynamoDB counts them.

    Raises:
        BadValue: the item holds something that is not a stored value.
    """
    return sum([_text_size(name) + _value_size(value) for name, value in item.items()])


def keys_at_most(key: Key, entries: Mapping[str, Key]) -> int:
    """An upper bound of the bytes of an item's keys in `stored_size`, in less time."""
    most = _KEY_NAMES + 4 * (len(key.partition) + len(key.sort))
    for index, index_key in entries.items():
        most += 4 * (2 * len(index) + len(index_key.partition) + len(index_key.sort) + 1)
    return most


def size_at_most(item: Item) -> int:
    """As `item_size`; for a draft, an upper bound that is known without reading it."""
    return item.most if type(item) is Draft else item_size(item)


def _value_size(value: Value) -> int:
    if type(value) is str:  # first, as most values are strings and every write computes the size of each
        return _text_size(value)
    match kind_of(value):
        case "string":
            return _text_size(value)
        case "bytes":
            return len(value)
        case "number":
            return _number_size(value)
        case "boolean" | "null" | "absent":
            return 1
        case "list":
            return _CONTAINER + _ELEMENT * len(value) + sum([_value_size(element) for element in value])
        case "map":
            return _CONTAINER + _ELEMENT * len(value) + item_size(value)
        case "set":
            return sum([_value_size(member) for member in value])
        case kind:
            assert_never(kind)


def _number_size(number: Number) -> int:
    """One byte, one for each pair of digits, and one for a minus sign.

    The pairs are aligned at the decimal point, and zeros at the outer ends do not count: measured on AWS, see
    tests/protocol/test_limits.py.
    """
    if not number:
        return 1
    if isinstance(number, int):
        text = str(abs(number))
        digits = len(text.rstrip("0"))
        lowest = len(text) - digits
    else:
        _, places, exponent = number.as_tuple()  # a canonical Decimal has no trailing zeros
        digits, lowest = len(places), int(exponent)
    return 2 + (lowest + digits - 1) // 2 - lowest // 2 + (number < 0)


def _text_size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _key_size(key: Key) -> int:
    return _text_size(key.partition) + _text_size(key.sort)


def _short(text: str) -> str:
    return repr(text if len(text) <= 60 else f"{text[:60]}...")
