"""The two forms in which an item's attributes arrive: as botocore's parser gives them, and as they are on the wire."""

import json
from base64 import b64encode
from typing import Any

from odm.backends.dynamodb.codec import to_attribute
from odm.expressions.nodes import Item


def on_the_wire(attributes: Any) -> Any:
    """What the JSON of parsed attributes decodes to: bytes are base64 text."""
    return json.loads(json.dumps(attributes, default=lambda content: b64encode(content).decode()))


def forms(item: Item) -> list[Any]:
    """The attributes of an item with its keys, in both forms."""
    keys = {"pk": {"S": "P#1"}, "sk": {"S": "S"}, "by_emailpk": {"S": "E#1"}, "by_emailsk": {"S": "S"}}
    parsed = {**keys, **{name: to_attribute(value) for name, value in item.items()}}
    return [parsed, on_the_wire(parsed)]
