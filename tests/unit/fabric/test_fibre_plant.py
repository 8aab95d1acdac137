"""Links of ranks on the fibres of a lab: the circuits that light takes, or what is missing."""

from itertools import count

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.fabric.circuits import Circuit, Fibres, HostPort, Side, SwitchPort
from testbed.fabric.fibre_plant import (
    FibrePlant,
    MissingFibres,
    map_links,
    ports_alike,
    rank_ports,
)
from testbed.fabric.topologies import AllToAll, Rails, Ring, Torus


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


def light_of(mapped, wiring):
    """Return the circuits with light both ways, traced through the cross-connects of a mapping."""
    sends = {fibres.tx: port for port, fibres in wiring.items()}
    receives = {fibres.rx: port for port, fibres in wiring.items()}
    paths = set()
    for switch, crosses in mapped.cross_connects.items():
        for cross in crosses:
            one, other = SwitchPort(switch, cross.ingress), SwitchPort(switch, cross.egress)
            paths |= {(sends.get(a), receives.get(b)) for a, b in ((one, other), (other, one))}
    return {Circuit.between(a, b) for a, b in paths if a and b and (b, a) in paths}


def joined(link, ports):
    (a, p), (b, q) = link
    return Circuit.between(ports[a][p], ports[b][q])


@settings(max_examples=25)
@given(cases())
def test_the_planned_cross_connects_join_the_ports_of_every_link(case):
    links, ports, wiring = case
    mapped = map_links(links, ports, FibrePlant(wiring))
    assert light_of(mapped, wiring) == mapped.circuits
    assert mapped.circuits == {joined(link, ports) for link in links}
    assert mapped.direct == frozenset()
    for switch, crosses in mapped.cross_connects.items():
        assert crosses
        assert {cross.switch for cross in crosses} == {switch}
        used = [number for cross in crosses for number in (cross.ingress, cross.egress)]
        assert len(used) == len(set(used))


@settings(max_examples=25)
@given(cases(), st.data())
def test_every_link_over_a_missing_fibre_is_named_and_no_other(case, data):
    links, ports, wiring = case
    lost = data.draw(st.sets(st.sampled_from(sorted(wiring)), min_size=1))
    plant = FibrePlant({port: fibres for port, fibres in wiring.items() if port not in lost})
    hit = {link for link in links if lost & {*joined(link, ports).ends}}
    if not hit:
        assert map_links(links, ports, plant).circuits == {joined(link, ports) for link in links}
        return
    with pytest.raises(MissingFibres) as refused:
        map_links(links, ports, plant)
    assert {each.link for each in refused.value.missing} == hit
    for each in refused.value.missing:
        port = each.reason.removesuffix(" has no fibre to a switch")
        assert HostPort.parse(port) in lost & {*joined(each.link, ports).ends}


@settings(max_examples=25)
@given(cases(), st.data())
def test_direct_fibres_need_no_cross_connect(case, data):
    links, ports, wiring = case
    circuits = {joined(link, ports) for link in links}
    fixed = data.draw(st.sets(st.sampled_from(sorted(circuits)))) if circuits else set()
    direct = dict(data.draw(st.permutations(c.ends)) for c in fixed)
    ends = {end for circuit in fixed for end in circuit.ends}
    plant = FibrePlant({port: f for port, f in wiring.items() if port not in ends}, direct)
    mapped = map_links(links, ports, plant)
    assert mapped.direct == fixed
    assert mapped.circuits == circuits
    assert light_of(mapped, wiring) == circuits - fixed


def test_rails_on_separate_switches_share_no_switch():
    ports = names(4, 4)
    plant = FibrePlant(duplex(ports, lambda number: f"rail{number // 2}"))
    (links,) = Rails(2).matchings(8, 2)
    mapped = map_links(links, rank_ports(list(ports), ports, ranks_per_host=2), plant)
    assert list(mapped.cross_connects) == ["rail0", "rail1"]
    assert {len(crosses) for crosses in mapped.cross_connects.values()} == {8}


def test_ranks_of_a_host_have_its_ports_in_order():
    assert rank_ports(["b", "a"], {"a": ["x", "y"], "b": ["u", "v"]}, 2) == tuple(
        (HostPort(*port),) for port in (("b", "u"), ("b", "v"), ("a", "x"), ("a", "y"))
    )


def test_ports_that_ranks_cannot_share_evenly_are_refused():
    with pytest.raises(ValueError, match="h0 has 3 fabric ports, which its 2 ranks cannot share"):
        rank_ports(["h0"], names(1, 3), 2)


def refused(links, plant, per_host=2):
    ports = names(4, per_host)
    with pytest.raises(MissingFibres) as found:
        map_links(links, rank_ports(list(ports), ports), plant)
    return found.value


def test_ports_on_different_switches_are_named_with_the_count_of_the_others():
    plant = FibrePlant(duplex(names(4, 2), lambda number: f"ocs{number}"))
    (links,) = Ring().matchings(4, 2)
    why = refused(links, plant)
    assert len(why.missing) == 4
    assert str(why) == (
        "rank 0 port 0 cannot be joined with rank 3 port 1: h0.p0 ends on ocs0 and h3.p1 on ocs1: "
        "no path of light, and 3 more links"
    )


def test_a_port_that_a_rank_does_not_have_is_named():
    plant = FibrePlant(duplex(names(4, 2), lambda number: "ocs"))
    (links,) = Torus((2, 2)).matchings(4, 4)
    assert "rank 0 has 2 fabric ports, and no port 2" in str(refused(links, plant).missing)
    (links,) = Ring().matchings(5, 2)
    assert "there is no rank 4 among the 4 ranks" in str(refused(links, plant).missing)


@pytest.mark.parametrize("near", ["h0.p0", "h2.p0"])
def test_a_direct_fibre_that_leads_elsewhere_is_named(near):
    far = {"h0.p0": "h2.p0", "h2.p0": "h0.p0"}[near]
    plant = FibrePlant(
        duplex({"h1": ["p0"]}, lambda number: "ocs"), {HostPort.parse(near): HostPort.parse(far)}
    )
    why = refused(frozenset({((0, 0), (1, 0))}), plant)
    assert str(why) == (
        "rank 0 port 0 cannot be joined with rank 1 port 0: the fibre of h0.p0 leads to h2.p0 and "
        "not to h1.p0"
    )


def test_a_switch_port_wired_to_two_host_ports_is_refused():
    a, b, c = (HostPort(host, "p0") for host in "abc")
    one = Fibres(SwitchPort("ocs", 1), SwitchPort("ocs", 2))
    other = Fibres(SwitchPort("ocs", 3), SwitchPort("ocs", 2))
    with pytest.raises(ValueError, match=r"^ocs\.2 is wired to a\.p0 and to b\.p0$"):
        FibrePlant({a: one, b: other})
    with pytest.raises(ValueError, match=r"^a\.p0 has two fibres, one of them from c\.p0 to a\.p0"):
        FibrePlant({a: one}, {c: a})
    with pytest.raises(ValueError, match=r"^b\.p0 has two fibres"):
        FibrePlant({}, {a: b, b: c})


@settings(max_examples=25)
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
