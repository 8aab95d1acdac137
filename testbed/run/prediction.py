"""What the model expects of a recovery, written to the log before the fault."""

from __future__ import annotations

from dataclasses import dataclass


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
    """Delays that nobody can orchestrate away, in seconds."""

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
    nothing for what dies: its agent sees the kernel's word. A newcomer must also start (`start`,
    0 for a warm one) while the fabric moves, and be given its state. The orchestration itself is
    not in the prediction: it is what the measurement adds. A fibre that lost its light at an
    attenuator is dark for as long as that is held, and no mirror moves.
    """
    if fault == "attenuate":
        dark = max(hold, physics.loss_of_signal)
        terms = {"noticing": physics.loss_of_signal, "held": dark - physics.loss_of_signal}
        terms |= {"link_up": physics.link_up, "step": step}
        return terms | {"reconfiguration": physics.link_up, "total": sum(terms.values())}
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
