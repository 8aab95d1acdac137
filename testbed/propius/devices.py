"""What a client has and how long its work takes, where a trace says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from testbed.tenancy.traces import ClientTrace
from testbed.tenancy.workload import TRAINING_FACTOR

_ALWAYS = {"ram": 4.0}


@dataclass(frozen=True, slots=True)
class Device:
    """The public attributes of a client, and its times; without times it is as fast as it can be.

    Times are in seconds of the run. What takes longer by itself is not shortened.
    """

    attributes: Mapping[str, float] = field(default_factory=lambda: dict(_ALWAYS))
    speed: float = 1.0
    """Samples per second, which the control plane is told."""
    transfer: float = 0.0
    """How long the model takes to it, and again how long its update takes from it."""
    per_sample: float = 0.0
    """How long training on one sample takes, forward and backward."""


def device_of(client: ClientTrace, model: int, speedup: float) -> Device:
    """Return the device of a trace's client for a model of so many bytes.

    A second of the run is `speedup` seconds of the trace. Times are those of the simulation
    (`testbed.tenancy.workload.JobSpec.task_time`).
    """
    return Device(
        client.attributes,
        client.speed,
        8 * model / 1000.0 / client.rate / speedup,
        TRAINING_FACTOR * client.latency_per_sample / 1000.0 / speedup,
    )
