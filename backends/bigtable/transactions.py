"""What Bigtable cannot do all at once, and what to do instead: it changes one row in one step, and only one."""

from collections.abc import Sequence

_INSTEAD = (
    "write them one by one, in an order in which a stop in between does no harm, or with batch() where that does not "
    "matter; keep what must change together in one item; or use DynamoDB or the bundled engine"
)

ONCE = (
    "an update with retry_safe=True on Bigtable: where the answer was lost and somebody else has written to the row "
    "since, nobody can tell whether the update was done. Leave retry_safe out, and read the item on an OutcomeUnknown; "
    "give the item a Revision and update the entity that you read, which cannot be done twice; or use "
    "DynamoDB or the bundled engine"
)
"""Why no `odm.protocol.requests.Transact` with ``once`` is done."""


def unsupported_reason(row_keys: Sequence[str]) -> str | None:
    """Why these rows cannot be changed in one transaction, and what to do instead; None if they are one row."""
    rows = tuple(dict.fromkeys(row_keys))
    if len(rows) < 2:
        return None
    return f"Bigtable changes one row at a time, and these are {len(rows)}: {', '.join(map(repr, rows))}: {_INSTEAD}"
