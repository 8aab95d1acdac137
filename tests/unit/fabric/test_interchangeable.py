"""Hosts that are interchangeable, against every pair of them for every link."""

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.circuits import Fibres, HostPort, Side, SwitchPort, can_join
from testbed.fabric.fibre_plant import rank_ports
from testbed.fabric.interchangeable import check_interchangeable
from testbed.fabric.topologies import AllToAll, Pairs, Ring

PORTS = ("p0", "p1")


@st.composite
def plants(draw):
    """Draw fibres of hosts with two ports each, to one of two switches or to both."""
    hosts = [f"h{n}" for n in range(draw(st.integers(1, 5)))]
    wiring, free = {}, iter(range(1, 100))
    switch = st.sampled_from(["one", "other"])
    odd_ones = draw(st.booleans())
    for host in hosts:
        for name in PORTS:
            tx = SwitchPort(draw(switch) if odd_ones else "one", next(free))
            rx = SwitchPort(draw(switch) if odd_ones else "one", next(free))
            side = draw(st.sampled_from([Side.INPUT, Side.OUTPUT, Side.ANY]))
            is_bidi = odd_ones and draw(st.booleans())
            wiring[HostPort(host, name)] = Fibres(tx, tx, side) if is_bidi else Fibres(tx, rx)
    return hosts, wiring


@given(plants(), st.sampled_from([Ring(), Pairs(), Pairs(fibres=2), AllToAll()]))
def test_hosts_are_interchangeable_where_every_two_can_be_joined_over_every_link(plant, topology):
    hosts, wiring = plant
    (links, *_) = topology.matchings(2, 2)
    numbers = {(p, q) for (_, p), (_, q) in links}
    apart = [
        (one, other)
        for a, b in permutations(hosts, 2)
        for p, q in numbers
        for one, other in [(HostPort(a, PORTS[p]), HostPort(b, PORTS[q]))]
        if not can_join(one, other, wiring)
    ]
    ports = rank_ports(hosts, dict.fromkeys(hosts, PORTS))
    if not apart:
        check_interchangeable(links, ports, wiring)
        return
    with pytest.raises(ValueError, match=r"path of light|circuit joins|both on the") as refused:
        check_interchangeable(links, ports, wiring)
    assert any(str(one) in str(refused.value) and str(b) in str(refused.value) for one, b in apart)
