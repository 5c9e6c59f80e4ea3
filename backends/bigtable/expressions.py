"""What a condition asks of a row.

A write's condition is judged by the server in the write itself, or refused. What the server can judge here is whether
the row is there: every item has the attribute ``_t``, and a row without cells does not exist.
"""

from typing import Literal

from odm.errors import Unsupported
from odm.expressions.nodes import Condition, Exists, Missing, Path

Presence = Literal["present", "absent"]

_TAG = Path(("_t",))


def presence(condition: Condition | None) -> Presence | None:
    """Which of the two the condition asks for: that the item is there, or that it is not; None for no condition.

    Raises:
        Unsupported: it asks for something else.
    """
    if condition is None:
        return None
    if condition == Exists(_TAG):
        return "present"
    if condition == Missing(_TAG):
        return "absent"
    raise Unsupported(
        f"the Bigtable backend does not judge the condition {condition} in a write yet, only whether the item exists: "
        "for when=, Revision, and inserts and deletes of an entity with a TTL use another backend"
    )
