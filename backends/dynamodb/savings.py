"""Client settings that make each botocore call cheaper."""

import platform
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from botocore.config import Config
    from botocore.session import Session

    from odm.backends.dynamodb.environment import Environment


def saving(given: "Config | None", configuration: "Session") -> "Config":
    """The user's config, with two cheaper defaults: no parameter validation, and a fixed user agent.

    odm sends valid parameters, so validation is not needed. botocore would build its user agent twice per call.
    """
    from botocore.config import Config

    given = given or Config()
    # The class of the given config, because aiobotocore's has additional options. Given settings take precedence.
    cheaper = type(given)(parameter_validation=False, user_agent=user_agent(given, configuration)).merge(given)
    return given.merge(cheaper)  # old versions of aiobotocore lose their options in the opposite order


def user_agent(given: "Config | None", configuration: "Session | Environment") -> str:
    """The constant part of botocore's user agent. botocore appends the user agent extras, but not the app ID."""
    import botocore

    app = getattr(given, "user_agent_appid", None)
    app = app or configuration.get_config_variable("user_agent_appid")
    parts = (
        f"Botocore/{botocore.__version__}",
        f"os/{platform.system().lower()}#{platform.release()}",
        f"lang/python#{platform.python_version()}",
        "lib/odm",
        f"app/{app}" if app else "",
    )
    return " ".join(filter(None, parts))
