"""Every error that odm raises.

The first split is whose it is to fix: your model, your call, or the store::

    OdmError
    ├── SchemaError                 your model: found by Table.compile(), before any request
    ├── BadValue (ValueError)       your call: a value, found before anything is sent
    │   ├── KeyValueError             a value that cannot stand in a key
    │   ├── ItemTooLarge              an item or key over the limit
    │   └── BadCursor                 a cursor of another query, or a damaged one
    ├── NoAccessPattern             your call: no declared pattern serves this query
    ├── Unsupported                 your call: this backend cannot keep the guarantee
    ├── ItemNotFound                the store's answer: the item is not there
    ├── ItemExists                  the store's answer: the key is taken
    ├── ConditionFailed             the store's answer: the condition did not hold
    │   └── Conflict                  somebody else changed the item first
    ├── TransactionFailed           the store's answer: a reason per operation
    ├── ItemInvalid                 stored data does not fit the model
    ├── Throttled                   the store: too many requests; what is left is attached
    ├── OutcomeUnknown              the store: a write whose answer was lost
    └── BackendError                the store: everything else; the native error is the __cause__

No exception class of a vendor is a base of these, and none reaches the user unwrapped.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import odm._installation  # noqa: F401  # its check comes first, and every module of odm imports this one


class OdmError(Exception):
    """The base of every error that odm raises."""


class SchemaError(OdmError):
    """The models cannot be compiled: the message names class, pattern, fault and fix."""


class BadValue(OdmError, ValueError):
    """A value in a call cannot be used; nothing was sent."""


class KeyValueError(BadValue):
    """A value cannot stand in a key; the message names entity, field and value."""


class ItemTooLarge(BadValue):
    """An item or one of its keys is over the size limit; nothing was sent."""


class BadCursor(BadValue):
    """The cursor is damaged, forged, or belongs to another query."""


class NoAccessPattern(OdmError):
    """No declared access pattern can answer this query without a scan."""


class Unsupported(OdmError):
    """The backend cannot do this with its guarantees kept; the message names the way out."""


class ItemNotFound(OdmError):
    """There is no item under the key (an expired item counts as absent)."""


class ItemExists(OdmError):
    """The key of an insert is taken.

    Attributes:
        item: the item that holds the key, or None where the backend did not say.
    """

    def __init__(self, message: str, item: Any = None) -> None:
        super().__init__(message)
        self.item = item


class ConditionFailed(OdmError):
    """The condition of a write did not hold; nothing was written.

    Attributes:
        item: the item as it was when the condition was judged, or None if it was absent.
    """

    def __init__(self, message: str, item: Any = None) -> None:
        super().__init__(message)
        self.item = item


class Conflict(ConditionFailed):
    """Somebody else changed the item first: its revision is not the one you read."""


class TransactionFailed(OdmError):
    """A transaction was refused as a whole.

    Attributes:
        reasons: one entry per operation, in order; None for an operation that was not at fault.
    """

    def __init__(self, message: str, reasons: Sequence[OdmError | None] = ()) -> None:
        super().__init__(message)
        self.reasons = tuple(reasons)


class ItemInvalid(OdmError):
    """Stored data does not validate against the model.

    Attributes:
        key: the key it is stored under, as text.
        item: the stored attributes, as they are.
    """

    def __init__(self, message: str, key: str, item: Mapping[str, Any]) -> None:
        super().__init__(message)
        self.key = key
        self.item = item

    def __reduce__(self) -> tuple[Any, ...]:  # an exception is copied and pickled by its message alone
        return type(self), (self.args[0], self.key, self.item), self.__dict__


class Throttled(OdmError):
    """The store refused the work for now, after all retries.

    Attributes:
        left: what was not done of a batch, to be given to the next one: entities that were not put, keys such as
            ``Order.primary(...)`` of items that were not deleted; keys that `get_many` has not read.
    """

    def __init__(self, message: str, left: Sequence[Any] = ()) -> None:
        super().__init__(message)
        self.left = tuple(left)


class OutcomeUnknown(OdmError):
    """The answer to a write was lost: it may or may not have been applied.

    Read the item to know. Writes that may safely happen twice were sent again before, and so were transactions and
    updates ``with_options(retry_safe=True)``, which happen once however often they are sent.
    """


class BackendError(OdmError):
    """The store failed; its own error is the ``__cause__``."""
