"""Fault injection: a test makes the bundled engine fail in the ways in which a cloud service may fail.

A test sets faults on `Faults`, which selects the faults of each request. `odm.backends.local.fault_connection` injects
them before the request reaches the engine.
"""

from collections.abc import Callable
from math import isfinite
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from msgspec import Struct

from odm.backends.local.call_names import (
    GROUPS,
    NAMES,
    WITHOUT_KEYS,
    CallName,
    Operation,
    call_name_of,
    call_names_of,
    keys_of,
)
from odm.errors import BadValue, OdmError, brief
from odm.immutable import Immutable
from odm.protocol.requests import Request
from odm.schema.entity import Key
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.entities.query import Query as KeyCall


class Which(TypedDict, total=False):
    """Which requests a fault applies to; see `Faults`."""

    times: int | None
    after: int
    on: "Entity | KeyCall[Any] | Callable[[Key], bool]"
    chance: float


class Throttle(Immutable):
    """Throttle the request; apply the first ``done`` operations of a batch (None: half of them)."""

    done: int | None


class Fail(Immutable):
    """Raise this error; None: a `BackendError`."""

    error: OdmError | None


class Lose(Immutable):
    """Lose the response to a write that was, or was not, applied."""

    applied: bool


class Delay(Immutable):
    """Wait before the request is performed."""

    seconds: float


class Before(Immutable):
    """Call a function before the request is performed."""

    act: Callable[[], object]


Fault: TypeAlias = Throttle | Fail | Lose | Delay | Before


class Happened(Immutable):
    """A fault that was injected.

    Attributes:
        fault: the method of `Faults` that set it: "throttle", "fail", "lose", "delay" or "before".
        operation: the most specific name of the request.
        table: the name of the table.
        keys: the keys of the items in the request; for a query its partition and the start of its range.
    """

    fault: str
    operation: CallName
    table: str
    keys: tuple[Key, ...] = ()


class _Rule(Struct):
    """A fault that was set; it still applies ``times`` times (None: always), after ``after`` more requests."""

    fault: Fault
    words: frozenset[str]
    fits: Callable[[Key, Schema], bool] | None
    times: int | None
    after: int
    chance: float

    def strikes(self, word: CallName, keys: tuple[Key, ...], schema: Schema, random: Random) -> bool:
        """Whether the fault applies to this request, which is counted."""
        fits = self.fits
        if word not in self.words or self.times == 0:
            return False
        if fits is not None and not any(fits(key, schema) for key in keys):
            return False
        if random.random() >= self.chance:
            return False
        if self.after > 0:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True


class Faults:
    """Injects faults: pass it to ``Memory(faults=faults)`` or ``LocalFile(path, faults=faults)``.

    A test sets faults before the calls that they apply to. A fault applies to the requests of an operation, by
    default only to the next one. All methods take the same options:

    * ``times``: how often the fault applies; None: always.
    * ``after``: how many matching requests succeed first.
    * ``on``: only requests for one item, given as an entity or as its key ``Order.primary(...)``; or a function that
      gets each key of a request, with ``.partition`` and ``.sort``, and returns whether the fault applies to it.
    * ``chance``: the probability that the fault applies, 0 to 1, drawn from the seed.

    Several faults may apply to one request. They take effect in the order in which they were set, until one is an
    error. An operation on one item is atomic. Errors are those that a cloud's client raises after its last retry.
    Thread-safe.

    Args:
        seed: the seed of the random numbers for ``chance``; the same seed and requests give the same faults.
        sleep: called with the seconds of a delay instead of waiting, for example ``clock.advance``.
    """

    def __init__(self, *, seed: int = 0, sleep: Callable[[float], object] | None = None) -> None:
        self.sleep = sleep
        self._random = Random(seed)
        self._lock = Lock()
        self._rules: list[_Rule] = []
        self._happened: list[Happened] = []

    def __repr__(self) -> str:
        return f"Faults({len(self._rules)} set, {len(self._happened)} happened)"

    def throttle(self, operation: Operation, *, done: int | None = None, **which: Unpack[Which]) -> None:
        """Throttle a request: it raises `odm.Throttled`, and nothing is applied.

        A batch is applied in part; the error's ``left`` has the operations that were not applied.

        Args:
            operation: the requests to throttle.
            done: how many operations of a batch are applied; half of them by default.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument is not valid.
        """
        if done is not None:
            _check_count("done", done)
        self._set(operation, Throttle(done), which)

    def fail(self, operation: Operation, error: OdmError | None = None, **which: Unpack[Which]) -> None:
        """Raise an error instead of performing a request.

        Args:
            operation: the requests that fail.
            error: the error, by default an `odm.BackendError`. It must be one of odm's, as in a real application.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument is not valid.
        """
        if error is not None and not isinstance(error, OdmError):
            raise BadValue(f"fail({operation!r}, {error!r}): pass an error of odm, such as BackendError('it is down')")
        self._set(operation, Fail(error), which)

    def lose(self, operation: Operation, *, applied: bool = True, **which: Unpack[Which]) -> None:
        """Lose the response to a write.

        The caller gets `odm.OutcomeUnknown`.

        Args:
            operation: the writes whose response is lost.
            applied: True applies the write, if its condition holds; False drops it.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: the operation is not a write, or an argument is not valid.
        """
        if operation in NAMES and not call_names_of(operation) <= GROUPS["write"]:
            writes = ", ".join(name for name in NAMES if call_names_of(name) <= GROUPS["write"])
            raise BadValue(f"lose({operation!r}): only the response to a write can be lost; pass one of {writes}")
        self._set(operation, Lose(applied), which)

    def delay(self, operation: Operation, seconds: float, **which: Unpack[Which]) -> None:
        """Wait before a request is performed, without blocking an event loop.

        Args:
            operation: the requests to delay.
            seconds: how long.
            which: ``times`` (by default None: always), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument is not valid.
        """
        if not isfinite(seconds) or seconds < 0:
            raise BadValue(f"delay({operation!r}, {brief(seconds)}): pass the seconds to wait, 0 or more")
        self._set(operation, Delay(seconds), {"times": None, **which})

    def before(self, operation: Operation, act: Callable[[], object], **which: Unpack[Which]) -> None:
        """Call a function before a request is performed, for example one that writes the item concurrently.

        The function's own requests get no faults. Its exceptions reach the caller of the store.

        Args:
            operation: the requests before which the function is called.
            act: called without arguments; for an `odm.AsyncStore` it may be an async function.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument is not valid.
        """
        if not callable(act):
            raise BadValue(f"before({operation!r}, {brief(act)}): pass a function to call")
        self._set(operation, Before(act), which)

    def clear(self) -> None:
        """Remove all faults; `happened` stays."""
        with self._lock:
            self._rules.clear()

    @property
    def happened(self) -> tuple[Happened, ...]:
        """The faults that were injected, in order."""
        with self._lock:
            return tuple(self._happened)

    def meet(self, request: Request, schema: Schema) -> tuple[Fault, ...]:
        """The faults of a request, in order; they are counted and recorded."""
        word, keys = call_name_of(request), keys_of(request)
        met: list[Fault] = []
        with self._lock:
            for rule in self._rules:
                if rule.strikes(word, keys, schema, self._random):
                    met.append(rule.fault)
                    self._happened.append(Happened(type(rule.fault).__name__.lower(), word, schema.name, keys))
                    if isinstance(rule.fault, Throttle | Fail | Lose):
                        break
        return tuple(met)

    def _set(self, operation: str, fault: Fault, which: Which) -> None:
        if operation not in NAMES:
            raise BadValue(f"there is no operation {operation!r} to set faults for; pass one of {', '.join(NAMES)}")
        words = call_names_of(operation)
        rule = _rule(fault, words, **which)
        if "on" in which and words <= WITHOUT_KEYS:
            raise BadValue(f"on={brief(which['on'])}: a request to {operation} is not for single items; leave it out")
        with self._lock:
            self._rules.append(rule)


def _rule(
    fault: Fault,
    words: frozenset[str],
    times: int | None = 1,
    after: int = 0,
    on: object = None,
    chance: float = 1.0,
) -> _Rule:
    if times is not None:
        _check_count("times", times)
    _check_count("after", after)
    if not 0 <= chance <= 1:
        raise BadValue(f"chance={brief(chance)}: pass a number from 0 to 1")
    return _Rule(fault, words, None if on is None else _fitting(on), times, after, chance)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadValue(f"{name}={brief(value)}: pass an int of 0 or more")


def _fitting(on: Any) -> Callable[[Key, Schema], bool]:
    """A function that returns whether ``on`` selects a key of a table."""
    cls = getattr(on, "entity", type(on))
    table = getattr(cls, "__odm_table__", None)
    if table is not None:
        wanted = table.compile().target(on).key
        return lambda key, schema: key == wanted and cls in schema.by_class
    if callable(on) and not isinstance(on, type):
        return lambda key, _: bool(on(key))
    raise BadValue(f"on={brief(on)}: pass an entity, its key such as Order.primary(...), or a function of a key")
