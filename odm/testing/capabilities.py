"""`Capabilities`: what a backend supports, and the known faults of its service."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import wraps
from inspect import Parameter, signature
from typing import Any, Literal, TypeAlias, TypeVar, get_args

import pytest
from msgspec import Struct, field

from odm import Store, Unsupported
from odm.results import Meter
from odm.testing.bridge import release

Flag: TypeAlias = Literal[
    "conditions", "indexes", "ranges", "retry_safe", "segment", "segments", "transactions", "updates"
]

T = TypeVar("T", bound=Callable[..., Any])


class Capabilities(Struct, frozen=True):
    """The features of a backend. A feature that is False must raise `odm.Unsupported` wherever it is used.

    Attributes:
        conditions: writes with any condition: ``when=``, a Revision, inserts and deletes of items with a TTL. If False,
            only `insert` and writes without a condition work.
        indexes: secondary patterns. If False, a table with one is refused.
        locks: a transaction locks each of its items by a call of its own, and goes on after its answer: `whole` waits
            until it ends, and `transaction_calls` is the number of its calls. "partitions": only a transaction of
            items in several partitions does.
        ranges: scans of a range of partitions, because partitions have an order.
        segment: scans of a single segment, so that several processes can share a scan.
        segments: scans of several segments in parallel.
        reads_first: a write with a condition always reads its item first.
        retry_safe: updates that are retried when their answer was lost, and still applied only once.
        transactions: several items are written together or not at all. If False, a transaction of one operation works,
            and the call of a second one is refused. "partition": only the call for an item of another partition is
            refused.
        updates: `update` with all its actions.
        units: a meter reports the units that were read and written, not only requests and answers; a write is one call.
            If False, calls are counted as on Bigtable: an index is a table with calls of its own.
        faults: known faults of the *service behind* the backend: name of a test to the reason. The test must fail, so
            that the entry is removed when the service is fixed.
    """

    conditions: bool = True
    indexes: bool = True
    locks: bool | Literal["partitions"] = False
    ranges: bool = True
    reads_first: bool = False
    retry_safe: bool = True
    segment: bool = True
    segments: bool = True
    transactions: bool | Literal["partition"] = True
    updates: bool = True
    units: bool = True
    faults: Mapping[str, str] = field(default_factory=dict)

    def transaction_calls(self, items: int, *, read: bool = True, spread: bool = False) -> int:
        """The calls of a transaction of several items without index entries, to its end, if no other writer comes.

        Args:
            items: the number of items.
            read: one of the operations is not an insert or an update of an item that was read.
            spread: they are in several partitions.
        """
        if not self.locks or (self.locks == "partitions" and not spread):
            return 1 + self.reads_first
        before, after = read + items + 1, items + 1  # the locks and the record; all of them again, to remove them
        return before + after

    @contextmanager
    def whole(self, store: Store) -> Iterator[Meter]:
        """A block with a meter that also counts what is done after the answers. The store stays open."""
        with store.meter() as meter:
            yield meter
            if self.locks:
                release(store)


def needs(*flags: Flag) -> Callable[[T], T]:
    """Marks a test, or all tests of a class, that use features which a backend may not support.

    If one of the flags is False, the test passes only by raising `odm.Unsupported`.
    """

    def decorate(target: T) -> T:
        marked: object = target
        if not isinstance(marked, type):
            return _flagged(target, flags)
        for name, member in list(vars(marked).items()):
            if name.startswith("test"):
                setattr(marked, name, _flagged(member, flags))
        return target

    assert set(flags) <= set(get_args(Flag))
    return decorate


def _flagged(test: T, flags: tuple[Flag, ...]) -> T:
    test, inner = getattr(test, "__odm_needs__", (test, ()))  # the class may be marked too
    flags = (*inner, *flags)
    own = list(signature(test).parameters.values())
    has_capabilities = any(parameter.name == "capabilities" for parameter in own)

    @wraps(test)
    def run(*args: Any, capabilities: Capabilities, **kwargs: Any) -> None:
        passed = {**kwargs, "capabilities": capabilities} if has_capabilities else kwargs
        missing = [flag for flag in flags if getattr(capabilities, flag) is not True]
        if not missing:
            test(*args, **passed)
            return
        if missing == ["transactions"] and capabilities.transactions:
            with suppress(Unsupported):  # of a test with items in several partitions
                test(*args, **passed)
            return
        with pytest.raises(Unsupported):
            test(*args, **passed)

    # pytest passes the fixtures that the signature names.
    parameters = own if has_capabilities else [*own, Parameter("capabilities", Parameter.KEYWORD_ONLY)]
    run.__signature__ = signature(test).replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__odm_needs__ = (test, flags)  # type: ignore[attr-defined]
    return run  # type: ignore[return-value]
