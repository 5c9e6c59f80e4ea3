"""What a throttled batch leaves undone, handed back as the caller gave it, to be sent again."""

from collections.abc import Mapping
from typing import Any

from odm.errors import Throttled
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key


def send_batch(request: req.BatchGet | req.BatchWrite, given: Mapping[Key, Any]) -> CoreGen[Any]:
    """Send a batch; what is left of it is told in terms of what was given.

    Args:
        request: the batch.
        given: what the caller gave for each key; what it has nothing for is not told.

    Raises:
        Throttled: with ``left`` such.
    """
    try:
        return (yield request)
    except Throttled as error:
        keys = [getattr(one, "key", one) for one in error.left]
        error.left = tuple(given[key] for key in keys if key in given)
        raise
