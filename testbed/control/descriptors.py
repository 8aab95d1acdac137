"""Descriptors of the built-in policies, for entry points; importing them loads no policy code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.plugins import Kind
from testbed.units import Seconds


@dataclass(frozen=True, slots=True)
class SpliceOptions:
    """The options of the policy `splice`."""

    standby: Literal["warm", "cold"] = "warm"
    """`warm`: the spare's process runs with its imports done; `cold`: it starts at the failure."""
    heartbeat: Seconds = 0.2
    """How long a rank may be silent before it counts as frozen."""
    probe: Seconds = 0.01
    """How long a host whose circuits went dark may take to answer, beyond what it usually takes.

    Then it is asked once more, for twenty times as long, and its outlet is looked at.
    """

    def __post_init__(self) -> None:
        """Raise ValueError for a heartbeat limit that no healthy rank could meet."""
        if self.heartbeat <= 0:
            raise ValueError(
                "heartbeat must be above 0: a rank that is silent for longer is replaced; "
                "200 ms is usual"
            )


SPLICE = Kind(
    "a spare host takes the victim's place through the fabric; survivors stay up",
    "testbed.control.splice:Splice",
    options=SpliceOptions,
)
