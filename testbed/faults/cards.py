"""What the entry points name: every built-in fault, before any of its code is loaded."""

from __future__ import annotations

from testbed.plugins import Kind

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
