"""Which circuits a schedule needs when, and how few changes of the switch do."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce
from testbed.collectives.cost import Links
from testbed.collectives.halving import halving_doubling
from testbed.collectives.own_pace import seconds_at_own_pace
from testbed.collectives.repointing import changes, pair_of, ring_joints, stages
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Round, Schedule, Send


def test_a_ring_is_four_circuits_and_each_rank_has_one_to_either_side() -> None:
    joints = ring_joints(4)
    assert sorted(pair_of(joint) for joint in joints) == [(0, 1), (0, 3), (1, 2), (2, 3)]
    assert len({end for joint in joints for end in joint}) == 8
    assert ring_joints(1) == frozenset()
    assert len(ring_joints(2)) == 2


def test_a_ring_schedule_needs_no_circuit_change_on_a_ring() -> None:
    found = stages(ring(4), ring_joints(4))
    assert [(stage.first, stage.behind) for stage in found] == [(0, 6)]
    assert changes(found, ring_joints(4)) == ()


def test_halving_doubling_of_four_ranks_needs_one_change_as_two_ports_hold_all_its_pairs() -> None:
    found = stages(halving_doubling(4), ring_joints(4))
    assert changes(found, ring_joints(4)) == (0,)
    assert {pair_of(joint) for joint in found[0].circuits} == {(0, 1), (0, 2), (1, 3), (2, 3)}


def test_with_one_port_per_rank_every_new_partner_needs_a_circuit_change() -> None:
    found = stages(halving_doubling(8), (), ports=1)
    assert changes(found, ()) == (0, 1, 2, 4, 5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(ranks=st.sampled_from([2, 4, 6, 8, 16]), straggler=st.integers(0, 1))
def test_every_pair_of_a_round_is_lit_and_no_port_is_lit_twice(
    algorithm: Algorithm, ranks: int, straggler: int
) -> None:
    schedule = all_reduce(algorithm, ranks, straggler)
    home = ring_joints(ranks)
    found = stages(schedule, home)
    rounds = [number for stage in found for number in range(stage.first, stage.behind)]
    assert rounds == list(range(len(schedule.rounds)))
    for stage in found:
        used = Counter(end for joint in stage.circuits for end in joint)
        assert set(used.values()) <= {1}
        assert all(0 <= rank < ranks and port in (0, 1) for rank, port in used)
        lit = {pair_of(joint) for joint in stage.circuits}
        for number in range(stage.first, stage.behind):
            assert set(schedule.rounds[number].pairs) <= lit
    assert [len(stage.of(schedule).rounds) for stage in found] == [
        stage.behind - stage.first for stage in found
    ]


def test_the_circuit_needed_again_last_is_removed_first() -> None:
    steps = [[(0, 2)], [(0, 1)], [(0, 3)]]
    rounds = tuple(Round.of(Send(a, b, 0, "copy") for a, b in step) for step in steps)
    schedule = Schedule("by-hand", "chain", 4, 1, rounds)
    first = stages(schedule, ring_joints(4))[0].circuits
    assert {pair_of(joint) for joint in first} >= {(0, 2), (0, 1)}
    assert (0, 3) not in {pair_of(joint) for joint in first}


def test_a_round_that_needs_more_ports_than_a_rank_has_is_refused() -> None:
    with pytest.raises(ValueError, match="rank 0 needs more circuits at once than its 1 ports"):
        stages(ring(4), (), ports=1)


def test_the_cost_counts_every_planned_circuit_change_once() -> None:
    schedule, moves = halving_doubling(8), (0, 1, 2, 4, 5)
    dear, free = (
        seconds_at_own_pace(schedule, 1 << 20, Links(1e-3, 1e-8, reconfiguration=each), {}, moves)[
            0
        ]
        for each in (0.5, 0.0)
    )
    assert dear - free == pytest.approx(2.5)
