"""Circuits between ports on different switches, over fibres from switch to switch."""

import pytest

from testbed.fabric.circuits import (
    Circuit,
    CrossConnect,
    FibrePair,
    Fibres,
    HostEnds,
    HostPort,
    SwitchPort,
    cross_connects,
    crossings,
    fibre_ends,
    matching,
)
from testbed.fabric.owners import CircuitOfAnother, change_own

A, B, C = HostPort("a", "p"), HostPort("b", "p"), HostPort("c", "p")


def end(switch, tx, rx):
    return Fibres(SwitchPort(switch, tx), SwitchPort(switch, rx))


WIRING = {A: end("one", 1, 11), B: end("three", 1, 11), C: end("three", 2, 12)}
ONE_TWO = FibrePair("f12", end("one", 2, 12), end("two", 3, 13))
TWO_THREE = FibrePair("f23", end("two", 4, 14), end("three", 5, 15))
WAY = Circuit.between(A, B, (ONE_TWO, TWO_THREE))


def test_light_crosses_every_switch_on_its_way_there_and_back():
    there, back = crossings(WAY, WIRING)
    assert list(map(str, there)) == ["one.1→12", "two.3→14", "three.5→11"]
    assert list(map(str, back)) == ["three.1→15", "two.4→13", "one.2→11"]
    assert cross_connects([WAY], WIRING) == {*there, *back}


def test_a_circuit_written_from_its_other_end_is_the_same():
    back = Circuit.between(B, A, (TWO_THREE.reversed, ONE_TWO.reversed))
    assert back == WAY
    assert crossings(back, WIRING) == crossings(WAY, WIRING)
    assert str(WAY) == "a.p–f12–f23–b.p"


@pytest.mark.parametrize(
    ("via", "why"),
    [
        ((), "a.p ends on one and b.p on three: no path of light"),
        ((ONE_TWO,), "f12 ends on two and b.p on three: no path of light"),
        ((TWO_THREE, ONE_TWO), "a.p ends on one and f23 on two: no path of light"),
    ],
)
def test_fibres_that_do_not_follow_each_other_are_refused(via, why):
    with pytest.raises(ValueError, match=why):
        cross_connects([Circuit.between(A, B, via)], WIRING)


def test_a_fibre_is_in_one_circuit_only():
    other = Circuit.between(HostPort("d", "p"), C, (TWO_THREE,))
    with pytest.raises(ValueError, match="f23 is in more than one circuit"):
        matching([WAY, other])
    with pytest.raises(CircuitOfAnother, match=r"fibre f23 is in use by circuit a.p–f12–f23–b.p"):
        change_own({"x": frozenset({WAY})}, "y", frozenset(), frozenset({other}))


def test_cross_connects_are_named_by_the_fibres_at_their_ends():
    ends = HostEnds(WIRING, [ONE_TWO, TWO_THREE])
    assert str(ends.of(CrossConnect("two", 3, 14))) == "f12 to f23"
    assert str(ends.of(CrossConnect("one", 2, 11))) == "f12 to a.p"


def test_the_ends_of_fibres_between_switches_are_a_plans_as_those_of_its_hosts():
    found = fibre_ends(WIRING, ["a"], [ONE_TWO])
    assert sorted(map(str, found)) == ["one.1", "one.11", "one.12", "one.2", "two.13", "two.3"]
