"""The cost of a schedule whose ranks wait for nobody but their peers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce
from testbed.collectives.cost import Links, cost
from testbed.collectives.forwarding import forwarded
from testbed.collectives.own_pace import seconds_at_own_pace, seconds_from_run_to_run
from testbed.collectives.repointing import changes, pair_of, ring_joints, stages
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Round, Schedule, Send

LINKS = Links(1e-3, 1e-6, reconfiguration=0.5)


@given(st.integers(0, 10**6))
def test_around_a_ring_the_cost_is_that_of_rounds(size: int) -> None:
    """Sizes that divide: chunks that differ by an element go ahead of one another by that much."""
    size -= size % 5
    total, exposed = seconds_at_own_pace(ring(5), size, LINKS)
    assert total == exposed == pytest.approx(cost(ring(5), size, Links(1e-3, 1e-6)).total)


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


def by_hand(*steps: list[Send], chunks: int = 1) -> Schedule:
    return Schedule("by-hand", "chain", 4, chunks, tuple(map(Round.of, steps)))


def test_a_rank_may_send_in_a_later_round_while_others_are_in_an_earlier_one() -> None:
    schedule = by_hand([Send(0, 1, 0, "copy")], [Send(2, 3, 0, "copy")])
    assert seconds_at_own_pace(schedule, 1000, Links(0, 1.0)) == (1000, 1000)


def test_a_line_carries_one_message_after_the_other() -> None:
    there, beside = Send(0, 1, 0, "copy"), Send(0, 2, 0, "copy")
    assert seconds_at_own_pace(by_hand([there], [there]), 1000, Links(0, 1.0))[0] == 2000
    assert seconds_at_own_pace(by_hand([there], [beside]), 1000, Links(0, 1.0))[0] == 1000


def test_bytes_are_sent_on_while_later_ones_of_the_same_chunk_still_come() -> None:
    steps = [[Send(rank, rank + 1, 0, "copy")] for rank in range(3)]
    assert seconds_at_own_pace(by_hand(*steps), 1000, Links(1, 1.0))[0] == 1003


def test_a_message_of_two_chunks_waits_for_the_second_only_before_its_bytes() -> None:
    """What is 300 late delays a message of both chunks only where it comes first."""
    late, links = {0: 300.0}, Links(0, 1.0)
    for chunk, seconds in ((1, 1000), (0, 1300)):
        steps = [[Send(0, 1, chunk, "copy")], [Send(1, 2, 0, "copy", 2)]]
        assert seconds_at_own_pace(by_hand(*steps, chunks=2), 1000, links, late)[0] == seconds


def test_a_burst_does_not_overtake_the_bytes_that_it_consists_of() -> None:
    steps = [[Send(0, 1, 0, "copy")], [Send(0, 1, 1, "copy")], [Send(1, 2, 1, "copy")]]
    schedule = by_hand(*steps, chunks=2)
    assert seconds_at_own_pace(schedule, 200, Links(1, 1.0, credit=10))[0] == 193


def test_a_forwarded_message_is_received_whole_before_it_is_sent_on() -> None:
    """Copies between neighbours stream; a copy that is forwarded over a rank does not."""
    hops = forwarded(by_hand([Send(0, 2, 0, "copy")]), [(0, 1), (1, 2), (2, 3)])
    assert seconds_at_own_pace(hops, 1000, Links(0, 1.0))[0] == 2000


def test_what_is_added_to_a_chunk_waits_until_the_chunk_is_sent() -> None:
    steps = [[Send(0, 1, 0, "copy")], [Send(2, 0, 0, "reduce"), Send(0, 3, 0, "copy")]]
    late = {1: 500.0}
    schedule = by_hand(*steps, [Send(0, 2, 0, "copy")])
    assert seconds_at_own_pace(schedule, 1000, Links(1, 1.0), late)[0] == 1502


def test_a_circuit_change_waits_for_the_straggler_only_if_it_has_a_part_in_it() -> None:
    """StragglAR of four: the first change is among the other three, who need not wait for it."""
    schedule, home = all_reduce("stragglar", 4), ring_joints(4)
    moves = changes(stages(schedule, home), home)
    assert moves == (0, 2, 3, 4)
    total, _ = seconds_at_own_pace(schedule, 0, LINKS, {3: 10.0}, moves)
    assert total == pytest.approx(10 + 3 * 0.5 + 4 * 1e-3)


def test_forwarded_messages_overlap_with_direct_ones() -> None:
    """StragglAR of four takes eleven rounds of hops, and six times as long as a chunk."""
    hops = forwarded(
        all_reduce("stragglar", 4), map(pair_of, ring_joints(4)), around_straggler=True
    )
    assert len(hops.rounds) == 12
    assert seconds_at_own_pace(hops, 3000, Links(0, 1.0))[0] == 6000


@pytest.mark.parametrize(("pause", "seconds"), [(0, 190), (5, 190), (60, 240)])
def test_an_idle_line_sends_a_burst_and_a_busy_one_does_not(pause: int, seconds: int) -> None:
    """The line from rank 0 to rank 1 is idle until a late rank has something for it."""
    steps = [[Send(0, 1, 0, "copy")], [Send(2, 0, 1, "copy")], [Send(0, 1, 1, "copy")]]
    late = {2: 90.0 + pause}
    schedule = by_hand(*steps, chunks=2)
    found = seconds_at_own_pace(schedule, 200, Links(0, 1.0, credit=10), late)[0]
    assert found == seconds


def test_from_run_to_run_a_ring_takes_as_long_as_alone() -> None:
    took = seconds_from_run_to_run(ring(4), 4000, Links(1, 1.0), {})
    assert took == pytest.approx(seconds_at_own_pace(ring(4), 4000, Links(1, 1.0))[0])


def test_a_late_rank_whose_part_is_over_first_comes_earlier_to_the_next_run() -> None:
    """Its part of a chain ends a second or two before those of the others."""
    chain = by_hand(*([Send(rank, rank + 1, 0, "copy")] for rank in range(3)))
    late, links = {0: 500.0}, Links(1, 1.0)
    assert seconds_at_own_pace(chain, 1000, links, late)[0] == 1503
    assert seconds_from_run_to_run(chain, 1000, links, late) == 1501
    assert seconds_from_run_to_run(chain, 1000, links, {3: 500.0}) == 1501
