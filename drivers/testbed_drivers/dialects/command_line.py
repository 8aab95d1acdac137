"""The command line dialect over SSH, host side: a command, its output, its exit status."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

from testbed.bench.contracts import EXIT_MARK, Identity, Transport
from testbed.clock import Deadline
from testbed.concealed import excerpt, excerpt_of
from testbed.errors import NoReply, Rejected
from testbed_drivers.dialects.session import LONGEST_ANSWER, TransportDialect
from testbed_drivers.transports.base import Endpoint

Answer = TypeVar("Answer")


class Output(NamedTuple):
    """The output of a command, and its exit status."""

    text: str
    status: int

    @property
    def last_line(self) -> str:
        """Return the last line that is not blank, or an empty string."""
        return next(filter(None, map(str.strip, self.text.splitlines()[::-1])), "")


class CommandLine(TransportDialect):
    """Runs commands over a session.

    `identity_query` is the command for the identity, `identity` parses its output; every new
    connection begins with it.
    """

    def __init__(
        self, endpoint: Endpoint, identity_query: str, identity: Callable[[str], Identity]
    ) -> None:
        super().__init__(endpoint)
        self._identity_query = identity_query
        self._identity = identity

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._serial.check(self.query(self._identity_query, self._identity, deadline))

    def query(self, command: str, parse: Callable[[str], Answer], deadline: Deadline) -> Answer:
        """Return the parsed output of a command that changes nothing, so it may be repeated.

        `parse` raises ValueError for invalid output.
        """

        def ask(line: Transport) -> Answer:
            return self._asked(line, command, parse, deadline.within(self._answer_timeout))

        return self._session.query(ask, deadline)

    def execute(
        self, command: str, judge: Callable[[Output], Answer], deadline: Deadline
    ) -> Answer:
        """Run a changing command exactly once; return what `judge` returns for its output.

        `judge` raises ValueError for output that shows neither success nor failure.
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
            raise self._garbled(command, error, output.text) from error

    def _run(self, line: Transport, command: str, deadline: Deadline) -> Output:
        try:
            self._send_bytes(line, command.encode() + b"\n", deadline)
            data = self._receive_bytes(line, _whole_answer, deadline)
        except NoReply as error:
            raise self._unanswered(f"did not finish {command}") from error
        text, _, status = data.rpartition(EXIT_MARK)
        try:
            return Output(text.decode(), int(status))
        except ValueError as error:
            raise self._garbled(command, error, excerpt_of(data)) from error


def _whole_answer(data: bytes) -> int:
    """Cut off an answer with its exit status."""
    mark = data.find(EXIT_MARK)
    return 0 if mark < 0 else data.find(b"\n", mark) + 1
