"""What the calls of a store return or report, mostly for annotations.

Its names load at their first use, as those of `odm` do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm.observe.events import RequestInfo
    from odm.observe.meter import Meter, Usage
    from odm.procedures.explain import Explanation
    from odm.procedures.raw import RawItem
    from odm.procedures.reading.partial import Partial
    from odm.procedures.upkeep.backfill import Backfilled, Unfilled
    from odm.procedures.upkeep.sweep import Swept
    from odm.procedures.writing.cell_versions import CellVersion
else:
    from odm._published import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "odm.observe.events": "RequestInfo",
            "odm.observe.meter": "Meter Usage",
            "odm.procedures.explain": "Explanation",
            "odm.procedures.raw": "RawItem",
            "odm.procedures.reading.partial": "Partial",
            "odm.procedures.upkeep.backfill": "Backfilled Unfilled",
            "odm.procedures.upkeep.sweep": "Swept",
            "odm.procedures.writing.cell_versions": "CellVersion",
        },
    )

__all__ = [
    "Backfilled",
    "CellVersion",
    "Explanation",
    "Meter",
    "Partial",
    "RawItem",
    "RequestInfo",
    "Swept",
    "Unfilled",
    "Usage",
]
