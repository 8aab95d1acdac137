"""The phases of the fleet study, each for one cluster and one seed (Morphlux, section 7).

All results are a `model` of the systems, under the named mix.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from testbed.rack.bandwidth import Workload, fabric_rings, ports, static_port_use, static_rings
from testbed.rack.contiguous import contiguous, fragmentation_index
from testbed.rack.fleet import MIXES, S16, S32, Cluster, Mix, filled, requests, thinned
from testbed.rack.provisioning import Cost, ideal, in_rack, migration, server_replacement
from testbed.rack.replacement import Wiring, wired
from testbed.rack.slices import Occupancy, empty, with_slice
from testbed.rack.systems import SYSTEMS, Rings, placed
from testbed.rack.torus import Shape, Torus, server_of

WORKLOADS = (
    Workload("communication-bound", 1.0, 5.0),
    Workload("balanced", 1.0, 1.0),
    Workload("compute-bound", 1.0, 0.2),
)
"""Seconds of computation, and of sending the gradient through one port. The first has the ratio of
the paper's hardware at batch 8: 4.2 s over one port of 10 GbE, 0.83 s of computation."""


@dataclass(frozen=True)
class Bandwidth:
    """The port use of full racks, one number per rack in each list.

    `gain` is the racks' training throughput with redirected ports over that of the static torus.
    """

    static_ports: list[float]
    static_ports_y: list[float]
    redirected_ports: list[float]
    gain: Mapping[str, list[float]]


@dataclass(frozen=True)
class Placed:
    """The requests that a system placed: slices, chips, and their training steps per second."""

    slices: int
    chips: int
    throughput: Mapping[str, float]


@dataclass(frozen=True)
class Admission:
    """The requests that each system placed, for the same requests in the same racks."""

    free_chips: int
    requested: int
    placed: Mapping[str, Placed]


@dataclass(frozen=True)
class Failures:
    """The cost of replacing failed chips in each rack and under each policy, and its failures."""

    costs: Mapping[str, list[Cost]]
    refused: int


@dataclass(frozen=True)
class Case:
    """The results of one cluster in all phases."""

    bandwidth: Bandwidth
    fragmentation: list[float]
    only_32: Admission
    mixed_16_32: Admission
    failures: Failures


def case(mix: str, seed: int, racks: int = 64) -> Case:
    """Return the results of one cluster, which depend on the mix, seed and number of racks only."""
    torus, rng = Torus(), random.Random(f"{mix}, cluster {seed}")
    full = filled(torus, racks, MIXES[mix], rng)
    a_fifth_gone, a_third_gone = thinned(full, 0.2, rng), thinned(full, 0.3, rng)
    return Case(
        bandwidth(full),
        [fragmentation_index(torus, rack.free) for rack in a_fifth_gone.racks],
        admission(a_third_gone, {S32: 1}, rng),
        admission(a_third_gone, {S16: 1, S32: 1}, rng),
        failures(torus, racks, MIXES[mix], rng),
    )


def bandwidth(cluster: Cluster) -> Bandwidth:
    """Return the share of ports in use in each rack, and the gain of redirecting them."""
    torus = cluster.torus
    shapes: list[list[Shape]] = [[] for _ in cluster.racks]
    for rack, each in cluster.slices:
        shapes[rack].append(each.shape)
    all_ports = ports(torus)
    return Bandwidth(
        [_mean(each, lambda s: static_port_use(torus, s)) for each in shapes],
        [_mean(each, lambda s: static_port_use(torus, s, 1)) for each in shapes],
        [_mean(each, lambda s: 2 * fabric_rings(torus, s) / all_ports) for each in shapes],
        {
            load.name: [
                throughput(torus, load, each, fabric_rings)
                / throughput(torus, load, each, static_rings)
                for each in shapes
            ]
            for load in WORKLOADS
        },
    )


def throughput(torus: Torus, load: Workload, shapes: Sequence[Shape], rings: Rings) -> float:
    """Return the training steps per second of slices, each weighted by its chips."""
    return sum(_chips(shape) / load.step_s(_chips(shape), rings(torus, shape)) for shape in shapes)


def admission(cluster: Cluster, mix: Mix, rng: random.Random) -> Admission:
    """Return which requests each system places, for as many chips as are free."""
    torus = cluster.torus
    free = sum(len(rack.free) for rack in cluster.racks) * _chips(torus.server)
    asked = requests(mix, free, rng)
    ways = {system.places for system in SYSTEMS.values()}
    found = {places: placed(torus, places, cluster.racks, asked) for places in ways}
    return Admission(
        free,
        len(asked),
        {
            name: Placed(
                len(shapes := found[system.places]),
                sum(map(_chips, shapes)),
                {load.name: throughput(torus, load, shapes, system.rings) for load in WORKLOADS},
            )
            for name, system in SYSTEMS.items()
        },
    )


def failures(torus: Torus, racks: int, mix: Mix, rng: random.Random) -> Failures:
    """Return the cost of one to four failed chips in each rack, with one server reserved."""
    costs: dict[str, list[Cost]] = {
        name: [] for name in ("migration", "server", "morphlux", "ideal-switch")
    }
    refused = 0
    for _ in range(racks):
        wirings, spares = _with_a_reserve(torus, mix, rng)
        in_use = [chip for each in wirings for chip in each.chips]
        failed = rng.sample(in_use, rng.randint(1, 4))
        repair = in_rack(torus, wirings, failed, spares)
        refused += repair.refused
        costs["migration"].append(migration(wirings, failed))
        costs["server"].append(server_replacement(torus, wirings, failed))
        costs["morphlux"].append(repair.cost)
        costs["ideal-switch"].append(ideal(wirings, failed))
    return Failures(costs, refused)


def _with_a_reserve(torus: Torus, mix: Mix, rng: random.Random) -> tuple[list[Wiring], list[int]]:
    """Return the slices of a rack that is full but for its last server, and that server's chips."""
    state = empty(torus)
    reserved = max(state.free)
    state = Occupancy(state.free - {reserved}, state.room)
    wirings = []
    shapes, weights = zip(*mix.items(), strict=True)
    while state.free:
        found = contiguous(torus, state, rng.choices(shapes, weights)[0])
        if found is not None:
            state = with_slice(torus, state, found)
            wirings.append(wired(torus, found))
    chips = range(_chips(torus.chips))
    return wirings, [chip for chip in chips if server_of(torus, chip) == reserved]


def _mean(shapes: Sequence[Shape], share: Callable[[Shape], float]) -> float:
    """Return a share of slices, averaged over their chips."""
    chips = sum(map(_chips, shapes))
    return sum(share(shape) * _chips(shape) for shape in shapes) / chips


def _chips(shape: Shape) -> int:
    x, y, z = shape
    return x * y * z
