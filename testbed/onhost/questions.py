"""A question to the other end of a circuit, asked again until it is answered or time is up."""

from __future__ import annotations

import itertools
from typing import Any, Optional

from .frames import Message
from .identity import IdentityPort

_numbers = itertools.count(1)


class Question:
    """Ask `count` times, `interval` seconds apart, or until the first answer when `first`.

    `expect` names the host and port that should answer; `limit` is how long to wait in all;
    `address` is whom to ask where more than one could hear the question.
    """

    def __init__(self, request: Message, port: IdentityPort, now: float) -> None:
        self.request = request
        self.port = port
        self._expected = tuple(request["expect"])
        self._end = now + request["limit"]
        self._due = now
        self._asked: list[int] = []

    def work(self, now: float) -> Optional[dict[str, Any]]:
        """Ask when it is time; return the result once the question is over."""
        answers = [self.port.answers[n] for n in self._asked if n in self.port.answers]
        enough = answers if self.request["first"] else len(answers) == self.request["count"]
        if enough or now >= self._end:
            return self._result(answers, now)
        if now >= self._due and len(self._asked) < self.request["count"]:
            self._asked.append(next(_numbers))
            self.port.ask(self.request["peer"], self._asked[-1], self.request.get("address", ""))
            self._due = now + self.request["interval"]
        return None

    def _result(self, answers: list[dict[str, Any]], now: float) -> dict[str, Any]:
        for number in self._asked:
            self.port.answers.pop(number, None)
        seen = sorted({(answer["host"], answer["port"]) for answer in answers})
        return {
            "mono": now,
            "asked": len(self._asked),
            "answered": len(answers),
            "seen": seen,
            "good": seen == [self._expected],
        }
