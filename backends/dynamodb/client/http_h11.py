"""Responses of HTTP/1.1, parsed by h11, for programs without httptools."""

from typing import Final

import h11

from odm.backends.dynamodb.client.http_messages import CHUNK, Broken

_REQUEST: Final = h11.Request(method="POST", target="/", headers=[("Host", "-"), ("Content-Length", "0")])
"""Stands for each request: h11 reads a response only where it knows of a request."""

_END: Final = h11.EndOfMessage()


class H11Reader:
    """`http_readers.Reader`, over h11."""

    __slots__ = ("_connection", "_parts", "body", "complete", "headers", "reusable", "status")

    def __init__(self) -> None:
        self._connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=CHUNK)
        self.complete = self.reusable = True
        self.status, self.headers, self.body = 0, dict[str, str](), b""
        self._parts: list[bytes] = []

    def begin(self) -> None:
        """Expect a response."""
        if self._connection.our_state is not h11.IDLE:
            self._connection.start_next_cycle()
        self._connection.send(_REQUEST)
        self._connection.send(_END)
        self.complete = False
        self.status, self.headers, self._parts = 0, {}, []

    def feed(self, data: bytes) -> bool:
        """Read data, and return whether the response is complete.

        Raises:
            Broken: it is not HTTP, or where it ends is not certain.
        """
        if self.complete:  # data follows the response
            self.reusable = False
            return True
        try:
            self._connection.receive_data(data)
            while not self.complete and (event := self._connection.next_event()) is not h11.NEED_DATA:
                self._take(event)
        except h11.RemoteProtocolError as error:
            self.reusable = False
            raise Broken(f"the response is not HTTP: {error}") from error
        return self.complete

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            Broken: the response is not complete.
        """
        # For h11, no data is the end of the connection, which ends a body without a length (RFC 9112, section 6.3).
        if not self.complete and not self.feed(b""):
            raise Broken("the connection was closed before the response was complete")
        self.reusable = False

    def _take(self, event: object) -> None:
        match event:
            case h11.Data():
                self._parts.append(bytes(event.data))
            case h11.Response():
                self.status = event.status_code
                for name, value in event.headers:
                    key, text = name.decode("latin-1"), value.decode("latin-1")
                    self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text
                if not {"content-length", "transfer-encoding"} - self.headers.keys():
                    raise Broken("the response has both a Content-Length and a Transfer-Encoding")
            case h11.EndOfMessage():
                parts = self._parts
                self.body = parts[0] if len(parts) == 1 else b"".join(parts)
                self._parts, self.complete = [], True
                self.reusable = self._connection.their_state is h11.DONE and not self._connection.trailing_data[0]
            case _:  # an interim response: the final one follows
                pass
