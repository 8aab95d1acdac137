"""Descriptors of the jobs that model rails; importing them loads no job code."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from testbed.jobs.option_checks import check_counts
from testbed.plugins import Kind
from testbed.units import BitRate, Bytes, Seconds

_MOST_RANKS = 256
"""On one rail: a replay of so many takes some ten seconds."""


@dataclass(frozen=True, slots=True)
class RailsModelOptions:
    """Hybrid-parallel training on rails of circuit switches, by a replay of the rails' rules."""

    mesh: dict[str, int]
    """Sizes of the dimensions `pp` (pipeline), `dp` (data) and `tp` (tensor, inside a host)."""
    forward: Seconds
    """Of one micro-batch through one pipeline stage."""
    backward: Seconds
    rate: BitRate
    """Of every port, each way."""
    activations: Bytes = 0
    """Of one micro-batch between two pipeline stages."""
    gradients: Bytes = 0
    """Of one rank, summed over the replicas."""
    update: Seconds = 0.0
    """Of the optimiser, after the sum."""
    micro_batches: int = 1
    order: Literal["gpipe", "1f1b"] = "1f1b"
    delay: Seconds = 0.0
    """From the command for a change until its circuits carry data."""
    control: Seconds = 0.0
    """What the control itself takes for a change."""
    mode: Literal["on-demand", "provisioned", "learned"] = "on-demand"
    one_at_a_time: bool = False
    """The switch of a rail makes one change after the other."""

    def __post_init__(self) -> None:
        """Refuse other dimensions, a mesh that is too large, and lines that carry nothing."""
        check_counts(self, "micro_batches")
        for name, size in self.mesh.items():
            if name not in ("pp", "dp", "tp"):
                raise ValueError(f"{name!r} is not one of the dimensions pp, dp and tp")
            if size < 1:
                raise ValueError(f"{name} must be at least 1, not {size}")
        ranks = math.prod(size for name, size in self.mesh.items() if name != "tp")
        if not 2 <= ranks <= _MOST_RANKS:
            raise ValueError(f"a rail has 2 to {_MOST_RANKS} ranks (pp x dp), not {ranks}")
        if not self.rate:
            raise ValueError("rate must be above 0")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        yield from ("iteration_time", "stall", "stall_formula", "slowdown")
        yield from ("rail_changes", "smallest_window")


@dataclass(frozen=True, slots=True)
class RailsCostOptions:
    """Power and cost of rails on circuit switches beside packet switches, of ports as listed."""

    gpus: int
    gpus_per_server: int = 8
    transceiver_power: float = 10.0
    """Watts, as the other two."""
    packet_port_power: float = 2524 / 64
    circuit_port_power: float = 75 / 192
    transceiver_cost: float = 219.0
    """US dollars, as the other two."""
    packet_port_cost: float = 37299 / 64
    circuit_port_cost: float = 520.0

    def __post_init__(self) -> None:
        """Refuse servers that are not full, and too few of them for two tiers of switches."""
        check_counts(self, "gpus_per_server")
        if self.gpus % self.gpus_per_server:
            raise ValueError(f"{self.gpus} GPUs do not fill servers of {self.gpus_per_server}")
        check_counts(self, "gpus", least=4 * self.gpus_per_server)

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        yield from ("power_ratio", "cost_ratio")


RAILS_COST = Kind(
    "power and cost of rails on circuit switches beside packet switches; nothing is run",
    "testbed.jobs.rails_model:RailsCost",
    options=RailsCostOptions,
    role="model",
)
RAILS_MODEL = Kind(
    "hybrid-parallel training on rails of circuit switches, by a replay; nothing is run",
    "testbed.jobs.rails_model:RailsModel",
    options=RailsModelOptions,
    role="model",
)
