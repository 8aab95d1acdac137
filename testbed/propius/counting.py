"""Counts of what a parameter server answered, and of the bytes of tensors that it moved."""

from __future__ import annotations

from collections import Counter
from threading import Lock

from testbed.propius import data_pb2 as messages
from testbed.tenancy.aggregation import Answer, Code
from testbed.tenancy.tensors import Refusal


class Tally:
    """Counts answers by code, refusals by reason, and bytes; any thread may add."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._answers: Counter[str] = Counter()
        self._received = self._sent = 0

    def add(self, answer: Answer, received: int = 0, sent: int = 0) -> None:
        """Count one answer, and the bytes of tensors that came before it or went with it."""
        name = answer.code.name.lower()
        with self._lock:
            self._answers[f"{name}: {answer.reason}" if answer.reason else name] += 1
            self._received += received
            self._sent += sent

    def message(self) -> messages.Counts:
        """Return all counts."""
        with self._lock:
            return messages.Counts(
                answers=dict(self._answers), received=self._received, sent=self._sent
            )


def code(answer: Answer) -> messages.Code:
    """Return an answer as a message."""
    return messages.Code(
        code=int(answer.code), reason=answer.reason or "", clients=sorted(answer.clients)
    )


def answer_of(told: messages.Code) -> Answer:
    """Return the answer in a message."""
    reason = Refusal(told.reason) if told.reason else None
    return Answer(Code(told.code), reason, frozenset(told.clients))
