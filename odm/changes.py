"""The change feed: what `Calls.changes`, in a procedure, and the decoders of streams report.

Its names load at their first use, as those of `odm` do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm.entities.changes import Change, Changed, Inserted, Removed
    from odm.procedures.changes import Changes
    from odm.protocol.changes import ChangeShard
else:
    from odm._published import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "odm.entities.changes": "Change Changed Inserted Removed",
            "odm.procedures.changes": "Changes",
            "odm.protocol.changes": "ChangeShard",
        },
    )

__all__ = [
    "Change",
    "ChangeShard",
    "Changed",
    "Changes",
    "Inserted",
    "Removed",
]
