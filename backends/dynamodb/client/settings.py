"""The settings of a session: its profile, which boto3 does not expose, and those of the environment alone.

botocore's session takes longer to import and create than the rest of the first request. Where no other place has
settings, and no library can have changed what a new session does, the environment alone says the same: `environment_of`
looks for that. Tests compare the routes of both.
"""

import os
import sys
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from odm.immutable import Immutable, field

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


_VARIABLES: Final = {
    "ca_bundle": "AWS_CA_BUNDLE",
    "region": "AWS_DEFAULT_REGION",
    "user_agent_appid": "AWS_SDK_UA_APP_ID",
}
"""The variables of botocore's settings that are followed here."""

_KNOWN: Final = frozenset(
    {
        *_VARIABLES.values(),
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_ACCOUNT_ID",
        "AWS_ENDPOINT_URL",
        "AWS_ENDPOINT_URL_DYNAMODB",
        # botocore does not read these.
        "AWS_EXECUTION_ENV",
        "AWS_REGION",
    }
)
"""Another variable of AWS needs botocore's session, except those that Lambda and X-Ray set for themselves."""

_OF_LAMBDA: Final = ("AWS_LAMBDA_", "AWS_XRAY_")

_FILES: Final = ("~/.aws/config", "~/.aws/credentials")
"""The files that botocore reads if no variable names others."""


class Keys(Immutable):
    """Credentials that do not change, with the names of botocore's."""

    access_key: str
    secret_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    account_id: str | None = None

    def get_frozen_credentials(self) -> "Keys":
        return self


class Environment(Immutable):
    """The part of a botocore session that the lean transport needs."""

    def get_credentials(self) -> Keys:
        """The credentials in the environment; `environment_of` has seen them."""
        get = os.environ.get
        keys = os.environ["AWS_ACCESS_KEY_ID"], os.environ["AWS_SECRET_ACCESS_KEY"]
        return Keys(*keys, get("AWS_SESSION_TOKEN") or None, get("AWS_ACCOUNT_ID") or None)

    def get_config_variable(self, name: str) -> str | None:
        """The value of a setting; None: botocore's default."""
        return os.environ.get(_VARIABLES.get(name, ""))

    def get_scoped_config(self) -> dict[str, Any]:
        """The profile, which is empty."""
        return {}

    @property
    def full_config(self) -> dict[str, Any]:
        """The files, which are not there."""
        return {}


def environment_of(profile: str | None) -> Environment | None:
    """The environment, if a new botocore session would find its settings nowhere else; otherwise None.

    Args:
        profile: the profile that the user names.
    """
    if "botocore.session" in sys.modules:
        return None  # it is loaded, and a library such as moto may have changed what new sessions do
    given = os.environ
    if profile is not None or not given.get("AWS_ACCESS_KEY_ID") or not given.get("AWS_SECRET_ACCESS_KEY"):
        return None
    for name in given:
        if name.startswith(("AWS_", "BOTO")) and name not in _KNOWN and not name.startswith(_OF_LAMBDA):
            return None
    # Not by Path, which raises where there is no home, or one that may not be read; botocore goes on.
    files = any(os.path.exists(os.path.expanduser(path)) for path in _FILES)  # noqa: PTH110, PTH111
    return None if files else Environment()
