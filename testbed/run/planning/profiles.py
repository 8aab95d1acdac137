"""The settings behind a trial's numbers, and predictions for switches and links as reported.

A twin's switch settles, and its links come up, as fast as its settings say. The profiles are what
is reported of real ones, so that each prediction stands beside those that a lab would see.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.run.planning.prediction import LinkRate, Physics
from testbed.schema import Arm, Lab

HEARTBEAT = 1.0
"""Seconds of silence that count where no policy says how many."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A switch as it is reported, in seconds; `settle` is that of the preset card of the name."""

    name: str
    settle: float
    link_up: float | None
    """None where none was reported: then it is that of the run."""
    source: str

    def of(self, physics: Physics) -> Physics:
        """Return the delays of a run as they would be with this switch and its links."""
        link_up = physics.link_up if self.link_up is None else self.link_up
        return Physics(physics.loss_of_signal, self.settle, link_up)


_OPUS = "third-party figures of the Opus testbed: 200 ms, and links that are up about {} later"

PROFILES = (
    Profile("piezo", 0.012, None, "engineering assumption: 5 to 25 ms"),
    Profile("mems-3d", 0.025, None, "engineering assumption: 10 to 50 ms"),
    Profile("mems-sota", 0.025, None, "third-party figure of the Opus authors: under 25 ms"),
    Profile("polatis-6000", 0.2, 3.0, _OPUS.format("3 s")),
    Profile("polatis-6000", 0.2, 6.0, _OPUS.format("6 s")),
    Profile("calient-s320", 0.2, None, "S320 hardware guide: 200 to 500 ms for a bulk change"),
    Profile(
        "pic", 1.1, 0.0, "Morphlux authors' testbed: 1.0 to 1.2 s in software, no link-up seen"
    ),
)
"""The preset cards that twins can follow, with link-up times that are reported beside them."""


def expectations(
    physics: Physics, expect: Callable[[Physics], Mapping[str, float]]
) -> Iterator[dict[str, Any]]:
    """Yield each profile with the recovery time that a model of these delays expects of it."""
    for profile in PROFILES:
        own = profile.of(physics)
        row = {"name": profile.name, "settle": own.settle, "link_up": own.link_up}
        row |= {"link_up_reported": profile.link_up is not None}
        yield row | {"source": profile.source, "total": round(expect(own)["total"], 9)}


def settings(
    arm: Arm, lab: Lab, physics: Physics, link: LinkRate | None = None, *, on_twin: bool
) -> dict[str, float]:
    """Return the settings behind the numbers of an arm's trials, in seconds, bit/s and bytes.

    `link` is what a probe has measured; `rate` is a twin's own.
    """
    found = {"settle": physics.settle, "heartbeat": heartbeat(arm)}
    if on_twin:
        found |= {"loss_of_signal": physics.loss_of_signal, "link_up": physics.link_up}
        found |= {"rate": arm.of(lab).twin.rate}
    if link is not None:
        found |= {
            "delivered": round(link.bits_per_second),
            "credit": round(link.credit / 1024) * 1024,
        }
    return found


def heartbeat(arm: Arm) -> float:
    """Return how long a rank may be silent, as the arm's policy says or without one."""
    limit: float = _policy_option(arm, "heartbeat", HEARTBEAT)
    return limit


def standby(arm: Arm) -> str:
    """Return how the arm's policy has its spares wait, `cold` where it does not say."""
    return str(_policy_option(arm, "standby", "cold"))


def _policy_option(arm: Arm, name: str, default: Any) -> Any:
    policy = arm.experiment.policy
    return getattr(policy and policy.options, name, default)
