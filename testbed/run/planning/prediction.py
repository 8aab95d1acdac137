"""Prediction of a recovery's time, written to the log before the fault."""

from __future__ import annotations

from dataclasses import dataclass

_FIRST_RESENDING = 0.2


@dataclass(frozen=True, slots=True)
class LinkRate:
    """What the probe measured: the delivered rate, and the credit that a pause earns."""

    bits_per_second: float
    credit: float
    """Bytes that pass at once after a pause, out of a token bucket."""

    def seconds(self, size: int) -> float:
        """Return how long a message of `size` bytes takes after a pause."""
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
) -> dict[str, float]:
    """Return the terms of t10 - t0 and their sum as `total`, in seconds.

    Noticing is the loss of signal for what goes dark, the heartbeat limit for what freezes, and
    nothing for what dies: the kernel tells its agent. A newcomer must also start (`start`,
    0 for a warm one) while the fabric moves, and be given its state. The orchestration itself is
    not in the prediction: it is what the measurement adds. A fibre that lost its light at an
    attenuator is dark for as long as that is held, and no mirror moves; what was under way then
    waits for TCP to send it again. A freeze that is over before its heartbeat is missed costs its
    time and a step.
    """
    if fault == "rank-freeze" and 0 < hold < heartbeat:
        return {"held": hold, "step": step, "total": hold + step}
    if fault == "attenuate":
        dark = hold + physics.link_up
        terms = {"held": hold, "link_up": physics.link_up, "resending": _sent_again(dark) - dark}
        return terms | {"step": step, "total": sum(terms.values()) + step}
    noticing = {"rank-freeze": heartbeat, "rank-kill": 0.0}.get(fault, physics.loss_of_signal)
    newcomer = fault != "dark-circuit"
    fabric = physics.settle + physics.link_up
    terms = {
        "noticing": noticing,
        "settle": physics.settle,
        "link_up": physics.link_up,
        "waiting_for_spare": max(0.0, start - fabric) if newcomer else 0.0,
        "state": link.seconds(state_bytes) if newcomer else 0.0,
        "step": step,
    }
    return terms | {"reconfiguration": fabric, "total": sum(terms.values())}


def _sent_again(dark: float) -> float:
    """Return when TCP next sends again what was lost in `dark` seconds without light.

    It waits 200 ms on Linux where the round trip is short, and twice as long each time (RFC 6298).
    """
    wait, sent = _FIRST_RESENDING, _FIRST_RESENDING
    while sent < dark:
        wait *= 2
        sent += wait
    return sent
