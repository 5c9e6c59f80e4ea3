"""botocore's exceptions → `odm.errors`, in one table.

The first matching row decides. If the response to a write was lost, the error is `OutcomeUnknown`. `retry` asks here
which failures may be retried.
"""

from collections.abc import Mapping, Sequence
from textwrap import shorten
from traceback import walk_tb
from typing import Any

from odm.errors import (
    BackendError,
    BadCursor,
    BadValue,
    ItemTooLarge,
    KeyValueError,
    OdmError,
    OutcomeUnknown,
    TableNotFound,
    Throttled,
)
from odm.immutable import Immutable
from odm.protocol.requests import Operation, Request, repeatable, writes


class _Row(Immutable):
    """A kind of failure.

    Attributes:
        kinds: error codes of the service, names of botocore's exception classes (base classes match too), "5xx",
            "unsent", "foreign" or "credentials".
        error: the class of the error that the user gets.
        advice: what to do; ``{table}`` is the table's name, ``{index}`` that of the queried index.
        said: text that the service's message must contain.
        lost: the request may have been applied despite the error.
    """

    kinds: frozenset[str]
    error: type[OdmError]
    advice: str
    said: str = ""
    lost: bool = False


def _row(kinds: str, error: type[OdmError], advice: str, said: str = "", lost: bool = False) -> _Row:
    return _Row(frozenset(kinds.split()), error, advice, said, lost)


CONFLICTS = "TransactionConflictException ReplicatedWriteConflictException"
"""A transaction, or another region, is writing the item."""

BUSY = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
"""Codes of temporary CancellationReasons of a transaction."""

CONDITION_FAILED = "ConditionalCheckFailedException"
TABLE_IN_USE = "ResourceInUseException"
TABLE_MISSING = "ResourceNotFoundException"
LIMIT_EXCEEDED = "LimitExceededException"
ITERATOR_EXPIRED = "ExpiredIteratorException"
CHANGES_TRIMMED = "TrimmedDataAccessException"
FORBIDDEN = ("AccessDeniedException", "AccessDenied")

INVALID = "ValidationException"
_THROTTLED = (
    "ProvisionedThroughputExceededException ThrottlingException Throttling ThrottledException "
    "RequestLimitExceeded RequestThrottledException TooManyRequestsException LimitExceededException 429"
)
_REFUSED = (
    "AccessDeniedException AccessDenied UnrecognizedClientException InvalidClientTokenId InvalidSignatureException "
    "SignatureDoesNotMatch IncompleteSignature ExpiredTokenException ExpiredToken MissingAuthenticationTokenException "
    "MissingAuthenticationToken"
)
_NO_CREDENTIALS = (
    "NoCredentialsError PartialCredentialsError CredentialRetrievalError TokenRetrievalError NoAuthTokenError "
    "UnknownCredentialError SSOError LoginError ProfileNotFound"
)
_NO_ENDPOINT = "BaseEndpointResolverError EndpointProviderError InvalidRegionError InvalidEndpointConfigurationError"

_SERVER_FAULT, _UNSENT, _FOREIGN, _CREDENTIALS = "5xx", "unsent", "foreign", "credentials"

_LASTING = (
    "PartialCredentialsError UnknownCredentialError InvalidConfigError ProfileNotFound ConfigParseError ConfigNotFound "
    "SSOError LoginError NoAuthTokenError RefreshWithMFAUnsupportedError MissingDependencyException "
    "NotImplementedError FileNotFoundError PermissionError"
)
"""The exceptions of sources of credentials that another attempt does not help against: a person has to do something."""

_SOURCES_OF_CREDENTIALS = ("botocore.credentials", "botocore.tokens", "odm.backends.dynamodb.client.sessions")
"""The modules that load and refresh credentials."""

_NO_CONNECTION = frozenset(
    {"NewConnectionError", "gaierror", "ClientConnectorError", "ClientConnectorCertificateError", "Unconnected"}
)
"""The errors of urllib3, the resolver, aiohttp and `http_messages` when a connection cannot be established."""

OTHER_KEY = (
    "the key attributes of table {table!r} or of an index differ from those of the models (run odm plan): name them in "
    "Table(..., keys=..., index_keys=...), or use another table"
)
CHANGES_LOST = (
    "changes were lost, because a stream keeps them for 24 hours: build what was made of the feed again from the "
    "table, and read the feed from its start"
)
_NO_PARENT, _NO_ATTRIBUTE = "document path", "does not exist in the item"
_NO_TABLE = "table {table!r} does not exist in this account and region: call store.create()"
_NO_INDEX = "index {index!r} of table {table!r} does not exist: call store.create()"

_TABLE = (
    _row(TABLE_MISSING, BackendError, _NO_INDEX, "Invalid index"),  # moto's message
    _row(INVALID, BackendError, _NO_INDEX, "specified index"),
    _row(TABLE_MISSING, TableNotFound, _NO_TABLE),
    _row(CHANGES_TRIMMED, BadCursor, CHANGES_LOST),
    _row(
        INVALID,
        ItemTooLarge,
        "keep the item within 400 KB: split it, or store large values elsewhere",
        "Item size",
    ),
    _row(INVALID, KeyValueError, "make the partition key at most 2,048 bytes long", "Size of hashkey"),
    _row(INVALID, KeyValueError, "make the sort key at most 1,024 bytes long", "size of all range keys"),
    _row(INVALID, BadCursor, "start again without the cursor: it is not a position in this query", "starting key"),
    _row(INVALID, BadCursor, "pass a position of this shard, as a page of changes returned it", "equenceNumber"),
    _row(INVALID, BackendError, OTHER_KEY, "element does not match the schema"),
    _row(INVALID, BackendError, OTHER_KEY, "Missing the key"),
    _row(INVALID, BackendError, OTHER_KEY, "missed key schema element"),
    _row(INVALID, BackendError, OTHER_KEY, "required keys was not given"),  # DynamoDB Local's message
    _row(INVALID, BackendError, OTHER_KEY, "conditions on the keys"),  # its message for a table without a sort key
    _row(INVALID, BackendError, OTHER_KEY, "key condition not supported"),
    _row(INVALID, BackendError, OTHER_KEY, "does not match schema type"),
    _row(INVALID, BackendError, OTHER_KEY, "mismatch for key"),
    _row(INVALID, BackendError, OTHER_KEY, "mismatch for Index Key"),
    _row(INVALID, BadValue, "set the parent of the path first: it is missing, or not a map or list", _NO_PARENT),
    _row(INVALID, BadValue, "set the attribute first: the path does not exist", _NO_ATTRIBUTE),
    _row(INVALID, BadValue, "use an action that fits the type of the stored attribute", "incorrect data type"),
    _row(INVALID, BadValue, "use an action that fits the type of the stored attribute", "Type mismatch"),
    _row(INVALID, BadValue, "use an action that fits the type of the stored attribute", "Incorrect operand type"),
    _row(INVALID, BadValue, "keep numbers to 38 digits, 1E-130 to 9.9E125 in size", "significant digits"),
    _row(INVALID, BadValue, "keep numbers to 38 digits, 1E-130 to 9.9E125 in size", "precision up to"),
    _row(INVALID, BadValue, "keep numbers to 38 digits, 1E-130 to 9.9E125 in size", "magnitude"),
    _row(INVALID, BadValue, "keep the keys of dicts to 65,535 bytes", "name is too large"),
    _row(INVALID, BadValue, "use fewer or smaller values in conditions and actions", "Expression size"),
    _row(_THROTTLED, Throttled, "try again later, or spread the load over more partitions"),
    _row(INVALID, ItemTooLarge, "split the work into several transactions", "payload size"),
    _row(INVALID, ItemTooLarge, "split the work into several transactions", "aggregate size of the items"),
    _row(INVALID, ItemTooLarge, "read fewer items at a time", "Payload in response is too large"),
    _row(CONFLICTS, Throttled, "a transaction or another region is writing the same item: try again"),
    _row("TransactionInProgressException", BackendError, "DynamoDB is still processing it", lost=True),
    _row(_REFUSED, BackendError, "check the credentials and their permissions on table {table!r}"),
    _row(_NO_CREDENTIALS, BackendError, "configure AWS credentials, or pass DynamoDB(session=boto3.Session(...))"),
    _row(
        _CREDENTIALS,
        BackendError,
        "the AWS credentials cannot be loaded or refreshed, so nothing was sent: check the source that the environment "
        "or profile names",
    ),
    _row(_NO_ENDPOINT, BackendError, "name the AWS region: DynamoDB(region='eu-west-1'), or AWS_DEFAULT_REGION"),
    _row(_UNSENT, BackendError, "check the network, region and endpoint_url"),
    _row("ConnectionError HTTPClientError", BackendError, "check the network, region and endpoint_url", lost=True),
    _row(
        "ChecksumError IncompleteReadError DamagedAnswer",
        BackendError,
        "the response arrived damaged: check the network, endpoint_url, and any proxy in between",
        lost=True,
    ),
    _row(_SERVER_FAULT, BackendError, "try again later", lost=True),
    _row(_FOREIGN, BackendError, "the response is not from DynamoDB: check endpoint_url, and any proxy in between"),
)
_ELSE = _row("", BackendError, "DynamoDB rejected it for the reason given here")


class DamagedAnswer(Exception):
    """A response has a success status, but its body is not a complete response of DynamoDB."""


MALFORMED = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What reading a response raises if it lacks a part, or a part has another type."""


def code_of(error: BaseException) -> str:
    """The service's error code; "" if the error is not a response of the service."""
    return str(_response(error).get("Error", {}).get("Code", ""))


def is_throttled(error: BaseException) -> bool:
    """Whether the service throttled the request."""
    return code_of(error) in _THROTTLED.split()


def is_without_parent(error: Exception) -> bool:
    """Whether an update was rejected because the parent of a path does not exist, or is not a map or list."""
    return _row_of(error).said in (_NO_PARENT, _NO_ATTRIBUTE)


def is_conflict(error: BaseException) -> bool:
    """Whether the request was rejected because a transaction or another region is writing one of its items."""
    return code_of(error) in CONFLICTS.split()


def is_busy(error: BaseException) -> bool:
    """Whether the only reasons of a cancelled transaction are throttling, and other writers of the same items."""
    codes = {reason.get("Code") for reason in reasons_of(error)} - {"None"}
    return bool(codes) and codes <= BUSY


def did_nothing(error: Exception) -> bool:
    """Whether the request certainly had no effect and may be sent again: throttled, in conflict, or never sent."""
    if is_of_credentials(error):
        return _may_be_refreshed(error)
    row = _row_of(error)
    return row.error is Throttled or _UNSENT in row.kinds or is_busy(error)


def is_lost(error: Exception) -> bool:
    """Whether the request may have been applied although its response was lost."""
    return _row_of(error).lost


def reasons_of(error: BaseException) -> Sequence[Mapping[str, Any]]:
    """The CancellationReasons of a transaction, one mapping per operation, in order; empty for any other error."""
    reasons: Sequence[Mapping[str, Any]] = _response(error).get("CancellationReasons", ())
    return reasons


def misfit(message: str, operation: Operation, table: str) -> BadValue | None:
    """The error for an operation of a transaction that is not valid for the stored item; None for other messages.

    Args:
        message: the Message of its CancellationReason.
        operation: the operation.
        table: the table's name.
    """
    row = next((row for row in _TABLE if INVALID in row.kinds and row.said in message), _ELSE)
    if not issubclass(row.error, BadValue):
        return None
    return row.error(f"{type(operation).__name__} on table {table!r}, {operation.key}: {row.advice} ({message})")


def translated(error: Exception, request: Request, table: str) -> OdmError | None:
    """The error that the user gets in place of a native one; None if it is not an error of the client.

    Args:
        error: the exception that the native request raised.
        request: the request of the core.
        table: the table's name.
    """
    if isinstance(error, OdmError):  # for example because botocore is not installed
        return None
    from botocore.exceptions import BotoCoreError, ClientError

    if not isinstance(error, BotoCoreError | ClientError | DamagedAnswer) and not is_of_credentials(error):
        return None
    row, key = _row_of(error), getattr(request, "key", None)
    place = f"{type(request).__name__} on table {table!r}" + (f", {key}" if key else "")
    advice = row.advice.format(table=table, index=getattr(request, "index", None))
    if row.lost and writes(request):
        safe = "it can safely be repeated" if repeatable(request) else "read the item before you write again"
        return OutcomeUnknown(
            f"{place}: the response was lost, and the write may or may not have been applied: {safe}; {advice} "
            f"({_said(error)})"
        )
    return row.error(f"{place}: {advice} ({_said(error)}{hot_spots(error)})")


def _said(error: Exception) -> str:
    """The message of the error, with those of invalid operations; an HTML page is cut to 300 characters."""
    if code_of(error).isdecimal():
        return shorten(str(error), 300)
    return "; ".join((str(error), *_invalid(error)))


def _invalid(error: BaseException) -> list[str]:
    """The messages of the operations of a transaction that are not valid."""
    return [reason.get("Message", "") for reason in reasons_of(error) if reason.get("Code") == "ValidationError"]


def hot_spots(error: BaseException) -> str:
    """The throttled table or index, and the reason, if the service reports them."""
    answer = _response(error)
    reasons = answer.get("ThrottlingReasons") or answer.get("throttlingReasons", [])  # lower case: ThrottlingException
    return "".join(f"; {reason.get('reason')} at {reason.get('resource')}" for reason in reasons)


def is_of_credentials(error: BaseException) -> bool:
    """Whether credentials could not be loaded or refreshed: nothing was sent then, whatever the exception is.

    botocore has no exception for it: sources raise those of files, of JSON, of other services, and a RuntimeError if
    refreshed credentials have expired. The place where it was raised makes the difference.
    """
    frames = (frame for frame, _ in walk_tb(error.__traceback__))
    return any(frame.f_globals.get("__name__") in _SOURCES_OF_CREDENTIALS for frame in frames)


def _may_be_refreshed(error: Exception) -> bool:
    """Whether credentials may be there at another attempt."""
    if not {base.__name__ for base in type(error).__mro__}.isdisjoint(_LASTING.split()):
        return False
    status = _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    return bool(status >= 500 or is_throttled(error))


def _row_of(error: Exception) -> _Row:
    if is_of_credentials(error):
        kinds = {_CREDENTIALS, *(base.__name__ for base in type(error).__mro__)}
        return next(row for row in _TABLE if row.kinds & kinds)
    code, status = code_of(error), _response(error).get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    kinds = {code} if code else {base.__name__ for base in type(error).__mro__}
    if status >= 500:
        kinds.add(_SERVER_FAULT)
    if code.isdecimal():  # the response has no error code, so botocore reports its HTTP status
        kinds.add(_FOREIGN)
    if _is_unsent(error):
        kinds.add(_UNSENT)
    if _invalid(error):
        kinds.add(INVALID)
    said = _said(error)
    return next((row for row in _TABLE if row.kinds & kinds and row.said in said), _ELSE)


def _is_unsent(error: Exception) -> bool:
    """Whether the request was certainly not sent, because no connection was established."""
    kinds = {base.__name__ for base in type(error).__mro__}
    beneath = getattr(error, "kwargs", {}).get("error")
    if kinds.isdisjoint(("EndpointConnectionError", "SSLError")):
        return not kinds.isdisjoint(("ConnectTimeoutError", "ProxyConnectionError"))
    # aiobotocore also raises the first when an open connection breaks; the underlying error makes the difference.
    if not _NO_CONNECTION.isdisjoint(base.__name__ for base in type(beneath).__mro__):
        return True
    return any(_in_handshake(one) for one in (beneath, *getattr(beneath, "args", ())))


def _in_handshake(error: object) -> bool:
    """Whether an error was raised by Python's TLS handshake, before anything else was sent."""
    frames = walk_tb(error.__traceback__ if isinstance(error, BaseException) else None)
    return any(frame.f_code.co_name == "do_handshake" for frame, _ in frames)


def _response(error: BaseException) -> dict[str, Any]:
    # Only botocore's ClientError carries a mapping here; botocore may not even be installed.
    response = getattr(error, "response", None)
    return response if isinstance(response, dict) else {}
