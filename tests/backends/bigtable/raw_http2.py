"""A server of HTTP/2 made of single frames, so that a test can let it do what no library would.

It reads what the client sends frame by frame, and lets a *behaviour* answer each call with bytes of its own. Headers
are literals without Huffman's code (RFC 7541, section 6.2.2), which every client must read.
"""

import socket
import struct
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from attrs import define, field

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = 0, 1, 3, 4, 6, 7, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
"""Types of frames, and flags (RFC 9113, section 6)."""

INITIAL_WINDOW_SIZE = 4
"""A setting (RFC 9113, section 6.5.2)."""

WAIT = 20.0

Headers = Mapping[str, bytes | str]


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def integer(number: int, bits: int) -> bytes:
    """An integer in the last bits of a byte, and those that follow (RFC 7541, section 5.1)."""
    most = (1 << bits) - 1
    if number < most:
        return bytes([number])
    found, number = [most], number - most
    while number >= 128:
        found.append(number % 128 + 128)
        number //= 128
    return bytes([*found, number])


def block(headers: Headers) -> bytes:
    """A block of headers."""
    pairs = ((name.encode(), value if isinstance(value, bytes) else value.encode()) for name, value in headers.items())
    return b"".join(b"\0" + integer(len(name), 7) + name + integer(len(value), 7) + value for name, value in pairs)


def message(data: bytes, flag: int = 0, size: int | None = None) -> bytes:
    """A message of gRPC with its prefix, which may lie."""
    return bytes([flag]) + struct.pack(">I", len(data) if size is None else size) + data


USUAL: Headers = {":status": "200", "content-type": "application/grpc"}
OK: Headers = {"grpc-status": "0"}


class Window:
    """How much data the client accepts: flow control (RFC 9113, section 5.2)."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._initial = 65_535
        self._credit: dict[int, int] = {0: 65_535}
        self._stopped: set[int] = set()

    def start(self, initial: int) -> None:
        """Set the credit of new streams."""
        with self._changed:
            self._initial = initial

    def grant(self, stream: int, more: int) -> None:
        """Add to the credit of a stream, or of the connection."""
        with self._changed:
            self._credit[stream] = self._credit.get(stream, self._initial) + more
            self._changed.notify_all()

    def stop(self, stream: int) -> None:
        """The client wants no more data of a stream; 0: of any."""
        with self._changed:
            self._stopped.add(stream)
            self._changed.notify_all()

    def take(self, stream: int, size: int) -> bool:
        """Wait for the credit for so many bytes; returns whether the client wants them."""
        with self._changed:
            while not self._stopped & {0, stream}:
                if min(self._credit[0], self._credit.get(stream, self._initial)) >= size:
                    self._credit[0] -= size
                    self._credit[stream] = self._credit.get(stream, self._initial) - size
                    return True
                if not self._changed.wait(WAIT):
                    return False
            return False


@define
class Link:
    """A connection.

    Attributes:
        opened: its socket.
        window: how much data the client accepts.
    """

    opened: socket.socket
    window: Window = field(factory=Window)
    _sending: threading.Lock = field(factory=threading.Lock)

    def send(self, data: bytes) -> None:
        """Send frames that belong together."""
        with self._sending:
            self.opened.sendall(data)

    def close(self) -> None:
        """End the connection."""
        with suppress(OSError):
            self.opened.shutdown(socket.SHUT_RDWR)


@define
class Talk:
    """A call to answer.

    Attributes:
        server: the server.
        link: the connection.
        stream: the number of the stream.
    """

    server: "RawServer"
    link: Link
    stream: int

    def headers(self, headers: Headers, *, end: bool = False) -> bytes:
        """The frames of headers or trailers."""
        data = block(headers)
        parts = [data[start : start + 16_000] for start in range(0, len(data), 16_000)]
        last = len(parts) - 1
        return b"".join(
            frame(
                CONTINUATION if number else HEADERS,
                END_HEADERS * (number == last) | END_STREAM * (end and not number),
                self.stream,
                part,
            )
            for number, part in enumerate(parts)
        )

    def data(self, data: bytes, *, end: bool = False) -> bytes:
        """The frame of some data, of at most 16 KB."""
        return frame(DATA, END_STREAM * end, self.stream, data)

    def answer(self, data: bytes, trailers: Headers | None = OK, headers: Headers = USUAL) -> bytes:
        """The frames of a whole answer; without trailers it ends with the data."""
        if trailers is None:
            return self.headers(headers) + self.data(data, end=True)
        return self.headers(headers) + self.data(data) + self.headers(trailers, end=True)

    def good(self) -> bytes:
        """The frames of the right answer."""
        return self.answer(message(self.server.body))

    def reset(self, code: int) -> bytes:
        """The frame that resets the stream."""
        return frame(RST_STREAM, 0, self.stream, struct.pack(">I", code))

    def flood(self, frames: bytes) -> None:
        """Send frames until the client ends the connection or the server calms down."""
        while not self.server.calm.is_set():
            self.link.send(frames)


Behaviour = Callable[[Talk], None]


@define
class RawServer:
    """The server.

    Attributes:
        body: the message of the right answer.
        behaviour: how to answer calls; None: right.
        opening: bytes that answer the preface, before the connection ends; None: settings, as usual.
        calm: floods end.
    """

    listening: socket.socket
    body: bytes = b""
    behaviour: Behaviour | None = None
    opening: bytes | None = None
    calm: threading.Event = field(factory=threading.Event)
    _links: list[Link] = field(factory=list)

    @property
    def address(self) -> str:
        """The "host:port"."""
        return f"127.0.0.1:{self.listening.getsockname()[1]}"

    def behave(self) -> None:
        """End the floods, and answer right from now on."""
        self.behaviour = self.opening = None
        self.calm.set()

    def accept(self) -> None:
        """Accept connections until the end."""
        with suppress(OSError):
            while True:
                opened, _ = self.listening.accept()
                opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                link = Link(opened)
                self._links.append(link)
                threading.Thread(target=self._serve, args=(link,), daemon=True).start()

    def _serve(self, link: Link) -> None:
        with suppress(OSError, ValueError), link.opened, link.opened.makefile("rb") as received:
            if received.read(len(PREFACE)) != PREFACE:
                return
            if self.opening is not None:
                link.send(self.opening)
                return
            link.send(frame(SETTINGS, 0, 0))
            while len(head := received.read(9)) == 9:
                kind, flags, stream = struct.unpack(">BBI", head[3:])
                self._take(link, kind, flags, stream, received.read(int.from_bytes(head[:3], "big")))
        link.window.stop(0)

    def _take(self, link: Link, kind: int, flags: int, stream: int, payload: bytes) -> None:
        """Take a frame of the client."""
        if kind == DATA and payload:
            link.send(frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", len(payload))))
        if kind == WINDOW_UPDATE:
            link.window.grant(stream, int.from_bytes(payload, "big"))
        elif kind == RST_STREAM:
            link.window.stop(stream)
        elif kind == SETTINGS and not flags & ACK:
            for name, value in struct.iter_unpack(">HI", payload):
                if name == INITIAL_WINDOW_SIZE:
                    link.window.start(value)
            link.send(frame(SETTINGS, ACK, 0))
        elif kind == PING and not flags & ACK:
            link.send(frame(PING, ACK, 0, payload))
        elif kind in (HEADERS, DATA) and flags & END_STREAM:
            threading.Thread(target=self._answer, args=(Talk(self, link, stream),), daemon=True).start()

    def _answer(self, talk: Talk) -> None:
        with suppress(OSError):
            if self.behaviour is None:
                talk.link.send(talk.good())
            else:
                self.behaviour(talk)

    def close(self) -> None:
        """End all connections."""
        self.calm.set()
        with suppress(OSError):
            self.listening.shutdown(socket.SHUT_RDWR)
        self.listening.close()
        for link in self._links:
            link.close()


@contextmanager
def raw(body: bytes = b"") -> Iterator[RawServer]:
    """A running server whose right answers have one message."""
    server = RawServer(socket.create_server(("127.0.0.1", 0)), body)
    thread = threading.Thread(target=server.accept, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.close()
        thread.join(WAIT)
