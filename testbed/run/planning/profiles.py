"""The settings on which a trial's numbers depend, and predictions for reported switches.

A twin's switch settles, and its links come up, as fast as its settings say. Profiles are reported
values of real switches, on the cards that twins can follow, so that each prediction is shown
beside those for a real lab.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from testbed.collectives.groups import groups
from testbed.plugins import RecoveryProperties, kind
from testbed.run.planning.prediction import REPLACES, LinkRate, Physics
from testbed.schema import Arm, Lab

HEARTBEAT = 1.0
"""Seconds of silence that count where no policy says how many."""


@dataclass(frozen=True, slots=True)
class Profile:
    """The reported delays of a switch and of links behind it, in seconds."""

    name: str
    settle: float
    link_up: float | None
    """None where none was reported: then it is that of the run."""
    source: str

    def of(self, physics: Physics) -> Physics:
        """Return the delays of a run if it had this switch and its links."""
        link_up = physics.link_up if self.link_up is None else self.link_up
        return Physics(physics.loss_of_signal, self.settle, link_up)


def expectations(
    profiles: Iterable[Profile],
    physics: Physics,
    expect: Callable[[Physics], Mapping[str, float]],
) -> Iterator[dict[str, Any]]:
    """Yield each profile with the recovery time that a model predicts with its delays."""
    for profile in profiles:
        own = profile.of(physics)
        row = {"name": profile.name, "settle": own.settle, "link_up": own.link_up}
        row |= {"link_up_reported": profile.link_up is not None}
        yield row | {"source": profile.source, "total": round(expect(own)["total"], 9)}


def settings(
    arm: Arm, lab: Lab, physics: Physics, link: LinkRate | None = None, *, on_twin: bool
) -> dict[str, Any]:
    """Return the settings on which an arm's numbers depend, in seconds, bit/s and bytes.

    `link` is the result of the probe; `rate` is the line rate of a twin.
    """
    found: dict[str, Any] = {"settle": physics.settle, "heartbeat": heartbeat(arm)}
    if inside := _inside_hosts(arm):
        found["inside_hosts"] = ", ".join(inside)
    jobs = arm.experiment.jobs.values()
    if (rings := max(getattr(job.options, "rings", 1) for job in jobs)) > 1:
        found["rings"] = rings
    if on_twin:
        found |= {"loss_of_signal": physics.loss_of_signal, "link_up": physics.link_up}
        found |= {"rate": arm.of(lab).twin.rate}
    if link is not None:
        found |= {
            "delivered": round(link.bits_per_second),
            "credit": round(link.credit / 1024) * 1024,
        }
    return found


def _inside_hosts(arm: Arm) -> list[str]:
    """Return the dimensions of meshes whose groups are inside hosts."""
    found = []
    for job in arm.experiment.jobs.values():
        mesh, each = getattr(job.options, "mesh", None), job.ranks_per_host
        for name, of in groups(mesh).items() if mesh and each > 1 else ():
            if all(len({rank // each for rank in ranks}) == 1 for ranks in of):
                found.append(name)
    return found


def heartbeat(arm: Arm, job: str = "") -> float:
    """Return the heartbeat limit of a rank, by the policy of its job, or of any, or by default."""
    limit: float = _option(arm, "heartbeat", HEARTBEAT, job)
    return limit


def standby(arm: Arm, job: str = "") -> str:
    """Return the standby mode of spares in the policy of a job, or of any, `cold` by default."""
    return str(_option(arm, "standby", "cold", job))


def recovery(arm: Arm, job: str) -> RecoveryProperties:
    """Return what the recoveries of a job take, by the arm's policy."""
    mine = (spec for spec in arm.experiment.reacting() if spec.is_policy and spec.job == job)
    return next((kind("policies", spec.kind).recovery for spec in mine), REPLACES)


def _option(arm: Arm, name: str, default: Any, job: str) -> Any:
    """Return an option of the first controller of an arm, or of one of its jobs, that has it."""
    options = [spec.options for spec in arm.experiment.reacting() if job in ("", spec.job)]
    return next((getattr(one, name) for one in options if hasattr(one, name)), default)
