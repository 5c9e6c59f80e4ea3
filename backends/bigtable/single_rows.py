"""What a table without ``transactions=True`` does not support: Bigtable itself is atomic for one row only."""

from collections.abc import Sequence

_INSTEAD = (
    "declare Table(..., transactions=True), in all programs that use the table; write them one by one, in an order in "
    "which stopping in between does no harm, or with batch() if the order does not matter; or keep what must change "
    "together in one item"
)

ONCE = (
    "an update with retry_safe=True on Bigtable: if the answer is lost and another writer changes the row, nothing "
    "shows whether the update was applied. Declare Table(..., transactions=True), in all programs that use the table; "
    "remove retry_safe, and read the item on an OutcomeUnknown; or give the item a Revision and update the entity that "
    "you read, which cannot be applied twice"
)
"""Why an `odm.protocol.requests.Transact` with ``once`` is not supported."""


def unsupported_reason(row_keys: Sequence[str]) -> str | None:
    """Why these rows cannot be changed in one transaction, and what to do instead; None if they are one row."""
    rows = tuple(dict.fromkeys(row_keys))
    if len(rows) < 2:
        return None
    return f"Bigtable changes one row at a time, and these are {len(rows)}: {', '.join(map(repr, rows))}: {_INSTEAD}"
