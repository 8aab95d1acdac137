"""One instrument's connection: one lock, one exchange at a time, reopened after any error.

After a timeout, a lost line or an invalid answer, the next bytes on a line may belong to the
previous exchange. So the line is closed, and before the next exchange it is opened again, with
login and identity check. Nothing is ever repeated automatically except inside `read`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from testbed.bench.contracts import Cut, Identity, Tracer, Transport
from testbed.clock import Deadline
from testbed.concealed import excerpt
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply, Rejected
from testbed_drivers.transports.base import Endpoint
from testbed_drivers.transports.options import DEFAULT, Timeouts

LONGEST_ANSWER = 300
"""Characters of an answer that a message repeats."""
_LONGEST = 200
"""Characters of a serial number, the name of a maker or a model."""
_ASKED = "its identity"
_CLOSING = 0.5
"""Seconds that closing waits for an exchange under way."""
_IDENTITY_HINT = "check that it is on, and that 'driver' and 'resource' in the lab file name it"


class Line(Protocol):
    """The interface of an open line: a transport, or a connection of another kind."""

    def quiet(self) -> bool:
        """Return whether the idle line is up and holds no unread bytes."""

    def close(self) -> None:
        """Close the line; safe to call twice."""


AnyLine = TypeVar("AnyLine", bound=Line)
Answer = TypeVar("Answer")


class SerialNumber:
    """The expected serial number of an instrument.

    If the lab file states none, it is that of the first answer.
    """

    def __init__(self, instrument: str, expected: str | None) -> None:
        self._instrument = instrument
        self._expected = expected

    def check(self, identity: Identity) -> Identity:
        """Return the identity; raise InstrumentError when it differs from the expected one.

        Raise Garbled for a field that is too long.
        """
        if longest := max(
            (identity.maker, identity.model, identity.serial, identity.firmware), key=len
        )[_LONGEST:]:
            raise Garbled(
                self._instrument,
                f"reports its identity with a field of {len(longest) + _LONGEST} characters; "
                f"at most {_LONGEST} are accepted",
                reply=str(identity),
            )
        if self._expected is None:
            self._expected = identity.serial
        if identity.serial != self._expected:
            raise InstrumentError(
                self._instrument,
                f"has the serial number {identity.serial} instead of {self._expected}",
                reply=str(identity),
                hint="another device answers: correct 'resource' or 'identity' in the lab file",
            )
        return identity


@dataclass(eq=False)
class Session(Generic[AnyLine]):
    """Keeps one connection to one instrument, and separates its exchanges.

    `dial` opens a line, within `connect_timeout`; `greet` runs on each new one and raises when the
    instrument is not the expected one.
    """

    instrument: str
    _dial: Callable[[Deadline], AnyLine]
    _greet: Callable[[AnyLine, Deadline], None]
    tracer: Tracer
    _timeouts: Timeouts = DEFAULT
    _lock: threading.RLock = field(default_factory=threading.RLock, init=False)
    _line: AnyLine | None = field(default=None, init=False)
    _depth: int = field(default=0, init=False)
    """How many times the thread that has the lock has taken it."""
    _is_to_close: bool = field(default=False, init=False)
    """The line is closed when the lock is released: `close` did not get it."""

    @contextmanager
    def held(self, deadline: Deadline) -> Iterator[None]:
        """Lock the instrument for several exchanges in a row, with an open line.

        The time to open the line does not count in the exchanges.
        """
        with self.locked(deadline):
            self.read(lambda: self._open_line(deadline), deadline)
            yield

    @contextmanager
    def locked(self, deadline: Deadline) -> Iterator[None]:
        """Lock the instrument for this thread, whether its line is open or not."""
        if not self._lock.acquire(timeout=deadline.left):
            raise NoReply(self.instrument, "was busy with other exchanges until the deadline")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
            try:
                if self._is_to_close and not self._depth:
                    self._close_line()
            finally:
                self._lock.release()

    @contextmanager
    def exchange(self, deadline: Deadline) -> Iterator[AnyLine]:
        """Provide the line for one exchange; its answer is received and parsed inside the block.

        Any error except Rejected closes the line.
        """
        with self.locked(deadline):
            line = self._open_line(deadline)
            try:
                yield line
            except Rejected:
                raise
            except BaseException as error:
                self.note(f"line closed: {type(error).__name__}")
                self.close()
                raise

    def query(self, ask: Callable[[AnyLine], Answer], deadline: Deadline) -> Answer:
        """Return the result of `ask` for the line of one exchange; retry once as `read` does."""

        def once() -> Answer:
            with self.exchange(deadline) as line:
                return ask(line)

        return self.read(once, deadline)

    def read(self, ask: Callable[[], Answer], deadline: Deadline) -> Answer:
        """Return the result of `ask`; call it once more, on a new line, when the line failed.

        For reads only: a command that changes something is never repeated. A retry is noted in the
        transcript.
        """
        try:
            return ask()
        except (NoReply, LinkLost, Garbled) as error:
            if deadline.passed:
                raise
            why = str(error.args[0]).removeprefix(f"{self.instrument}: ")
            self.tracer("retry", why.encode())
            return ask()

    def require_quiet(self, line: AnyLine) -> None:
        """Raise Garbled when an open line holds unsolicited bytes, which are no answer."""
        if not line.quiet():
            raise Garbled(
                self.instrument, "sent data that was not requested, or closed the connection"
            )

    def note(self, words: str) -> None:
        """Write a remark into the transcript."""
        self.tracer("note", words.encode())

    def close(self) -> None:
        """Close the line; safe to call twice. The next exchange opens a new one.

        A line on which another thread still waits is closed by that thread, whether it fails or
        not.
        """
        if not self._lock.acquire(timeout=_CLOSING):
            self._is_to_close = True
            if not self._lock.acquire(blocking=False):  # else it was released meanwhile
                return
        try:
            self._close_line()
        finally:
            self._lock.release()

    def _close_line(self) -> None:
        line, self._line, self._is_to_close = self._line, None, False
        if line is not None:
            line.close()

    def _open_line(self, deadline: Deadline) -> AnyLine:
        """Return a line on which nothing is outstanding."""
        if self._line is not None and not self._line.quiet():
            self.note("line closed: it was not quiet before an exchange")
            self.close()
        if self._line is None:
            line = self._dial(deadline.within(self._timeouts.connect_timeout))
            self.note("line opened")
            try:
                self._greet(line, deadline)
                self.require_quiet(line)
            except (NoReply, Garbled) as error:
                line.close()
                raise self._identification_error(error) from error
            except BaseException:
                line.close()
                raise
            self._line = line
        return self._line

    def _identification_error(self, error: NoReply | Garbled) -> NoReply | Garbled:
        """Return an error of a greeting that names the identity query, with a hint."""
        words = str(error.args[0]).removeprefix(f"{self.instrument}: ")
        message = words if _ASKED in words else f"asked for {_ASKED}, it {words}"
        hint = error.hint or _IDENTITY_HINT
        return type(error)(self.instrument, message, reply=error.reply, hint=hint)


class Dialect(ABC, Generic[AnyLine]):
    """A protocol over a session with the instrument at an endpoint.

    `open_line` opens a new line; `_greet` then logs in and checks the identity.
    """

    def __init__(self, endpoint: Endpoint, open_line: Callable[[Deadline], AnyLine]) -> None:
        self._instrument = endpoint.instrument
        self._serial = SerialNumber(endpoint.instrument, endpoint.serial)
        self._answer_timeout = endpoint.options.answer_timeout
        self._session = Session(
            endpoint.instrument, open_line, self._greet, endpoint.tracer, endpoint.options
        )

    @abstractmethod
    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""

    def held(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Lock the instrument for several exchanges in a row."""
        return self._session.held(deadline)

    def note(self, words: str) -> None:
        """Write a remark into the transcript."""
        self._session.note(words)

    def close(self) -> None:
        """Close the line; safe to call twice."""
        self._session.close()

    @abstractmethod
    def _greet(self, line: AnyLine, deadline: Deadline) -> None:
        """Check the identity on a fresh line, after a login where one is needed."""

    def _garbled(self, asked: str, error: ValueError, reply: str = "") -> Garbled:
        """Return the error for an answer to `asked` that a parser refused."""
        message = f"answered {asked} with: {shortened(error)}"
        return Garbled(self._instrument, message, reply=reply)

    def _unanswered(self, what: str) -> NoReply:
        """Return the error for an order or a query without an answer in time."""
        hint = "whether it was done shows only in a read-back; check the line to it"
        return NoReply(self._instrument, f"{what} in time", hint=hint)


class TransportDialect(Dialect[Transport]):
    """A dialect whose transcript has the bytes exactly as they are sent and received."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint, endpoint.opener())

    def _send_bytes(self, line: Transport, data: bytes, deadline: Deadline) -> None:
        self._session.tracer("send", data)
        line.send(data, deadline)

    def _receive_bytes(self, line: Transport, end: bytes | Cut, deadline: Deadline) -> bytes:
        data = line.receive(end, deadline)
        self._session.tracer("receive", data)
        return data


def shortened(error: Exception) -> str:
    """Return the text of an error about an answer, shortened for a message."""
    return excerpt(str(error), LONGEST_ANSWER)
