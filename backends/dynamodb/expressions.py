"""The expressions of one DynamoDB request, with their placeholders as the service takes them."""

from collections.abc import Mapping
from typing import Any, Final

from odm.backends.dynamodb.codec import to_attribute
from odm.codec import attribute_name
from odm.expressions.nodes import Condition, Path, Value
from odm.protocol.expressions import ExpressionText, Place, Shape
from odm.protocol.predicates import ABSENT

_NO_KEY: Final = (None, "", b"")
"""Lower bounds that bound nothing."""


class Expressions(ExpressionText):
    """The expressions of one request and their placeholders.

    Args:
        key: in place of the tag, this attribute of an absent item is missing, because another program's items may have
            no tag; None: the tag is.
    """

    def __init__(self, key: str | None = None) -> None:
        super().__init__()
        self._key = key

    def path(self, path: Path) -> str:
        """The text of a path to an attribute, which may have another name than in items of odm."""
        name = attribute_name(path.root)
        return super().path(path if name == path.root else Path((name, *path.segments[1:])))

    def _condition(self, condition: Condition) -> str:
        if self._key is not None and condition == ABSENT:
            return f"attribute_not_exists({self.path(Path((self._key,)))})"
        return super()._condition(condition)

    def _place(self, shape: Shape | None) -> Place | None:
        place = super()._place(shape)
        return None if place is None else (*place, self._key)

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
        """The key condition expression: key attributes with a value, and inclusive bounds of another one."""
        text = " AND ".join([f"{self.name(one)} = {self.value(value)}" for one, value in equal.items()])
        low, high = bounds
        if high is None and low in _NO_KEY:
            return text
        sort = self.name(name)
        if low == high:
            return f"{text} AND {sort} = {self.value(low)}"
        if high is None:
            return f"{text} AND {sort} >= {self.value(low)}"
        if low in _NO_KEY:  # DynamoDB rejects empty key values, even in comparisons
            return f"{text} AND {sort} <= {self.value(high)}"
        return f"{text} AND {sort} BETWEEN {self.value(low)} AND {self.value(high)}"


def only_tags(tag: str, *others: str) -> dict[str, Any]:
    """The arguments of a read that returns only the tag of an item and these other attributes."""
    names = {f"#t{number}": name for number, name in enumerate(dict.fromkeys((tag, *others)))}
    return {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}
