"""The expressions of one request, with their placeholders as the service takes them, and reads of some attributes.

For a read of some attributes, DynamoDB reads whole items nevertheless, so the read units stay the same; the response is
smaller.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from odm.backends.dynamodb.items.codec import to_attribute
from odm.backends.dynamodb.items.layout import Layout
from odm.cache import Cache
from odm.codec import TAG, TTL_ATTRIBUTE, attribute_name
from odm.expressions.nodes import Path, Value
from odm.protocol.expressions import TEXT_BYTES, ExpressionText
from odm.protocol.reading import Only

_KeyText: TypeAlias = tuple[str, Mapping[str, str], Sequence[str]]
"""A key condition, and the placeholders of its names and of its values."""

_KEY_TEXTS: Final[Cache[tuple[str, ...], _KeyText]] = Cache()
"""Key conditions by the names in them and the format of their test."""

_NO_KEY: Final = (None, "", b"")
"""Lower bounds that bound nothing."""


class Expressions(ExpressionText):
    """The expressions of one request and their placeholders."""

    def path(self, path: Path) -> str:
        """The text of a path to an attribute, which may have another name than in items of odm."""
        name = attribute_name(path.root)
        return super().path(path if name == path.root else Path((name, *path.segments[1:])))

    def arguments(self) -> dict[str, Any]:
        """ExpressionAttributeNames and ExpressionAttributeValues, unless empty: DynamoDB rejects empty ones."""
        names = {alias: name for name, alias in self._names.items()}
        values = {alias: to_attribute(value) for alias, value in self._values.items()}
        explained: dict[str, Any] = {}
        if names:
            explained["ExpressionAttributeNames"] = names
        if values:
            explained["ExpressionAttributeValues"] = values
        return explained

    def key_condition(self, equal: Mapping[str, Value], name: str, bounds: tuple[Value, Value]) -> str:
        """The key condition expression: key attributes with a value, and inclusive bounds of another one.

        It is the first expression of its request, so it depends on the names and on which ends of the range are bounds.
        """
        low, high = bounds
        ends: tuple[Value, ...]
        if high is None and low in _NO_KEY:
            test, ends = "", ()
        elif low == high:
            test, ends = " AND {0} = {1}", (low,)
        elif high is None:
            test, ends = " AND {0} >= {1}", (low,)
        elif low in _NO_KEY:  # DynamoDB rejects empty key values, even in comparisons
            test, ends = " AND {0} <= {1}", (high,)
        else:
            test, ends = " AND {0} BETWEEN {1} AND {2}", (low, high)
        place = (*equal, name, test)
        text, names, aliases = _KEY_TEXTS.get(place) or _KEY_TEXTS.keep(
            place, _key_text([*equal], name, test, len(ends))
        )
        self._names.update(names)
        self._values.update(zip(aliases, (*equal.values(), *ends), strict=True))  # keys are small: no limit is near
        return text


def _key_text(equal: Sequence[str], name: str, test: str, ends: int) -> _KeyText:
    """The text of a key condition, with the placeholders of its names and of its values.

    Args:
        equal: the key attributes with a value.
        name: the one with bounds.
        test: the format of its test; "": it has none.
        ends: how many bounds it has.
    """
    names = {one: f"#{at}" for at, one in enumerate((*equal, name) if test else equal)}
    text = " AND ".join([f"{names[one]} = :{at}" for at, one in enumerate(equal)])
    low, high = f":{len(equal)}", f":{len(equal) + 1}"
    text += test.format(names.get(name), low, high)
    return text, names, [f":{at}" for at in range(len(equal) + ends)]


def only_tags(tag: str, *others: str) -> dict[str, Any]:
    """The arguments of a read that returns only the tag of an item and these other attributes."""
    names = {f"#t{number}": name for number, name in enumerate(dict.fromkeys((tag, *others)))}
    return {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}


_NONE: Final[dict[str, Any]] = {}


def projected(layout: Layout, only: Only | None) -> dict[str, Any]:
    """The arguments of a read by key, for these attributes."""
    if only is None:
        return _NONE
    expressions = Expressions()
    text = projection(layout, only, None, expressions)
    return _NONE if text is None else {"ProjectionExpression": text, **expressions.arguments()}


def projection(layout: Layout, only: Only, index: str | None, expressions: Expressions) -> str | None:
    """The ProjectionExpression; None: whole items must be read.

    Args:
        layout: the layout of the table.
        only: the attributes.
        index: the index that is read; None: the table itself.
        expressions: the other expressions of the request.
    """
    described = layout.described
    if described is not None and not described.tells_by_key:
        return None
    keys = (*layout.keys, *(() if index is None else layout.indexes[index]))
    marks = {TTL_ATTRIBUTE: layout.ttl}
    if described is not None:
        marks[TAG] = described.schema.tag or layout.keys[0]
        keys = (*keys, *layout.hidden)  # a field may stand in a key of an index
    paths = [_moved(path, marks) for path in only.paths]
    roots = {path.root for path in paths if len(path.segments) == 1} | {*keys}
    inside = [path for path in paths if len(path.segments) == 1 or path.root not in roots]
    wanted = dict.fromkeys([*(Path((name,)) for name in dict.fromkeys(keys)), *inside])
    size = sum(len(str(len(wanted))) + 4 + 8 * (len(path.segments) - 1) for path in wanted)
    if size > TEXT_BYTES:
        return None
    return ", ".join(map(expressions.path, wanted))


def _moved(path: Path, marks: dict[str, str]) -> Path:
    name = marks.get(path.root)
    if name is not None:
        return Path((name,))
    name = attribute_name(path.root)
    return path if name == path.root else Path((name, *path.segments[1:]))
