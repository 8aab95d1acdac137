"""A simulated programmable photonic mesh: cells that route light, and a one-line server.

The light follows from the cells alone: it is traced from every ingress port through the present
state of each cell. Assumptions beyond public documents are listed in drivers/README.md: the
greeting, the status text, and that cells which a line does not list keep their state.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from testbed.bench.sites import SwitchSite
from testbed.fabric.mesh import Gate, Path, Setting
from testbed.fabric.mesh_routes import setting_of
from testbed_drivers.dialects.armed_faults import ArmedFault
from testbed_drivers.dialects.client_connection import ClientConnection
from testbed_drivers.dialects.far_end import ORDER_FAULTS, FarEnd
from testbed_drivers.switches import simulated_switch
from testbed_drivers.switches.described_mesh import described_mesh, numbers_of
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions
from testbed_drivers.switches.simulated_switch import SimulatedSwitch

_OF_ANY_SWITCH = ("lie", "dim", "slow", "meddled", "restart")
FAULTS = {
    **ORDER_FAULTS,
    "cell-stuck": "leaves the cell with the number `port`, or any, as it is; reports no error",
}
"""What a mesh of cells can be told to do wrong; of the faults of any switch, those it can have."""

_PAIR = r"\(\s*(0|[1-9][0-9]*)\s*,\s*(?:'([=x])'|\"([=x])\")\s*,?\s*\)"
_LIST = re.compile(rf"\s*\[\s*(?:{_PAIR}\s*(?:,\s*{_PAIR}\s*)*,?)?\s*\]\s*")
"""A Python list such as `[(0, '='), (1, 'x')]`; it is read with a grammar, never evaluated."""


class PhotonicMeshFarEnd(FarEnd):
    """A simulated photonic mesh; after power-on every cell that moves is in bar."""

    def __init__(self, site: SwitchSite, options: PhotonicMeshOptions | None = None) -> None:
        of_any = {name: simulated_switch.FAULTS[name] for name in _OF_ANY_SWITCH}
        super().__init__({**FAULTS, **of_any}, site)
        options = options or PhotonicMeshOptions()
        self._site = site
        self._mesh = described_mesh(options)
        self._place = {number: place for place, number in enumerate(numbers_of(self._mesh))}
        if (most := max(site.ingress | site.egress)) > len(self._mesh.ports):
            raise ValueError(f"this mesh uses {len(self._mesh.ports)} ports, not {most}")
        self._switch = SimulatedSwitch(site, self.faults, self.lock)
        self._cells: Setting = setting_of(self._mesh, {})
        self.at_once |= {"meddled": self._change_by_other_client, "restart": self._restart}
        self._set(self._cells)

    def fault(self, name: str, **scope: Any) -> None:
        """Simulate a fault; raise ValueError for a cell that there is not."""
        if name == "cell-stuck" and (cell := scope.get("port")) not in (None, *self._place):
            least, last = min(self._place), max(self._place)
            raise ValueError(f"there is no cell {cell}: they are numbered {least} to {last}")
        super().fault(name, **scope)

    @property
    def cells(self) -> Setting:
        """Return the state of the cells."""
        return self._cells

    def _reply_end(self, serial: bool) -> bytes:
        return b"\n"

    def _conversation(self, connection: ClientConnection) -> MeshSession:
        """Greet a client, which may send one line."""
        cells = len(self._mesh.cells)
        greeting = f"photonic mesh, serial {self._site.serial}, {cells} cells\n"
        connection.reply(greeting.encode(), "")
        return MeshSession(self, connection)

    def execute(self, line: str) -> str:
        """Set the cells listed in a line; return the status text."""
        with self.lock:
            if self.is_busy:
                return "ERROR: busy with another configuration"
            if self.faults.strikes("error", line):
                return "ERROR: driving the heaters failed"
            try:
                gates = cells_of(line)
            except ValueError as error:
                return f"ERROR: {error}"
            if unknown := [cell for cell in gates if cell not in self._place]:
                return f"ERROR: there is no cell {unknown[0]}"
            self._set(self._obeyed(gates))
            return f"OK: {len(gates)} cells set"

    def _obeyed(self, gates: Mapping[int, Gate]) -> Setting:
        """Return how the cells stand after a command, but for those that are stuck."""
        cells = list(self._cells)
        for number, gate in gates.items():
            cell = self._place[number]
            if cells[cell] is gate or cell in self._mesh.stuck:
                continue
            if not self.faults.strikes("cell-stuck", "", number):
                cells[cell] = gate
        return tuple(cells)

    def _set(self, cells: Setting) -> None:
        """Let the cells stand so; circuits whose light takes another way are dark meanwhile."""
        before, now = self._paths(self._cells), self._paths(cells)
        self._cells = cells
        stays = {port for port, path in now.items() if before.get(port) == path}
        circuits = self._mesh.circuits(cells)
        commanded = dict(self._switch.commanded)
        self._switch.disconnect(
            {i: e for i, e in commanded.items() if i not in stays or circuits.get(i) != e}
        )
        self._switch.connect(circuits)

    def _paths(self, cells: Setting) -> dict[int, Path]:
        return {i: self._mesh.path(i, cells) for i in range(1, len(self._mesh.ingress) + 1)}

    def _change_by_other_client(self, fault: ArmedFault) -> None:
        """Turn the first cell on the way of each circuit of a port, as another client would."""
        with self.lock:
            cells = list(self._cells)
            for ingress, egress in self._mesh.circuits(self._cells).items():
                if fault.port in (None, ingress, egress):
                    step = self._mesh.path(ingress, self._cells).steps[0]
                    if step.cell not in self._mesh.stuck:
                        cells[step.cell] = Gate.CROSS if step.gate is Gate.BAR else Gate.BAR
            self._set(tuple(cells))

    def _restart(self, fault: ArmedFault) -> None:
        with self.lock:
            self._set(setting_of(self._mesh, {}))
        self.hang_up()


class MeshSession:
    """One client's connection: one line, the status text, then the end."""

    def __init__(self, far_end: PhotonicMeshFarEnd, connection: ClientConnection) -> None:
        self._far_end = far_end
        self._connection = connection
        self._begun = b""
        self._over = False

    def receive(self, data: bytes) -> None:
        """Receive bytes in any pieces; bytes after the first line are ignored."""
        line, end, _ = (self._begun + data).partition(b"\n")
        if not end or self._over:
            self._begun = line
            return
        self._over = True
        text = line.decode("ascii", "replace")
        self._connection.reply(f"{self._far_end.execute(text)}\n".encode(), text, last=True)


def cells_of(line: str) -> dict[int, Gate]:
    """Parse a line that sets cells; raise ValueError for anything else."""
    if not _LIST.fullmatch(line):
        raise ValueError("not a list of cells with '=' or 'x'")
    rows = [(int(cell), Gate(one or other)) for cell, one, other in re.findall(_PAIR, line)]
    gates = dict(rows)
    if len(gates) != len(rows):
        raise ValueError("a cell is listed twice")
    return gates
