"""The profile of a boto3 session, for what is asked of botocore beside it: boto3 shows none of its configuration."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import boto3
    from botocore.session import Session


def profile_of(session: "boto3.Session") -> str | None:
    """The name of its profile; None where there is none."""
    # boto3 says "default" when none is named, and botocore wants one that is named to exist.
    return session.profile_name if session.profile_name in session.available_profiles else None


def configuration_of(session: "boto3.Session") -> "Session":
    """A botocore session that reads the same files and environment."""
    from botocore.session import Session

    return Session(profile=profile_of(session))
