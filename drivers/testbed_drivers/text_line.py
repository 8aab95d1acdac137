"""The one-line text dialect, host side: lines out, one line back.

Small instruments have no error queue and no tags: a setter is silent, and only the answer to a
query behind it shows what it did. So both travel as one write, and what comes back is that answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

from testbed.bench.contracts import Tracer, Transport
from testbed.clock import Deadline, now
from testbed.errors import Garbled, NoReply
from testbed_drivers.session import Session
from testbed_drivers.transport import listen_out

QUERY_SECONDS = 2.0
"""The longest that a query may take; the caller's deadline may be shorter."""

_LEFT_OVERS = 4
"""Answers to earlier exchanges that a serial line may still deliver after it was reopened."""
_HUSH = 0.05
"""Seconds of silence after which a serial line has nothing more to deliver."""

Answer = TypeVar("Answer")


class TextLine:
    """Speak lines of text over a session.

    `ends` are the terminators of what we write and of what we read. `introduction` is a query with
    the parser of its answer: asked on every fresh line, until an answer is one. A `serial` line
    outlives its opening, and may still deliver answers of before; these are passed over.
    """

    def __init__(
        self,
        instrument: str,
        dial: Callable[[Deadline], Transport],
        tracer: Tracer,
        *,
        ends: tuple[bytes, bytes],
        introduction: tuple[str, Callable[[str], object]],
        serial: bool,
    ) -> None:
        self._instrument = instrument
        self._session = Session(instrument, dial, self._greet, tracer)
        self._write_end, self._read_end = ends
        self._introduction = introduction
        self._serial = serial

    def held(self, deadline: Deadline) -> AbstractContextManager[None]:
        """Keep the instrument for several exchanges in a row."""
        return self._session.held(deadline)

    def close(self) -> None:
        """Close the line; safe to call twice."""
        self._session.close()

    def ask(self, query: str, parse: Callable[[str], Answer], deadline: Deadline) -> Answer:
        """Return the parsed answer to a query; `parse` raises ValueError for what it cannot be."""

        def once() -> Answer:
            return self.do([query], parse, deadline.within(QUERY_SECONDS))[2]

        return self._session.read(once, deadline)

    def do(
        self, lines: Sequence[str], parse: Callable[[str], Answer], deadline: Deadline
    ) -> tuple[float, float, Answer]:
        """Send lines, of which only the last is answered; return when, and the answer.

        The two stamps are those of sending and of the answer. Nothing is sent twice.
        """
        with self._session.exchange(deadline) as line:
            commanded = now()
            self._send(line, lines, deadline)
            try:
                answer = parse(self._receive(line, deadline))
            except NoReply as error:
                raise NoReply(
                    self._instrument,
                    f"did not answer {lines[-1]!r} in time",
                    hint="whether it was done shows only in a read-back; check the line to it",
                ) from error
            except ValueError as error:
                raise Garbled(self._instrument, f"answered {lines[-1]!r} with: {error}") from error
            return commanded, now(), answer

    def _greet(self, line: Transport, deadline: Deadline) -> None:
        """Ask what the introduction says, and have nothing left to receive afterwards."""
        budget = deadline.within(QUERY_SECONDS)
        query, parse = self._introduction
        self._send(line, [query], budget)
        for _ in range(_LEFT_OVERS):
            try:
                parse(self._receive(line, budget))
                break
            except ValueError as error:
                self._session.note(f"left over from an earlier exchange: {error}")
        else:
            raise Garbled(self._instrument, f"does not answer {query!r} as it should")
        if self._serial:
            listen_out(line, _HUSH, budget)

    def _send(self, line: Transport, lines: Sequence[str], deadline: Deadline) -> None:
        data = b"".join(text.encode("ascii") + self._write_end for text in lines)
        self._session.tracer("send", data)
        line.send(data, deadline)

    def _receive(self, line: Transport, deadline: Deadline) -> str:
        """Return the next line that is not empty; ValueError when it is no ASCII."""
        while True:
            data = line.receive(self._read_end, deadline)
            self._session.tracer("receive", data)
            if text := data.decode("ascii").strip():
                return text
