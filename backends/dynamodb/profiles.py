"""The profile of a boto3 session. It is passed to botocore, because boto3 does not expose its configuration."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import boto3
    from botocore.session import Session


def profile_of(session: "boto3.Session") -> str | None:
    """The name of the session's profile; None if it does not exist."""
    # Without a profile, boto3 reports "default", and botocore rejects a name that does not exist.
    return session.profile_name if session.profile_name in session.available_profiles else None


def configuration_of(session: "boto3.Session") -> "Session":
    """A botocore session that reads the same files and environment."""
    from botocore.session import Session

    return Session(profile=profile_of(session))
