"""What the entry points name: every built-in fault, before any of its code is loaded."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.plugins import Kind
from testbed.units import Loss


@dataclass(frozen=True, slots=True)
class AttenuateOptions:
    """How much light is taken away."""

    loss: Loss
    """What the fibre takes beyond what it took before."""

    def __post_init__(self) -> None:
        if self.loss <= 0:
            raise ValueError("a loss must be above 0 dB")


ATTENUATE = Kind(
    "a fibre of a port loses light in the lab's attenuator",
    "testbed.faults.attenuate:Attenuate",
    options=AttenuateOptions,
)
POWER_CUT = Kind(
    "the host of a rank loses power, through the lab's power unit",
    "testbed.faults.power_cut:PowerCut",
)
RANK_KILL = Kind("a rank's process is killed (SIGKILL)", "testbed.faults.rank:RankKill")
RANK_FREEZE = Kind(
    "a rank's process stops without dying (SIGSTOP)", "testbed.faults.rank:RankFreeze"
)
DARK_CIRCUIT = Kind(
    "the circuit from a rank to its successor is disconnected at the switch",
    "testbed.faults.dark_circuit:DarkCircuit",
)
