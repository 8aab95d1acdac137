"""Descriptors of the faults of simulated switches, as experiments name them.

The simulated far ends carry them out in the twin; drivers/README.md lists which far end knows which
fault.
"""

from __future__ import annotations

from dataclasses import dataclass

from testbed.plugins import Kind
from testbed.units import Seconds


@dataclass(frozen=True, slots=True)
class FarEndOptions:
    """Where a far-end fault applies; by default everywhere, until the trial ends."""

    count: int | None = None
    """How often."""
    probability: float = 1.0
    command: str = ""
    """Only commands whose text contains this, in any case."""
    port: int | None = None
    """Only this port."""
    delay: Seconds = 0.0
    """For faults that take time."""


def _fault(far_end: str, summary: str) -> Kind:
    return Kind(summary, "", options=FarEndOptions, role="far-end", far_end=far_end)


NO_REPLY = _fault("silent", "a switch carries out commands and does not answer")
LATE_REPLY = _fault("late", "a switch answers after `delay`, and everything after it later too")
REPLY_AFTER_NEXT = _fault("after-next", "a switch gives an answer only after the next one")
MERGED_REPLIES = _fault("merged", "a switch sends an answer in one piece with the next one")
GARBLED_REPLY = _fault("garbled", "one byte of an answer of a switch is wrong")
TRUNCATED_REPLY = _fault("truncated", "a switch sends the first half of an answer and no end")
WRONG_TERMINATOR = _fault("wrong-end", "a switch ends an answer as no manual says")
BANNER = _fault("banner", "a switch sends a line of its own before an answer")
DOUBLED_REPLY = _fault("doubled", "a switch answers twice")
SLOW_DRIP = _fault("drip", "a switch sends an answer one byte every `delay`")
CUT_REPLY = _fault("cut", "a switch hangs up in the middle of an answer")
LINE_RESET = _fault("reset", "a switch carries out a command and hangs up")
REFUSED_CONNECTION = _fault("refuse", "a switch hangs up on every client that connects")
ERROR = _fault("error", "a switch refuses a command in its own words")
BUSY = _fault("busy", "a switch is busy for `delay` and refuses commands")
STALE_ERROR = _fault("stale", "an error of another client is in the queue of a switch")
FULL_ERROR_QUEUE = _fault("overflow", "the error queue of a switch was filled up by another client")
STUCK_PORT = _fault("stuck", "a port of a switch does not move, and the read-back says so")
LYING_PORT = _fault("lie", "a port of a switch does not move, and the read-back says it did")
PARTIAL_BATCH = _fault("partial", "a switch does half of a list and reports no error")
MISROUTED_PORT = _fault("misrouted", "a switch connects a port to another than it was told")
DIM_CIRCUIT = _fault("dim", "a new circuit of a switch reads back as done and loses 30 dB")
FAILED_PORT = _fault("failed", "a port of a switch is flagged as failed and stays dark")
SLOW_SETTLING = _fault("slow", "a switch takes ten times as long to settle")
LATE_READ_BACK = _fault("lag", "a switch reads back what was there `delay` ago")
FLAPPING_READ_BACK = _fault(
    "flap", "a switch reads back what is there, and what was there `delay` ago, in turn"
)
SWEPT_CIRCUIT = _fault("swept", "a switch takes down, with a change, a circuit that is not in it")
VANISHING_CIRCUIT = _fault("vanish", "a switch drops a new circuit by itself after `delay`")
MEDDLING = _fault("meddled", "another client takes circuits of a switch down")
RESTART = _fault("restart", "a switch loses power for a moment and starts as its boot mode says")
WRONG_RESTART = _fault("restart-wrong", "the same, and it comes back with wrong circuits")
REJECTED_LOGIN = _fault("login-rejected", "a switch refuses every login")
LOST_LOGIN = _fault("kicked", "a switch ends every login; the lines stay up")
ALARMS = _fault("alarms", "a switch speaks of its own accord before and after an answer")
COMMAND_IN_PROGRESS = _fault(
    "in-progress", "a switch acknowledges a command and answers `delay` later"
)
WEB_PAGE = _fault("not-json", "a switch answers with a page for people")
HALF_REFUSED = _fault(
    "half-refused", "a switch does the first half of a list and refuses each of the others"
)
HALF_SWITCHED = _fault("half-switched", "an interferometer stops half-way: light goes both ways")
STUCK_CELL = _fault("cell-stuck", "a cell of a mesh stays as it is, and no error is reported")
STALE_CIRCUIT = _fault(
    "stale-circuit", "a circuit leaves the configuration of a switch, not its hardware"
)
