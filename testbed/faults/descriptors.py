"""Descriptors of the built-in faults, for entry points; importing them loads no fault code."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from testbed.plugins import FaultProperties, Kind
from testbed.units import Loss, Seconds, Share


@dataclass(frozen=True, slots=True)
class AttenuateOptions:
    """The options of the fault `attenuate`: how much attenuation is added."""

    loss: Loss
    """What the fibre takes beyond what it took before."""

    def __post_init__(self) -> None:
        if self.loss <= 0:
            raise ValueError("`loss` must be above 0 dB")


@dataclass(frozen=True, slots=True)
class StragglerOptions:
    """The options of the fault `straggler`: how a rank is slowed down, and by how much."""

    how: Literal["sleep", "quota", "freeze-cycle"] = "sleep"
    delay: Seconds = 0.0
    """For `sleep`: how late it comes to each collective."""
    share: Share = 0.5
    """For `quota` and `freeze-cycle`: the share of the time in which it may run."""
    period: Seconds = 0.1
    """For `quota` and `freeze-cycle`: how long a turn of running and standing still takes."""

    def __post_init__(self) -> None:
        """Refuse a dose of nothing."""
        if (self.how == "sleep") != (self.delay > 0):
            raise ValueError(
                f"`delay` must be above 0 with `how: sleep` and absent otherwise, got how: "
                f"{self.how} and {self.delay:g} s"
            )
        if not (0 < self.share < 1):
            raise ValueError("`share` must be above 0 % and below 100 %")
        if not (0.01 <= self.period <= 10):
            raise ValueError("`period` must be at least 10 ms and at most 10 s")

    @property
    def dose(self) -> float:
        """Return the least delay in seconds that the fault causes, constantly or at intervals."""
        return self.delay or self.period * (1 - self.share)


ATTENUATE = Kind(
    "a fibre of a port loses light in the lab's attenuator",
    "testbed.faults.attenuate:Attenuate",
    options=AttenuateOptions,
    fault=FaultProperties(hits="port", instrument="attenuator", repair="undo"),
)
POWER_CUT = Kind(
    "the host of a rank loses power, through the lab's power unit",
    "testbed.faults.power_cut:PowerCut",
    fault=FaultProperties(
        instrument="power",
        not_on_packet="no neighbour would observe a power cut: on a packet switch only the victim "
        "loses its link",
    ),
)
RANK_KILL = Kind(
    "a rank's process is killed (SIGKILL)",
    "testbed.faults.rank:RankKill",
    fault=FaultProperties(symptom="exit"),
)
RANK_FREEZE = Kind(
    "a rank's process stops without dying (SIGSTOP)",
    "testbed.faults.rank:RankFreeze",
    fault=FaultProperties(symptom="silence"),
)
STRAGGLER = Kind(
    "a rank is slowed down: it comes late to every collective",
    "testbed.faults.straggler:Straggler",
    options=StragglerOptions,
    role="slows",
)
DARK_CIRCUIT = Kind(
    "the circuit from a rank to its successor is disconnected at the switch",
    "testbed.faults.dark_circuit:DarkCircuit",
    fault=FaultProperties(
        hits="circuit",
        repair="circuit",
        not_on_packet="on a packet switch there is no circuit that could go dark",
    ),
)
