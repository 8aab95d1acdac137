"""The TL1 dialect, host side: login on each new line, several commands at once, refusals.

A refusal is an answer, not an error of the line: each of several commands has its own. Commands
that could remove circuits of other clients are never sent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import cycle
from typing import TypeVar

from testbed.bench.contracts import Identity
from testbed.clock import Deadline
from testbed.concealed import excerpt
from testbed.errors import Garbled, InstrumentError, LinkLost, NoReply, Rejected, UsageError
from testbed.secret import masked
from testbed_drivers.dialects.options import Tl1Options
from testbed_drivers.dialects.session import LONGEST_ANSWER, Dialect, shortened
from testbed_drivers.dialects.tl1_line import Tl1Line
from testbed_drivers.dialects.tl1_syntax import MEANINGS, NOT_LOGGED_IN, Reply, Request
from testbed_drivers.transports.base import Endpoint

PIPELINE = 16
"""Commands on their way at once; at least one lab's controller does so, the limit is not public."""

_TAGS = 999_999
"""Tags have up to six characters."""

Rows = tuple[str, ...]
Answer = TypeVar("Answer")


class Tl1(Dialect[Tl1Line]):
    """Exchanges TL1 commands over a session.

    `options` has the login for each new line. `identity_query` has the queries for the identity,
    and `identity` parses their rows. The `answer_timeout` of the endpoint is the longest silence on
    a query: each block and acknowledgement of its reply restarts it.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        options: Tl1Options,
        identity_query: Sequence[Request],
        identity: Callable[[Sequence[Rows]], Identity],
    ) -> None:
        dial = endpoint.opener()
        super().__init__(endpoint, lambda deadline: Tl1Line(dial(deadline), endpoint.tracer))
        self._user, self._password = options.user, options.password
        self._identity_query = identity_query
        self._identity = identity
        self._tags = cycle(range(1, _TAGS + 1))

    def identify(self, deadline: Deadline) -> Identity:
        """Query the identity; raise InstrumentError for another serial number than expected."""
        return self._serial.check(self.query(self._identity_query, self._identity, deadline))

    def query(
        self,
        queries: Sequence[Request],
        parse: Callable[[Sequence[Rows]], Answer],
        deadline: Deadline,
    ) -> Answer:
        """Return the result of `parse` for the rows that each query returned.

        `parse` raises ValueError for invalid rows. Raise Rejected when a query is refused.
        """
        for query in queries:
            self._refuse_denied(query)

        def ask(line: Tl1Line) -> Answer:
            return self._asked(line, queries, parse, deadline)

        return self._session.query(ask, deadline)

    def execute(self, requests: Sequence[Request], deadline: Deadline) -> list[Reply]:
        """Send commands and return the reply to each, including refusals.

        One that was refused because the login had ended was not carried out; it is sent again
        after a new login, once.
        """
        for request in requests:
            self._refuse_denied(request)
        with self._session.held(deadline):
            replies = self._done(requests, deadline)
            again = [n for n, reply in enumerate(replies) if reply.code == NOT_LOGGED_IN]
            if again:
                self._session.note("the login has ended")
                self._session.close()
                retried = self._done([requests[n] for n in again], deadline)
                for number, reply in zip(again, retried, strict=True):
                    replies[number] = reply
        return replies

    def refused(
        self, orders: Sequence[tuple[Request, Iterable[int]]], deadline: Deadline
    ) -> dict[int, str]:
        """Send orders, each for some ports; return the reasons of refusals by port."""
        replies = self.execute([request for request, _ in orders], deadline)
        return {
            port: words
            for (_, ports), reply in zip(orders, replies, strict=True)
            if (words := _refusal_of(reply))
            for port in ports
        }

    def _done(self, requests: Sequence[Request], deadline: Deadline) -> list[Reply]:
        with self._session.exchange(deadline) as line:
            return self._exchange_all(line, requests, deadline, math.inf)

    def _greet(self, line: Tl1Line, deadline: Deadline) -> None:
        """Log in on a fresh line and check the identity."""
        login = Request("ACT-USER", self._user, ("", self._login_password()))
        (reply,) = self._exchange_all(line, [login], deadline, self._answer_timeout)
        if refusal := _refusal_of(reply):  # it may repeat what it was sent
            raise Rejected(
                self._instrument,
                f"refused the login of {self._user!r}: {masked(refusal)}",
                reply=masked(reply.words),
                hint="check 'user' and 'password' in the lab file",
            )
        self._serial.check(self._asked(line, self._identity_query, self._identity, deadline))

    def _login_password(self) -> str:
        if not self._user:
            raise UsageError(f"{self._instrument} has no 'user' in the lab file; TL1 needs a login")
        word = self._password.reveal() if self._password else ""
        for text, what in ((self._user, "user"), (word, "password")):
            if not (text.isascii() and text.isprintable()) or set(text) & set(':;,"'):
                raise UsageError(f"{self._instrument}: TL1 cannot transmit this {what}")
        return word

    def _asked(
        self,
        line: Tl1Line,
        queries: Sequence[Request],
        parse: Callable[[Sequence[Rows]], Answer],
        deadline: Deadline,
    ) -> Answer:
        replies = self._exchange_all(line, queries, deadline, self._answer_timeout)
        for query, reply in zip(queries, replies, strict=True):
            if reply.code == NOT_LOGGED_IN:
                raise LinkLost(self._instrument, "has ended the login")
            if refusal := _refusal_of(reply):
                raise Rejected(self._instrument, f"refused {query}: {refusal}", reply=reply.words)
        try:
            return parse([reply.rows for reply in replies])
        except ValueError as error:
            asked = ", ".join(map(str, queries[:3]))
            raise self._garbled(asked, error) from error

    def _exchange_all(
        self, line: Tl1Line, requests: Sequence[Request], deadline: Deadline, silence: float
    ) -> list[Reply]:
        replies: list[Reply] = []
        for start in range(0, len(requests), PIPELINE):
            some = requests[start : start + PIPELINE]
            replies += self._send_and_match(line, some, deadline, silence)
        return replies

    def _send_and_match(
        self, line: Tl1Line, requests: Sequence[Request], deadline: Deadline, silence: float
    ) -> list[Reply]:
        """Send requests at once; return their replies, in whatever order they come, in ours."""
        tagged = {str(next(self._tags)): request for request in requests}
        text = "".join(request.text(tag) for tag, request in tagged.items())
        shown = "".join(_masked(request).text(tag) for tag, request in tagged.items())
        replies: dict[str, Reply] = {}
        try:
            line.send(text, shown, deadline)
            while len(replies) < len(tagged):
                reply = line.reply(tagged.keys() - replies.keys(), deadline, silence)
                replies[reply.ctag] = reply
        except NoReply as error:
            missing = next(str(tagged[tag]) for tag in tagged if tag not in replies)
            raise self._unanswered(f"did not answer {missing}") from error
        except ValueError as error:
            raise Garbled(
                self._instrument, f"sent a message that is not valid TL1: {shortened(error)}"
            ) from error
        for tag, reply in replies.items():
            if reply.status not in _STATUSES:
                words = f"answered {tagged[tag]} with {reply.words}: its outcome is unknown"
                raise InstrumentError(self._instrument, words, reply=reply.words)
        return [replies[tag] for tag in tagged]

    def _refuse_denied(self, request: Request) -> None:
        """Refuse what would end circuits of others, or overrule what protects them."""
        if _is_denied(request):
            raise UsageError(
                f"{self._instrument}: {request} is never sent",
                hint="it would remove circuits of other clients; remove circuits by name",
            )


def _refusal_of(reply: Reply) -> str:
    """Return why a request was not, or only in part, carried out; empty when it was."""
    if reply.status == "COMPLD":
        return ""
    meaning = MEANINGS.get(reply.code, "in part" if reply.status == "PRTL" else "no reason given")
    return f"{meaning} ({excerpt(reply.words, LONGEST_ANSWER)})"


_STATUSES = {"COMPLD", "DENY", "PRTL", "NG", "RL"}
"""How a request may end; after anything else that is unknown."""


def _is_denied(request: Request) -> bool:
    if request.verb.startswith("RTRV-"):
        return False
    named = {*request.aid.upper().replace(",", "&").split("&")}
    parts = {part.strip() for block in request.blocks for part in block.upper().split(",")}
    words = {*request.verb.split("-"), *named, *parts}
    return request.verb == "INIT-SYS" or bool(words & {"ALL", "FRCD"})


def _masked(request: Request) -> Request:
    """Return a request as the transcript may have it."""
    if request.verb != "ACT-USER":
        return request
    return Request(request.verb, request.aid, ("", "***"))
