"""Contention: how long, and with which pauses, a call tries again while other writers change its item first."""

import time
from random import Random
from typing import Final

from odm.errors import Conflict
from odm.protocol.waits import Sleep

LONGEST_SECONDS: Final = 30.0
"""How long a call tries again before it raises Conflict, counted from its first lost attempt or its first waiting.

A time and not a number of attempts, because a writer that loses is not at fault: the more writers there are, the more
often it loses. DynamoDB Local, the slowest service that was measured, applied 20 to 50 such calls a second to one item,
so hundreds of writers that begin together all succeed in this time. A caller behind a gateway gets no
answer after a longer time: that of AWS API Gateway waits for 29 seconds by default.
"""

_MOST_DOUBLINGS: Final = 2
_LONGEST_PAUSE: Final = 1.0


class Contention:
    """The lost attempts of one call. It is made at the first of them, so a call that loses none reads no clock.

    Attributes:
        tries: the number of lost attempts.
    """

    __slots__ = ("_began", "_pauses", "_resumed", "tries")

    def __init__(self, tries: int = 0) -> None:
        self.tries = tries
        self._pauses = 0
        self._began = self._resumed = time.monotonic()

    @property
    def seconds(self) -> float:
        """The seconds since the first lost attempt."""
        return time.monotonic() - self._began

    @property
    def over(self) -> bool:
        """Whether the call has tried for long enough."""
        return self.seconds >= LONGEST_SECONDS

    def pause(self, random: Random) -> Sleep:
        """The pause before the next attempt: of random length, up to a bound that doubles, and later halves, each time.

        The bound is a multiple of what the last attempt took, because that is how long another writer is in the way: in
        a file half a millisecond, on another continent 200. After the first loss there is no pause, as most writers
        that lose have met only one other. Later pauses are random from 0 on (full jitter), because writers that lost
        against the same one must not meet again. Their bound doubles to four attempts, so that fewer compete, and then
        halves, so that a writer that has tried for long is faster than one that has not: with a bound that only
        doubles, newcomers overtake the older ones again and again.

        In a simulation of 16 processes that change one item all the time, at 5 ms a request, the longest call took 0.3
        seconds; 0.7 seconds without pauses, and 29 with a bound that doubles from 2 to 250 ms.
        """
        now = time.monotonic()
        took = max(0.0, now - self._resumed) if self._pauses else 0.0
        bound = min(_LONGEST_PAUSE, took * 2.0 ** (_MOST_DOUBLINGS - min(abs(self._pauses - 1 - _MOST_DOUBLINGS), 20)))
        self._pauses += 1
        seconds = random.uniform(0, bound)
        self._resumed = now + seconds
        return Sleep(seconds)

    def conflict(self, subject: object) -> Conflict:
        """The error of a call that has tried for long enough.

        Args:
            subject: what the other writers change, such as "Order.primary(order_id='o1')".
        """
        return Conflict(
            f"{subject} was changed by other writers before each of {self.tries} attempts in {self.seconds:.1f} "
            "seconds: too many write this item at the same time. Call again later; if this happens often, spread the "
            "writes over several items"
        )
