"""Descriptor of the driver of programmable photonic meshes."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from testbed.files import parse_json, read_file
from testbed.units import Seconds
from testbed_drivers.descriptors import described_switch
from testbed_drivers.transports.options import Timeouts

LARGEST_FILE = 8 << 20
"""Bytes of a file; 63 settings of a mesh of 14 × 14 take 0.1 MB."""


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
    bidi: tuple[int, ...] = ()
    """In place of both: external ports that carry light both ways, the switch's ports 1, 2, …. One
    route then joins two ports."""
    file: str = ""
    """A map of the device's cells with their numbers and ports, or a precomputed configuration, in
    place of width, height and ports. Circuits that are precomputed are set as they are
    there, where no other circuit is disturbed by it."""
    stuck_bar: tuple[int, ...] = ()
    """Cells that are known to stay in bar, whatever they are told: circuits are routed around."""
    stuck_cross: tuple[int, ...] = ()
    """Cells that are known to stay in cross."""
    settle: Seconds = 0.01
    """After the answer; what the box's software takes before it is no settling."""
    settle_max: Seconds = 2.0


def _ports_both_ways(options: PhotonicMeshOptions) -> int:
    """Return the number of ports that carry light both ways; 0 where each takes one way.

    A file that cannot be read has none: the driver says what is wrong with it.
    """
    if not options.file:
        return len(options.bidi)
    with suppress(OSError, ValueError):
        value = parse_json(read_file(Path(options.file), LARGEST_FILE, follow=True))
        mesh = value.get("mesh", value) if isinstance(value, Mapping) else {}
        if isinstance(mesh, Mapping) and isinstance(ports := mesh.get("bidi"), list):
            return len(ports)
    return 0


PHOTONIC_MESH, PHOTONIC_MESH_FAR_END = described_switch(
    "photonic-mesh",
    "testbed_drivers.switches.photonic_mesh:PhotonicMesh",
    PhotonicMeshOptions,
    driver="programmable photonic mesh, one line of cells over TCP (experimental)",
    far_end="programmable photonic mesh, device side of its one line",
    whole=True,
    ways=("tcp",),
    sides=lambda options: (len(options.ingress), len(options.egress)),
    one_side=_ports_both_ways,
)
