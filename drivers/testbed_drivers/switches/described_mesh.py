"""The mesh that the options of a lab file describe, for the driver and for the far end."""

from __future__ import annotations

from dataclasses import replace

from testbed.fabric.mesh import Gate, Mesh, hexagonal
from testbed_drivers.switches.descriptors.photonic_mesh import PhotonicMeshOptions


def described_mesh(options: PhotonicMeshOptions) -> Mesh:
    """Return the mesh of some options; raise ValueError for ports or cells that it lacks."""
    mesh = hexagonal(options.width, options.height, options.ingress, options.egress)
    bar, cross = set(options.stuck_bar), set(options.stuck_cross)
    last = len(mesh.cells) - 1
    if outside := sorted(cell for cell in bar | cross if not 0 <= cell <= last):
        raise ValueError(f"the cells are numbered 0 to {last}, so {outside[0]} cannot be stuck")
    if both := sorted(bar & cross):
        raise ValueError(f"cell {both[0]} cannot be stuck in bar and in cross")
    stuck = {**dict.fromkeys(sorted(bar), Gate.BAR), **dict.fromkeys(sorted(cross), Gate.CROSS)}
    return replace(mesh, stuck=stuck)
