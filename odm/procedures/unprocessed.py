"""Reports unprocessed entries of a throttled batch in the caller's terms, to be sent again."""

from collections.abc import Mapping
from typing import Any

from odm.errors import Throttled
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key


def send_batch(request: req.BatchGet | req.BatchWrite, given: Mapping[Key, Any]) -> CoreGen[Any]:
    """Send a batch; report what is unprocessed in terms of what was given.

    Args:
        request: the batch.
        given: what the caller gave for each key; what it has nothing for is not reported.

    Raises:
        Throttled: with ``left`` such.
    """
    try:
        return (yield request)
    except Throttled as error:
        keys = [getattr(one, "key", one) for one in error.left]
        error.left = tuple(given[key] for key in keys if key in given)
        raise
