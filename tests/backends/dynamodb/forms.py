"""The two formats in which the loader gets attributes: parsed by botocore, or decoded from the JSON of a response."""

import json
from base64 import b64encode
from typing import Any

from odm.backends.dynamodb.items.codec import to_attribute
from odm.expressions.nodes import Item


def on_the_wire(attributes: Any) -> Any:
    """The decoded JSON of attributes that botocore has parsed: bytes become base64 text."""
    return json.loads(json.dumps(attributes, default=lambda content: b64encode(content).decode()))


def forms(item: Item) -> list[Any]:
    """The attributes of an item with its keys, in both formats."""
    keys = {"pk": {"S": "P#1"}, "sk": {"S": "S"}, "by_emailpk": {"S": "E#1"}, "by_emailsk": {"S": "S"}}
    parsed = {**keys, **{name: to_attribute(value) for name, value in item.items()}}
    return [parsed, on_the_wire(parsed)]
