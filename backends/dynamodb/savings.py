"""What makes a client's calls cheaper, in the user's settings: what botocore would do at every call, and need not."""

import platform
from typing import TYPE_CHECKING

from odm.backends.dynamodb.profiles import configuration_of

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


def saving(given: "Config | None", session: "boto3.Session") -> "Config":
    """The user's config, and where it does not say otherwise, no validation of parameters and a made user agent.

    What is sent is valid as it is made here; and botocore puts its user agent together anew, twice a call.
    """
    from botocore.config import Config

    given = given or Config()
    # Of the class given: aiobotocore has one of its own, with options of its own. What was given wins.
    cheaper = type(given)(parameter_validation=False, user_agent=_user_agent(given, session)).merge(given)
    return given.merge(cheaper)  # old versions of aiobotocore keep its options only this way round


def _user_agent(given: "Config", session: "boto3.Session") -> str:
    """What botocore says of itself that stays the same; it adds the extra of session and config, not the app's id."""
    import botocore

    app = getattr(given, "user_agent_appid", None)
    app = app or configuration_of(session).get_config_variable("user_agent_appid")
    parts = (
        f"Botocore/{botocore.__version__}",
        f"os/{platform.system().lower()}#{platform.release()}",
        f"lang/python#{platform.python_version()}",
        "lib/odm",
        f"app/{app}" if app else "",
    )
    return " ".join(filter(None, parts))
