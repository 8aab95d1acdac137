"""Links of ranks on the fibres of a lab: the circuits that light takes, or what is missing."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.fabric.circuits import Circuit, Fibres, HostPort, Side, SwitchPort, cross_connects
from testbed.fabric.fibre_plant import map_links, ports_alike, rank_ports
from testbed.fabric.topologies import AllToAll, Ring, Torus


def names(hosts, per_host):
    return {f"h{n}": [f"p{port}" for port in range(per_host)] for n in range(hosts)}


def duplex(ports, switch_of):
    """Wire every port with two fibres to the switch that `switch_of` names for its number."""
    free = count(1)
    return {
        HostPort(host, name): Fibres(
            SwitchPort(switch_of(number), next(free)), SwitchPort(switch_of(number), next(free))
        )
        for host, own in ports.items()
        for number, name in enumerate(own)
    }


def one_sided(ports, switch_of):
    """Wire every port with one fibre to a switch that joins any two of its ports."""
    free = count(1)
    return {
        HostPort(host, name): Fibres(end, end, Side.ANY)
        for host, own in ports.items()
        for number, name in enumerate(own)
        for end in [SwitchPort(switch_of(number), next(free))]
    }


@st.composite
def cases(draw):
    """Draw links, the ports of the ranks, and wiring that can make all of them."""
    ranks, per_rank = draw(st.integers(1, 6)), draw(st.integers(1, 4))
    wire = draw(st.sampled_from([duplex, one_sided]))
    if draw(st.booleans()) and per_rank > 1:
        topology, switch_of = Ring(), lambda number: "ocs"
    else:  # both ends of a link have one number
        topology, switch_of = AllToAll(), lambda number: f"ocs{number}"
    ports = names(ranks, per_rank)
    links = draw(st.sampled_from(topology.matchings(ranks, per_rank)))
    return links, rank_ports(list(ports), ports), wire(ports, switch_of)


def joined(link, ports):
    (a, p), (b, q) = link
    return Circuit.between(ports[a][p], ports[b][q])


@given(cases())
def test_the_ports_of_every_link_are_joined_and_no_switch_port_twice(case):
    links, ports, wiring = case
    circuits = map_links(links, ports, wiring)
    assert circuits == {joined(link, ports) for link in links}
    crosses = cross_connects(circuits, wiring)
    for side in ("ingress", "egress"):
        used = [(cross.switch, getattr(cross, side)) for cross in crosses]
        assert len(used) == len(set(used))


@given(cases(), st.data())
def test_links_over_missing_fibres_are_refused_and_counted_and_no_other(case, data):
    links, ports, wiring = case
    lost = data.draw(st.sets(st.sampled_from(sorted(wiring)), min_size=1))
    left = {port: fibres for port, fibres in wiring.items() if port not in lost}
    hit = sorted(link for link in links if lost & {*joined(link, ports).ends})
    if not hit:
        assert map_links(links, ports, left) == {joined(link, ports) for link in links}
        return
    (a, p), (b, q) = hit[0]
    others = f", and {len(hit) - 1} more links" if len(hit) > 1 else ""
    with pytest.raises(ValueError, match=rf"^rank {a} port {p} .* rank {b} port {q}: ") as refused:
        map_links(links, ports, left)
    reason = str(refused.value).partition(": ")[2]
    assert reason.endswith(f" has no fibre to a switch{others}")
    assert HostPort.parse(reason.split()[0]) in lost & {*joined(hit[0], ports).ends}


def refused(links, wiring):
    ports = names(4, 2)
    with pytest.raises(ValueError, match="cannot be joined") as found:
        map_links(links, rank_ports(list(ports), ports), wiring)
    return str(found.value)


def test_ports_on_different_switches_are_named_with_the_count_of_the_others():
    wiring = duplex(names(4, 2), lambda number: f"ocs{number}")
    (links,) = Ring().matchings(4, 2)
    assert refused(links, wiring) == (
        "rank 0 port 0 cannot be joined with rank 3 port 1: h0.p0 ends on ocs0 and h3.p1 on ocs1: "
        "no path of light, and 3 more links"
    )


def test_a_port_that_a_rank_does_not_have_is_named():
    wiring = duplex(names(4, 2), lambda number: "ocs")
    (links,) = Torus((2, 2)).matchings(4, 4)
    assert "rank 2 has 2 fabric ports, and no port 3" in refused(links, wiring)
    (links,) = Ring().matchings(5, 2)
    assert "there is no rank 4 among the 4 ranks" in refused(links, wiring)


@given(st.lists(st.integers(0, 6), min_size=1, max_size=5), st.integers(0, 6))
def test_of_a_host_with_more_ports_the_middle_ones_are_left_out(sizes, count):
    ports = {f"h{n}": [f"p{port}" for port in range(size)] for n, size in enumerate(sizes)}
    if count > min(sizes):
        with pytest.raises(ValueError, match=f"fabric ports, and {count} are needed"):
            ports_alike(list(ports), ports, count)
        return
    for alike, each in (
        (ports_alike(list(ports), ports, count), count),
        (ports_alike(list(ports), ports), min(sizes)),
    ):
        for host, own in alike.items():
            assert len(own) == each
            assert [port for port in ports[host] if port in own] == list(own)
            if each:
                assert own[0] == ports[host][0]
            if each > 1:
                assert own[-1] == ports[host][-1]
