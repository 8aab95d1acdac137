"""Servers and clients of gRPC made from descriptors, with health checks and reflection.

The only module that imports grpc, so that nothing but messages is generated.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from itertools import chain, islice
from threading import Event, Thread
from typing import Any

import grpc
from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor
from google.protobuf.message_factory import GetMessageClass
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from testbed.clock import Deadline, now
from testbed.errors import LabError
from testbed.propius.pieces import PIECE, StallWatch, in_pieces, is_whole, joined

_OPTIONS = [
    ("grpc.max_receive_message_length", 64 * PIECE),
    ("grpc.max_send_message_length", 64 * PIECE),
    ("grpc.so_reuseport", 0),
    # A connection that was cut without a word ends, though nobody sends anything.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 5_000),
    # Who was down for long is found again as soon as who was down for a moment.
    ("grpc.max_reconnect_backoff_ms", 1_000),
]
ANSWER_S = 10.0
"""Seconds that an answer may take; of a message in pieces, the next piece."""
_LINGER_S = 2.0
_ASK_AGAIN_S = 0.1
_LOOK_EVERY = 1.0
"""Seconds from one look at what a service needs to the next."""


class Server:
    """Services on one port, answered by threads."""

    def __init__(
        self,
        address: str,
        services: Iterable[tuple[ServiceDescriptor, object]],
        threads: int = 16,
        is_able: Callable[[], bool] | None = None,
    ) -> None:
        """Serve at `HOST:PORT`, where port 0 is any; raise LabError if it is not free.

        `is_able` says whether what the services need is there, as their health then does. Beside a
        method whose requests come in pieces may be `METHOD_announced`, which answers the first
        piece of several, so that no other is read, or returns None.
        """
        self._server = grpc.server(ThreadPoolExecutor(threads), options=_OPTIONS)
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        self._names = [""]  # which in the protocol of health is the server as a whole
        for service, implementation in services:
            self._server.add_generic_rpc_handlers((_handler(service, implementation),))
            self._names.append(service.full_name)
        names = [health.SERVICE_NAME, reflection.SERVICE_NAME, *self._names[1:]]
        reflection.enable_server_reflection(names, self._server)
        self._tell(was_able := is_able is None or is_able())
        try:
            port = self._server.add_insecure_port(address)
        except RuntimeError as error:
            raise LabError(
                f"listening at {address} failed: {error}", hint="is another one running?"
            ) from error
        self.address = f"{address.rpartition(':')[0]}:{port}"
        self._server.start()
        self._over = Event()
        if is_able is not None:
            Thread(target=self._watch, args=(is_able, was_able), name="health", daemon=True).start()

    def _watch(self, is_able: Callable[[], bool], was_able: bool) -> None:
        """Tell each change until the server ends."""
        while not self._over.wait(_LOOK_EVERY):
            if (able := is_able()) is not was_able:
                self._tell(able)
                was_able = able

    def _tell(self, able: bool) -> None:
        states = health_pb2.HealthCheckResponse
        for name in self._names:
            self._health.set(name, states.SERVING if able else states.NOT_SERVING)

    def close(self) -> None:
        """Answer what was asked, within 2 s, and end."""
        self._over.set()
        self._health.enter_graceful_shutdown()
        self._server.stop(_LINGER_S).wait()


class Caller:
    """Calls the methods of one service at one address."""

    def __init__(
        self, address: str, service: ServiceDescriptor, answer_s: float = ANSWER_S
    ) -> None:
        self.address = address
        self._answer_s = answer_s
        self._service = service.full_name
        self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        self._health = health_pb2_grpc.HealthStub(self._channel)
        self._ending: dict[Any, float] = {}
        """Calls whose answer is here and whose end is not, with the time since when."""
        self._calls: Mapping[str, Callable[[Any], Any]] = {
            method.name: self._call(method) for method in service.methods
        }

    def __call__(self, method: str, request: Any) -> Any:
        """Return the answer to a request.

        Raise Unreachable if nothing was done for no connection was made, LabError if it may have
        been.
        """
        try:
            return self._calls[method](request)
        except grpc.RpcError as error:
            code, details = error.code(), error.details()
            kind = Unreachable if code is grpc.StatusCode.UNAVAILABLE else LabError
            raise kind(
                f"{method} at {self.address} failed: {code.name.lower()}, {details}",
                hint="is it up? Asking again is safe",
            ) from error
        except (LabError, ValueError) as error:  # the latter once `close` was called
            raise LabError(
                f"{method} at {self.address} failed: {error}",
                hint="is it up? Asking again is safe",
            ) from error

    def is_serving(self) -> bool:
        """Return whether the service is reached and says that it can do its work."""
        asked = health_pb2.HealthCheckRequest(service=self._service)
        try:
            found = self._health.Check(asked, timeout=self._answer_s)
        except (grpc.RpcError, ValueError):  # the latter once `close` was called
            return False
        return bool(found.status == health_pb2.HealthCheckResponse.SERVING)

    def _call(self, method: MethodDescriptor) -> Callable[[Any], Any]:
        """Return what calls a method; messages that it has as streams go in pieces.

        A message of one piece is the same on the line as one that is no stream, and less work.
        """
        path = f"/{method.containing_service.full_name}/{method.name}"
        coding = {
            "request_serializer": GetMessageClass(method.input_type).SerializeToString,
            "response_deserializer": GetMessageClass(method.output_type).FromString,
        }
        at_once = self._channel.unary_unary(path, **coding)
        in_turn = self._channel.stream_unary(path, **coding)
        answered_in_turn = self._channel.unary_stream(path, **coding)

        def push(request: Any) -> Any:
            pieces = in_pieces(request)
            first = next(pieces)
            if is_whole(first):
                return at_once(first, timeout=self._answer_s)
            watch = StallWatch(self._answer_s)
            answer = in_turn.future(map(watch.passed, chain((first,), pieces)))
            with watch.calling(answer.cancel):
                return answer.result()

        def get(request: Any) -> Any:
            watch = StallWatch(self._answer_s)
            answers = answered_in_turn(request)
            try:
                with watch.calling(answers.cancel):
                    answer = joined(map(watch.passed, answers))
            except LabError:
                answers.cancel()
                raise
            self._let_end(answers)
            return answer

        if method.server_streaming:
            return get
        return push if method.client_streaming else partial(at_once, timeout=self._answer_s)

    def _let_end(self, call: Any) -> None:
        """Keep a call whose answer is here until its end, which on a full line comes much later.

        gRPC cancels what nothing refers to. One without an end is cancelled in the course of a
        later call.
        """
        for other, since in tuple(self._ending.items()):
            if now() - since > self._answer_s:
                other.cancel()
        self._ending[call] = now()
        call.add_done_callback(lambda ended: self._ending.pop(ended, None))

    def wait_until_up(self, method: str, request: Any, seconds: float) -> None:
        """Ask until there is an answer; raise Unreachable if there is none within `seconds`."""
        deadline = Deadline.after(seconds)
        while True:
            try:
                self(method, request)
                return
            except Unreachable:
                if deadline.passed:
                    raise
            time.sleep(_ASK_AGAIN_S)

    def wait_until_down(self, method: str, request: Any, seconds: float) -> None:
        """Ask until there is no answer; raise LabError if there still is one after `seconds`."""
        deadline = Deadline.after(seconds)
        while not deadline.passed:
            try:
                self(method, request)
            except LabError:
                return
            time.sleep(_ASK_AGAIN_S)
        raise LabError(
            f"the service at {self.address} was still up after {seconds:g} s",
            hint="look at the log of the rank that has it",
        )

    def close(self) -> None:
        """Close the connection."""
        with suppress(ValueError):
            self._channel.close()


class Unreachable(LabError):
    """A service cannot be connected to, or the connection to it broke."""


@contextmanager
def calling(
    address: str, service: ServiceDescriptor, answer_s: float = ANSWER_S
) -> Iterator[Caller]:
    """Yield a caller of a service, whose connection is closed afterwards."""
    caller = Caller(address, service, answer_s)
    try:
        yield caller
    finally:
        caller.close()


def _handler(service: ServiceDescriptor, implementation: object) -> Any:
    return grpc.method_handlers_generic_handler(
        service.full_name,
        {method.name: _method(method, implementation) for method in service.methods},
    )


def _method(method: MethodDescriptor, implementation: object) -> Any:
    act = getattr(implementation, _snake(method.name))
    announced = getattr(implementation, f"{_snake(method.name)}_announced", lambda first: None)
    coding = {
        "request_deserializer": GetMessageClass(method.input_type).FromString,
        "response_serializer": GetMessageClass(method.output_type).SerializeToString,
    }

    def answer(request: Any, context: Any, act: Callable[[Any], Any] = act) -> Any:
        try:
            return act(request)
        except Unreachable as error:
            context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
        except LabError as error:
            context.abort(grpc.StatusCode.INTERNAL, str(error))

    def answer_pieces(pieces: Iterator[Any], context: Any) -> Any:
        watch = StallWatch(ANSWER_S)
        try:
            with watch.calling(context.cancel):
                pieces = map(watch.passed, pieces)
                begin = list(islice(pieces, 1))
                if begin and not is_whole(begin[0]):
                    told = answer(begin[0], context, announced)
                    if told is not None:
                        return told
                request = joined(chain(begin, pieces))
        except (LabError, grpc.RpcError) as error:  # the latter where the caller has gone
            context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        return answer(request, context)

    def answer_in_pieces(request: Any, context: Any) -> Iterator[Any]:
        pieces = in_pieces(answer(request, context))
        watch = StallWatch(ANSWER_S)
        with watch.calling(context.cancel):
            yield from map(watch.passed, pieces)

    if method.client_streaming:
        return grpc.stream_unary_rpc_method_handler(answer_pieces, **coding)
    if method.server_streaming:
        return grpc.unary_stream_rpc_method_handler(answer_in_pieces, **coding)
    return grpc.unary_unary_rpc_method_handler(answer, **coding)


def _snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()
