"""Responses of HTTP/1.1, parsed by httptools, the binding of Node's llhttp."""

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from odm.backends.dynamodb.client.http_messages import Broken


class Reader:
    """Reads the responses of one connection, one after the other. httptools calls the methods ``on_...``.

    Attributes:
        status: the status of the response.
        headers: its headers; the names are lower case.
        body: its body, when it is complete.
        complete: whether the response is complete, or none is expected.
        reusable: whether the connection can be used for another request. It cannot if anything else arrived: the
            next response would not be that of the next request.
    """

    __slots__ = ("_framed", "_parser", "_parts", "body", "complete", "headers", "reusable", "status")

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self.complete = self.reusable = True
        self.status, self.headers, self.body = 0, dict[str, str](), b""
        self._parts: list[bytes] = []
        self._framed = False

    def begin(self) -> None:
        """Expect a response."""
        self.complete = self._framed = False
        self.status, self.headers, self._parts = 0, {}, []

    def feed(self, data: bytes) -> bool:
        """Read data, and return whether the response is complete.

        Raises:
            Broken: it is not HTTP, or where it ends is not certain.
        """
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:  # also if data follows the response
            self.reusable = False
            raised = error.__context__  # in a method of this class, by a signal: httptools catches even Ctrl-C
            if raised is not None and not isinstance(raised, HttpParserError | Broken):
                raise raised from None
            if not self.complete:
                raise Broken(f"the response is not HTTP: {error}") from error
        return self.complete

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            Broken: the response is not complete.
        """
        self.reusable = False
        if self.complete:
            return
        # Without a length, the end of the connection is the end of the body (RFC 9112, section 6.3).
        if not self._framed or not self.headers.keys().isdisjoint(("content-length", "transfer-encoding")):
            raise Broken("the connection was closed before the response was complete")
        self._finish()

    def on_message_begin(self) -> None:
        if self.complete:
            raise Broken("data follows the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers = self.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        self._framed, self.status = True, self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        if self.status < 200:  # an interim response, such as 100 Continue: the final one follows
            if self.status < 100:
                raise Broken(f"{self.status} is not a status of HTTP")
            self.begin()
            return
        self.reusable = self._parser.should_keep_alive()
        self._finish()

    def _finish(self) -> None:
        parts = self._parts
        self.body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts, self.complete = [], True
