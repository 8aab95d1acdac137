"""One instrument's line: one lock, one exchange in flight, and a fresh line after any doubt.

After a timeout, a lost line or an answer that makes no sense, the next bytes on a line may belong
to the exchange before. So the line is closed and, before the next exchange, opened again and
greeted (log in, check the identity). Nothing is ever sent twice by itself except inside `read`.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
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
_ASKED = "who it is"
_CLOSING = 0.5
"""Seconds that closing waits for an exchange under way."""
_IDENTITY_HINT = "is it on, and is it the box that 'driver' and 'resource' in the lab file name?"


class Line(Protocol):
    """What a session keeps open: a transport, or a connection of another kind."""

    def quiet(self) -> bool:
        """Tell whether the idle line is up and holds no unread bytes."""

    def close(self) -> None:
        """Close the line; safe to call twice."""


AnyLine = TypeVar("AnyLine", bound=Line)
Answer = TypeVar("Answer")


class SerialNumber:
    """The serial number that an instrument must have.

    Without one in the lab file it is that of the first instrument that answered.
    """

    def __init__(self, instrument: str, expected: str | None) -> None:
        self._instrument = instrument
        self._expected = expected

    def check(self, identity: Identity) -> Identity:
        """Return the identity; raise InstrumentError when it is another than expected.

        Raise Garbled for a field of it that is too long to be any.
        """
        if longest := max(
            (identity.maker, identity.model, identity.serial, identity.firmware), key=len
        )[_LONGEST:]:
            raise Garbled(
                self._instrument,
                f"says who it is in a word of {len(longest) + _LONGEST} characters",
                reply=str(identity),
            )
        if self._expected is None:
            self._expected = identity.serial
        if identity.serial != self._expected:
            raise InstrumentError(
                self._instrument,
                f"has the serial number {identity.serial} instead of {self._expected}",
                reply=str(identity),
                hint="another box answers there; correct 'resource' or 'identity' in the lab file",
            )
        return identity


class Session(Generic[AnyLine]):
    """Keep one line to one instrument, and keep its exchanges apart.

    `dial` opens a line, within `connect_timeout`; `greet` runs on each fresh one and raises when
    the instrument is not the one expected.
    """

    def __init__(
        self,
        instrument: str,
        dial: Callable[[Deadline], AnyLine],
        greet: Callable[[AnyLine, Deadline], None],
        tracer: Tracer,
        timeouts: Timeouts = DEFAULT,
    ) -> None:
        self.instrument = instrument
        self.tracer = tracer
        self._dial = dial
        self._greet = greet
        self._timeouts = timeouts
        self._lock = threading.RLock()
        self._line: AnyLine | None = None

    @contextmanager
    def held(self, deadline: Deadline) -> Iterator[None]:
        """Keep the instrument for several exchanges in a row, on a line that is open.

        What it takes to open one counts in no exchange.
        """
        with self.locked(deadline):
            self.read(lambda: self._open_line(deadline), deadline)
            yield

    @contextmanager
    def locked(self, deadline: Deadline) -> Iterator[None]:
        """Keep the instrument to this thread, whether its line is open or not."""
        if not self._lock.acquire(timeout=deadline.left):
            raise NoReply(self.instrument, "was busy with another exchange all the time")
        try:
            yield
        finally:
            self._lock.release()

    @contextmanager
    def exchange(self, deadline: Deadline) -> Iterator[AnyLine]:
        """Lend the line for one exchange; its answer is received and understood inside.

        Anything but success or Rejected closes the line.
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
        """Return what `ask` returns for the line of one exchange; ask once more as `read` does."""

        def once() -> Answer:
            with self.exchange(deadline) as line:
                return ask(line)

        return self.read(once, deadline)

    def read(self, ask: Callable[[], Answer], deadline: Deadline) -> Answer:
        """Return what `ask` returns; ask once more, on a fresh line, when the line failed it.

        For reads only: a command that changes something is never repeated. The tracer hears of it.
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
        """Raise Garbled when a line in use holds unsolicited bytes: they would be mistaken."""
        if not line.quiet():
            raise Garbled(self.instrument, "said more than it was asked, or hung up")

    def note(self, words: str) -> None:
        """Write a remark into the transcript."""
        self.tracer("note", words.encode())

    def close(self) -> None:
        """Close the line; safe to call twice. The next exchange opens a fresh one.

        One on which another thread still waits is left to that thread.
        """
        if not self._lock.acquire(timeout=_CLOSING):
            return
        try:
            line, self._line = self._line, None
            if line is not None:
                line.close()
        finally:
            self._lock.release()

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
        """Return an error of a greeting with what was asked, and what is worth a look then."""
        words = str(error.args[0]).removeprefix(f"{self.instrument}: ")
        message = words if _ASKED in words else f"asked {_ASKED}, it {words}"
        hint = error.hint or _IDENTITY_HINT
        return type(error)(self.instrument, message, reply=error.reply, hint=hint)


class Dialect(ABC, Generic[AnyLine]):
    """A language that is spoken over a session with the instrument at an endpoint.

    `open_line` opens a fresh line, which `_greet` then greets.
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
        """Query the identity; refuse the wrong serial number."""

    def held(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Keep the instrument for several exchanges in a row."""
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
    """A dialect whose bytes are in the transcript as they are on the line."""

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
    """Return what an error says of an answer, as a message may repeat it."""
    return excerpt(str(error), LONGEST_ANSWER)
