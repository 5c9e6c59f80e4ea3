"""Faults on purpose: what a cloud may do to an application, done to the bundled engine when a test says so.

`Faults` is what a test sets them on, and decides which of them a request meets. `odm.backends.local.fault_connection`
carries them out where requests enter the engine, which knows nothing of them.
"""

from collections.abc import Callable
from math import isfinite
from random import Random
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias, TypedDict, Unpack

from attrs import define, frozen

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
from odm.errors import BadValue, OdmError
from odm.protocol.requests import Request
from odm.schema.entity import Key
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.entities.entity import Entity
    from odm.entities.query import Query as KeyCall


class Which(TypedDict, total=False):
    """Which of the requests meet a fault; see `Faults`."""

    times: int | None
    after: int
    on: "Entity | KeyCall[Any] | Callable[[Key], bool]"
    chance: float


@frozen
class Throttle:
    """Refuse; of a batch, do so many operations first (None: half of them)."""

    done: int | None


@frozen
class Fail:
    """Raise this error; None: a `BackendError`."""

    error: OdmError | None


@frozen
class Lose:
    """Lose the answer to a write that was, or was not, applied."""

    applied: bool


@frozen
class Delay:
    """Wait before the request is performed."""

    seconds: float


@frozen
class Before:
    """Call a function before the request is performed."""

    act: Callable[[], object]


Fault: TypeAlias = Throttle | Fail | Lose | Delay | Before


@frozen
class Happened:
    """A fault that happened.

    Attributes:
        fault: the method of `Faults` that set it: "throttle", "fail", "lose", "delay" or "before".
        operation: the request that met it, by the narrowest word for it.
        table: the name of its table.
        keys: of the items that the request named; for a query its partition and the start of its range.
    """

    fault: str
    operation: CallName
    table: str
    keys: tuple[Key, ...] = ()


@define
class _Rule:
    """A fault that was set, and how often it may still happen (None: always) after how many more requests."""

    fault: Fault
    words: frozenset[str]
    fits: Callable[[Key, Schema], bool] | None
    times: int | None
    after: int
    chance: float

    def strikes(self, word: CallName, keys: tuple[Key, ...], schema: Schema, random: Random) -> bool:
        """Whether it happens to this request; counts it."""
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
    """What shall go wrong, and when: give it to ``Memory(faults=faults)`` or ``LocalFile(path, faults=faults)``.

    A test sets faults before the calls that shall meet them. Each is for the requests that a word of the store names
    (`Operation`), by default for the next one. All methods take the same options:

    * ``times``: how often it happens; None: always.
    * ``after``: so many requests pass first that would have met it.
    * ``on``: only requests for one item, given as an entity or as its key ``Order.primary(...)``; or a function that is
      given the keys of each request, with their ``.partition`` and ``.sort``, and says which it is for.
    * ``chance``: the share of the requests that it happens to, 0 to 1, drawn from the seed.

    Several faults may meet one request: they happen in the order in which they were set, until one is an error. An
    operation on one item is never half done. Errors arrive as from a cloud whose client has given up trying again.
    Thread-safe.

    Args:
        seed: of the random numbers for ``chance``; the same seed draws the same for the same requests.
        sleep: is called with the seconds of a delay in place of waiting, such as ``clock.advance``.
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
        """Refuse a request with `odm.Throttled`: nothing is done.

        Of a batch a part is done, and the error's ``left`` is the rest.

        Args:
            operation: the requests to refuse.
            done: how many operations of a batch are done before it is refused; half of them by default.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument makes no sense.
        """
        if done is not None:
            _check_count("done", done)
        self._set(operation, Throttle(done), which)

    def fail(self, operation: Operation, error: OdmError | None = None, **which: Unpack[Which]) -> None:
        """Raise an error in place of performing a request.

        Args:
            operation: the requests that fail.
            error: what is raised, by default a `odm.BackendError`. An error of odm, for an application sees no others.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument makes no sense.
        """
        if error is not None and not isinstance(error, OdmError):
            raise BadValue(f"fail({operation!r}, {error!r}): give an error of odm, such as BackendError('it is down')")
        self._set(operation, Fail(error), which)

    def lose(self, operation: Operation, *, applied: bool = True, **which: Unpack[Which]) -> None:
        """Lose the answer to a write.

        The caller gets `odm.OutcomeUnknown`; as on the clouds, it is `odm.BackendError` for what can be sent again
        without harm: a put without a condition, and a batch.

        Args:
            operation: the writes whose answer is lost.
            applied: the write is done, if its condition holds; else it never arrives.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: the operation is no write, or an argument makes no sense.
        """
        if operation in NAMES and not call_names_of(operation) <= GROUPS["write"]:
            writes = ", ".join(name for name in NAMES if call_names_of(name) <= GROUPS["write"])
            raise BadValue(f"lose({operation!r}): only the answer to a write can be lost; say one of {writes}")
        self._set(operation, Lose(applied), which)

    def delay(self, operation: Operation, seconds: float, **which: Unpack[Which]) -> None:
        """Wait before a request is performed; an event loop goes on meanwhile.

        Args:
            operation: the requests that take longer.
            seconds: how much longer.
            which: ``times`` (by default None: always), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument makes no sense.
        """
        if not isfinite(seconds) or seconds < 0:
            raise BadValue(f"delay({operation!r}, {seconds!r}): give the seconds to wait, 0 or more")
        self._set(operation, Delay(seconds), {"times": None, **which})

    def before(self, operation: Operation, act: Callable[[], object], **which: Unpack[Which]) -> None:
        """Call a function just before a request is performed, such as one that plays a competitor who writes first.

        The function's own requests meet no faults. What it raises, the caller of the store gets.

        Args:
            operation: the requests to come before.
            act: is called without arguments; for an `odm.AsyncStore` it may be an async function.
            which: ``times`` (by default 1), ``after``, ``on``, ``chance``: see `Faults`.

        Raises:
            BadValue: an argument makes no sense.
        """
        if not callable(act):
            raise BadValue(f"before({operation!r}, {act!r}): give a function to call")
        self._set(operation, Before(act), which)

    def clear(self) -> None:
        """Take back all faults that are set; the record of those that happened stays."""
        with self._lock:
            self._rules.clear()

    @property
    def happened(self) -> tuple[Happened, ...]:
        """The faults that happened, in order."""
        with self._lock:
            return tuple(self._happened)

    def meet(self, request: Request, schema: Schema) -> tuple[Fault, ...]:
        """What happens to a request of a table, in order; it is counted and recorded."""
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
            raise BadValue(f"there is no operation {operation!r} to set faults for; say one of {', '.join(NAMES)}")
        words = call_names_of(operation)
        rule = _rule(fault, words, **which)
        if "on" in which and words <= WITHOUT_KEYS:
            raise BadValue(f"on={which['on']!r}: a request to {operation} names no item; leave it out")
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
        raise BadValue(f"chance={chance!r}: give a number from 0 to 1")
    return _Rule(fault, words, None if on is None else _fitting(on), times, after, chance)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadValue(f"{name}={value!r}: give an int of 0 or more")


def _fitting(on: Any) -> Callable[[Key, Schema], bool]:
    """Whether a key of a table is one that ``on`` means."""
    cls = getattr(on, "entity", type(on))
    table = getattr(cls, "__odm_table__", None)
    if table is not None:
        wanted = table.compile().target(on).key
        return lambda key, schema: key == wanted and cls in schema.by_class
    if callable(on) and not isinstance(on, type):
        return lambda key, _: bool(on(key))
    raise BadValue(f"on={on!r}: give an entity, its key such as Order.primary(...), or a function of a key")
