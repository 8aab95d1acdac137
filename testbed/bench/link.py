"""The connection to one host's agent: requests with deadlines, answers and events."""

from __future__ import annotations

import itertools
import statistics
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Event, Lock, Thread
from typing import Any

import orjson

from testbed.bench.link_reader import AtEnd, LinkReader
from testbed.bench.ssh import Channel
from testbed.clock import Deadline, now
from testbed.errors import HostError, HostTimeout
from testbed.files import MAX_DEPTH, check_depth
from testbed.onhost.errors import ProtocolError
from testbed.onhost.frames import Decoder, Message, encode, parse_body

Listener = Callable[[str, Message, float], None]
"""Called with (host, message, arrival) for every event, and `{"event": "lost"}` at the end.

Must be quick: it runs in the thread that reads all links."""


_PROMPT = ("alive", "clock")
"""Requests that an agent answers at once, so that the time of the answer is that of the line."""

_RECENT = 15

_READER = LinkReader()
"""Reads the links of this process, whichever lab they belong to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An agent's answer, and the interval on this machine's clock in which the agent sent it."""

    value: Any
    sent: float
    received: float


class AgentLink:
    """Send requests to the agent of one host, from any thread."""

    def __init__(self, host: str, channel: Channel, listener: Listener) -> None:
        self.host = host
        self._channel = channel
        self._listener = listener
        self._numbers = itertools.count()
        self._waiting: dict[int, tuple[Future[Answer], float]] = {}
        self._sending = Lock()
        """Held while a frame is sent, which may take long where the host takes nothing."""
        self._changing = Lock()
        """Held while the requests that wait, or why none can, are changed; never for long."""
        self._closed = ""
        """Why no request can be sent any more; empty while the link is open."""
        self._broken = ""
        """Why a request could not be sent."""
        self._heard = now()
        self._ended = Event()
        self._took: deque[float] = deque(maxlen=_RECENT)
        """Seconds that each of the last few prompt answers took."""
        self._decoder = Decoder(parse=_parsed)
        _READER.add(channel.fileno(), self._read)

    def ask(self, do: str, deadline: Deadline, **fields: Any) -> Answer:
        """Send a request and wait for the answer.

        Raise HostError with the agent's words when it refused or the link is lost, HostTimeout
        when the deadline passes first.
        """
        future = self.post(do, **fields)
        try:
            return future.result(deadline.left)
        except TimeoutError as error:
            if isinstance(error, HostTimeout):
                raise
            raise HostTimeout(self.host, f"no answer to {do!r} in time") from None

    def post(self, do: str, **fields: Any) -> Future[Answer]:
        """Send a request without waiting; the returned future holds the answer or the HostError."""
        future: Future[Answer] = Future()
        if do in _PROMPT:
            future.add_done_callback(self._time)
        number = next(self._numbers)
        frame = encode({"id": number, "do": do, **fields})
        with self._sending:
            with self._changing:
                closed = self._closed
                if not closed:
                    self._waiting[number] = (future, now())
            if closed:
                future.set_exception(HostError(self.host, closed))
                return future
            self._transmit(frame)
        return future

    def notify(self, do: str, **fields: Any) -> None:
        """Send a request that is not answered, whatever comes of it; a lost link is no error."""
        frame = encode({"id": None, "do": do, **fields})
        with self._sending:
            if not self._closed:
                self._transmit(frame)

    def _transmit(self, frame: bytes) -> None:
        """Send a frame; close the link where it cannot be sent. The caller holds `_sending`."""
        try:
            self._channel.send(frame)
        except HostError as error:
            self._broken = str(error.args[0]).removeprefix(f"{self.host}: ")
            self._channel.close()  # a part of it may be sent; what waits fails with the link

    def keep_alive(self, patience: float) -> None:
        """Send the request `alive` five times in every `patience` seconds, or the agent would exit.

        An agent that is silent for `patience` seconds counts as lost.
        """

        def send_periodically() -> None:
            while not self._ended.wait(patience / 5):
                if now() - self._heard > patience:
                    self._lose(f"it was silent for {patience:g} s")
                    self._channel.close()
                    return
                self.post("alive")

        Thread(target=send_periodically, name=f"keep {self.host}", daemon=True).start()

    def is_over_within(self, seconds: float) -> bool:
        """Wait for `seconds` or until the link ends; return whether it has ended."""
        return self._ended.wait(seconds)

    @property
    def is_over(self) -> bool:
        """Return whether the link has ended."""
        return self._ended.is_set()

    @property
    def usual_round_trip(self) -> float:
        """Return the median round trip of recent answers in seconds; 0 before the first."""
        return statistics.median(tuple(self._took) or (0.0,))

    def close(self) -> None:
        """Close the link; the agent then undoes its changes and exits. Safe to call twice."""
        self._closed = self._closed or "the link to the agent is closed"
        self._ended.set()
        self._channel.close()

    def _read(self) -> AtEnd | None:
        """Handle what has come; return what to do at the end of the link, once that has come."""
        data = self._channel.receive()
        if data is None:
            return None
        if not data:
            return partial(self._end, "its agent's link ended")
        received = self._heard = now()
        try:
            for message in self._decoder.feed(data):
                self._handle(message, received)
        except Exception as error:  # whatever this agent sent, the others are to be heard
            return partial(self._end, f"its agent sent {data[:80]!r}: {error}")
        return None

    def _end(self, reason: str) -> None:
        why = self._channel.complaint().splitlines()[-1:] or [self._broken]
        self._lose(f"{reason}: {why[0]}" if why[0] else reason)
        self._channel.close()
        self._channel.release()

    def _handle(self, message: Message, received: float) -> None:
        if "re" not in message:
            self._listener(self.host, message, received)
            return
        with self._changing:
            asked = self._waiting.pop(message["re"], None)
        if asked is None:
            raise ProtocolError(f"the agent answered request {message['re']}, which is not pending")
        future, sent = asked
        if "error" in message:
            future.set_exception(HostError(self.host, message["error"]))
        else:
            future.set_result(Answer(message.get("ok"), sent, received))

    def _time(self, answered: Future[Answer]) -> None:
        if answered.exception() is None:
            answer = answered.result()
            self._took.append(answer.received - answer.sent)

    def _lose(self, reason: str) -> None:
        self._ended.set()
        with self._changing:
            expected, self._closed = bool(self._closed), self._closed or reason
            numbers = list(self._waiting)
        self._fail(numbers, reason)
        if not expected:
            self._listener(self.host, {"event": "lost", "reason": reason}, now())

    def _fail(self, numbers: Iterable[int], reason: str) -> None:
        """Fail requests that still wait: the link may end while one of them is being sent."""
        with self._changing:
            failed = [self._waiting.pop(number, None) for number in numbers]
        for waited in failed:
            if waited is not None:
                waited[0].set_exception(HostError(self.host, reason))


def _parsed(body: bytes) -> Any:
    """Return what the JSON of a frame holds; an integer of more than 64 bits becomes a float."""
    if body.count(b"[") + body.count(b"{") <= MAX_DEPTH:
        with suppress(ValueError):  # perhaps NaN, or half a surrogate pair, which `json` reads
            return orjson.loads(body)
    value = parse_body(body)
    try:
        check_depth(value)
    except ValueError as error:
        raise ProtocolError(f"a frame holds JSON, but {error}") from None
    return value
