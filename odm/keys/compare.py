"""Static questions about two templates: can their keys be equal, can one lie in the range of the other.

The answers are conservative: True unless no values can make it so.
"""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Final, TypeAlias

from odm.keys.grammar import Literal
from odm.keys.shapes import ANY, LOW, Charset, Shape, can_meet, exactly, meets
from odm.keys.template import Template

_MOST_ALTERNATIVES: Final = 256


def can_equal(a: Template, b: Template) -> bool:
    """Whether a key of `a` can be a key of `b`."""
    if a.verbatim or b.verbatim:
        return _can_unify_tokens(_alternatives(a), _alternatives(b))
    return _begin_alike(a, b) and len(a.components) == len(b.components) and _can_unify(a, b)


def heads_can_equal(a: Template, b: Template) -> bool:
    """Whether the longer template's first components can be a key of the shorter; never if both are of one length."""
    return len(a.components) != len(b.components) and _can_unify(a, b)


def can_overlap(a: Template, b: Template) -> bool:
    """Whether a key of `b` can start with the literal that all keys of `a` start with (their range by any query)."""
    first = a.parts[0]
    if a.verbatim or b.verbatim:
        head = first.text if isinstance(first, Literal) else ""
        return _can_unify_tokens([[*_tokens(exactly(head)), (_ANY_TEXT, True)]], _alternatives(b))
    *whole, rest = (first.text if isinstance(first, Literal) else "").split("#")
    if len(b.components) <= len(whole):
        return False
    if not all(can_meet((exactly(text),), shapes) for text, shapes in zip(whole, b.components, strict=False)):
        return False
    return can_meet((Shape(exactly(rest).head, ANY),), b.components[len(whole)])


def can_go_on_low(a: Template, b: Template) -> bool:
    """Whether a key of `a` can be the beginning of a key of `b` that goes on with a character below '#'.

    Such are the spaces of padding, and those of a time's format. The two keys sort in another order once something that
    begins with '#' is written behind both.
    """
    *whole, last = a.components
    if len(b.components) <= len(whole) or not all(map(can_meet, whole, b.components)):
        return False
    if not _holds_low(b, len(whole)):
        return False
    return any(can_meet(last, (edge,)) for edge in _cuts(b.components[len(whole)]))


def _holds_low(template: Template, component: int) -> bool:
    """Whether a placeholder of that component can write what sorts below '#'; literals never do."""
    at = 0
    for part in template.parts:
        if isinstance(part, Literal):
            at += part.text.count("#")
        elif at == component and any(meets(chars, LOW) for shape in part.type.shapes() for chars in shape.head):
            return True
    return False


def _cuts(alternatives: tuple[Shape, ...]) -> Iterator[Shape]:
    """What can stand before a character below '#'."""
    for shape in alternatives:
        if meets(shape.tail, LOW):
            yield shape
        yield from (Shape(shape.head[:at]) for at, chars in enumerate(shape.head) if meets(chars, LOW))


def can_be_key(template: Template, components: Sequence[str]) -> bool:
    """Whether the first of these components, between '#', can be a key of the template."""
    shapes = template.components
    meets = (can_meet((exactly(text),), shape) for text, shape in zip(components, shapes, strict=False))
    return len(components) >= len(shapes) and all(meets)


Token: TypeAlias = tuple[Charset, bool]
"""A character of these, or any number of them."""

_ANY_TEXT: Final[Charset] = (("\0", "\U0010ffff"),)


def _tokens(shape: Shape) -> list[Token]:
    return [*((chars, False) for chars in shape.head), *([(shape.tail, True)] if shape.tail else ())]


def _alternatives(template: Template) -> list[list[Token]]:
    """The texts that a template can make, as lists of tokens."""
    alternatives: list[list[Token]] = [[]]
    for part in template.parts:
        shapes = (exactly(part.text),) if isinstance(part, Literal) else part.type.shapes()
        if len(alternatives) * len(shapes) > _MOST_ALTERNATIVES:
            shapes = (Shape((_ANY_TEXT,), _ANY_TEXT),)
        alternatives = [[*tokens, *_tokens(shape)] for tokens in alternatives for shape in shapes]
    return alternatives


def _can_unify_tokens(a: Sequence[Sequence[Token]], b: Sequence[Sequence[Token]]) -> bool:
    return any(_have_common_text(tokens, other) for tokens, other in product(a, b))


def _have_common_text(a: Sequence[Token], b: Sequence[Token]) -> bool:
    """Whether both can make the same text: a search over the positions in the two lists."""
    pending, seen = [(0, 0)], {(0, 0)}
    while pending:
        i, j = pending.pop()
        if i == len(a) and j == len(b):
            return True
        following = []
        if i < len(a) and a[i][1]:
            following.append((i + 1, j))
        if j < len(b) and b[j][1]:
            following.append((i, j + 1))
        if i < len(a) and j < len(b) and meets(a[i][0], b[j][0]):
            following.append((i + (not a[i][1]), j + (not b[j][1])))
        pending += [place for place in following if place not in seen]
        seen.update(following)
    return False


def _begin_alike(a: Template, b: Template) -> bool:
    """Whether the literals at the start, which most often distinguish entities, allow a common key."""
    first, other = a.parts[0], b.parts[0]
    if not isinstance(first, Literal) or not isinstance(other, Literal):
        return True
    return first.text.startswith(other.text) or other.text.startswith(first.text)


def _can_unify(a: Template, b: Template) -> bool:
    return all(can_meet(left, right) for left, right in zip(a.components, b.components, strict=False))
