"""Reads of some attributes: the ProjectionExpression of a request with ``only``.

DynamoDB reads whole items nevertheless, so the read units stay the same; the response is smaller.
"""

from typing import Any, Final

from odm.backends.dynamodb.expressions import Expressions
from odm.backends.dynamodb.schema import Layout
from odm.codec import TAG, TTL_ATTRIBUTE, attribute_name
from odm.expressions.nodes import Path
from odm.protocol.expressions import TEXT_BYTES
from odm.protocol.reading import Only

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
