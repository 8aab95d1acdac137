"""The cost of a schedule whose ranks wait for nobody but their peers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce
from testbed.collectives.cost import Links, cost
from testbed.collectives.forwarding import forwarded
from testbed.collectives.halving import halving_doubling
from testbed.collectives.own_pace import seconds_at_own_pace
from testbed.collectives.repointing import changes, pair_of, ring_joints, stages
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Round, Schedule, Send

LINKS = Links(1e-3, 1e-6, reconfiguration=0.5)


@pytest.mark.parametrize("schedule", [ring(5), halving_doubling(8)])
@given(st.integers(0, 10**6))
def test_with_equal_work_the_unsynchronised_cost_is_that_of_rounds(
    schedule: Schedule, size: int
) -> None:
    """Sizes that divide: chunks that differ by an element go ahead of one another by that much."""
    size -= size % schedule.chunks
    total, exposed = seconds_at_own_pace(schedule, size, LINKS)
    assert total == exposed == pytest.approx(cost(schedule, size, Links(1e-3, 1e-6)).total)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(ranks=st.sampled_from([2, 4, 8]), size=st.integers(0, 10**6), delay=st.floats(0, 2))
def test_no_rank_is_slower_than_with_synchronised_rounds(
    algorithm: Algorithm, ranks: int, size: int, delay: float
) -> None:
    schedule = all_reduce(algorithm, ranks)
    late = {ranks - 1: delay}
    by_rounds = cost(schedule, size, Links(1e-3, 1e-6), late)
    total, exposed = seconds_at_own_pace(schedule, size, LINKS, late)
    assert total <= by_rounds.total + 1e-9
    assert exposed == pytest.approx(total - delay)


def test_a_rank_may_send_in_a_later_round_while_others_are_in_an_earlier_one() -> None:
    steps = [[Send(0, 1, 0, "copy")], [Send(2, 3, 0, "copy"), Send(1, 0, 0, "copy")]]
    schedule = Schedule("by-hand", "chain", 4, 1, tuple(map(Round.of, steps)))
    assert seconds_at_own_pace(schedule, 1000, Links(0, 1.0)) == (2000, 2000)
    alone = Schedule("by-hand", "chain", 4, 1, tuple(Round.of(step[:1]) for step in steps))
    assert seconds_at_own_pace(alone, 1000, Links(0, 1.0)) == (1000, 1000)


def test_a_circuit_change_waits_for_the_straggler_only_if_it_has_a_part_in_it() -> None:
    """StragglAR of four: the first change is among the other three, who need not wait for it."""
    schedule, home = all_reduce("stragglar", 4), ring_joints(4)
    moves = changes(stages(schedule, home), home)
    assert moves == (0, 2, 3, 4)
    total, _ = seconds_at_own_pace(schedule, 0, LINKS, {3: 10.0}, moves)
    assert total == pytest.approx(10 + 3 * 0.5 + 4 * 1e-3)


def test_forwarded_messages_overlap_with_direct_ones() -> None:
    hops = forwarded(all_reduce("stragglar", 4), map(pair_of, ring_joints(4))).as_sends()
    total, _ = seconds_at_own_pace(hops, 3_000_000, LINKS)
    assert total < 0.95 * cost(hops, 3_000_000, Links(1e-3, 1e-6)).total


def test_an_idle_line_sends_a_burst_and_a_busy_one_does_not() -> None:
    links = Links(0, 1.0, credit=10)
    there = [[Send(0, 1, 0, "copy")]]
    back = [[Send(1, 0, 0, "copy")]]
    long_pause, none, short = there + back + there, there + there, there + back + there
    for steps, size, seconds in ((long_pause, 100, 270), (none, 100, 190), (short, 12, 2 + 2 + 10)):
        schedule = Schedule("by-hand", "chain", 2, 1, tuple(map(Round.of, steps)))
        assert seconds_at_own_pace(schedule, size, links)[0] == seconds
