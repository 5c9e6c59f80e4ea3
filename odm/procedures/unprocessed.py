"""Reports unprocessed entries of a throttled batch in the caller's terms, to be sent again."""

from collections.abc import Mapping
from typing import Any

from odm.errors import Throttled
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key


def send_batch(request: req.BatchGet | req.BatchWrite, arguments: Mapping[Key, Any]) -> CoreGen[Any]:
    """Send a batch; report unprocessed entries as the arguments that the caller passed.

    Args:
        request: the batch.
        arguments: the caller's argument for each key; a key without one is not reported.

    Raises:
        Throttled: ``left`` has the arguments of the unprocessed keys.
    """
    try:
        return (yield request)
    except Throttled as error:
        keys = [getattr(entry, "key", entry) for entry in error.left]
        error.left = tuple(arguments[key] for key in keys if key in arguments)
        raise
