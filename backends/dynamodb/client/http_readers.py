"""Which parser reads the responses: httptools, the binding of Node's llhttp, or h11 where that is not installed."""

import logging
from typing import Protocol

_LOG = logging.getLogger("odm.dynamodb")


class Reader(Protocol):
    """Reads the responses of one connection, one after the other.

    Attributes:
        status: the status of the response.
        headers: its headers; the names are lower case.
        body: its body, when it is complete.
        complete: whether the response is complete, or none is expected.
        reusable: whether the connection can be used for another request. It cannot if anything else arrived: the
            next response would not be that of the next request.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool
    reusable: bool

    def begin(self) -> None:
        """Expect a response."""
        ...

    def feed(self, data: bytes) -> bool:
        """Read data, and return whether the response is complete.

        Raises:
            Broken: it is not HTTP, or where it ends is not certain.
        """
        ...

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            Broken: the response is not complete.
        """
        ...


def reader_class() -> "type[Reader]":
    """The class of readers: over httptools if it is installed, otherwise over h11, which is in Python."""
    try:
        from odm.backends.dynamodb.client.http_httptools import HttptoolsReader
    except ImportError:  # the extra "fast" is not installed
        from odm.backends.dynamodb.client.http_h11 import H11Reader

        _LOG.debug("responses of DynamoDB are parsed by h11: httptools is not installed")
        return H11Reader
    return HttptoolsReader
