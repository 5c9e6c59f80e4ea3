"""Timeouts and retries. botocore sends each request once, and odm sends it again: so every attempt is reported.

`sent_again` decides whether a failed request is sent again. It sees every attempt, so it knows that an earlier one may
have been applied. botocore's own retries would report the last failure alone.
"""

import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from odm.backends.dynamodb.client.errors import LIMIT_EXCEEDED, code_of, did_nothing, is_busy, is_lost, reasons_of
from odm.backends.dynamodb.client.native import STREAM_READS, WRITES, Call, Native, Steps, backoff
from odm.backends.dynamodb.client.settings import configuration_of
from odm.protocol.connection import RetryPolicy

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


Attempts: TypeAlias = Callable[[], int]
"""Returns the most attempts at a request. It is called after a failure only, because the settings of boto3 count."""

ATTEMPTS: Final = 7
"""The default number of attempts. With the pauses of `backoff` they take 3 seconds on average, 6.3 at most."""

_OF_MODE: Final = {"standard": 3, "adaptive": 3, "legacy": 10}
"""botocore's numbers of attempts at a request to DynamoDB, for a retry mode that is configured without a number."""

RETRY_SECONDS: Final = 9 * 60
"""How long a request is sent again: the token of a transaction is valid for 10 minutes (AWS: TransactWriteItems,
ClientRequestToken)."""


def attempts_of(given: "Config | None", session: "boto3.Session", policy: RetryPolicy) -> int:
    """The total number of attempts at a request.

    Args:
        given: the user's config. It takes precedence over the environment and the profile.
        session: the user's session.
        policy: the retry policy of the store, which takes precedence over both.
    """
    retries: dict[str, Any] = getattr(given, "retries", None) or {}
    configuration = configuration_of(session)
    if policy.retries is not None:
        return policy.retries + 1
    if "total_max_attempts" in retries:
        return int(retries["total_max_attempts"])
    if "max_attempts" in retries:
        return int(retries["max_attempts"]) + 1  # in a config, botocore counts the retries
    if (most := configuration.get_config_variable("max_attempts")) is not None:
        return int(most)
    mode = retries.get("mode")
    if mode is None and ("AWS_RETRY_MODE" in os.environ or "retry_mode" in configuration.get_scoped_config()):
        mode = configuration.get_config_variable("retry_mode")
    return _OF_MODE.get(str(mode), ATTEMPTS)


def config_of(given: "Config | None", timeout: float | None) -> "Config":
    """The settings of a client that sends each request once.

    Args:
        given: the user's config; its settings stay, with the retry mode: "adaptive" also limits the rate.
        timeout: the store's timeout in seconds; None: that of the config.
    """
    from botocore.config import Config

    given = given or Config()
    # botocore prefers total_max_attempts to max_attempts.
    retries = {**(getattr(given, "retries", None) or {}), "total_max_attempts": 1}
    changes: dict[str, Any] = {"retries": retries}
    if timeout is not None:
        changes |= {"connect_timeout": timeout, "read_timeout": timeout}
    return given.merge(Config(**changes))


def sent_again(call: Native, error: Exception, started: float, attempts: Attempts) -> Steps[Any]:
    """Send a failed request again while that is safe and may help.

    Args:
        call: the request.
        error: the failure of its first attempt.
        started: the wall-clock time of its first attempt: a process that was suspended for an hour must not send the
            token of a transaction again.
        attempts: the most attempts, including the first.

    Returns:
        The response of the service.

    Raises:
        Exception: the failure of the last attempt; of a write, the first one after which it may have been applied.
    """
    if not isinstance(call, Call):
        raise error
    failures, lost = 1, None
    while True:
        if lost is None and call.operation in WRITES and is_lost(error):
            lost = error
        if not _may_pass(call, error) or failures >= attempts() or time.time() - started >= RETRY_SECONDS:
            # A later failure says nothing about the outcome of the attempt whose response was lost.
            raise error if lost is None or _is_verdict(error) else lost
        yield backoff(failures, code_of(error) or type(error).__name__)
        try:
            return (yield call)
        except Exception as another:  # noqa: BLE001  # judged above
            error, failures = another, failures + 1


def _may_pass(call: Call, error: Exception) -> bool:
    """Whether the request can be sent again without harm, and may succeed then."""
    # Too many tables or indexes are being changed, and `tables` waits longer. Of a stream, it is throttling.
    if code_of(error) == LIMIT_EXCEEDED and call.operation not in STREAM_READS:
        return False
    return did_nothing(error) or (is_lost(error) and not call.once)


def _is_verdict(error: Exception) -> bool:
    """Whether it is the outcome of a transaction: under its token, DynamoDB judges each attempt as it did the first."""
    return bool(reasons_of(error)) and not is_busy(error)
