"""The cross-connects of one switch as rows: their host ports, state and light."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from testbed.bench.contracts import OpticalSwitch
from testbed.bench.verification import FINAL
from testbed.clock import Deadline
from testbed.concealed import excerpt
from testbed.fabric.circuits import CrossConnect, HostEnds, Joined
from testbed.fabric.device import State
from testbed.fabric.reading import DARK, NOT_MEASURED, Reading
from testbed.schema import Lab


@dataclass(frozen=True, slots=True)
class CrossConnectRow:
    """One cross-connect with its host ports, state and light."""

    ingress: int
    egress: int
    ends: Joined
    """Where its light comes from and goes to, as far as the lab file names that."""
    state: str
    """The switch's own word for its state, empty when it has none."""
    light_in: Reading
    light_out: Reading
    """The light that enters, and that leaves."""

    def to_json(self) -> dict[str, Any]:
        """Return the row as JSON values: the kind of each reading, and its level if measured."""
        ends = self.ends
        row: dict[str, Any] = {"from": str(ends.source or ""), "to": str(ends.sink or "")}
        row |= {"both_ways": ends.both_ways, "ingress": self.ingress}
        row |= {"egress": self.egress, "state": self.state}
        for way, reading in (("in", self.light_in), ("out", self.light_out)):
            row |= {f"light_{way}": str(reading.light), f"power_{way}": reading.dbm}
        return row

    @property
    def trouble(self) -> str:
        """Return what is wrong with the cross-connect; empty if nothing is known to be wrong."""
        if self.state.startswith(FINAL):
            return self.state
        return "dark" if self.light_in.dbm is not None and self.light_out == DARK else ""

    def __str__(self) -> str:
        return f"{self.ingress}→{self.egress} ({self.ends})"


def read_rows(
    lab: Lab, name: str, switch: OpticalSwitch, deadline: Deadline
) -> list[CrossConnectRow]:
    """Read and return every cross-connect with its host ports, state and light."""
    can, state = switch.capabilities, switch.state(deadline)
    unsteady = switch.unsteady(deadline) if can.steadiness else {}
    ports = {port for pair in state.items() for port in pair} & can.monitored
    seen = switch.power(sorted(ports), deadline) if ports else {}
    ends = HostEnds(lab.wiring(), lab.fibre_pairs().values())
    return [
        CrossConnectRow(
            ingress=i,
            egress=e,
            ends=ends.of(CrossConnect(name, i, e)),
            state=excerpt(unsteady.get(i, "steady" if can.steadiness else "")),
            light_in=seen.get(i, NOT_MEASURED),
            light_out=seen.get(e, NOT_MEASURED),
        )
        for i, e in sorted(state.items())
    ]


def contradiction(rows: list[CrossConnectRow], present: State, absent: State) -> str:
    """Return how the rows contradict wanted and removed cross-connects; empty if they agree.

    Light is compared where a switch measures it on both sides.
    """
    shown = {row.ingress: row for row in rows}
    for ingress, egress in sorted(present.items()):
        row = shown.get(ingress)
        if row is None or row.egress != egress:
            return f"{ingress}→{egress} is no longer connected"
        if row.trouble:
            return f"{ingress}→{egress} is {row.trouble}"
    for ingress, egress in sorted(absent.items()):
        if ingress in shown and shown[ingress].egress == egress:
            return f"{ingress}→{egress} is still connected"
    return ""
