"""The bandwidth of a slice for its collectives, on a static torus and with redirected ports.

The unit is a ring: one port each way at every chip of the slice. A chip of a torus has two ports
for each axis, so three rings at most.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from testbed.rack.torus import Shape, SlotGraph, Torus, chip_links, slot_graph


def ports(torus: Torus) -> int:
    """Return how many ports a chip has."""
    return 2 * torus.fibres * sum(size > 1 for size in torus.chips)


@lru_cache
def static_port_use(torus: Torus, shape: Shape, axis: int | None = None) -> float:
    """Return the share of a slice's ports, on one axis or all, whose links stay in the slice.

    The links of a static torus lead elsewhere at the borders of a slice that does not span it.
    """
    axes = [axis] if axis is not None else [a for a in range(3) if torus.chips[a] > 1]
    x, y, z = shape
    ends = sum(
        2 for one, other in chip_links(torus, shape) if any(one[a] != other[a] for a in axes)
    )
    return ends / (x * y * z * 2 * len(axes))


def static_rings(torus: Torus, shape: Shape) -> int:
    """Return the rings of a slice on a static torus: one for each axis that it spans.

    Along another axis bucket rings contend with those of the neighbours (Morphlux, section 3.1); a
    slice that spans none has the one ring through all its chips. That is the paper's rule, which is
    pessimistic for the static rack: see `most_static_rings`.
    """
    spanned = sum(s == size > 1 for s, size in zip(shape, torus.chips, strict=True))
    return torus.fibres * max(spanned, shape != (1, 1, 1))


@lru_cache
def most_static_rings(torus: Torus, shape: Shape) -> int:
    """Return a bound on the rings of a static slice: each takes two of the links at each chip."""
    x, y, z = shape
    links = sum(1 for _ in chip_links(torus, shape))
    return torus.fibres * links // (x * y * z)


@lru_cache
def fabric_rings(torus: Torus, shape: Shape, groups: int = 1) -> int:
    """Return the rings of a slice whose chips' ports are all redirected into the slice.

    The result is the smaller of the limits of ports and of bundles. Each of `groups` communication
    groups has an equal share of the ports, half of it each way (Morphlux, appendix B.3). Rings go
    through one server after the other: they use a bundle once where the slots form a ring, else in
    both directions. Inside a server the mesh joins any ports. The result does not depend on the
    place of the slice and the paths of its bundles.
    """
    if shape == (1, 1, 1):
        return 0
    graph = slot_graph(torus, shape)
    per_port = ports(torus) // (2 * groups)
    if not graph.edges:
        return per_port
    times = 1 if _can_be_gone_around(graph) else 2
    return min(per_port, min(graph.edges.values()) // (times * groups))


def ideal_rings(torus: Torus, shape: Shape) -> int:
    """Return the rings of a slice on an ideal switch, which uses all ports."""
    return 0 if shape == (1, 1, 1) else ports(torus) // 2


@dataclass(frozen=True)
class Workload:
    """A training step: seconds of computation, and of sending the gradient through one port."""

    name: str
    compute_s: float
    gradient_s: float

    def step_s(self, chips: int, rings: float) -> float:
        """Return the step time T_c + 2 (n − 1) / n · V / B, with B the rings' bandwidth.

        Latency is left out. This is the two-parameter model of the paper's hardware table, with the
        traffic of a ring AllReduce.
        """
        if chips == 1:
            return self.compute_s
        return self.compute_s + 2 * (chips - 1) / chips * self.gradient_s / rings


def _can_be_gone_around(graph: SlotGraph) -> bool:
    """Return whether slot edges make a ring through all slots."""
    near: dict[int, list[int]] = {slot: [] for slot in range(graph.slots)}
    for a, b in graph.edges:
        near[a].append(b)
        near[b].append(a)

    def extended(path: list[int]) -> bool:
        if len(path) == graph.slots:
            return len(path) > 2 and path[0] in near[path[-1]]
        return any(extended([*path, to]) for to in near[path[-1]] if to not in path)

    return extended([0])
