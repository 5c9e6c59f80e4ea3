"""Unique ids that sort by the time at which they were made.

A ULID has 48 bits of milliseconds since 1970 and 80 random bits, in 26 characters of Crockford's base 32
(https://github.com/ulid/spec). A UUID of version 7 has the same milliseconds, its version and variant, and 74 random
bits (RFC 9562, section 5.7). Within one millisecond the random part of the id before is incremented, as the ULID
specification says for monotonic ids, and RFC 9562 in section 6.2, method 2. The libraries for them take their own clock
and random numbers, not those of the store.
"""

import os
import time
from collections.abc import Callable
from random import Random
from threading import Lock
from typing import Final
from uuid import UUID

from odm.errors import BadValue
from odm.immutable import Immutable, field

_DIGITS: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LAST: Final = 2**48


class Ids:
    """Makes increasing numbers: milliseconds, then random bits. Thread-safe, and different after a fork.

    Args:
        bits: the number of random bits.
    """

    def __init__(self, bits: int) -> None:
        self._bits = bits
        self._lock = Lock()
        self._last = -1
        self._process = os.getpid()

    def __call__(self, clock: Callable[[], float], random: Random) -> int:
        """The next number.

        Args:
            clock: returns the seconds since the epoch. If it goes back, the numbers still increase.
            random: the source of the random bits.

        Raises:
            BadValue: the clock is outside of the years 1970 to 10889, which an id can hold.
        """
        seconds = clock()
        if not 0 <= seconds < (_LAST - 1) / 1000:  # false for NaN, too
            raise BadValue(f"the store's clock returns {seconds} s since 1970, which no id can hold: set the clock")
        millis = int(seconds * 1000)
        if self._process != os.getpid():  # after a fork: the parent's next number would be the same
            self._process, self._last, self._lock = os.getpid(), -1, Lock()
        with self._lock:
            fresh = millis << self._bits | random.getrandbits(self._bits)
            # An overflow of the random bits goes on to the next millisecond.
            self._last = fresh if millis > self._last >> self._bits else self._last + 1
            return self._last


def ulid_text(number: int) -> str:
    """The text of a ULID."""
    return "".join(_DIGITS[number >> shift & 31] for shift in range(125, -5, -5))


def uuid7(number: int) -> UUID:
    """The UUID of milliseconds and 74 random bits: 12 before the variant, and 62 after it."""
    millis, high, low = number >> 74, number >> 62 & 0xFFF, number & (2**62 - 1)
    return UUID(int=millis << 80 | 7 << 76 | high << 64 | 2 << 62 | low)


class IdSource(Immutable):
    """The ids of a store, or of all stores of a process that use its own clock."""

    ulid: Ids = field(factory=lambda: Ids(80))
    uuid7: Ids = field(factory=lambda: Ids(74))


OF_PROCESS: Final = IdSource()
"""For all stores whose clock is ``time.time``, so that their ids increase together."""


def ids_for(clock: Callable[[], float]) -> IdSource:
    """The source of the ids of a store with this clock. A clock of its own could be ahead of all others."""
    return OF_PROCESS if clock is time.time else IdSource()
