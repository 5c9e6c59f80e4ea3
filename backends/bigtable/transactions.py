"""The transactions that Bigtable does not support, and alternatives: Bigtable is atomic for one row only."""

from collections.abc import Sequence

_INSTEAD = (
    "write them one by one, in an order in which stopping in between does no harm, or with batch() if the order does "
    "not matter; keep what must change together in one item; or use DynamoDB or the bundled engine"
)

ONCE = (
    "an update with retry_safe=True on Bigtable: if the answer is lost and another writer changes the row, nothing "
    "shows whether the update was applied. Remove retry_safe, and read the item on an OutcomeUnknown; give the item a "
    "Revision and update the entity that you read, which cannot be applied twice; or use DynamoDB or the bundled engine"
)
"""Why an `odm.protocol.requests.Transact` with ``once`` is not supported."""


def unsupported_reason(row_keys: Sequence[str]) -> str | None:
    """Why these rows cannot be changed in one transaction, and what to do instead; None if they are one row."""
    rows = tuple(dict.fromkeys(row_keys))
    if len(rows) < 2:
        return None
    return f"Bigtable changes one row at a time, and these are {len(rows)}: {', '.join(map(repr, rows))}: {_INSTEAD}"
