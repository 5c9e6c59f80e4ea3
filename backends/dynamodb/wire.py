"""The JSON of requests and answers, past botocore's serializer and parser.

**Requests** are written as DynamoDB takes them, past botocore's validation and serializer.

These walk every attribute value with Python functions. So an item comes as text (`AttributesText`), and two of
botocore's events let a request go out as it is: the last ``before-parameter-build`` takes the arguments of a call, as
all other handlers left them, and leaves botocore what it needs itself; the first ``before-call`` puts their JSON in the
place of the body, before others see it and it is signed. Until a call has shown that both events do as their names say,
the arguments are what botocore's serializer takes, and it does the work.

**Answers** are decoded from their bytes in one call, past botocore's parser.

That parser walks every attribute value with a Python function; the values are what `odm.backends.dynamodb.codec` reads
all the same. So botocore's ``before-parse`` event hands the parser an empty answer and the decoded one to the caller.
Where botocore does not do as the event's name says, its parser goes on doing the work: the first answer proves it.

The parser makes an empty answer of what is none, such as the page of a proxy: no item, or a write that was done. And
only botocore's oldest retry mode refuses what does not fit its checksum after the last attempt. So both are told here.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from pydantic_core import from_json

from odm.backends.dynamodb.errors import DamagedAnswer
from odm.codec.lazy import LazyDict
from odm.codec.writers import quoted

_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "GetItem": ("Key",),
    "PutItem": ("Item",),
    "UpdateItem": ("Key",),
    "DeleteItem": ("Key",),
    "Query": (),
    "Scan": (),
}
"""The operations on items of one table, and what botocore demands beside its name."""

WRITTEN: Final = (*_NEEDED, "BatchGetItem", "BatchWriteItem", "TransactWriteItems")
"""The operations whose requests are written here."""

_BODY: Final = "odm-body"


READING: Final = ("GetItem", "Query", "Scan", "BatchGetItem", "PutItem", "UpdateItem", "DeleteItem")
"""The operations whose answers hold items and are JSON throughout; the bytes in them are base64 text then."""

_MARK: Final = "odm-before-parse"
_DAMAGED: Final = "odm-damaged"


class AttributesText(LazyDict):
    """Attributes by name as JSON text, read from it when looked at.

    Args:
        text: the text.
        read: the attributes of a text.
    """

    __slots__ = ("_read", "text")

    def __init__(self, text: str, read: Callable[[str], dict[str, Any]]) -> None:
        self._made = None  # as the base does, without a call
        self.text = text
        self._read = read

    def _make(self) -> dict[str, Any]:
        return self._read(self.text)


def text_of(value: Any) -> str:
    """The JSON text of attributes, or of other arguments of a request; TypeError for what these cannot hold."""
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is dict:
        return f"{{{','.join([f'{quoted(name)}:{text_of(part)}' for name, part in value.items()])}}}"
    if kind is AttributesText:
        return str(value.text)
    if kind is list:
        return f"[{','.join(map(text_of, value))}]"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is bytes:
        return f'"{b64encode(value).decode()}"'
    raise TypeError(f"a request holds no {kind.__name__}")


class Bodies:
    """The handlers of some clients, all sync or all async."""

    def __init__(self) -> None:
        self._proved = False

    def register(self, client: Any) -> None:
        """Let a client send what is written here."""
        # Under an id of its own, a handler cannot be there twice. Those of the shortest event are called last.
        client.meta.events.register_last("before-parameter-build", self.before_build, "odm-before-parameter-build")
        for operation in WRITTEN:  # those of the longest are first, so that others see what is sent
            event = f"before-call.dynamodb.{operation}"
            client.meta.events.register_first(event, self.before_call, f"odm-{event}")

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments to call a client with."""
        return given if self._proved else {name: _plain(value) for name, value in given.items()}

    def before_build(self, params: Any, model: Any, context: Any, **_: Any) -> None:
        """Take the arguments from botocore, if their text can be written."""
        short = _short(model.name, params) if type(params) is dict else None
        if short is None:
            return
        try:
            body = text_of(params).encode()
        except (TypeError, ValueError):  # a handler put there what only botocore understands; or text that is none
            params.update({name: _plain(value) for name, value in params.items()})
            return
        context[_BODY] = body
        if self._proved:
            params.clear()
            params.update(short)

    def before_call(self, params: Any, context: Any, **_: Any) -> None:
        """Put the text in the place of the body."""
        body = context.pop(_BODY, None)
        if body is not None and type(params.get("body")) is bytes:
            params["body"] = body
            self._proved = True


def _short(operation: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments that botocore finds valid, and an endpoint for; None for an operation whose body it is to write."""
    if operation in _NEEDED:
        return {"TableName": given["TableName"], **{name: {} for name in _NEEDED[operation]}}
    if operation == "BatchGetItem":
        return {"RequestItems": {table: {"Keys": [{}]} for table in given["RequestItems"]}}
    if operation == "BatchWriteItem":
        return {"RequestItems": {table: [{"DeleteRequest": {"Key": {}}}] for table in given["RequestItems"]}}
    if operation == "TransactWriteItems":
        [[first]] = [list(one.values()) for one in given["TransactItems"][:1]]
        return {"TransactItems": [{"Delete": {"TableName": first["TableName"], "Key": {}}}]}
    return None


def _plain(value: Any) -> Any:
    """An argument as botocore's serializer takes it."""
    kind = type(value)
    if kind is AttributesText:
        return value.made
    if kind is dict:
        return {name: _plain(part) for name, part in value.items()}
    return list(map(_plain, value)) if kind is list else value


def read_bytes(client: Any) -> None:
    """Let a client, sync or async, decode the answers of `READING` from their bytes; those of errors it parses.

    A call whose last answer is none raises DamagedAnswer.
    """
    hooks = _Hooks()
    # Under an id of its own, a handler cannot be there twice.
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
