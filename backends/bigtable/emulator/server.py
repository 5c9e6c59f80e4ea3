"""Serves the services of the emulator by gRPC."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from odm.backends.bigtable.emulator import admin, data
from odm.backends.bigtable.emulator.calls import CallInfo, Method
from odm.backends.bigtable.emulator.faults import Fault, Faults
from odm.backends.bigtable.emulator.refusals import Refused
from odm.backends.bigtable.emulator.streams import Streams
from odm.backends.bigtable.emulator.tables import Tables
from odm.errors import BackendError

GRACE_SECONDS: Final = 0.5
"""How long calls may go on when the server stops; without any, it stops at once."""

THREADS: Final = 64
"""The most calls at once; each change stream that is read is one of them."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
)


class Server:
    """A running server.

    Args:
        tables: the tables.
        faults: the faults.
        host: the address to listen on.
        port: the port; 0: any that is free.

    Raises:
        BackendError: the port is in use.
    """

    def __init__(self, tables: Tables, faults: Faults, host: str, port: int) -> None:
        self._streams = Streams(tables)
        self._pool = ThreadPoolExecutor(THREADS, "bigtable-emulator")
        self._server = grpc.server(self._pool, options=_OPTIONS)
        service = admin.AdminService(tables)
        self._server.add_generic_rpc_handlers(
            (
                _handlers(data.NAME, data.DataService(tables).methods(self._streams), faults),
                _handlers(admin.NAME, service.methods(), faults),
                _handlers(admin.OPERATIONS, service.operations(), faults),
                _Missing(data.NAME),
                _Missing(admin.NAME),
            )
        )
        try:
            bound = self._server.add_insecure_port(f"{host}:{port}")
        except RuntimeError as error:
            self._pool.shutdown()
            raise BackendError(f"the emulator cannot listen on {host}:{port}: {error}") from error
        self.address = f"{host}:{bound}"
        self._server.start()

    def stop(self) -> None:
        """End all calls, and release the port and the threads."""
        self._streams.stopped = True
        self._server.stop(GRACE_SECONDS).wait()
        self._pool.shutdown()


class _Missing(grpc.GenericRpcHandler):  # type: ignore[type-arg]  # it has no arguments when the program runs
    """Refuses the methods of a service that the emulator does not have."""

    def __init__(self, service: str) -> None:
        self._service = service

    def service(self, handler_call_details: Any) -> Any:
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        if service != self._service:
            return None
        refused = Refused("UNIMPLEMENTED", f"the emulator does not have {method}")
        return grpc.unary_unary_rpc_method_handler(lambda request, context: _abort(context, refused))


def _handlers(service: str, methods: Mapping[str, Method], faults: Faults) -> "grpc.GenericRpcHandler[Any, Any]":
    made = {}
    for name, method in methods.items():
        kind = grpc.unary_stream_rpc_method_handler if method.streams else grpc.unary_unary_rpc_method_handler
        serve = (_streaming if method.streams else _single)(name, method.run, faults)
        made[name] = kind(serve, request_deserializer=method.request.FromString, response_serializer=_encoded)
    return grpc.method_handlers_generic_handler(service, made)


def _encoded(message: Any) -> bytes:
    return message if isinstance(message, bytes) else bytes(message.SerializeToString())


def _single(name: str, run: Callable[[Any, CallInfo], Any], faults: Faults) -> Callable[[Any, Any], Any]:
    def serve(request: Any, context: grpc.ServicerContext) -> Any:
        try:
            met = _met(faults, name, request)
            answer = run(request, _call(context, met))
            _lose(met)
        except Refused as refused:
            _abort(context, refused)
        return answer

    return serve


def _streaming(
    name: str, run: Callable[[Any, CallInfo], Iterable[Any]], faults: Faults
) -> Callable[[Any, Any], Iterator[Any]]:
    def serve(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        try:
            met = _met(faults, name, request)
            answers = run(request, _call(context, met))
            if any(one.code and one.applied for one in met):
                answers = [*answers]
            _lose(met)
            yield from answers
        except Refused as refused:
            _abort(context, refused)

    return serve


def _met(faults: Faults, name: str, request: Any) -> list[Fault]:
    """The faults of a call; those that need not reach its method are injected. Raises `Refused`."""
    met = faults.meet(name, request)
    for one in met:
        if one.seconds:
            faults.sleep(one.seconds)
        if one.act is not None:
            one.act()
        if one.code is not None and not one.applied and one.entries is None:
            raise _refusal(one)
    return met


def _lose(met: Iterable[Fault]) -> None:
    for one in met:
        if one.code is not None and one.applied:
            raise _refusal(one)


def _refusal(fault: Fault) -> Refused:
    assert fault.code is not None
    return Refused(fault.code, f"{fault.name}: a fault", fault.retry_after, tuple(fault.cookies.items()))


def _call(context: grpc.ServicerContext, met: Iterable[Fault]) -> CallInfo:
    metadata = {item[0]: item[1] for item in context.invocation_metadata()}
    cut, refused = None, dict[int, str]()
    for one in met:
        cut = one.cut if one.cut is not None else cut
        refused |= dict.fromkeys(one.entries or (), one.code or "")
    return CallInfo(metadata, context.is_active, cut, refused)


def _abort(context: grpc.ServicerContext, refused: Refused) -> NoReturn:
    """End a call with a status."""
    code = getattr(grpc.StatusCode, refused.code)
    features = _call(context, ()).features
    trailers: list[tuple[str, str | bytes]] = [*refused.cookies] if features.routing_cookie else []
    if refused.retry_after is not None and features.retry_info:
        info = RetryInfo()
        info.retry_delay.FromMilliseconds(int(refused.retry_after * 1000))
        detail = AnyMessage()
        detail.Pack(info)
        status = Status(code=code.value[0], message=refused.message, details=[detail])
        trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    context.set_trailing_metadata(tuple(trailers))
    context.abort(code, refused.message)
    raise AssertionError("abort raises")
