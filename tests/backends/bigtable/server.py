"""A Bigtable server whose answers a test scripts; calls without a script are passed on to an emulator."""

import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

import grpc
from google.cloud.bigtable_v2 import types

SERVICE = "google.bigtable.v2.Bigtable"
METHODS: Mapping[str, tuple[bool, Any, Any]] = {
    "ReadRows": (True, types.ReadRowsRequest, types.ReadRowsResponse),
    "MutateRow": (False, types.MutateRowRequest, types.MutateRowResponse),
    "MutateRows": (True, types.MutateRowsRequest, types.MutateRowsResponse),
    "CheckAndMutateRow": (False, types.CheckAndMutateRowRequest, types.CheckAndMutateRowResponse),
    "ReadModifyWriteRow": (False, types.ReadModifyWriteRowRequest, types.ReadModifyWriteRowResponse),
    "SampleRowKeys": (True, types.SampleRowKeysRequest, types.SampleRowKeysResponse),
    "GenerateInitialChangeStreamPartitions": (
        True,
        types.GenerateInitialChangeStreamPartitionsRequest,
        types.GenerateInitialChangeStreamPartitionsResponse,
    ),
    "ReadChangeStream": (True, types.ReadChangeStreamRequest, types.ReadChangeStreamResponse),
}

Answer: TypeAlias = Iterator[Any]
Change: TypeAlias = Callable[[Answer], Answer]
"""Changes the emulator's answer."""


class Status(NamedTuple):
    """Ends a call with a status, and with metadata behind it."""

    code: grpc.StatusCode
    text: str = "on purpose"
    trailers: tuple[tuple[str, str | bytes], ...] = ()


class Delay(NamedTuple):
    """Waits for some seconds, or until the client gives up."""

    seconds: float


Part: TypeAlias = Any
"""Part of an answer: a message, a `Status` or its code, a `Delay`, or a `Change` of the emulator's answer."""


class Seen(NamedTuple):
    """A call that the server received.

    Attributes:
        method: its name.
        request: the bare message.
        metadata: its metadata.
        seconds: its deadline.
        peer: the address of the client's end of the connection.
    """

    method: str
    request: Any
    metadata: dict[str, str]
    seconds: float | None
    peer: str


class Server:
    """Answers each call from ``script``, or from ``scripts`` by its method; then as the emulator does.

    Attributes:
        address: "host:port".
        script: answers for calls of any method, each a sequence of parts.
        scripts: answers by method.
        admin: answers of the admin service by method; calls of others are passed on.
        calls: the calls that it received.
    """

    def __init__(self, emulator: str | None = None) -> None:
        self.address = ""
        self.script: list[Any] = []  # each a sequence of parts
        self.scripts: dict[str, list[Any]] = {}
        self.admin: dict[str, Any] = {}
        self.calls: list[Seen] = []
        self._channel = None if emulator is None else grpc.insecure_channel(emulator)
        self._running: grpc.Server | None = None
        self._contexts: list[grpc.ServicerContext] = []

    def sent(self, method: str) -> list[Any]:
        """The requests of a method."""
        return [call.request for call in self.calls if call.method == method]

    def stop(self) -> None:
        """Stop at once; calls in progress fail."""
        assert self._running is not None
        self._running.stop(None).wait()

    def busy(self) -> None:
        """Wait until a call has begun."""
        while not self.calls:
            time.sleep(0.01)

    def idle(self) -> None:
        """Wait until every call has ended."""
        while any(context.is_active() for context in self._contexts):
            time.sleep(0.01)

    def start(self, threads: ThreadPoolExecutor, port: int = 0, tls: Path | None = None) -> None:
        """Listen; with ``tls``, a folder that `tests.authority` made, on a TLS connection."""
        self._running = grpc.server(threads)
        handlers = grpc.method_handlers_generic_handler(SERVICE, {name: self._handler(name) for name in METHODS})
        self._running.add_generic_rpc_handlers((handlers, _Passed(self._channel, self.admin)))
        address = f"127.0.0.1:{port}"
        if tls is None:
            port = self._running.add_insecure_port(address)
        else:
            pair = (tls.joinpath("key.pem").read_bytes(), tls.joinpath("cert.pem").read_bytes())
            port = self._running.add_secure_port(address, grpc.ssl_server_credentials([pair]))
        self.address = f"127.0.0.1:{port}"
        self._running.start()

    def close(self) -> None:
        """Stop listening, and leave the emulator."""
        self.stop()
        if self._channel is not None:
            self._channel.close()

    def _handler(self, method: str) -> "grpc.RpcMethodHandler[Any, Any]":
        streams, request, _ = METHODS[method]

        def answer(message: Any, context: grpc.ServicerContext) -> Answer:
            return self._answer(method, message, context)

        def answer_once(message: Any, context: grpc.ServicerContext) -> Any:
            return next(answer(message, context))

        make: Callable[..., grpc.RpcMethodHandler[Any, Any]] = (
            grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
        )
        return make(
            answer if streams else answer_once, request.pb().FromString, lambda message: message.SerializeToString()
        )

    def _answer(self, method: str, request: Any, context: grpc.ServicerContext) -> Answer:
        metadata = {key: str(value) for key, value in context.invocation_metadata()}
        self._contexts.append(context)
        self.calls.append(Seen(method, request, metadata, context.time_remaining(), context.peer()))
        script = self.scripts.get(method) or self.script
        parts: tuple[Any, ...] = script.pop(0) if script else (iter,)
        for part in parts:
            if isinstance(part, Delay):
                _wait(part.seconds, context)
            elif isinstance(part, Status | grpc.StatusCode):
                ends = part if isinstance(part, Status) else Status(part)
                context.set_trailing_metadata(ends.trailers)
                context.abort(ends.code, ends.text)
            elif callable(part):  # a Change
                change = cast("Change", part)
                yield from change(self._forward(method, request, metadata))
            else:
                yield part

    def _forward(self, method: str, request: Any, metadata: Mapping[str, str]) -> Answer:
        assert self._channel is not None, f"{method}: the script is empty, and there is no emulator"
        streams, of, to = METHODS[method]
        make = self._channel.unary_stream if streams else self._channel.unary_unary
        call = make(f"/{SERVICE}/{method}", of.pb().SerializeToString, to.pb().FromString)
        passed = tuple((key, value) for key, value in metadata.items() if key == "bigtable-features")
        answer = call(request, metadata=passed)
        yield from answer if streams else (answer,)


class _Passed(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # not generic at run time
    """Answers the calls of the admin service, or passes them on to the emulator."""

    def __init__(self, channel: grpc.Channel | None, answers: Mapping[str, Any]) -> None:
        self._channel = channel
        self._answers = answers

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any] | None":
        channel, method = self._channel, handler_call_details.method
        answer = self._answers.get(method.rpartition("/")[2])
        if answer is not None:
            return grpc.unary_unary_rpc_method_handler(lambda _, __: type(answer).serialize(answer))
        if channel is None or not method.startswith("/google.bigtable.admin."):
            return None
        return grpc.unary_unary_rpc_method_handler(lambda request, _: channel.unary_unary(method, None, None)(request))


def _wait(seconds: float, context: grpc.ServicerContext) -> None:
    end = time.monotonic() + seconds
    while context.is_active() and time.monotonic() < end:
        time.sleep(0.01)


@contextmanager
def serving(emulator: str | None = None, port: int = 0, tls: Path | None = None) -> Iterator[Server]:
    """A running server."""
    with ThreadPoolExecutor(8) as threads:
        server = Server(emulator)
        server.start(threads, port, tls)
        try:
            yield server
        finally:
            server.close()


def done(answer: Answer) -> Answer:
    """The emulator applies the call, and its answer is lost."""
    list(answer)
    yield from ()


def packed(rows: int) -> Change:
    """Rows packed as by servers: many in a message, with row key and family only in the first chunk of a row."""

    def change(answer: Answer) -> Answer:
        chunks = [chunk for message in answer for chunk in message.chunks]
        message, whole = types.ReadRowsResponse.pb()(), 0
        family = ""
        for chunk in chunks:
            if chunk.row_key and (not message.chunks or message.chunks[-1].commit_row):
                family = ""
            elif chunk.row_key:
                chunk.ClearField("row_key")
            if chunk.family_name.value == family:
                chunk.ClearField("family_name")
            else:
                family = chunk.family_name.value
            message.chunks.append(chunk)
            whole += chunk.commit_row
            if whole == rows:
                yield message
                message, whole = types.ReadRowsResponse.pb()(), 0
        if message.chunks:
            yield message

    return change


def first(chunks: int) -> Change:
    """Only the first chunks of the answer, each in its own message."""

    def change(answer: Answer) -> Answer:
        for number, chunk in enumerate(chunk for message in answer for chunk in message.chunks):
            if number == chunks:
                return
            yield types.ReadRowsResponse.pb()(chunks=[chunk])

    return change


def scanned(row_key: str) -> Any:
    """A message without rows, with the last row key that the server scanned."""
    return types.ReadRowsResponse.pb()(last_scanned_row_key=row_key.encode())


def rows(*keys: str, begun: str = "") -> Any:
    """A message with items of one cell, and optionally an incomplete one."""
    message = types.ReadRowsResponse.pb()()
    for key in (*keys, begun) if begun else keys:
        chunk = message.chunks.add(row_key=key.encode(), value=b"Hat", commit_row=key != begun)
        chunk.family_name.value, chunk.qualifier.value = "d", b"_t"
    return message


def entries(*codes: int | None) -> Any:
    """A message with the statuses of a bulk write's entries; None: without an answer for this entry."""
    message = types.MutateRowsResponse.pb()()
    for index, code in enumerate(codes):
        if code is not None:
            message.entries.add(index=index).status.code = code
    return message
