"""Ranges of keys: from bounds on one component to `[lo, hi)` over whole keys.

Works on texts only. A bound on a value is a cut between two neighbouring values; the key type says where the value
stands among its texts (`Place`), and this module turns the cut into the edge of a range.
"""

from typing import Literal

from odm.immutable import Immutable
from odm.keys.base import Place

Op = Literal["<", "<=", ">", ">=", "prefix"]


class Span(Immutable):
    """A range of keys.

    Attributes:
        lo: the first text in it.
        hi: the first text above it; None if nothing ends it.
        exact: it holds no key that breaks the bounds it was made from; if False, keep the condition as a filter.
    """

    lo: str
    hi: str | None
    exact: bool = True

    @property
    def empty(self) -> bool:
        return self.hi is not None and self.lo >= self.hi

    def meet(self, other: "Span") -> "Span":
        """The keys that lie in both."""
        his = [hi for hi in (self.hi, other.hi) if hi is not None]
        return Span(max(self.lo, other.lo), min(his, default=None), self.exact and other.exact)


def next_prefix(text: str) -> str | None:
    """The smallest text above every text that starts with `text`; None if there is none, as for ""."""
    kept = text.rstrip("\U0010ffff")
    if not kept:
        return None
    above = ord(kept[-1]) + 1
    if 0xD800 <= above <= 0xDFFF:  # surrogates are no characters of UTF-8
        above = 0xE000
    return kept[:-1] + chr(above)


def bounded(whole: Span, op: Op, place: Place, follow: str, *, verbatim: bool = False) -> Span:
    """The part of `whole` whose next component satisfies a bound.

    Args:
        whole: all keys that start with `whole.lo`.
        op: a comparison, not "prefix".
        place: where the bound's value stands among the texts of the component.
        follow: what the template writes after the component: "" at its end, else the text that follows.
        verbatim: the key is not escaped, and a literal follows.
    """
    after, exact = _edge(op, place)
    if place.outside:
        edge = whole.hi if after else whole.lo
    else:
        edge = behind(whole.lo + place.text, follow, verbatim=verbatim) if after else whole.lo + place.text
    if op in {"<", "<="}:
        return Span(whole.lo, edge, exact)
    # No edge: the values lie above everything there is.
    return Span(whole.lo, whole.lo) if edge is None else Span(edge, whole.hi, exact)


def around(whole: Span, op: Op, text: str, follow: str, *, empty: bool = False) -> Span:
    """A range that contains all keys of `whole` whose next component satisfies a bound, and others.

    For components that are not escaped, before a literal: "a" is less than "a!", but "a#" is greater than "a!#".
    ``empty``: a component may be empty.
    """
    if op in {">", ">="}:
        return Span(whole.lo + text, whole.hi, exact=False)
    edges = [next_prefix(whole.lo + text[:size] + follow) for size in range(not empty, len(text) + 1)]
    highest = whole.hi if None in edges else max(edge for edge in edges if edge is not None)
    return Span(whole.lo, highest, exact=False)


def behind(text: str, follow: str, *, verbatim: bool = False) -> str | None:
    """The smallest key above all that begin with the components in `text`, see `bounded` for the others."""
    if not follow:
        return text + "\0"
    if verbatim:
        return next_prefix(text if follow[0] == "{" else text + follow)  # a placeholder follows a text of fixed width
    # Where '#' follows, other values go on with '$' or higher at its place.
    return text + "$" if follow[0] == "#" else next_prefix(text)


def _edge(op: Op, place: Place) -> tuple[bool, bool]:
    """Whether the range is cut after the unit of the place (else before it), and whether that keeps it exact."""
    behind_equals = op in {"<=", ">"}
    if place.first < 0 or (place.first == 0 and not behind_equals):
        return False, True
    if place.last > 0 or (place.last == 0 and behind_equals):
        return True, True
    # The cut falls inside the unit, which then belongs to the range as a whole.
    return op in {"<", "<="}, False
