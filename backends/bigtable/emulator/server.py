"""Serves the services of the emulator by gRPC."""

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from reprlib import repr as short
from threading import Event
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from msgspec import Struct

from odm import BackendError, BadValue
from odm.backends.bigtable.emulator import admin, data
from odm.backends.bigtable.emulator.calls import CallInfo, Method
from odm.backends.bigtable.emulator.faults import Fault, Faults
from odm.backends.bigtable.emulator.refusals import Refused
from odm.backends.bigtable.emulator.streams import Streams
from odm.backends.bigtable.emulator.tables import Tables

_LOG: Final = logging.getLogger("odm.bigtable")

GRACE_SECONDS: Final = 0.5
"""How long calls may go on when the server stops. It waits only if there are calls."""

WAKE: Final = 0.05
"""How often a delayed call looks whether its client still waits, in seconds."""

THREADS: Final = 256
"""The most calls at once; each change stream that is read is one of them."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", -1),  # a cell may be larger than gRPC's 4 MiB
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),  # otherwise a second emulator on this port would get a part of the calls
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
        BadValue: the port is not from 0 to 65535.
    """

    def __init__(self, tables: Tables, faults: Faults, host: str, port: int) -> None:
        if type(port) is not int or not 0 <= port < 65_536:
            raise BadValue(f"port={short(port)}: pass 0 to 65535")
        if not isinstance(host, str) or not host.isascii() or not host.isprintable():
            raise BadValue(f"host={short(host)}: pass the address to listen on, such as '127.0.0.1'")
        self._streams = Streams(tables)
        self._stopped = Event()
        self._pool = ThreadPoolExecutor(THREADS, "bigtable-emulator")
        self._server = grpc.server(self._pool, options=_OPTIONS)
        service = admin.AdminService(tables)
        self._server.add_generic_rpc_handlers(
            (
                _handlers(data.NAME, data.DataService(tables).methods(self._streams), faults, self._stopped),
                _handlers(admin.NAME, service.methods(), faults, self._stopped),
                _handlers(admin.OPERATIONS, service.operations(), faults, self._stopped),
                _Missing(data.NAME),
                _Missing(admin.NAME),
            )
        )
        host = f"[{host}]" if ":" in host else host
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
        self._stopped.set()
        self._server.stop(GRACE_SECONDS).wait()
        self._pool.shutdown()


class _Injector(Struct, frozen=True):
    """Injects faults before calls."""

    faults: Faults
    stopped: Event

    def met(self, name: str, request: Any, context: grpc.ServicerContext) -> list[Fault]:
        """The faults of a call; those that need not reach its method are injected. Raises `Refused`."""
        met = self.faults.meet(name, request)
        for fault in met:
            if fault.seconds:
                (self.faults.sleep or partial(self._wait, context))(fault.seconds)
            if fault.act is not None:
                fault.act()
            if fault.code is not None and not fault.applied and fault.entries is None:
                raise _refusal(fault)
        return met

    def _wait(self, context: grpc.ServicerContext, seconds: float) -> None:
        """Wait while the client waits for its answer, too."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and context.is_active() and not self.stopped.wait(min(left, WAKE)):
            pass


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


def _handlers(
    service: str, methods: Mapping[str, Method], faults: Faults, stopped: Event
) -> "grpc.GenericRpcHandler[Any, Any]":
    handlers = {}
    for name, method in methods.items():
        kind = grpc.unary_stream_rpc_method_handler if method.streams else grpc.unary_unary_rpc_method_handler
        serve = (_streaming if method.streams else _single)(name, method.run, _Injector(faults, stopped))
        handlers[name] = kind(serve, request_deserializer=method.request.FromString, response_serializer=_encoded)
    return grpc.method_handlers_generic_handler(service, handlers)


def _encoded(message: Any) -> bytes:
    return message if isinstance(message, bytes) else bytes(message.SerializeToString())


@contextmanager
def _aborting(context: grpc.ServicerContext) -> Iterator[None]:
    """End the call with the status of a `Refused`. Other exceptions are defects: they are logged."""
    try:
        yield
    except Refused as refused:
        _abort(context, refused)
    except Exception as error:  # noqa: BLE001
        _LOG.exception("the Bigtable emulator failed")
        _abort(context, Refused("INTERNAL", f"the emulator failed, see its log: {error!r}"))


def _single(name: str, run: Callable[[Any, CallInfo], Any], injector: _Injector) -> Callable[[Any, Any], Any]:
    def serve(request: Any, context: grpc.ServicerContext) -> Any:
        answer = None
        with _aborting(context):
            met = injector.met(name, request, context)
            answer = run(request, _call(context, met))
            _lose(met)
        return answer

    return serve


def _streaming(
    name: str, run: Callable[[Any, CallInfo], Iterable[Any]], injector: _Injector
) -> Callable[[Any, Any], Iterator[Any]]:
    def serve(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        with _aborting(context):
            met = injector.met(name, request, context)
            answers = run(request, _call(context, met))
            if any(fault.code and fault.applied for fault in met):
                answers = [*answers]
            _lose(met)
            yield from answers

    return serve


def _lose(met: Iterable[Fault]) -> None:
    for fault in met:
        if fault.code is not None and fault.applied:
            raise _refusal(fault)


def _refusal(fault: Fault) -> Refused:
    assert fault.code is not None
    return Refused(fault.code, f"{fault.name}: a fault", fault.retry_after, tuple(fault.cookies.items()))


def _call(context: grpc.ServicerContext, met: Iterable[Fault]) -> CallInfo:
    metadata = {item[0]: item[1] for item in context.invocation_metadata()}
    cut, refused = None, dict[int, str]()
    for fault in met:
        cut = fault.cut if fault.cut is not None else cut
        refused |= dict.fromkeys(fault.entries or (), fault.code or "")
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
        status = Status(code=code.value[0], message=refused.shown, details=[detail])
        trailers.append(("grpc-status-details-bin", status.SerializeToString()))
    context.set_trailing_metadata(tuple(trailers))
    context.abort(code, refused.shown)
    raise AssertionError("abort raises")
