"""One TL1 connection, host side: each reply is matched to its request by the correlation tag.

Autonomous messages of a switch may come at any time, a slow command is acknowledged first and a
long reply comes in blocks. So the next message need not be the reply: complete replies are returned
for the awaited tags, and all else is only written into the transcript.
"""

from __future__ import annotations

from collections.abc import Container

from testbed.bench.contracts import Tracer, Transport
from testbed.clock import Deadline
from testbed.errors import InstrumentError
from testbed_drivers.dialects.tl1_syntax import (
    MEANINGS,
    Alarm,
    Message,
    Reply,
    message,
    message_end,
)

_ALARM_SECONDS = 0.1
"""How long an idle line may go on with alarms until it counts as one that is not quiet."""


class Tl1Line:
    """A connection that delivers complete messages; ValueError for invalid TL1."""

    def __init__(self, transport: Transport, tracer: Tracer) -> None:
        self._transport = transport
        self._tracer = tracer
        self._begun: dict[str, Reply] = {}

    def send(self, text: str, shown: str, deadline: Deadline) -> None:
        """Send commands; the transcript records them as `shown`."""
        self._tracer("send", shown.encode("ascii"))
        self._transport.send(text.encode("ascii"), deadline)

    def reply(self, awaited: Container[str], deadline: Deadline, silence: float) -> Reply:
        """Return the next complete reply to one of the awaited tags.

        Raise NoReply after `silence` seconds without a block or acknowledgement for any of them.
        """
        limit = deadline.within(silence)
        while True:
            incoming = self._message(limit)
            if isinstance(incoming, Alarm) or incoming.ctag not in awaited:
                self._note_unsolicited(incoming)
                continue
            limit = deadline.within(silence)
            if isinstance(incoming, Reply):
                begun = self._begun.pop(incoming.ctag, None)
                reply = begun.then(incoming) if begun else incoming
                if not reply.more:
                    return reply
                self._begun[reply.ctag] = reply
            elif incoming.code in MEANINGS or incoming.code == "NA":
                return Reply(incoming.ctag, incoming.code)

    def quiet(self) -> bool:
        """Return whether the idle line is up, with no unread bytes except alarms."""
        limit = Deadline.after(_ALARM_SECONDS)
        while not self._transport.quiet():
            try:
                incoming = self._message(limit)
            except (InstrumentError, ValueError):
                return False
            if not isinstance(incoming, Alarm):
                return False
            self._note_unsolicited(incoming)
        return True

    def close(self) -> None:
        """Close the line; safe to call twice."""
        self._transport.close()

    def _message(self, deadline: Deadline) -> Message:
        data = self._transport.receive(message_end, deadline)
        self._tracer("receive", data)
        before, incoming = message(data)
        if before:
            self._note(f"passed over: {before}")
        return incoming

    def _note_unsolicited(self, incoming: Message) -> None:
        if isinstance(incoming, Alarm):
            self._note(f"alarm {incoming.severity}: {incoming.words}")
        else:
            self._note(f"no command waits for the tag {incoming.ctag}")

    def _note(self, words: str) -> None:
        self._tracer("note", words.encode("ascii"))
