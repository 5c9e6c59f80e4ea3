"""Requests of the lean transport as the handlers of botocore's event ``before-send`` see them, such as moto's."""

from typing import Any

from botocore.awsrequest import AWSPreparedRequest, HeadersDict


class HandledRequest(AWSPreparedRequest):
    """`http_messages.Prepared` for handlers. Its headers become botocore's only if a handler reads them."""

    body: Any
    url: str
    context: dict[str, Any]

    def __init__(self, operation: str, url: str, headers: dict[str, str], body: bytes) -> None:
        self.operation = operation
        self.sent: Any = headers
        self.method, self.url, self.body = "POST", url, body
        self.stream_output, self.context = False, {}

    # A property with a setter is read and assigned like the base class's attribute; pyright accepts none in its place.
    @property
    def headers(self) -> Any:
        if type(self.sent) is dict:
            self.sent = HeadersDict({**self.sent, "Content-Length": str(len(self.body))})
        return self.sent

    @headers.setter
    def headers(self, headers: Any) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self.sent = headers
