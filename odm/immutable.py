"""`immutable`: the decorator of the data classes that calls make: nodes, queries and requests.

Type checkers refuse to change one, as with attrs's ``frozen``. At run time they are plain classes with slots: a frozen
one takes 2.7 times as long to construct, and a call constructs a dozen. Nobody may change one all the same: they are
hashed, compared and shared between threads.
"""

from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attrs import frozen as immutable
else:
    from attrs import define

    immutable = partial(define, unsafe_hash=True, on_setattr=())

__all__ = ["immutable"]
