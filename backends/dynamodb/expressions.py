"""The expressions of one DynamoDB request, with their placeholders as the service takes them."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from odm.backends.dynamodb.codec import to_attribute
from odm.cache import Cache
from odm.codec import attribute_name
from odm.expressions.nodes import Path, Value
from odm.protocol.expressions import ExpressionText

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
