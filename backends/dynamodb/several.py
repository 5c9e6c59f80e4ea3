"""Queries on an index whose keys have several attributes: from texts of keys to conditions on the attributes.

In keys of odm the parts are escaped and separated by '#'; see `odm.keys.template.compile_several`.
"""

from collections.abc import Mapping

from odm.backends.dynamodb.codec import several_value
from odm.backends.dynamodb.schema import Layout
from odm.expressions.nodes import Value
from odm.keys import next_prefix
from odm.keys.text import unescape
from odm.protocol.requests import Query


def several_range(layout: Layout, request: Query) -> tuple[Mapping[str, Value], str, str, str | None]:
    """The attributes that a query gives a value, the next one, and its range ``[lo, hi)``."""
    index = str(request.index)
    names, count = layout.indexes[index], layout.several[index]
    fixed = dict(zip(names[:count], request.partition.split("#"), strict=True))
    *leading, lo = request.lo.split("#")
    fixed |= dict(zip(names[count:], leading, strict=False))
    equal = {name: several_value(text, layout.types.get(name, "S")) for name, text in fixed.items()}
    sort = names[len(fixed)] if len(fixed) < len(names) else ""
    head = "".join(f"{part}#" for part in leading)
    hi = None if request.hi in (None, next_prefix(head)) else str(request.hi)[len(head) :]
    kind = layout.types.get(sort, "S")
    return equal, sort, _edge(lo, kind), None if hi is None else _edge(hi, kind)


def _edge(text: str, kind: str) -> str:
    """An edge of a range of parts as one of the attribute: behind a part stands '$' where another part follows."""
    behind = text.endswith(("$", "\0"))
    part = text[:-1] if behind else text
    return (unescape(part) if kind == "S" else part) + "\0" * behind
