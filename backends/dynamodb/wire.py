"""Answers as DynamoDB sends them: decoded from their bytes in one call, past botocore's parser.

That parser walks every attribute value with a Python function; the values are what `odm.backends.dynamodb.codec` reads
all the same. So botocore's ``before-parse`` event hands the parser an empty answer and the decoded one to the caller.
Where botocore does not do as the event's name says, its parser goes on doing the work: the first answer proves it.

The parser makes an empty answer of what is none, such as the page of a proxy: no item, or a write that was done. And
only botocore's oldest retry mode refuses what does not fit its checksum after the last attempt. So both are told here.
"""

import json
from typing import Any, Final
from zlib import crc32

from pydantic_core import from_json

from odm.backends.dynamodb.errors import DamagedAnswer

READING: Final = ("GetItem", "Query", "Scan", "BatchGetItem", "PutItem", "UpdateItem", "DeleteItem")
"""The operations whose answers hold items and are JSON throughout; the bytes in them are base64 text then."""

_MARK: Final = "odm-before-parse"
_DAMAGED: Final = "odm-damaged"


def read_bytes(client: Any) -> None:
    """Let a client, of either colour, decode the answers of `READING` from their bytes; those of errors it parses.

    A call whose last answer is none raises DamagedAnswer.
    """
    hooks = _Hooks()
    # Under an id of its own, a handler can not be there twice.
    client.meta.events.register("before-parse.dynamodb", hooks.before_parse, "odm-before-parse")
    client.meta.events.register("after-call.dynamodb", hooks.after_call, "odm-after-call")


class _Hooks:
    """The handlers of one client.

    Until an answer that was only marked arrived with its mark, nothing is taken from the parser: were what a handler
    returns not merged into the answer, its items would be lost without a sign.
    """

    def __init__(self) -> None:
        self._proved = False

    def before_parse(self, operation_model: Any, response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
        """Decode the bytes of an answer that is no error."""
        if response_dict["status_code"] >= 300:
            return
        decoded = _decoded(response_dict)
        if type(decoded) is not dict:
            customized_response_dict[_DAMAGED] = True  # not raised yet: botocore may fetch it again
            response_dict["body"] = b""
        elif operation_model.name in READING and self._proved:
            customized_response_dict.update(decoded)
            response_dict["body"] = b""
        if not self._proved:
            customized_response_dict[_MARK] = True

    def after_call(self, parsed: Any, **_: Any) -> None:
        """See whether the mark arrived, and whether the answer that counts is one."""
        if not self._proved:
            self._proved = parsed.pop(_MARK, False)
        if parsed.pop(_DAMAGED, False):
            raise DamagedAnswer("the answer is not what DynamoDB sends, or not whole")


def _decoded(response: Any) -> Any:
    """What an answer holds, or None."""
    body, checksum = response["body"], response["headers"].get("x-amz-crc32")
    if checksum is not None and str(crc32(body)) != checksum:
        return None
    try:
        return from_json(body, cache_strings="keys")
    except ValueError:  # damaged; or text that is none, which the standard library takes
        try:
            return json.loads(body)
        except ValueError:
            return None
