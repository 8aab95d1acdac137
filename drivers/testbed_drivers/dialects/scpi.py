"""The SCPI dialect, host side: a command and its error query are sent as one line.

Set commands have no answer, so each line of commands ends in `:SYST:ERR?`: so the error is known to
belong to the line, and only one round trip is needed. Where that is supported, what the commands
did is read back on the same line, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from typing import TypeVar

from testbed.bench.contracts import Identity, Transport
from testbed.clock import Deadline, now
from testbed.concealed import excerpt, excerpt_of
from testbed.errors import Garbled, NoReply, Rejected, UsageError
from testbed_drivers.dialects.scpi_syntax import commands, error_reply, pattern, units
from testbed_drivers.dialects.session import LONGEST_ANSWER, TransportDialect
from testbed_drivers.transports.base import Endpoint

_ERROR_QUERY = ":SYST:ERR?"
_LONGEST_QUEUE = 64
"""Errors read before an instrument counts as broken; queues found in manuals hold 8 to 30."""
_REMEMBERED = 256
"""Messages that need not be looked through again."""
_STALE_ANSWERS = 4
"""Answers to earlier exchanges that a serial line may still deliver after it was reopened."""

Answer = TypeVar("Answer")


class Scpi(TransportDialect):
    """Exchanges SCPI lines over a session.

    `ends` are the line terminators for writing and for reading. `denied` are the headers, in SCPI
    spelling, that no line may contain.
    """

    def __init__(
        self, endpoint: Endpoint, *, ends: tuple[bytes, bytes], denied: Sequence[str]
    ) -> None:
        super().__init__(endpoint)
        self._write_end, self._read_end = ends
        self._denied = tuple(pattern(header) for header in denied)

    def beside(self, instrument: str, denied: Sequence[str] = ()) -> Scpi:
        """Return a dialect on the same line for another instrument, with its denied headers.

        One lock separates their exchanges; the transcript of the first instrument has them all.
        """
        other = copy(self)
        other._instrument = instrument
        other._denied = (*self._denied, *map(pattern, denied))
        return other

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._serial.check(self.query("*IDN?", _identity, deadline))

    def query(self, query: str, parse: Callable[[str], Answer], deadline: Deadline) -> Answer:
        """Return the parsed answer to a query; `parse` raises ValueError for an invalid answer."""
        self._refuse_denied(query)

        def ask(line: Transport) -> Answer:
            return self._asked(line, query, parse, deadline.within(self._answer_timeout))

        return self._session.query(ask, deadline)

    def execute(self, orders: Sequence[str], deadline: Deadline) -> tuple[float, float]:
        """Send commands as one line; return the times of sending and of the answer.

        Raise Rejected with the instrument's message when it reports an error, standard (negative)
        or vendor-specific. Many instruments have one error queue for all clients, so errors of
        other clients are read first.
        """
        message = ";".join((*orders, _ERROR_QUERY))
        self._refuse_denied(message)
        with self._session.exchange(deadline) as line:
            self._drain(line, deadline)
            self._session.require_quiet(line)
            commanded = now()
            number, words = self._asked(line, message, error_reply, deadline)
            answered = now()
            if number:
                self._drain(line, deadline)
                raise self._rejected(orders, number, words)
        return commanded, answered

    def execute_and_read(
        self,
        orders: Sequence[str],
        queries: Sequence[str],
        parse: Callable[[Sequence[str]], Answer],
        is_done: Callable[[Answer], bool],
        deadline: Deadline,
    ) -> tuple[float, float, Answer]:
        """Send commands and queries of what they did as one line; return times and the answer.

        `parse` gets the answers to the queries, and raises ValueError for an invalid one. Raise
        Rejected as `execute` does. An error that was in the queue before the commands is another
        client's; so may be what follows it there, and `is_done` decides then.
        """
        message = ";".join((_ERROR_QUERY, *orders, _ERROR_QUERY, *queries))
        self._refuse_denied(message)

        def parsed(reply: str) -> tuple[tuple[int, str], tuple[int, str], Answer | None]:
            before, error, *rest = map(str.strip, units(reply, 2))
            number, words = error_reply(error)
            is_refused = number and len(rest) < len(queries)  # then the queries were so, too
            return error_reply(before), (number, words), None if is_refused else parse(rest)

        with self._session.exchange(deadline) as line:
            self._session.require_quiet(line)
            commanded = now()
            before, error, answer = self._asked(line, message, parsed, deadline)
            answered = now()
            if before[0]:
                self._session.note(f"error in the queue: {before[0]}, {before[1]}")
            if error[0]:
                self._drain(line, deadline)
            is_ours = error[0] and not (before[0] and answer is not None and is_done(answer))
            if is_ours or answer is None:
                raise self._rejected(orders, *error)
        return commanded, answered, answer

    def _rejected(self, orders: Sequence[str], number: int, words: str) -> Rejected:
        asked = excerpt("; ".join(orders), LONGEST_ANSWER)
        return Rejected(self._instrument, f"refused {asked}: {number}, {words}", reply=words)

    def _greet(self, line: Transport, deadline: Deadline) -> None:
        """Check the identity on a fresh line and drop the errors of earlier clients."""
        budget = deadline.within(self._answer_timeout)
        self._send(line, "*IDN?", budget)
        self._serial.check(self._read_identity(line, budget))
        self._drain(line, deadline.within(self._answer_timeout))

    def _read_identity(self, line: Transport, deadline: Deadline) -> Identity:
        """Return the identity that comes, past what a serial line still delivers of before."""
        for _ in range(_STALE_ANSWERS):
            reply = self._receive(line, deadline)
            try:
                return _identity(reply)
            except ValueError:
                self._session.note(f"left over from an earlier exchange: {excerpt(reply)}")
        raise Garbled(self._instrument, "does not report its identity", reply=reply)

    def _drain(self, line: Transport, deadline: Deadline) -> None:
        """Read errors until there is none left."""
        for _ in range(_LONGEST_QUEUE):
            self._session.require_quiet(line)
            number, words = self._asked(line, _ERROR_QUERY, error_reply, deadline)
            if not number:
                return
            self._session.note(f"error in the queue: {number}, {words}")
        raise Garbled(self._instrument, f"still reports errors after {_LONGEST_QUEUE} of them")

    def _asked(
        self, line: Transport, query: str, parse: Callable[[str], Answer], deadline: Deadline
    ) -> Answer:
        self._send(line, query, deadline)
        try:
            reply = self._receive(line, deadline)
            return parse(reply)
        except NoReply as error:
            asked = excerpt(query, LONGEST_ANSWER)
            raise self._unanswered(f"did not answer {asked}") from error
        except ValueError as error:
            raise self._garbled(query, error, reply) from error

    def _send(self, line: Transport, message: str, deadline: Deadline) -> None:
        self._send_bytes(line, message.encode("ascii") + self._write_end, deadline)

    def _receive(self, line: Transport, deadline: Deadline) -> str:
        data = self._receive_bytes(line, self._read_end, deadline)
        text = data.decode("ascii").strip() if data.isascii() else ""
        if not (data.isascii() and text.isprintable()):
            words = excerpt_of(data.strip())
            raise Garbled(self._instrument, f"answered with {words!r}", reply=words)
        return text

    def _refuse_denied(self, message: str) -> None:
        for header in _matching(message, self._denied):
            raise UsageError(
                f"{self._instrument}: {header} is never sent",
                hint="it would remove circuits of other clients; remove circuits by name",
            )


@lru_cache(_REMEMBERED)
def _matching(message: str, patterns: Sequence[re.Pattern[str]]) -> tuple[str, ...]:
    """Return the headers of a message that a pattern matches; the same ones are sent again."""
    headers = (command.header for command in commands(message))
    return tuple(header for header in headers if any(one.fullmatch(header) for one in patterns))


def _identity(reply: str) -> Identity:
    parts = [part.strip() for part in reply.split(",", 3)]
    # No field holds a semicolon (IEEE 488.2, 10.14): an answer that does is a late one to a list.
    if len(parts) < 4 or reply[0] in '("' or ";" in reply:
        raise ValueError(f"{reply!r} is not maker, model, serial number, firmware")
    return Identity(*parts)
