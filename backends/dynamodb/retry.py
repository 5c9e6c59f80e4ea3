"""Timeouts and retries: the user's settings → botocore's."""

import os
from typing import TYPE_CHECKING, Any, Final

from odm.backends.dynamodb.profiles import configuration_of
from odm.protocol.connection import RetryPolicy

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

ATTEMPTS: Final = 7
"""The default number of attempts. With botocore's backoff for DynamoDB, they take 3 seconds.

botocore's own default of 10 attempts takes 26 seconds, too long to report that a service is not reachable.
"""


def attempts_of(policy: RetryPolicy) -> int:
    """The total number of attempts for a request that odm itself retries."""
    return ATTEMPTS if policy.retries is None else policy.retries + 1


def config_of(given: "Config | None", session: "boto3.Session", policy: RetryPolicy, *, once: bool) -> "Config":
    """The settings of a client.

    Args:
        given: the user's config; its settings stay unless the policy or ``once`` overrides them.
        session: the user's session.
        policy: the retry policy of the store.
        once: the client must not retry by itself.
    """
    from botocore.config import Config

    given = given or Config()
    changes: dict[str, Any] = {}
    if policy.timeout is not None:
        changes = {"connect_timeout": policy.timeout, "read_timeout": policy.timeout}
    retries: dict[str, Any] = getattr(given, "retries", None) or {}
    if once or policy.retries is not None or not (retries or _is_configured(session)):
        most = 1 if once else attempts_of(policy)
        # Keeps the user's retry mode: "adaptive" also limits the rate. botocore prefers total_max_attempts.
        changes["retries"] = {**retries, "total_max_attempts": most}
    return given.merge(Config(**changes))


def _is_configured(session: "boto3.Session") -> bool:
    """Whether the environment or the profile configures retries."""
    if "AWS_MAX_ATTEMPTS" in os.environ or "AWS_RETRY_MODE" in os.environ:
        return True
    profile = configuration_of(session).get_scoped_config()
    return "max_attempts" in profile or "retry_mode" in profile
