"""Descriptor of the driver of programmable photonic meshes."""

from __future__ import annotations

from dataclasses import dataclass

from testbed.units import Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.transports.options import Timeouts


@dataclass(frozen=True, slots=True)
class PhotonicMeshOptions(Timeouts):
    """Options of a photonic mesh: its connection, and its cells and ports.

    Without a `file`, cells and external ports are numbered as `testbed.fabric.mesh` does, from 0.
    """

    transport: str = "tcp"
    """The far side ends its answer by hanging up, which only `tcp` notices at once."""
    width: int = 6
    height: int = 6
    """Hexagons of a row, and rows."""
    ingress: tuple[int, ...] = ()
    """External ports that light enters: the switch's ports 1, 2, …; by default spread evenly."""
    egress: tuple[int, ...] = ()
    """External ports that light leaves; they follow in number."""
    file: str = ""
    """A map of the device's cells with their numbers and ports, or a precomputed configuration, in
    place of width, height, ingress and egress. Circuits that are precomputed are set as they are
    there, where no other circuit is disturbed by it."""
    stuck_bar: tuple[int, ...] = ()
    """Cells that are known to stay in bar, whatever they are told: circuits are routed around."""
    stuck_cross: tuple[int, ...] = ()
    """Cells that are known to stay in cross."""
    settle: Seconds = 0.01
    """After the answer; what the box's software takes before it is no settling."""
    settle_max: Seconds = 2.0


PHOTONIC_MESH, PHOTONIC_MESH_FAR_END = described_switch(
    "photonic-mesh",
    "testbed_drivers.switches.photonic_mesh:PhotonicMesh",
    PhotonicMeshOptions,
    driver="programmable photonic mesh, one line of cells over TCP (experimental)",
    far_end="programmable photonic mesh, device side of its one line",
    whole=True,
    ways=("tcp",),
    sides=lambda options: (len(options.ingress), len(options.egress)),
)
