"""Descriptor of the job that models clusters of torus racks; importing it loads no job code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from testbed.jobs.option_checks import check_counts
from testbed.plugins import Kind

_MOST_RACKS = 1024


@dataclass(frozen=True, slots=True)
class FleetModelOptions:
    """A cluster of torus racks of 64 chips under a trace of slices drawn from the seed."""

    mix: Literal["equal-requests", "equal-chips", "with-whole-racks"] = "equal-requests"
    """How often slices of each size are asked for, as the racks are filled."""
    racks: int = 64
    load: Literal["communication-bound", "balanced", "compute-bound"] = "communication-bound"
    """What slices train: five seconds, one, or a fifth of sending the gradient through one port for
    each second of computation."""

    def __post_init__(self) -> None:
        """Refuse no racks, and more than a trial can hold."""
        check_counts(self, "racks")
        if self.racks > _MOST_RACKS:
            raise ValueError(f"racks must be at most {_MOST_RACKS}, not {self.racks}")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        yield from ("static_ports", "static_ports_y", "redirected_ports", "rack_gain")
        yield from ("best_rack_gain", "worst_fragmentation", "mean_fragmentation")
        for asked in ("32", "16_32"):
            yield from (f"placed_{asked}_{system}" for system in PLACED)
            yield f"admission_gain_{asked}"
        yield from (f"over_provisioning_{policy}" for policy in REPLACED)
        yield "spares_out_of_reach"


PLACED = ("static", "sipac", "morphlux", "ideal")
"""Systems whose placed requests are metrics, by the last part of their names."""
REPLACED = ("migration", "server", "morphlux", "ideal")
"""Policies of replacing failed chips whose cost is a metric."""

FLEET_MODEL = Kind(
    "clusters of torus racks: ports in use, fragmentation, admission, failed chips; nothing is run",
    "testbed.jobs.fleet_model:FleetModel",
    options=FleetModelOptions,
    role="model",
)
