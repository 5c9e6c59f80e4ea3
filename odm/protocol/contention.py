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

_LONGEST_PAUSE: Final = 0.128
_LONGEST_AT: Final = 6
"""The number of pauses before the longest one. The first is then 2 ms at most, less than a request to a service takes,
because most writers that lose have met only one other."""


class Contention:
    """The lost attempts of one call. It is made at the first of them, so a call that loses none reads no clock.

    Attributes:
        tries: the number of lost attempts.
    """

    __slots__ = ("_began", "_pauses", "tries")

    def __init__(self, tries: int = 0) -> None:
        self.tries = tries
        self._pauses = 0
        self._began = time.monotonic()

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

        Random from 0 on (full jitter), because writers that lost against the same one must not meet again. The bound
        doubles until the writers that compete are far enough apart. Then it halves, so that a writer that has tried for
        long is faster than one that has not: if it only doubled, newcomers would overtake the older ones again and
        again. In a simulation of 16 processes that change one item all the time, at 5 ms a request, the longest call
        took 7.2 seconds with a bound that doubles up to 250 ms, and 0.3 seconds with one that doubles and halves.
        """
        bound = _LONGEST_PAUSE / 2 ** min(abs(self._pauses - _LONGEST_AT), 20)
        self._pauses += 1
        return Sleep(random.uniform(0, bound))

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
