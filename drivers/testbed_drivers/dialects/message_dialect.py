"""The base of dialects without tags and error queues: messages out, one message back.

A set command of a small instrument has no answer, or an echo; only the answer to a query after it
shows its effect. So both are sent in one write, and the answer to the query is read.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from testbed.bench.contracts import Identity, Transport
from testbed.clock import Deadline, now
from testbed.errors import Garbled, NoReply
from testbed_drivers.dialects.session import TransportDialect, shortened
from testbed_drivers.transports.base import Endpoint, drain_input

_STALE_ANSWERS = 4
"""Answers to earlier exchanges that a serial line may still deliver after it was reopened."""
_SILENCE = 0.05
"""Seconds of silence after which a serial line has nothing more to deliver."""

Message = TypeVar("Message")
Answer = TypeVar("Answer")


class MessageDialect(TransportDialect, Generic[Message]):
    """Exchanges messages over a session on a serial line.

    `identity_query` is a query with the parser of its answer; it is sent on every newly opened line
    until the answer is valid, since a serial line may still deliver answers to earlier queries.
    """

    def __init__(
        self, endpoint: Endpoint, identity_query: tuple[Message, Callable[[Message], Identity]]
    ) -> None:
        super().__init__(endpoint)
        self._identity_query = identity_query

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self.query(*self._identity_query, deadline)

    def query(
        self, query: Message, parse: Callable[[Message], Answer], deadline: Deadline
    ) -> Answer:
        """Return the parsed answer to a query; `parse` raises ValueError for an invalid answer."""
        return self._session.read(
            lambda: self._done([query], parse, deadline, self._answer_timeout)[2], deadline
        )

    def execute(
        self, messages: Sequence[Message], parse: Callable[[Message], Answer], deadline: Deadline
    ) -> tuple[float, float, Answer]:
        """Send messages, of which only the last is answered; return the times, and the answer.

        The two time stamps are those of sending and of the answer. Nothing is sent twice.
        """
        return self._done(messages, parse, deadline, math.inf)

    def _done(
        self,
        messages: Sequence[Message],
        parse: Callable[[Message], Answer],
        deadline: Deadline,
        limit: float,
    ) -> tuple[float, float, Answer]:
        with self._session.exchange(deadline) as line:
            budget = deadline.within(limit)
            commanded = now()
            self._send(line, messages, budget)
            asked = self._words(messages[-1])
            try:
                answer = parse(self._receive(line, budget))
            except NoReply as error:
                raise self._unanswered(f"did not answer {asked}") from error
            except ValueError as error:
                raise self._garbled(asked, error) from error
            return commanded, now(), answer

    @abstractmethod
    def _encode(self, message: Message) -> bytes:
        """Return a message as it goes on the wire."""

    @abstractmethod
    def _receive(self, line: Transport, deadline: Deadline) -> Message:
        """Return the next message; ValueError when it cannot be one."""

    @abstractmethod
    def _words(self, message: Message) -> str:
        """Return how a person reads a message."""

    def _greet(self, line: Transport, deadline: Deadline) -> None:
        """Query the identity, and leave nothing unread."""
        budget = deadline.within(self._answer_timeout)
        query, parse = self._identity_query
        self._send(line, [query], budget)
        for _ in range(_STALE_ANSWERS):
            try:
                parse(self._receive(line, budget))
                break
            except ValueError as error:
                self._session.note(f"left over from an earlier exchange: {shortened(error)}")
        else:
            raise Garbled(self._instrument, f"sent no valid answer to {self._words(query)}")
        drain_input(line, _SILENCE, budget)

    def _send(self, line: Transport, messages: Sequence[Message], deadline: Deadline) -> None:
        self._send_bytes(line, b"".join(map(self._encode, messages)), deadline)
