"""Predict the time of a recovery, before the fault is injected."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from testbed.plugins import RecoveryProperties, kind

_FIRST_RESENDING = 0.2

REPLACES = RecoveryProperties()
"""Those of a policy by which a spare host takes the place of every rank that fails."""


@dataclass(frozen=True, slots=True)
class LinkRate:
    """The measured rate of a link, and the burst that it passes at wire speed after a pause."""

    bits_per_second: float
    credit: float
    """Bytes that pass at once after a pause, out of a token bucket."""

    def seconds(self, size: int) -> float:
        """Return the seconds that a message of `size` bytes takes after a pause."""
        return max(0.0, size - self.credit) * 8 / self.bits_per_second


@dataclass(frozen=True, slots=True)
class Physics:
    """Physical delays, in seconds, that no orchestration avoids."""

    loss_of_signal: float
    settle: float
    link_up: float


def predict(
    fault: str,
    physics: Physics,
    *,
    heartbeat: float,
    state_bytes: int,
    link: LinkRate,
    step: float,
    start: float,
    hold: float = 0.0,
    recovery: RecoveryProperties = REPLACES,
) -> dict[str, float]:
    """Return the predicted terms of t10 - t0 in seconds, and their sum as `total`.

    The detection time is that of the loss of signal for a dark fibre, the heartbeat limit for a
    frozen process, and zero for a dead one, which the kernel reports to its agent. A spare, if the
    policy takes one (`recovery`), must also start (`start`, 0 for a warm one) while the fabric
    changes, and receive its state; where all ranks are started again, `start` is how long that
    takes, and what reads its state from a disk takes no time for it. The orchestrator's own time is
    not predicted: it is the difference to the measurement.
    An attenuated fibre is dark for as long as the fault holds, and
    no mirror moves; lost data then waits for TCP to retransmit it. A freeze that ends before the
    heartbeat limit costs its duration and a step.
    """
    known = kind("faults", fault).fault
    if known.symptom == "silence" and 0 < hold < heartbeat:
        return {"held": hold, "step": step, "total": hold + step}
    if known.repair == "undo":
        dark = hold + physics.link_up
        terms = {"held": hold, "link_up": physics.link_up, "resending": _sent_again(dark) - dark}
        return terms | {"step": step, "total": sum(terms.values()) + step}
    noticing = {"silence": heartbeat, "exit": 0.0, "light": physics.loss_of_signal}
    newcomer = recovery.takes_spare(known)
    moved = 1.0 if recovery.moves_circuits(known) else 0.0
    settle, link_up = physics.settle * moved, physics.link_up * moved
    fabric = settle + link_up
    terms = {
        "noticing": noticing[known.symptom],
        "settle": settle,
        "link_up": link_up,
        "waiting_for_spare": max(0.0, start - fabric) if newcomer or recovery.restarts else 0.0,
        "state": link.seconds(state_bytes) if newcomer and not recovery.moves_all else 0.0,
        "step": step,
    }
    return terms | {"reconfiguration": fabric, "total": sum(terms.values())}


def on_rails(terms: Mapping[str, float], physics: Physics, groups: int) -> dict[str, float]:
    """Return the terms of a recovery on rails, from those without any circuit to be made.

    Nothing moves until the new generation is formed. Then ranks get the circuits of one group after
    the other to connect over, of `groups` in all, and once more those of the group in which a
    newcomer receives its state.
    """
    if "state" not in terms:  # nothing is repaired
        return dict(terms)
    settle, link_up = physics.settle * groups, physics.link_up * groups
    again, fabric = physics.settle + physics.link_up, settle + link_up
    found = {**terms, "settle": settle, "link_up": link_up, "state": terms["state"] + again}
    return found | {"reconfiguration": fabric, "total": terms["total"] + fabric + again}


def _sent_again(dark: float) -> float:
    """Return when TCP next sends again what was lost in `dark` seconds without light.

    It waits 200 ms on Linux where the round trip is short, and twice as long each time (RFC 6298).
    """
    wait, sent = _FIRST_RESENDING, _FIRST_RESENDING
    while sent < dark:
        wait *= 2
        sent += wait
    return sent
