"""Faults that a test sets: the emulator then fails as the service may, so that a program shows that it survives."""

import re
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from random import Random
from threading import RLock
from typing import Any, Final, TypedDict, Unpack

import grpc
from attrs import define
from msgspec import Struct, field

from odm import BadValue

METHODS: Final = frozenset(
    {"ReadRows", "SampleRowKeys", "MutateRow", "MutateRows", "CheckAndMutateRow", "ReadModifyWriteRow"}
)
"""The methods that have faults."""

WRITES: Final = frozenset({"MutateRow", "MutateRows", "CheckAndMutateRow", "ReadModifyWriteRow"})

COOKIE: Final = "x-goog-cbt-cookie-"
"""The names of routing cookies begin with this."""

_COOKIE: Final = rf"{COOKIE}[a-z0-9_.-]+"

_DAY: Final = 86_400


class Which(TypedDict, total=False):
    """Which calls a fault applies to; see `Faults`."""

    times: int | None
    after: int
    on: bytes | Callable[[bytes], bool]
    chance: float


class Fault(Struct, frozen=True):
    """What happens to a call.

    Attributes:
        name: the method of `Faults` that set it.
        code: the status code that the client gets; None: its answer.
        applied: a write is applied all the same.
        seconds: wait before.
        act: call this before.
        cut: cut the stream after so many chunks.
        entries: refuse these entries; None: not of that kind.
        retry_after: the seconds of the RetryInfo; None: none is sent.
        cookies: the routing cookies to send.
    """

    name: str
    code: str | None = None
    applied: bool = False
    seconds: float = 0.0
    act: Callable[[], object] | None = None
    cut: int | None = None
    entries: Sequence[int] | None = None
    retry_after: float | None = None
    cookies: Mapping[str, str] = field(default_factory=dict)


class Happened(Struct, frozen=True):
    """A fault that was injected into a call.

    Attributes:
        fault: the method of `Faults` that set it.
        method: the method that was called.
        table: the full name of the table.
        keys: the row keys in the request.
    """

    fault: str
    method: str
    table: str
    keys: tuple[bytes, ...]


@define
class _Rule:
    fault: Fault
    method: str
    times: int | None = 1
    after: int = 0
    on: bytes | Callable[[bytes], bool] | None = None
    chance: float = 1.0

    def strikes(self, method: str, keys: Sequence[bytes], random: Random) -> bool:
        """Whether the fault applies to this call, which is counted."""
        if method != self.method or self.times == 0 or not self._fits(keys) or random.random() >= self.chance:
            return False
        if self.after:
            self.after -= 1
            return False
        if self.times is not None:
            self.times -= 1
        return True

    def _fits(self, keys: Sequence[bytes]) -> bool:
        if self.on is None:
            return True
        return self.on in keys if isinstance(self.on, bytes) else any(map(self.on, keys))


class Faults:
    """Makes calls fail: ``emulator(faults=faults)``, or the attribute ``faults`` of a running emulator.

    ``method`` is one of "ReadRows", "SampleRowKeys", "MutateRow", "MutateRows", "CheckAndMutateRow" and
    "ReadModifyWriteRow". A fault applies to the next call of it. All methods take the same options:

    * ``times``: how often the fault applies; None: always.
    * ``after``: how many such calls succeed first.
    * ``on``: only calls with this row key; or a function that gets each row key of a call. Ranges of keys do not count.
    * ``chance``: the probability that it applies, 0 to 1, drawn from the seed.

    Several faults may apply to one call, in the order in which they were set, until one ends it. Thread-safe.

    Args:
        seed: the seed of the random numbers for ``chance``.
        sleep: called with the seconds of a delay instead of waiting.
    """

    def __init__(self, *, seed: int = 0, sleep: Callable[[float], object] | None = None) -> None:
        self.sleep = sleep
        self._random = Random(seed)
        self._lock = RLock()  # a function ``on`` may look at what has happened
        self._rules: list[_Rule] = []
        self._happened: list[Happened] = []

    def throttle(self, method: str, *, retry_after: float | None = None, **which: Unpack[Which]) -> None:
        """Answer RESOURCE_EXHAUSTED, and apply nothing.

        Args:
            method: the calls.
            retry_after: seconds to wait, sent as RetryInfo to clients that announce the feature.
            which: see `Faults`.
        """
        self._set(method, Fault("throttle", "RESOURCE_EXHAUSTED", retry_after=retry_after), which)

    def fail(
        self,
        method: str,
        code: str = "UNAVAILABLE",
        *,
        retry_after: float | None = None,
        cookies: Mapping[str, str] | None = None,
        **which: Unpack[Which],
    ) -> None:
        """Answer a status code, and apply nothing.

        Args:
            method: the calls.
            code: the name of the code, such as "UNAVAILABLE" or "DEADLINE_EXCEEDED".
            retry_after: seconds to wait, sent as RetryInfo to clients that announce the feature.
            cookies: routing cookies, which a client that announces the feature sends back with its next attempt.
            which: see `Faults`.
        """
        for name, value in (cookies or {}).items():
            if not re.fullmatch(_COOKIE, name) or not isinstance(value, str) or not re.fullmatch(r"[ -~]*", value):
                raise BadValue(
                    f"cookies={cookies!r}: names are {COOKIE}... in lower case, and values are printable text"
                )
        self._set(method, Fault("fail", code, retry_after=retry_after, cookies=cookies or {}), which)

    def lose(self, method: str, *, applied: bool = True, **which: Unpack[Which]) -> None:
        """Answer UNAVAILABLE to a write that was applied, or was not."""
        if method not in WRITES:
            raise BadValue(f"lose({method!r}): only answers to writes are lost: {', '.join(sorted(WRITES))}")
        self._set(method, Fault("lose", "UNAVAILABLE", applied=applied), which)

    def delay(self, method: str, seconds: float, **which: Unpack[Which]) -> None:
        """Wait before a call is performed; by default before every call."""
        if not isfinite(seconds) or seconds < 0:
            raise BadValue(f"delay({method!r}, {seconds!r}): pass the seconds to wait, 0 or more")
        self._set(method, Fault("delay", seconds=seconds), {"times": None, **which})

    def before(self, method: str, act: Callable[[], object], **which: Unpack[Which]) -> None:
        """Call a function before a call is performed, for example one that writes the row as a competitor does.

        Calls that the function makes have the faults that are left.

        Args:
            method: the calls.
            act: called without arguments, in a thread of the emulator.
            which: see `Faults`.
        """
        if not callable(act):
            raise BadValue(f"before({method!r}, {act!r}): pass a function to call")
        self._set(method, Fault("before", act=act), which)

    def cut(self, *, chunks: int = 1, **which: Unpack[Which]) -> None:
        """Cut the stream of a ReadRows with UNAVAILABLE, even in the middle of a row.

        Args:
            chunks: after so many chunks; a cell is one, or several if it has more than 256 KiB.
            which: see `Faults`.
        """
        _check_count("chunks", chunks)
        self._set("ReadRows", Fault("cut", cut=chunks), which)

    def refuse(self, *entries: int, code: str = "UNAVAILABLE", **which: Unpack[Which]) -> None:
        """Refuse entries of a MutateRows, by their numbers from 0 on; the others are applied."""
        if not entries:
            raise BadValue("refuse(): pass the numbers of entries, from 0 on")
        for entry in entries:
            _check_count("refuse", entry)
        _check_code(code)
        self._set("MutateRows", Fault("refuse", code, entries=entries), which)

    def clear(self) -> None:
        """Remove all faults; `happened` stays."""
        with self._lock:
            self._rules.clear()

    @property
    def happened(self) -> tuple[Happened, ...]:
        """The faults that were injected, in order."""
        with self._lock:
            return tuple(self._happened)

    def meet(self, method: str, request: Any) -> list[Fault]:
        """The faults of a call, in order; they are counted and recorded."""
        if not self._rules or method not in METHODS:
            return []
        keys, met = _keys(method, request), list[Fault]()
        with self._lock:
            for rule in self._rules:
                if rule.strikes(method, keys, self._random):
                    met.append(rule.fault)
                    self._happened.append(Happened(rule.fault.name, method, request.table_name, tuple(keys)))
                    if rule.fault.name in ("throttle", "fail", "lose"):
                        break
        return met

    def _set(self, method: str, fault: Fault, which: Which) -> None:
        if method not in METHODS:
            raise BadValue(f"there are no faults of {method!r}; pass one of {', '.join(sorted(METHODS))}")
        if fault.code is not None:
            _check_code(fault.code)
        rule = _Rule(fault, method, **which)
        if not 0 <= rule.chance <= 1:
            raise BadValue(f"chance={rule.chance!r}: pass a number from 0 to 1")
        if rule.times is not None:
            _check_count("times", rule.times)
        _check_count("after", rule.after)
        if not (rule.on is None or isinstance(rule.on, bytes) or callable(rule.on)):
            raise BadValue(f"on={rule.on!r}: pass a row key as bytes, or a function of one")
        if fault.retry_after is not None and not 0 <= fault.retry_after < _DAY:
            raise BadValue(f"retry_after={fault.retry_after!r}: pass seconds, less than a day")
        with self._lock:
            self._rules.append(rule)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise BadValue(f"{name}={value!r}: pass an int of 0 or more")


def _check_code(code: str) -> None:
    if code == "OK" or code not in grpc.StatusCode.__members__:
        raise BadValue(f"code={code!r}: pass the name of a status code, such as 'UNAVAILABLE'")


def _keys(method: str, request: Any) -> list[bytes]:
    if method == "ReadRows":
        return [*request.rows.row_keys]
    if method == "MutateRows":
        return [entry.row_key for entry in request.entries]
    return [] if method == "SampleRowKeys" else [request.row_key]
