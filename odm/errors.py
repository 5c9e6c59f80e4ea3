"""Every error that odm raises.

The first level says what to fix: your model, your call, or the store::

    OdmError
    ├── SchemaError                 your model: found by Table.compile(), before any request
    ├── BadValue (ValueError)       your call: a value, found before anything is sent
    │   ├── KeyValueError             a value that cannot be used in a key
    │   ├── ItemTooLarge              an item or key over the limit
    │   └── BadCursor                 a cursor of another query, or a damaged cursor
    ├── NoAccessPattern             your call: no declared access pattern serves this query
    ├── Unsupported                 your call: this backend cannot give the guarantee
    ├── ItemNotFound                the store's answer: the item does not exist
    ├── ItemExists                  the store's answer: the key is in use
    ├── ConditionFailed             the store's answer: the condition did not hold
    │   └── Conflict                  another writer changed the item first
    ├── TransactionFailed           the store's answer: a reason per operation
    ├── ItemInvalid                 stored data does not fit the model
    ├── Throttled                   the store: too many requests; the unprocessed entries are attached
    ├── OutcomeUnknown              the store: a write whose response was lost
    └── BackendError                the store: everything else; the native error is the __cause__
        └── TableNotFound             the table, or that of one of its indexes, does not exist

None of these derives from a vendor's exception class, and every vendor error is wrapped in one of these.
"""

from collections.abc import Mapping, Sequence
from reprlib import Repr
from typing import Any, Final

import odm._installation  # noqa: F401  # checks the installation first: every module of odm imports this one
from odm._published import public


@public
class OdmError(Exception):
    """The base of every error that odm raises.

    Attributes:
        left: on an error of a batch, the entries that are not known to be applied, to pass to the next batch: entities
            that were not put, keys such as ``Order.primary(...)`` of items that were not deleted, and for each merge
            the tuple of its arguments, as in ``batch.merge(*entry)``.
    """

    left: tuple[Any, ...] = ()


@public
class SchemaError(OdmError):
    """The models cannot be compiled; the message names the class, the pattern, the fault and the fix."""


@public
class BadValue(OdmError, ValueError):
    """A value in a call cannot be used; nothing was sent."""


@public
class KeyValueError(BadValue):
    """A value cannot be used in a key; the message names entity, field and value."""


@public
class ItemTooLarge(BadValue):
    """An item or one of its keys is over the size limit; nothing was sent."""


@public
class BadCursor(BadValue):
    """The cursor is damaged, forged, or belongs to another query."""


@public
class NoAccessPattern(OdmError):
    """No declared access pattern can answer this query without a scan."""


@public
class Unsupported(OdmError):
    """The backend cannot do this and keep odm's guarantees; the message says what to do instead."""


@public
class ItemNotFound(OdmError):
    """No item has this key. An expired item counts as absent."""


@public
class ItemExists(OdmError):
    """The key of an insert is already in use.

    Attributes:
        item: the item that has the key, or None if the backend did not return it.
    """

    def __init__(self, message: str, item: Any = None) -> None:
        super().__init__(message)
        self.item = item


@public
class ConditionFailed(OdmError):
    """The condition of a write did not hold; nothing was written.

    Attributes:
        item: the stored item when the condition was evaluated, or None if it was absent.
    """

    def __init__(self, message: str, item: Any = None) -> None:
        super().__init__(message)
        self.item = item


@public
class Conflict(ConditionFailed):
    """Another writer changed the item first: its revision is not the one that you read."""


@public
class TransactionFailed(OdmError):
    """A transaction was rejected; none of its operations was applied.

    Attributes:
        reasons: one entry per operation, in order; None for an operation that did not cause the failure.
    """

    def __init__(self, message: str, reasons: Sequence[OdmError | None] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


@public
class ItemInvalid(OdmError):
    """Stored data does not validate against the model.

    Attributes:
        key: the key of the stored item, as text.
        item: the stored attributes, unchanged.
    """

    def __init__(self, message: str, key: str, item: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.key = key
        self.item = item

    def __reduce__(self) -> tuple[Any, ...]:  # by default only the message is copied and pickled
        return type(self), (self.args[0], self.key, self.item), self.__dict__


@public
class Throttled(OdmError):
    """The store still throttled the requests after all retries.

    Attributes:
        left: the unprocessed entries of a batch, as for `OdmError`; or the keys that `Store.get_many` did not read.
    """

    def __init__(self, message: str, left: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.left = tuple(left)


@public
class OutcomeUnknown(OdmError):
    """The response to a write was lost: the write may or may not have been applied.

    Read the item to find out. Puts without a condition and batches can simply be repeated: odm has already retried
    these, and transactions and updates ``with_options(retry_safe=True)``, which are applied once however often sent.
    """


@public
class BackendError(OdmError):
    """The store failed, and a write of one item was not applied; the vendor's error is the ``__cause__``."""


@public
class TableNotFound(BackendError):
    """The table, or on Bigtable that of one of its indexes, does not exist."""


class _Brief(Repr):
    """Reprs of limited depth and length, in the form of Python's."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 6
        self.maxlist = self.maxtuple = self.maxdict = self.maxset = self.maxfrozenset = self.maxdeque = 20
        self.maxstring = self.maxlong = self.maxother = 200

    def repr_int(self, x: int, level: int) -> str:
        if x.bit_length() > 14_000:  # Python refuses to write more than 4300 digits
            return f"<an int of {x.bit_length()} bits>"
        return super().repr_int(x, level)

    def repr_bytes(self, x: bytes, level: int) -> str:
        return self.repr_str(x, level)  # type: ignore[arg-type]  # it cuts what can be sliced, before its repr

    def repr_instance(self, x: Any, level: int) -> str:
        try:
            text = repr(x)
        except Exception:  # noqa: BLE001  # of any class; a deep value of a field raises RecursionError
            return f"<a {type(x).__name__}>"
        return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 3]}..."


LONGEST_REPR: Final = 1000
"""The most characters of a value in a message."""

_BRIEF: Final = _Brief()


def brief(value: object) -> str:
    """The repr of a value for a message: values that a client sends may be very long or deep.

    Returns:
        The value's own repr if it is short; otherwise a part of it, with "..." for the rest.
    """
    text = _BRIEF.repr(value)
    return text if len(text) <= LONGEST_REPR else f"{text[: LONGEST_REPR - 3]}..."
