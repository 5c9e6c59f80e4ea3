"""Answers as DynamoDB sends them: decoded from their bytes in one call, past botocore's parser.

That parser walks every attribute value with a Python function; the values are what `odm.backends.dynamodb.codec` reads
all the same. So botocore's ``before-parse`` event hands the parser an empty answer and the decoded one to the caller.
Where botocore does not do as the event's name says, its parser goes on doing the work: the first answer proves it.
"""

from typing import Any, Final

from pydantic_core import from_json

READING: Final = ("GetItem", "Query", "Scan", "BatchGetItem", "PutItem", "UpdateItem", "DeleteItem")
"""The operations whose answers hold items and are JSON throughout; the bytes in them are base64 text then."""

_MARK: Final = "odm-before-parse"


def read_bytes(client: Any) -> None:
    """Let a client, of either colour, decode the answers of `READING` from their bytes; those of errors it parses."""
    hooks = _Hooks()
    for operation in READING:
        # Under an id of its own, a handler can not be there twice.
        client.meta.events.register(f"before-parse.dynamodb.{operation}", hooks.before_parse, f"odm-{operation}")
        client.meta.events.register(f"after-call.dynamodb.{operation}", hooks.after_call, f"odm-{operation}-done")


class _Hooks:
    """The handlers of one client.

    Until an answer that was only marked arrived with its mark, nothing is taken from the parser: were what a handler
    returns not merged into the answer, its items would be lost without a sign.
    """

    def __init__(self) -> None:
        self._proved = False

    def before_parse(self, response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
        """Decode the bytes of an answer that is no error."""
        if response_dict["status_code"] != 200:
            return
        if not self._proved:
            customized_response_dict[_MARK] = True
            return
        try:
            decoded = from_json(response_dict["body"], cache_strings="keys")
        except ValueError:
            return  # damaged, or text that is none: the parser decides
        if type(decoded) is dict:
            customized_response_dict.update(decoded)
            response_dict["body"] = b""

    def after_call(self, parsed: Any, **_: Any) -> None:
        """See whether the mark arrived."""
        if not self._proved:
            self._proved = parsed.pop(_MARK, False)
