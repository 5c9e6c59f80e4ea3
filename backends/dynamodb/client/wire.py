"""JSON of requests and responses, in place of botocore's serializer and parser.

**Requests.** botocore's validation and serializer walk every attribute value with Python functions, which is slow. So
an item is passed as JSON text (`AttributesText`), and two of botocore's events send it unchanged:

* The last ``before-parameter-build`` handler sees the arguments after all other handlers. It writes their JSON, and
  leaves botocore only the arguments that it needs itself.
* The first ``before-call`` handler replaces the body by this JSON, before other handlers see it and it is signed.

Until a first call has proved that both events work, botocore also gets the full arguments and serializes them.

**Responses.** botocore's parser walks every attribute value too, but the result has the same structure as the JSON. So
the ``before-parse`` handler decodes the body in one call, and botocore's parser gets an empty one. Until a first
response has proved that the event works, botocore's parser does the work.

That parser turns a body that is not from DynamoDB, such as a proxy's error page, into an empty response, which looks
like a missing item or a successful write. It ignores a body that was cut off, and in most retry modes a wrong checksum.
And it fails on error responses of another structure. So all of this is checked here.
"""

import json
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final
from zlib import crc32

from pydantic_core import from_json

from odm.backends.dynamodb.client.errors import DamagedAnswer
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
"""The operations on one table, and the arguments that botocore requires in addition to TableName."""

WRITTEN: Final = (*_NEEDED, "BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems")
"""The operations whose requests are written here."""

_BODY: Final = "odm-body"


READING: Final = ("GetItem", "Query", "Scan", "BatchGetItem", "TransactGetItems", "PutItem", "UpdateItem", "DeleteItem")
"""The operations whose responses contain items. Decoded here, binary values in them are base64 text."""

_MARK: Final = "odm-before-parse"
_DAMAGED: Final = "odm-damaged"


class AttributesText(LazyDict):
    """Attributes by name, stored as JSON text and parsed at the first access.

    Args:
        text: the JSON text.
        read: parses the text into attributes.
    """

    __slots__ = ("_read", "text")

    def __init__(self, text: str, read: Callable[[str], dict[str, Any]]) -> None:
        self._content = None  # inlined from the base class for speed
        self.text = text
        self._read = read

    def _make(self) -> dict[str, Any]:
        return self._read(self.text)


def text_of(value: Any) -> str:
    """The JSON text of attributes or other arguments of a request.

    Raises:
        TypeError: a value has a type that requests do not contain.
    """
    kind = type(value)
    if kind is str:
        return quoted(value)
    if kind is dict:
        return f"{{{','.join([f'{quoted(name)}:{text_of(part)}' for name, part in value.items()])}}}"
    if kind is AttributesText:
        text: str = value.text
        return text
    if kind is list:
        return f"[{','.join(map(text_of, value))}]"
    if kind is bool:
        return "true" if value else "false"
    if kind is int:
        return str(value)
    if kind is bytes:
        return f'"{b64encode(value).decode()}"'
    raise TypeError(f"a request cannot contain a {kind.__name__}")


class Bodies:
    """The request handlers of a group of clients, either sync or async."""

    def __init__(self) -> None:
        self._proved = False

    def register(self, client: Any) -> None:
        """Make a client send the JSON that is written here."""
        # The unique ID keeps a handler from being registered twice. Handlers of the shortest event name run last.
        client.meta.events.register_last("before-parameter-build", self.before_build, "odm-before-parameter-build")
        for operation in WRITTEN:  # handlers of the longest event name run first, so other handlers see the sent body
            event = f"before-call.dynamodb.{operation}"
            client.meta.events.register_first(event, self.before_call, f"odm-{event}")

    def arguments(self, given: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments to call a client with."""
        return given if self._proved else {name: _plain(value) for name, value in given.items()}

    def before_build(self, params: Any, model: Any, context: Any, **_: Any) -> None:
        """Write the body, and shorten the arguments for botocore. Without effect if the body cannot be written."""
        short = _short(model.name, params) if type(params) is dict else None
        if short is None:
            return
        try:
            body = text_of(params).encode()
        except (TypeError, ValueError):  # another handler added a type that only botocore serializes, or invalid text
            params.update({name: _plain(value) for name, value in params.items()})
            return
        context[_BODY] = body
        if self._proved:
            params.clear()
            params.update(short)

    def before_call(self, params: Any, context: Any, **_: Any) -> None:
        """Replace the body by the body that `before_build` wrote."""
        body = context.pop(_BODY, None)
        if body is not None and type(params.get("body")) is bytes:
            params["body"] = body
            self._proved = True


def _short(operation: str, given: Mapping[str, Any]) -> dict[str, Any] | None:
    """The fewest arguments from which botocore builds a valid request; None if botocore has to write its body."""
    if operation in _NEEDED:
        return {"TableName": given["TableName"], **{name: {} for name in _NEEDED[operation]}}
    if operation == "BatchGetItem":
        return {"RequestItems": {table: {"Keys": [{}]} for table in given["RequestItems"]}}
    if operation == "BatchWriteItem":
        return {"RequestItems": {table: [{"DeleteRequest": {"Key": {}}}] for table in given["RequestItems"]}}
    if operation in {"TransactGetItems", "TransactWriteItems"}:
        [[first]] = [list(one.values()) for one in given["TransactItems"][:1]]
        kind = "Get" if operation == "TransactGetItems" else "Delete"
        return {"TransactItems": [{kind: {"TableName": first["TableName"], "Key": {}}}]}
    return None


def _plain(value: Any) -> Any:
    """An argument in the form that botocore's serializer accepts."""
    kind = type(value)
    if kind is AttributesText:
        return value.content
    if kind is dict:
        return {name: _plain(part) for name, part in value.items()}
    return list(map(_plain, value)) if kind is list else value


def read_bytes(client: Any) -> None:
    """Make a sync or async client decode the responses of `READING` here; botocore still parses error responses.

    A call raises DamagedAnswer if its last response is damaged or not from DynamoDB.
    """
    hooks = _Hooks()
    # The unique ID keeps a handler from being registered twice.
    client.meta.events.register("before-parse.dynamodb", hooks.before_parse, "odm-before-parse")
    client.meta.events.register("after-call.dynamodb", hooks.after_call, "odm-after-call")


class _Hooks:
    """The response handlers of one client.

    The first responses are only marked, and botocore parses them. A mark that arrives in `after_call` proves that
    botocore merges the handler's result into the response. Without this proof, items could be lost silently.
    """

    def __init__(self) -> None:
        self._proved = False

    def before_parse(self, operation_model: Any, response_dict: Any, customized_response_dict: Any, **_: Any) -> None:
        """Decode the body of a response that is not an error."""
        if response_dict["status_code"] >= 300:
            if not _is_readable_error(operation_model.service_model, response_dict["body"]):
                response_dict["body"] = b""  # then botocore reports the status, and odm a foreign response
            return
        decoded, shape = _decoded(response_dict), operation_model.output_shape
        by_odm = self._proved and operation_model.name in READING
        if type(decoded) is not dict or not (by_odm or _fits(shape, decoded)) or _is_foreign(shape, decoded):
            customized_response_dict[_DAMAGED] = True  # raised in after_call: raised here, botocore would not finish
            response_dict["body"] = b""
        elif by_odm:
            customized_response_dict.update(decoded)
            response_dict["body"] = b""
        if not self._proved:
            customized_response_dict[_MARK] = True

    def after_call(self, parsed: Any, **_: Any) -> None:
        """Check whether the mark arrived, and whether the final response is damaged."""
        if not self._proved:
            self._proved = parsed.pop(_MARK, False)
        if parsed.pop(_DAMAGED, False):
            raise DamagedAnswer("the response is not from DynamoDB, or not complete")


_MEMBERS: Final[Mapping[str, Mapping[str, type]]] = {
    "GetItem": {"Item": dict},
    "PutItem": {"Attributes": dict, "ItemCollectionMetrics": dict},
    "UpdateItem": {"Attributes": dict, "ItemCollectionMetrics": dict},
    "DeleteItem": {"Attributes": dict, "ItemCollectionMetrics": dict},
    "Query": {"Items": list, "Count": int, "ScannedCount": int, "LastEvaluatedKey": dict},
    "Scan": {"Items": list, "Count": int, "ScannedCount": int, "LastEvaluatedKey": dict},
    "BatchGetItem": {"Responses": dict, "UnprocessedKeys": dict},
    "BatchWriteItem": {"UnprocessedItems": dict, "ItemCollectionMetrics": dict},
    "TransactGetItems": {"Responses": list},
    "TransactWriteItems": {"ItemCollectionMetrics": dict},
    "DescribeTable": {"Table": dict},
    "CreateTable": {"TableDescription": dict},
    "UpdateTable": {"TableDescription": dict},
    "DeleteTable": {"TableDescription": dict},
    "DescribeTimeToLive": {"TimeToLiveDescription": dict},
    "UpdateTimeToLive": {"TimeToLiveSpecification": dict},
    "ListTables": {"TableNames": list, "LastEvaluatedTableName": str},
}
"""The members of responses and their types, from the API Reference. ConsumedCapacity is in all of them."""


def json_of(operation: str, headers: Mapping[str, str], body: bytes) -> Any:
    """The decoded body of a response that is not an error.

    Args:
        operation: the operation of the API.
        headers: the headers; their names are compared without case.
        body: the body.

    Raises:
        DamagedAnswer: it is not complete, or not from DynamoDB.
    """
    decoded: Any = _decoded({"headers": headers, "body": body})
    members = _MEMBERS.get(operation)
    if type(decoded) is dict and (members is None or not decoded):
        return decoded
    if type(decoded) is dict and members is not None:
        known = [name for name in decoded if name in members or name == "ConsumedCapacity"]
        if known and all(isinstance(decoded[name], members.get(name, dict | list) | None) for name in known):
            return decoded
    raise DamagedAnswer("the response is not from DynamoDB, or not complete")


def error_of(status: int, headers: Mapping[str, str], body: bytes) -> dict[str, Any]:
    """The error that a response reports, as botocore's ClientError holds it.

    Args:
        status: the HTTP status.
        headers: the headers; their names are compared without case.
        body: the body. If it is not as DynamoDB's, the error code is the status.
    """
    try:
        decoded = json.loads(body)
    except ValueError:
        decoded = {"message": body.decode(errors="replace")}
    if type(decoded) is not dict or not _is_error(decoded):
        decoded = {}
    message = decoded.get("message", decoded.get("Message", ""))
    code = decoded.get("__type", str(status)).partition(":")[0].rpartition("#")[2]
    lower = {name.lower(): value for name, value in headers.items()}
    metadata: dict[str, Any] = {"HTTPStatusCode": status, "HTTPHeaders": lower}
    if "x-amzn-requestid" in lower:
        metadata["RequestId"] = lower["x-amzn-requestid"]
    return {**decoded, "Error": {"Code": code, "Message": message}, "ResponseMetadata": metadata}


def _is_error(decoded: Mapping[str, Any]) -> bool:
    """Whether the members of an error have the types that DynamoDB gives them."""
    texts = (decoded.get(name, "") for name in ("__type", "message", "Message"))
    reasons = [decoded.get(name) or [] for name in ("CancellationReasons", "ThrottlingReasons", "throttlingReasons")]
    return (
        all(isinstance(text, str) for text in texts)
        and _is_item(decoded.get("Item"))
        and all(type(some) is list and all(type(one) is dict for one in some) for some in reasons)
        and all(
            isinstance(reason.get("Code"), str | None)
            and isinstance(reason.get("Message"), str | None)
            and _is_item(reason.get("Item"))
            for reason in reasons[0]
        )
    )


def _is_item(value: Any) -> bool:
    """Whether this is None, or the attributes of an item."""
    return value is None or (type(value) is dict and all(map(_is_attribute, value.values())))


def _is_attribute(value: Any) -> bool:
    """Whether this is an AttributeValue of the API Reference."""
    if type(value) is not dict or len(value) != 1:
        return False
    tag: Any
    inner: Any
    [(tag, inner)] = value.items()
    match tag:
        case "S" | "N" | "B":
            return type(inner) is str
        case "SS" | "NS" | "BS":
            return type(inner) is list and all(type(one) is str for one in inner)
        case "L":
            return type(inner) is list and all(map(_is_attribute, inner))
        case "M":
            return type(inner) is dict and all(map(_is_attribute, inner.values()))
        case _:
            return tag in ("BOOL", "NULL") and type(inner) is bool


def _is_foreign(shape: Any, decoded: Mapping[str, Any]) -> bool:
    """Whether a response has members, but none that DynamoDB returns."""
    return bool(decoded) and shape.members.keys().isdisjoint(decoded)


def _is_readable_error(model: Any, body: bytes) -> bool:
    """Whether botocore's parser can read an error response: it fails on JSON that is not as its model says."""
    try:
        decoded = json.loads(body.decode())
    except UnicodeDecodeError:
        return False
    except ValueError:
        return True  # no JSON: the whole body becomes the message
    if type(decoded) is not dict:
        return False
    names = ("__type", "message", "Message")
    if not all(isinstance(decoded.get(name, ""), str) for name in names):
        return False
    code = decoded.get("__type", "").rpartition("#")[2].partition(":")[0]
    shape = model.shape_for_error_code(code)
    return shape is None or _fits(shape, decoded)


_PYTHON: Final[Mapping[str, tuple[type, ...]]] = {
    "string": (str,),
    "blob": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
}
"""The types of decoded JSON, by the type of botocore's model; a blob is base64."""


def _fits(shape: Any, value: Any) -> bool:
    """Whether decoded JSON has the types of botocore's model, as far as it names its members."""
    if value is None:
        return True
    match shape.type_name:
        case "structure":
            return type(value) is dict and all(
                _fits(shape.members[name], part) for name, part in value.items() if name in shape.members
            )
        case "list":
            return type(value) is list and all(_fits(shape.member, part) for part in value)
        case "map":
            return type(value) is dict and all(_fits(shape.value, part) for part in value.values())
        case kind:
            return isinstance(value, _PYTHON.get(kind, (object,)))


def _decoded(response: Any) -> Any:
    """The decoded body of a response; None if it is damaged or not JSON."""
    body, checksum = response["body"], response["headers"].get("x-amz-crc32")
    if checksum is not None and str(crc32(body)) != checksum:
        return None
    try:
        return from_json(body, cache_strings="keys")
    except ValueError:  # not JSON, or with lone surrogates, which only the standard library accepts
        try:
            return json.loads(body)
        except ValueError:
            return None
