"""AWS Signature Version 4 of requests to DynamoDB.

botocore signs any request to any service, which takes it ten times as long. A request to DynamoDB is always a POST to
"/" with the same headers, so little is left to compute: the algorithm is that of "AWS Signature Version 4 for API
requests" in the IAM User Guide. Tests compare each signature with botocore's.
"""

import time
from hashlib import sha256
from hmac import digest
from typing import Any, Final

SERVICE: Final = "dynamodb"
CONTENT_TYPE: Final = "application/x-amz-json-1.0"


class Signer:
    """Signs requests to one host. Thread-safe.

    Args:
        host: the host, with the port unless it is the default of the scheme.
        region: the region of the service.
    """

    def __init__(self, host: str, region: str) -> None:
        self._host = host
        self._region = region
        self._stamp = (-1, "", "")  # the last second, as a time and as a date
        self._key = ("", "", b"")  # the last secret and date, and their signing key, which is valid for a day

    def headers(self, target: str, body: bytes, credentials: Any, now: float) -> dict[str, str]:
        """The signed headers of a request.

        Args:
            target: the value of X-Amz-Target: the version of the API and the operation.
            body: the body.
            credentials: botocore's frozen credentials.
            now: the time in seconds since 1970.
        """
        second, stamp, date = self._stamp
        if second != int(now):
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
            date = stamp[:8]
            self._stamp = int(now), stamp, date
        headers = {
            "Content-Type": CONTENT_TYPE,
            "Host": self._host,
            "X-Amz-Date": stamp,
            "X-Amz-Target": target,
        }
        token, names = "", "content-type;host;x-amz-date;x-amz-target"
        if credentials.token:
            headers["X-Amz-Security-Token"] = credentials.token
            token = f"x-amz-security-token:{credentials.token}\n"
            names = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"
        request = (
            f"POST\n/\n\ncontent-type:{CONTENT_TYPE}\nhost:{self._host}\nx-amz-date:{stamp}\n{token}"
            f"x-amz-target:{target}\n\n{names}\n{sha256(body).hexdigest()}"
        )
        scope = f"{date}/{self._region}/{SERVICE}/aws4_request"
        text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{sha256(request.encode()).hexdigest()}"
        signature = digest(self._signing_key(credentials.secret_key, date), text.encode(), "sha256").hex()
        headers["Authorization"] = (
            f"AWS4-HMAC-SHA256 Credential={credentials.access_key}/{scope}, SignedHeaders={names}, "
            f"Signature={signature}"
        )
        return headers

    def _signing_key(self, secret: str, date: str) -> bytes:
        of_secret, of_date, key = self._key
        if of_secret != secret or of_date != date:
            key = f"AWS4{secret}".encode()
            for part in (date, self._region, SERVICE, "aws4_request"):
                key = digest(key, part.encode(), "sha256")
            self._key = secret, date, key
        return key
