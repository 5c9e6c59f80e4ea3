"""The profile of a boto3 session. It is passed to botocore, because boto3 does not expose its configuration."""

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    import boto3
    from botocore.session import Session


_CONFIGURATIONS: "WeakKeyDictionary[boto3.Session, Session]" = WeakKeyDictionary()
"""The cached configuration of each session. Reading the files takes about 6 ms, and each new client needs them."""


def profile_of(session: "boto3.Session") -> str | None:
    """The name of the session's profile; None if it does not exist."""
    # Without a profile, boto3 reports "default", and botocore rejects a name that does not exist.
    return session.profile_name if session.profile_name in session.available_profiles else None


def configuration_of(session: "boto3.Session") -> "Session":
    """A botocore session that reads the same files and environment. Like boto3's, it reads the files once."""
    found = _CONFIGURATIONS.get(session)
    if found is None:
        from botocore.session import Session

        found = _CONFIGURATIONS.setdefault(session, Session(profile=profile_of(session)))
    return found
