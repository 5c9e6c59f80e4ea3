"""Requests as DynamoDB takes them: their JSON is written here, past botocore's validation and serializer.

These walk every attribute value with Python functions. So an item comes as text (`AttributesText`), and two of
botocore's events let a request go out as it is: the last ``before-parameter-build`` takes the arguments of a call, as
all other handlers left them, and leaves botocore what it needs itself; the first ``before-call`` puts their JSON in the
place of the body, before others see it and it is signed. Until a call has shown that both events do as their names say,
the arguments are what botocore's serializer takes, and it does the work.
"""

from collections.abc import Mapping
from typing import Any, Final

from odm.backends.dynamodb.codec import AttributesText, text_of

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


class Bodies:
    """The handlers of some clients of one colour."""

    def __init__(self) -> None:
        self._proved = False

    def register(self, client: Any) -> None:
        """Let a client send what is written here."""
        # Under an id of its own, a handler can not be there twice. Those of the shortest event are called last.
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
