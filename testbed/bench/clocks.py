"""A host's clock against ours, from questions with round-trip bounds.

A question leaves at t1, arrives at t2, the answer leaves at t3 and arrives at t4; t2 and t3 are
the host's. Then the offset is ((t2 - t1) + (t3 - t4)) / 2 and its error at most half of
(t4 - t1) - (t3 - t2), however unequal the two ways are (Cristian 1989; RFC 5905, section 8).
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.bench.link import AgentLink
from testbed.clock import Deadline

QUESTIONS = 16


@dataclass(frozen=True, slots=True)
class Offset:
    """A host's monotonic clock minus ours, in seconds, right to within `bound`, at `at` (ours)."""

    offset: float
    bound: float
    at: float


def measure_offset(link: AgentLink, deadline: Deadline, questions: int = QUESTIONS) -> Offset:
    """Return the offset from the question with the shortest round trip.

    Blocks for about a millisecond a question.
    """
    return min((_one(link, deadline) for _ in range(questions)), key=lambda found: found.bound)


def _one(link: AgentLink, deadline: Deadline) -> Offset:
    answer = link.ask("clock", deadline)
    t1, (t2, t3), t4 = answer.sent, answer.value, answer.received
    return Offset(((t2 - t1) + (t3 - t4)) / 2, ((t4 - t1) - (t3 - t2)) / 2, (t1 + t4) / 2)
