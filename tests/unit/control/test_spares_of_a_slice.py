"""Circuits of a slice over the fibres of a rack, and a spare that is joined to it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.control.controller import JobView, PolicyController, View, seen_by
from testbed.control.descriptors import SpliceOptions
from testbed.control.policy import Situation
from testbed.control.protocol import Decide, Fenced, GiveUp, RankEnded, SetCircuits
from testbed.control.slices import (
    RackFibres,
    circuits_along,
    fibres_of,
    joined_to_newcomer,
    spares_in_order,
)
from testbed.control.splice import Splice
from testbed.fabric.circuits import (
    Circuit,
    FibrePair,
    Fibres,
    HostPort,
    SwitchPort,
    cross_connects,
    matching,
)
from testbed.fabric.topology import ring
from testbed.rack.torus import Torus

COUNT = 6
HOSTS = tuple(f"h{n}" for n in range(COUNT))
PORTS = dict.fromkeys(HOSTS, ("p0", "p1"))
ALL = ("power", "network", "process")


def end(server, port):
    return Fibres(SwitchPort(f"m{server}", port), SwitchPort(f"m{server}", port + 10))


WIRING = {HostPort(f"h{n}", f"p{p}"): end(n, 1 + p) for n in range(COUNT) for p in (0, 1)}


def pairs_of(torus):
    """Two fibre pairs between neighbours of a ring: ports 3 and 4 lead down, 5 and 6 up."""
    found = []
    for low, high in torus.links:
        near, far = (low, high) if high == low + 1 else (high, low)
        pairs = (FibrePair(f"f{near}{far}{n}", end(near, 5 + n), end(far, 3 + n)) for n in range(2))
        found.append(tuple(pair if near == low else pair.reversed for pair in pairs))
    return tuple(found)


TORUS = Torus((COUNT, 1, 1), (1, 1, 1), 2)
RACK = RackFibres(TORUS, HOSTS, pairs_of(TORUS))
BOTH = ring(("h0", "h1"), PORTS)
SLICE = circuits_along(RACK, [(circuit, (0, 1)) for circuit in sorted(BOTH)], frozenset())


def hops(circuits):
    return sorted(len(circuit.via) for circuit in circuits)


def test_circuits_are_led_over_fibres_of_their_own():
    assert cross_connects(SLICE, WIRING)
    assert sorted(pair.name for pair in fibres_of(SLICE)) == ["f010", "f011"]


def test_a_spare_is_joined_to_the_neighbour_past_the_switch_of_the_host_that_failed():
    found = joined_to_newcomer(RACK, ring(("h5", "h1"), PORTS), SLICE, "h5")
    assert found is not None
    assert len(cross_connects(found, WIRING)) == 2 * 2 * 3
    assert hops(found) == [2, 2]  # by h0, whose fibres are free again


def test_circuits_that_stay_keep_their_fibres():
    three = ring(("h0", "h1", "h2"), PORTS)
    ways = {("h0", "h1"): (0, 1), ("h1", "h2"): (1, 2), ("h0", "h2"): (0, 5, 4, 3, 2)}
    routes = [(c, ways[c.a.host, c.b.host]) for c in sorted(three)]
    routed = circuits_along(RACK, routes, frozenset())
    found = joined_to_newcomer(RACK, ring(("h0", "h1", "h3"), PORTS), routed, "h3")
    assert found is not None
    (kept,) = (circuit for circuit in routed if circuit.hosts == {"h0", "h1"})
    (same,) = (circuit for circuit in found if circuit.hosts == {"h0", "h1"})
    assert same.via == kept.via
    assert cross_connects(found, WIRING)


def test_fibres_of_other_jobs_are_not_used():
    of_others = circuits_along(
        RACK, [(Circuit.between(HostPort("h5", "p0"), HostPort("h0", "p0")), (5, 0))], frozenset()
    )
    beside = replace(RACK, taken=fibres_of(of_others))
    found = joined_to_newcomer(beside, ring(("h5", "h1"), PORTS), SLICE, "h5")
    assert found is not None
    assert not fibres_of(found) & beside.taken
    assert hops(found) == [2, 4]  # one goes the other way round
    assert cross_connects(found, WIRING)
    cut = frozenset(
        pair for link in ((0, 5), (4, 5)) for pair in RACK.pairs[TORUS.link_numbers[link]]
    )
    assert (
        joined_to_newcomer(replace(RACK, taken=cut), ring(("h5", "h1"), PORTS), SLICE, "h5") is None
    )


def test_no_circuit_is_made_that_does_not_end_at_the_newcomer():
    wanted = ring(("h3", "h4", "h5"), PORTS)
    assert joined_to_newcomer(RACK, wanted, SLICE, "h3") is None


def test_the_nearest_spare_comes_first():
    assert spares_in_order(RACK, ["h1"], ["h3", "h4", "h2"]) == ["h2", "h3", "h4"]


@given(
    st.permutations(HOSTS),
    st.integers(2, 4),
    st.sets(st.sampled_from([pair for link in RACK.pairs for pair in link]), max_size=6),
    st.data(),
)
def test_what_is_joined_is_a_matching_of_the_rack_on_free_fibres(order, ranks, taken, data):
    """Whatever is taken, and whichever rank is replaced by whichever spare."""
    hosts, spare = order[:ranks], order[ranks]
    rack = replace(RACK, taken=frozenset(taken))
    routed = frozenset[Circuit]()
    for newcomer in hosts:  # each is joined to those before it
        wanted = frozenset(
            c for c in ring(hosts, PORTS) if c.hosts <= {*hosts[: hosts.index(newcomer) + 1]}
        )
        found = joined_to_newcomer(rack, wanted, routed, newcomer)
        if found is None:
            return
        routed = found
    rank = data.draw(st.integers(0, ranks - 1))
    after = (*hosts[:rank], spare, *hosts[rank + 1 :])
    found = joined_to_newcomer(rack, ring(after, PORTS), routed, spare)
    if found is None:
        return
    assert {circuit.ends for circuit in found} == {c.ends for c in ring(after, PORTS)}
    cross = cross_connects(matching(found), WIRING)
    assert len(cross) == sum(2 * (len(circuit.via) + 1) for circuit in found)
    assert not fibres_of(found) & taken
    assert {c for c in routed if hosts[rank] not in c.hosts} <= found


def story(rack=RACK, spares=("h2", "h5")):
    policy = Splice(SpliceOptions())
    permitted = dict.fromkeys(HOSTS, ALL)
    situation = Situation(("h0", "h1"), spares, PORTS, 1, permitted, rack=rack, routed=SLICE)
    return policy, policy.begin(situation)


@pytest.mark.parametrize(("failed", "spare"), [(0, "h2"), (1, "h5")])
def test_splice_takes_the_nearest_spare_of_the_rack(failed, spare):
    policy, state = story()
    state, commands = policy.step(state, RankEnded(failed, -9))
    assert commands[0] == Decide(f"rank {failed} ended with code -9", f"h{failed}", spare)
    state, commands = policy.step(state, Fenced())
    (circuits,) = (one for one in commands if isinstance(one, SetCircuits))
    assert circuits.verify == circuits.circuits
    assert hops(circuits.circuits) == [1, 1]
    assert cross_connects(circuits.circuits, WIRING)


def test_splice_gives_up_where_no_fibres_lead_to_a_spare():
    cut = frozenset(
        pair for link in ((1, 2), (0, 5)) for pair in RACK.pairs[TORUS.link_numbers[link]]
    )
    policy, state = story(replace(RACK, taken=cut))
    _, commands = policy.step(state, RankEnded(0, -9))
    why = "rank 0 ended with code -9, and no spare host has free fibres to its neighbours"
    assert commands == (GiveUp(why),)


def test_a_policy_sees_the_circuits_of_other_jobs_as_fibres_that_are_taken():
    beside = circuits_along(RACK, [(Circuit.parse("h2.p1", "h3.p0"), (2, 3))], frozenset())
    jobs = {"mine": JobView(("h0", "h1"), ()), "other": JobView(("h2", "h3"), ())}
    permitted = dict.fromkeys(HOSTS, ALL)
    view = View(0.0, jobs, ("h4",), PORTS, permitted, SLICE | beside, RACK)
    controller = PolicyController(Splice(SpliceOptions()), "mine")
    seen = seen_by(controller, view)
    assert seen.rack == replace(RACK, taken=fibres_of(beside))
    assert seen.circuits == SLICE
    assert controller.begin(seen).now.ring == SLICE


def test_a_policy_that_gave_up_in_the_middle_of_a_repair_is_not_waited_for():
    policy, state = story()
    state, _ = policy.step(state, RankEnded(0, -9))
    assert policy.is_recovering(state)
    state, commands = policy.step(state, RankEnded(1, -9))
    assert isinstance(commands[-1], GiveUp)
    assert not policy.is_recovering(state)
