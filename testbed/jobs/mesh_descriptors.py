"""Descriptor of the job that models a photonic mesh; importing it loads no job code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from testbed.jobs.option_checks import check_counts
from testbed.plugins import Kind
from testbed.units import Seconds

_LARGEST = 32
"""Hexagons along an edge: what the router can search within minutes is far smaller."""


@dataclass(frozen=True, slots=True)
class MeshModelOptions:
    """All matchings of some hosts through a photonic mesh, some of whose cells do not move."""

    width: int
    """Hexagons of a row, and rows."""
    height: int
    ranks: int
    """Each on a host of its own."""
    ports: Literal["bidi", "tx-rx"] = "bidi"
    """Whether a host has one port for both directions, or one for each."""
    searches: int = 200_000
    """How many routes may be searched for until the ports of the hosts are chosen."""
    stuck: int = 0
    """How many cells do not move: drawn at random, as is how each of them stands."""
    draws: int = 1
    """How often cells are drawn; the ports of the hosts stay."""
    proof: Seconds = 0.0
    """How long an integer program may take to prove of a matching that no router can route it."""

    def __post_init__(self) -> None:
        """Refuse meshes without ports, hosts without partners, and cells drawn for nothing."""
        check_counts(self, "width", "height", "searches", "draws")
        check_counts(self, "stuck", least=0)
        check_counts(self, "ranks", least=2)
        if max(self.width, self.height) > _LARGEST:
            raise ValueError(f"width and height must be at most {_LARGEST}")
        if self.ranks % 2:
            raise ValueError(f"matchings join all ranks in pairs: {self.ranks} is an odd number")
        cells = 3 * self.width * self.height + 2 * (self.width + self.height) - 1
        if self.stuck > cells:
            raise ValueError(f"the mesh has {cells} cells, so {self.stuck} cannot be stuck")
        external = 4 * (self.width + self.height + 1)
        needed = self.ranks if self.ports == "bidi" else 2 * self.ranks
        if needed > external:
            raise ValueError(f"the mesh has {external} external ports, and {needed} are needed")
        if self.draws > 1 and not self.stuck:
            raise ValueError("draws must be 1 where no cell is stuck, for nothing is drawn")

    def measures(self) -> Iterator[str]:
        """Yield the metrics that the model computes."""
        yield from ("matchings_routed", "meshes_routed", "route_cells", "longest_route")
        yield from ("search_time", "routing_time")
        yield from ("proved_impossible",) if self.proof else ()


MESH_MODEL = Kind(
    "all matchings of hosts through a photonic mesh, with stuck cells; nothing is run",
    "testbed.jobs.mesh_model:MeshModel",
    options=MeshModelOptions,
    role="model",
)
