"""The dialect of a command line over SSH, host side: a command, its output, its exit status."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from testbed.bench.contracts import EXIT_MARK, Identity, Tracer, Transport
from testbed.clock import Deadline
from testbed.concealed import excerpt, excerpt_of
from testbed.errors import NoReply, Rejected
from testbed_drivers.dialects.session import (
    LONGEST_ANSWER,
    Dialect,
    SerialNumber,
    Session,
    garbled,
    unanswered,
)
from testbed_drivers.transports.options import DEFAULT, Timeouts

Answer = TypeVar("Answer")


class Output(NamedTuple):
    """What a command wrote, and its exit status."""

    text: str
    status: int

    @property
    def last_line(self) -> str:
        """Return the last line with anything on it, or an empty string."""
        return next(filter(None, map(str.strip, self.text.splitlines()[::-1])), "")


class CommandLine(Dialect[Transport]):
    """Run commands over a session.

    `identity_query` is the command that says who answers, `identity` understands it; a fresh line
    begins with it. `serial` is the serial number that must answer, or None.
    """

    def __init__(
        self,
        instrument: str,
        dial: Callable[[Deadline], Transport],
        tracer: Tracer,
        *,
        identity_query: str,
        identity: Callable[[str], Identity],
        serial: str | None,
        timeouts: Timeouts = DEFAULT,
    ) -> None:
        self._instrument = instrument
        self._session = Session(instrument, dial, self._greet, tracer, timeouts)
        self._identity_query = identity_query
        self._identity = identity
        self._serial = SerialNumber(instrument, serial)
        self._answer_timeout = timeouts.answer_timeout

    def identify(self, deadline: Deadline) -> Identity:
        """Ask who it is; refuse the wrong serial number."""
        return self._serial.check(self.query(self._identity_query, self._identity, deadline))

    def query(self, command: str, parse: Callable[[str], Answer], deadline: Deadline) -> Answer:
        """Return the parsed output of a command that changes nothing.

        It may run twice. `parse` raises ValueError for what the output cannot be.
        """

        def once() -> Answer:
            with self._session.exchange(deadline) as line:
                budget = deadline.within(self._answer_timeout)
                return self._asked(line, command, parse, budget)

        return self._session.read(once, deadline)

    def execute(
        self, command: str, judge: Callable[[Output], Answer], deadline: Deadline
    ) -> Answer:
        """Run a command once that changes something; return what `judge` makes of its output.

        `judge` raises ValueError for what is neither success nor failure.
        """
        with self._session.exchange(deadline) as line:
            output = self._run(line, command, deadline.within(self._answer_timeout))
            return self._understood(command, output, lambda: judge(output))

    def _greet(self, line: Transport, deadline: Deadline) -> None:
        budget = deadline.within(self._answer_timeout)
        self._serial.check(self._asked(line, self._identity_query, self._identity, budget))

    def _asked(
        self, line: Transport, command: str, parse: Callable[[str], Answer], deadline: Deadline
    ) -> Answer:
        output = self._run(line, command, deadline)
        if output.status:
            words = excerpt(output.last_line, LONGEST_ANSWER)
            raise Rejected(self._instrument, f"refused {command}: {words}", reply=words)
        return self._understood(command, output, lambda: parse(output.text))

    def _understood(self, command: str, output: Output, parse: Callable[[], Answer]) -> Answer:
        try:
            return parse()
        except ValueError as error:
            raise garbled(self._instrument, command, error, output.text) from error

    def _run(self, line: Transport, command: str, deadline: Deadline) -> Output:
        sent = command.encode() + b"\n"
        self._session.tracer("send", sent)
        try:
            line.send(sent, deadline)
            data = line.receive(_whole_answer, deadline)
        except NoReply as error:
            raise unanswered(self._instrument, f"did not finish {command}") from error
        self._session.tracer("receive", data)
        text, _, status = data.rpartition(EXIT_MARK)
        try:
            return Output(text.decode(), int(status))
        except ValueError as error:
            raise garbled(self._instrument, command, error, excerpt_of(data)) from error


def _whole_answer(data: bytes) -> int:
    """Cut off an answer with its exit status."""
    mark = data.find(EXIT_MARK)
    return 0 if mark < 0 else data.find(b"\n", mark) + 1
