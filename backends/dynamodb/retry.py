"""How long the clients wait for an answer and how often they send a request: botocore's settings from the user's."""

import os
from typing import TYPE_CHECKING, Any, Final

from odm.backends.dynamodb.profiles import configuration_of
from odm.protocol.connection import RetryPolicy

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config

ATTEMPTS: Final = 7
"""How often a request is sent where nobody says otherwise: with botocore's pauses for DynamoDB, 3 seconds of them.

Its own 10 make 26 seconds, which a service that is not there takes to say so.
"""


def attempts_of(policy: RetryPolicy) -> int:
    """How often odm itself sends a request in all."""
    return ATTEMPTS if policy.retries is None else policy.retries + 1


def config_of(given: "Config | None", session: "boto3.Session", policy: RetryPolicy, *, once: bool) -> "Config":
    """The settings of a client.

    Args:
        given: the user's, which are kept where nothing else is said.
        session: of the user.
        policy: what a store asks for.
        once: the client must send nothing again by itself.
    """
    from botocore.config import Config

    given = given or Config()
    changes: dict[str, Any] = {}
    if policy.timeout is not None:
        changes = {"connect_timeout": policy.timeout, "read_timeout": policy.timeout}
    retries: dict[str, Any] = getattr(given, "retries", None) or {}
    if once or policy.retries is not None or not (retries or _is_configured(session)):
        most = 1 if once else attempts_of(policy)
        # The user's retry mode stays: "adaptive" also limits the rate. Of two numbers botocore takes the total.
        changes["retries"] = {**retries, "total_max_attempts": most}
    return given.merge(Config(**changes))


def _is_configured(session: "boto3.Session") -> bool:
    """Whether the environment or the profile says how often to try."""
    if "AWS_MAX_ATTEMPTS" in os.environ or "AWS_RETRY_MODE" in os.environ:
        return True
    profile = configuration_of(session).get_scoped_config()
    return "max_attempts" in profile or "retry_mode" in profile
