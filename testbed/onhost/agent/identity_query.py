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
        self._end = now + request["limit"]
        self._due = self._due_in_dark = now
        self._asked: list[int] = []

    def work(self, now: float, *, has_carrier: bool) -> Optional[dict[str, Any]]:
        """Send the query when it is due; return the result once it is finished."""
        answers = [self.port.answers[n] for n in self._asked if n in self.port.answers]
        seen = sorted({(answer["host"], answer["port"]) for answer in answers})
        if self.request["first"]:
            is_over = is_good = self._expected in seen
        else:
            is_over = len(answers) == self.request["count"]
            is_good = seen == [self._expected]
        if is_over or now >= self._end:
            self._forget()
            counts = {"asked": len(self._asked), "answered": len(answers)}
            return {"mono": now, **counts, "seen": seen, "good": is_good}
        due = self._due if has_carrier or not self.request["first"] else self._due_in_dark
        if now >= due and len(self._asked) < self.request["count"]:
            self._asked.append(next(_numbers))
            self.port.ask(self.request["peer"], self._asked[-1], self.request.get("address", ""))
            self._due = now + self.request["interval"]
            self._due_in_dark = now + max(_DARK_INTERVAL, self.request["interval"])
        return None

    def _forget(self) -> None:
        for number in self._asked:
            self.port.forget(number)
