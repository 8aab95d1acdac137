"""Topologies: which circuits join the ranks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.circuits import Circuit, HostPort
from testbed.fabric.topology import ring


def ports(hosts, per_host=2):
    return {host: tuple(f"p{n}" for n in range(per_host)) for host in hosts}


def racks(smallest):
    hosts = [f"h{n}" for n in range(12)]
    return st.permutations(hosts).flatmap(
        lambda order: st.integers(smallest, 12).map(lambda count: order[:count])
    )


@given(racks(2), st.integers(2, 4))
def test_a_ring_visits_every_host_once(hosts, per_host):
    wired = ports(hosts, per_host)
    circuits = ring(hosts, wired)
    far = {end: next(e for e in c.ends if e != end) for c in circuits for end in c.ends}
    here, visited = hosts[0], []
    for _ in hosts:
        visited.append(here)
        arrived = far[HostPort(here, wired[here][-1])]
        assert arrived.port == wired[arrived.host][0]
        here = arrived.host
    assert visited == list(hosts)
    assert here == hosts[0]
    assert len(circuits) == len(hosts)


@given(racks(3))
def test_a_ring_is_the_same_from_any_first_host(hosts):
    turned = [*hosts[1:], hosts[0]]
    assert ring(hosts, ports(hosts)) == ring(turned, ports(hosts))


def test_a_ring_of_two_hosts_joins_both_of_their_ports():
    assert ring(["a", "b"], ports("ab")) == {
        Circuit.parse("a.p1", "b.p0"),
        Circuit.parse("b.p1", "a.p0"),
    }


@pytest.mark.parametrize("hosts", [[], ["a"]])
def test_a_ring_of_fewer_than_two_hosts_has_no_circuit(hosts):
    assert ring(hosts, {"a": ()}) == frozenset()


def test_a_host_with_one_port_is_refused_in_a_ring():
    with pytest.raises(ValueError, match="two fabric ports on b, which has 1"):
        ring(["a", "b"], {"a": ("p0", "p1"), "b": ("p0",)})
