"""The address of DynamoDB, without botocore's model of the service, which takes longer to load than a request.

The names of hosts are those of botocore's rules for DynamoDB; tests compare them for every region and variant.
"""

import os
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from odm.immutable import Immutable

if TYPE_CHECKING:
    from botocore.session import Session

    from odm.backends.dynamodb.client.settings import Environment


_PARTITIONS: Final = tuple(
    (re.compile(rf"{regions}-\w+-\d+", re.ASCII), suffix, dual)
    for regions, suffix, dual in (
        ("(us|eu|ap|sa|ca|me|af|il|mx)", "amazonaws.com", "api.aws"),
        ("cn", "amazonaws.com.cn", "api.amazonwebservices.com.cn"),
        ("us-gov", "amazonaws.com", "api.aws"),
    )
)
"""The regions of AWS's partitions, with the ends of their host names for IPv4 and dual stack."""


_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".api.amazonwebservices.com.cn")
"""The ends of AWS's host names, also of those for PrivateLink."""


def other_host(url: str | None) -> str:
    """The host and port of an address that is not AWS's, such as DynamoDB Local; "" for AWS."""
    try:
        parts = urlsplit(url or "")
    except ValueError:  # the first request reports it
        return ""
    return "" if (parts.hostname or "").endswith(_AWS) else parts.netloc.rpartition("@")[2].lower()


class Endpoint(Immutable):
    """Where requests go.

    Attributes:
        url: the address, without a final slash.
        host: its host, with the port unless it is the default of the scheme.
        for_account: the address for the requests of one account, with ``{account}`` for its ID; "": the same address.
    """

    url: str
    for_account: str = ""

    @property
    def host(self) -> str:
        return self.url.partition("://")[2]


def aws_endpoint(region: str, *, fips: bool, dual_stack: bool, accounts: bool) -> Endpoint | None:
    """The endpoint of a region; None if it is in no partition that is known here.

    Args:
        region: the region.
        fips: use the endpoint with validated cryptography.
        dual_stack: use the endpoint with IPv4 and IPv6.
        accounts: use the endpoint of the credentials' account, where AWS has one.
    """
    for regions, suffix, dual in _PARTITIONS:
        if not regions.fullmatch(region):
            continue
        end = dual if dual_stack else suffix
        plain = not fips or (region.startswith("us-gov-") and not dual_stack)  # its normal endpoint is validated
        url = f"https://dynamodb{'' if plain else '-fips'}.{region}.{end}"
        return Endpoint(url, f"https://{{account}}.ddb.{region}.{end}" if accounts and not fips else "")
    return None


def is_url(value: object) -> bool:
    """Whether a value is the URL of a server: http or https, a host, and a port from 1 to 65535 if there is one."""
    if not isinstance(value, str):
        return False
    try:
        value.encode()  # a lone surrogate cannot be sent
        parts = urlsplit(value)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # also of a port that is not a number, or too large
        return False


def configured_endpoint(configuration: "Session | Environment") -> str | None:
    """The address in the environment or in the profile, in AWS's order; None if there is none.

    Source: "Service-specific endpoints" in the AWS SDKs and Tools Reference Guide.

    Raises:
        LookupError: the profile names services that the configuration does not have, or that are no sections.
    """
    profile = configuration.get_scoped_config()
    section: Any = {}
    if "services" in profile:
        try:
            section = configuration.full_config["services"][profile["services"]].get("dynamodb", {})
        except (LookupError, AttributeError) as error:
            raise LookupError(f"the configuration has no services {profile['services']!r}") from error
    if type(section) is not dict:
        raise LookupError(f"dynamodb in the services {profile['services']!r} is not a section")
    found = (
        os.environ.get("AWS_ENDPOINT_URL_DYNAMODB"),
        os.environ.get("AWS_ENDPOINT_URL"),
        section.get("endpoint_url"),
        profile.get("endpoint_url"),
    )
    return next(filter(None, found), None)
