"""How long topologies take to be listed and mapped to the fibres of a large lab, on one core.

Processor seconds. Every host has four ports with two fibres each, all to one switch; for all-to-all
the ports of one number have a switch of their own.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count

import pytest

from testbed.fabric.circuits import Fibres, HostPort, SwitchPort, Wiring, cross_connects
from testbed.fabric.fibre_plant import map_links, own_ports, rank_ports
from testbed.fabric.topologies import AllToAll, Pairs, Rails, Ring, Topology, Torus

PORTS = 10_240
PER_HOST = 4
LIMIT_S = 2.0
ROUNDS = 5


@pytest.mark.parametrize(
    ("name", "topology", "ranks_per_host"),
    [
        ("ring", Ring(2), 1),
        ("torus", Torus((64, 40)), 1),
        ("pairs", Pairs(4, fibres=4), 1),
        ("rails", Rails(2, Ring()), 2),
    ],
)
def test_ten_thousand_ports(name: str, topology: Topology, ranks_per_host: int) -> None:
    ports, wiring = _lab(PORTS // PER_HOST, lambda port: "ocs")
    ranks = ranks_per_host * len(ports)

    def planned() -> int:
        (links,) = topology.matchings(ranks, PER_HOST // ranks_per_host)
        return len(map_links(links, own_ports(list(ports), ports, ranks_per_host), wiring))

    assert planned() == PORTS // 2
    took = _least(planned)
    print(f"\n{name}: {PORTS} ports listed and mapped in {took:.3f} s, the least of {ROUNDS}")
    assert took < LIMIT_S


def test_the_time_grows_with_the_number_of_ports() -> None:
    spans = []
    for hosts in (640, 1280, 2560, 5120):
        ports, wiring = _lab(hosts, lambda port: "ocs")
        links = Ring(2).matchings(hosts, PER_HOST)[0]
        of_ranks = rank_ports(list(ports), ports)
        spans.append(_least(lambda: map_links(links, of_ranks, wiring)))  # noqa: B023
    print("\nmapping a ring of 640, 1280, 2560, 5120 hosts:", [f"{span:.3f} s" for span in spans])
    assert spans[-1] < 16 * spans[0]  # eight times the ports, and twice that for a busy machine


def test_all_to_all_of_a_thousand_ranks() -> None:
    begin = time.process_time()
    matchings = AllToAll().matchings(1024, PER_HOST)
    listed = time.process_time() - begin
    ports, wiring = _lab(1024, lambda port: f"ocs{port}")
    begin = time.process_time()
    mapped = map_links(matchings[0], rank_ports(list(ports), ports), wiring)
    one = time.process_time() - begin
    print(
        f"\nall-to-all of 1024 ranks with 4 ports: {len(matchings)} matchings listed in "
        f"{listed:.2f} s, one of them mapped in {one:.3f} s"
    )
    crossed = cross_connects(mapped, wiring)
    assert len(crossed) == 2 * len(mapped) == 1024 * PER_HOST


def _lab(hosts: int, switch_of: Callable[[int], str]) -> tuple[dict[str, list[str]], Wiring]:
    """Return the ports of hosts by name, and two fibres from each to its switch."""
    ports = {f"h{host}": [f"p{port}" for port in range(PER_HOST)] for host in range(hosts)}
    free = count(1)
    wiring = {
        HostPort(host, name): Fibres(
            SwitchPort(switch_of(port), next(free)), SwitchPort(switch_of(port), next(free))
        )
        for host, own in ports.items()
        for port, name in enumerate(own)
    }
    return ports, wiring


def _least(action: Callable[[], object]) -> float:
    spans = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        action()
        spans.append(time.process_time() - begin)
    return min(spans)
