"""An identity query over a circuit, repeated until it is answered or time is up."""

from __future__ import annotations

import itertools
from typing import Any, Optional

from ..frames import Message
from .identity import IdentityPort

_numbers = itertools.count(1)

_DARK_INTERVAL = 0.02
"""Seconds between queries of a port that reports no carrier. It may be wrong about that."""


class IdentityQuery:
    """Sends a query `count` times, `interval` seconds apart; if `first`, until the right answer.

    `expect` names the host and port that should answer; `limit` is the total time to wait;
    `address` is the receiver where several hosts could receive the query. With `first` a wrong
    answer does not end the query: it may be sent before a circuit is changed, and the former peer
    may still receive it. Nor is it sent as often while the port has no carrier, and at once when
    it gets one: a question a millisecond takes processor time from the ranks.
    """

    def __init__(self, request: Message, port: IdentityPort, now: float) -> None:
        self.request = request
        self.port = port
        self._expected = tuple(request["expect"])
        self._end: float = now + request["limit"]
        self._due = self._due_in_dark = now
        self._numbers: list[int] = []
        """Those of its questions: one with `first`, where only an answer counts, not how many."""
        self._asked = 0

    def work(self, now: float, *, has_carrier: bool) -> Optional[dict[str, Any]]:
        """Send the query when it is due; return the result once it is finished."""
        answers = [self.port.answers[n] for n in self._numbers if n in self.port.answers]
        seen = sorted({(answer["host"], answer["port"]) for answer in answers})
        if self.request["first"]:
            is_over = is_good = self._expected in seen
        else:
            is_over = len(answers) == self.request["count"]
            is_good = seen == [self._expected]
        if is_over or now >= self._end:
            self._forget()
            counts = {"asked": self._asked, "answered": len(answers)}
            return {"mono": now, **counts, "seen": seen, "good": is_good}
        if now >= self._next_due(has_carrier=has_carrier):
            if not (self._numbers and self.request["first"]):
                self._numbers.append(next(_numbers))
            self.port.ask(self.request["peer"], self._numbers[-1], self.request.get("address", ""))
            self._asked += 1
            self._due = now + self.request["interval"]
            self._due_in_dark = now + max(_DARK_INTERVAL, self.request["interval"])
        return None

    def due_within(self, now: float, *, has_carrier: bool) -> float:
        """Return after how many seconds it is to be sent again, or its time is up."""
        return max(0.0, min(self._next_due(has_carrier=has_carrier), self._end) - now)

    def _next_due(self, *, has_carrier: bool) -> float:
        if self._asked == self.request["count"]:
            return self._end
        return self._due if has_carrier or not self.request["first"] else self._due_in_dark

    def _forget(self) -> None:
        for number in self._numbers:
            self.port.forget(number)
