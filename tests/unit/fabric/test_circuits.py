"""Ports, circuits, matchings, and the cross-connects that make them."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    Fibres,
    HostEnds,
    HostPort,
    Side,
    SwitchPort,
    can_join,
    cross_connects,
    in_order,
    matching,
)

names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9_-]*", fullmatch=True)


def wired(count, switches=1, *, bidi=False, side=None):
    """Return fibres of `count` host ports, spread over switches in turn."""
    wiring = {}
    for number in range(count):
        switch = f"ocs{number % switches}"
        tx = SwitchPort(switch, number + 1)
        rx = tx if bidi else SwitchPort(switch, number + 1 + count)
        wiring[HostPort(f"h{number // 2}", f"p{number % 2}")] = Fibres(tx, rx, side)
    return wiring


@st.composite
def matchings(draw, ports):
    """Draw pairs of ports, no port twice."""
    order = draw(st.permutations(list(ports)))
    pairs = list(zip(order[::2], order[1::2], strict=False))
    return frozenset(Circuit.between(*pair) for pair in draw(st.sets(st.sampled_from(pairs))))


@st.composite
def wirings_with_matchings(draw):
    side = draw(st.sampled_from([None, Side.ANY]))
    wiring = wired(draw(st.integers(2, 12)), bidi=draw(st.booleans()), side=side)
    return wiring, draw(matchings(wiring))


@given(wirings_with_matchings())
def test_the_cross_connects_of_a_circuit_join_its_ends_both_ways(drawn):
    wiring, wanted = drawn
    ends = HostEnds(wiring)
    for circuit in wanted:
        joined = [ends.of(cross) for cross in cross_connects([circuit], wiring)]
        lit = {(one.source, one.sink) for one in joined}
        lit |= {(one.sink, one.source) for one in joined if one.both_ways}
        assert lit == {circuit.ends, circuit.ends[::-1]}


@given(wirings_with_matchings())
def test_every_circuit_takes_one_cross_connect_for_each_fibre_of_a_port_and_no_port_twice(drawn):
    wiring, wanted = drawn
    crossed = cross_connects(wanted, wiring)
    fibres = 1 if next(iter(wiring.values())).is_bidi else 2
    assert len(crossed) == fibres * len(wanted)
    assert all(c.ingress < c.egress for c in crossed)
    used = [(c.switch, number) for c in crossed for number in (c.ingress, c.egress)]
    assert len(set(used)) == len(used)


def test_ends_on_different_switches_have_no_path_of_light():
    with pytest.raises(ValueError, match=r"h0\.p0 ends on ocs0 and h0\.p1 on ocs1"):
        cross_connects([Circuit.parse("h0.p0", "h0.p1")], wired(4, switches=2))


def test_a_port_without_a_fibre_is_named():
    with pytest.raises(ValueError, match=r"h7\.p0 has no fibre"):
        cross_connects([Circuit.parse("h0.p0", "h7.p0")], wired(2))


@given(names, names)
def test_the_name_of_a_host_port_reads_back(host, port):
    assert HostPort.parse(str(HostPort(host, port))) == HostPort(host, port)


@given(names, st.integers(0, 9999))
def test_the_name_of_a_switch_port_reads_back(switch, number):
    assert SwitchPort.parse(str(SwitchPort(switch, number))) == SwitchPort(switch, number)


@pytest.mark.parametrize("text", ["", ".", "h0", "h0.", ".p0"])
def test_an_incomplete_name_of_a_host_port_is_refused(text):
    with pytest.raises(ValueError, match="not a host port"):
        HostPort.parse(text)


@pytest.mark.parametrize(
    "text", ["", "ocs", "ocs.", ".17", "ocs.x", "ocs.-1", "ocs.1.5.x", "ocs.²"]
)
def test_an_incomplete_name_of_a_switch_port_is_refused(text):
    with pytest.raises(ValueError, match="not a switch port"):
        SwitchPort.parse(text)


@given(names, names)
def test_a_circuit_has_no_direction(one, other):
    assume(one != other)
    a, b = HostPort(one, "p0"), HostPort(other, "p0")
    assert Circuit.between(a, b) == Circuit.between(b, a)
    assert set(Circuit.between(a, b).ends) == {a, b}
    assert str(Circuit.between(a, b)) == "–".join(sorted([str(a), str(b)], key=HostPort.parse))


def test_a_circuit_needs_two_ports():
    with pytest.raises(ValueError, match="to itself"):
        Circuit.parse("h0.p0", "h0.p0")


def test_a_port_in_two_circuits_makes_no_matching():
    crowded = [Circuit.parse("h0.p0", "h1.p0"), Circuit.parse("h0.p0", "h2.p0")]
    with pytest.raises(ValueError, match=r"h0\.p0 is in more than one circuit"):
        matching(crowded)


@given(wirings_with_matchings())
def test_a_circuit_named_twice_is_once_in_a_matching(drawn):
    _, wanted = drawn
    assert matching([*wanted, *wanted]) == wanted


def two_sided(*numbers, inputs=4):
    """Return bidirectional ports h0.p0, h1.p0, … at ports of a switch with so many inputs."""
    return {
        HostPort(f"h{index}", "p0"): Fibres(
            end := SwitchPort("ocs", number), end, Side.INPUT if number <= inputs else Side.OUTPUT
        )
        for index, number in enumerate(numbers)
    }


BETWEEN = Circuit.parse("h0.p0", "h1.p0")


@pytest.mark.parametrize("numbers", [(3, 7), (7, 3)])
def test_two_bidirectional_ports_take_one_cross_connect_from_the_input_to_the_output(numbers):
    assert cross_connects([BETWEEN], two_sided(*numbers)) == {CrossConnect("ocs", 3, 7)}


@pytest.mark.parametrize(("numbers", "side"), [((1, 3), "input"), ((5, 8), "output")])
def test_bidirectional_ports_on_one_side_of_a_switch_are_not_joined(numbers, side):
    wiring = two_sided(*numbers)
    with pytest.raises(
        ValueError, match=rf"^h0\.p0 and h1\.p0 are both on the {side} side of ocs$"
    ):
        cross_connects([BETWEEN], wiring)
    assert not can_join(HostPort("h0", "p0"), HostPort("h1", "p0"), wiring)
    assert can_join(HostPort("h0", "p0"), HostPort("h1", "p0"), two_sided(1, 8))


def test_one_fibre_for_both_directions_is_not_joined_with_two():
    wiring = two_sided(1) | {HostPort("h1", "p0"): Fibres(*two_fibres(2, 6))}
    reason = r"^h0\.p0 has one fibre for both directions and h1\.p0 has two: no circuit joins them$"
    with pytest.raises(ValueError, match=reason):
        cross_connects([BETWEEN], wiring)


def two_fibres(tx, rx):
    return SwitchPort("ocs", tx), SwitchPort("ocs", rx)


@pytest.mark.parametrize("crossed", [(2, 9), (9, 2)])
def test_on_one_side_a_cross_connect_joins_its_ports_in_either_order(crossed):
    wiring = {
        HostPort("h0", "p0"): Fibres(*two_fibres(9, 9), Side.ANY),
        HostPort("h1", "p0"): Fibres(*two_fibres(2, 2), Side.ANY),
    }
    assert cross_connects([BETWEEN], wiring) == {CrossConnect("ocs", 2, 9)}
    joined = HostEnds(wiring).of(CrossConnect("ocs", *crossed))
    assert joined.both_ways
    assert {joined.source, joined.sink} == set(BETWEEN.ends)


def test_two_fibres_of_a_port_may_end_anywhere_on_a_switch_with_one_side():
    wiring = {
        HostPort("h0", "p0"): Fibres(*two_fibres(5, 1), Side.ANY),
        HostPort("h1", "p0"): Fibres(*two_fibres(4, 2), Side.ANY),
    }
    made = {CrossConnect("ocs", 2, 5), CrossConnect("ocs", 1, 4)}
    assert cross_connects([BETWEEN], wiring) == made
    ends = HostEnds(wiring)
    assert {str(ends.of(cross)) for cross in made} == {"h0.p0 to h1.p0", "h1.p0 to h0.p0"}


def test_a_cross_connect_is_described_with_its_ends_and_directions():
    both, one = HostEnds(two_sided(1, 8)), HostEnds(wired(2))
    assert str(both.of(CrossConnect("ocs", 1, 8))) == "h0.p0 and h1.p0, both ways"
    assert str(both.of(CrossConnect("ocs", 1, 7))) == "h0.p0 to unwired"
    assert str(both.of(CrossConnect("ocs", 2, 8))) == "unwired to h1.p0"
    assert str(one.of(CrossConnect("ocs0", 1, 4))) == "h0.p0 to h0.p1"
    assert str(one.of(CrossConnect("ocs0", 9, 4))) == "unwired to h0.p1"
    assert str(one.of(CrossConnect("ocs9", 1, 4))) == "unwired to unwired"


@given(st.sets(st.tuples(st.sampled_from("abc"), st.sampled_from("pq"), st.sampled_from("rs"))))
def test_circuits_are_put_in_the_order_of_their_ends(ends):
    circuits = [Circuit.between(HostPort(h, one), HostPort("b1", two)) for h, one, two in ends]
    assert in_order(circuits) == tuple(sorted(set(circuits)))
