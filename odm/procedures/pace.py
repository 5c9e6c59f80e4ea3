"""How many items a request with a filter reads, if its reader needs a known number of results.

DynamoDB applies Limit before the filter, and a request without Limit reads a megabyte. So the first request reads as
many items as results are needed. Each further one reads what the last one suggests: somewhat more than enough if as
many match as there, and four times as many if none matched. So the number of requests grows with the logarithm of what
is read. A cursor carries the pace to the next page.
"""

from collections.abc import Iterable
from typing import Final

from odm.immutable import Immutable
from odm.protocol.requests import Page

GROWTH: Final = 4
"""A request reads at most this many times what was read before it, as a few items say little about all."""


class Pace(Immutable):
    """What the requests of a reader have read.

    Attributes:
        examined: the items that all of them read, before the filter.
        last: the items that the last one read.
        matched: how many of these matched.
    """

    examined: int = 0
    last: int = 0
    matched: int = 0

    def items(self, needed: int, shards: int = 1) -> int:
        """The number of items that the next request reads, ``needed`` or more, unless other shards help.

        Args:
            needed: the number of results that the reader needs, 1 or more.
            shards: the number of shards that together have these results. The first request to each of them reads as
                if it were the only one, a later one its share.
        """
        if not self.last:
            return needed
        share = -(-needed // shards)
        missing = self.last - self.matched  # for each match there are missing / matched others, and a quarter to spare
        enough = share - (-5 * share * missing // (4 * self.matched)) if self.matched else GROWTH * self.last
        return max(share, min(enough, GROWTH * self.examined))

    def after(self, page: Page) -> "Pace":
        """The pace after another page was read."""
        return Pace(self.examined + page.examined, page.examined, page.count)


START: Final = Pace()


def common(paces: Iterable[Pace]) -> Pace:
    """One pace for the next requests to several shards: their matches together, and the growth of one of them."""
    known = [pace for pace in paces if pace.last]
    if len(known) < 2:
        return known[0] if known else START
    examined = max(pace.examined for pace in known)
    return Pace(examined, sum(pace.last for pace in known), sum(pace.matched for pace in known))
