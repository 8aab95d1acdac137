"""The shape of a schedule: views, JSON, sizes, and what a switch has to join."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.rings import all_gather, reduce_scatter, ring
from testbed.collectives.schedule import Round, Schedule, Send, to_json
from testbed.onhost.communication.communicator import chunk_bounds
from tests.unit.collectives.oracle import most_peers
from tests.unit.collectives.plain_data import schedule_of


def test_the_sends_of_a_ring_of_three_equal_those_listed_by_hand() -> None:
    first, second, third, fourth = ring(3).rounds
    assert list(first) == [
        Send(0, 1, 2, "reduce"),
        Send(1, 2, 0, "reduce"),
        Send(2, 0, 1, "reduce"),
    ]
    assert list(second) == [
        Send(0, 1, 1, "reduce"),
        Send(1, 2, 2, "reduce"),
        Send(2, 0, 0, "reduce"),
    ]
    assert list(third) == [Send(0, 1, 0, "copy"), Send(1, 2, 1, "copy"), Send(2, 0, 2, "copy")]
    assert list(fourth) == [Send(0, 1, 2, "copy"), Send(1, 2, 0, "copy"), Send(2, 0, 1, "copy")]


def test_a_ring_needs_two_ports_and_keeps_its_circuits() -> None:
    schedule = ring(4)
    assert {step.pairs for step in schedule.rounds} == {((0, 1), (0, 3), (1, 2), (2, 3))}
    assert most_peers(schedule) == 2


def test_a_ring_of_two_needs_one_port() -> None:
    assert most_peers(ring(2)) == 1
    assert ring(2).rounds[0].pairs == ((0, 1),)


@pytest.mark.parametrize("make", [ring, reduce_scatter, all_gather])
def test_a_schedule_of_one_rank_is_empty(make: object) -> None:
    assert make(1).rounds == ()  # type: ignore[operator]


def test_rounds_before_the_straggler_are_early() -> None:
    rounds = (Round.of([Send(0, 1, 0, "reduce")]), Round.of([Send(1, 2, 0, "reduce")]))
    assert Schedule("s", "all-reduce", 3, 1, rounds, straggler=2).early == 1
    assert Schedule("s", "all-reduce", 3, 1, rounds, straggler=0).early == 0
    assert Schedule("s", "all-reduce", 3, 1, rounds).early == 0


@given(st.integers(0, 10_000), st.integers(1, 300))
def test_chunks_cover_the_buffer_in_order_and_differ_by_one_at_most(size: int, chunks: int) -> None:
    bounds = chunk_bounds(size, chunks)
    assert len(bounds) == chunks
    assert [bounds[0][0], bounds[-1][1]] == [0, size]
    assert all(end == start for (_, end), (start, _) in pairwise(bounds))
    lengths = [end - start for start, end in bounds]
    assert max(lengths) - min(lengths) <= 1
    assert lengths == sorted(lengths, reverse=True)


@pytest.mark.parametrize("schedule", [ring(5), reduce_scatter(4), all_gather(2)])
def test_a_schedule_reads_back_from_json_as_written(schedule: Schedule) -> None:
    there = json.loads(json.dumps(to_json(schedule)))
    assert schedule_of(there) == schedule


def test_an_unknown_collective_is_refused() -> None:
    with pytest.raises(ValueError, match="'gossip' is not a known collective"):
        replace(ring(4), collective="gossip")


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"ranks": 0}, "at least 1 rank, not 0"),
        ({"ranks": "4"}, "at least 1 rank, not '4'"),
        ({"chunks": 0}, "at least 1 chunk, not 0"),
        ({"straggler": 99}, "the straggler 99 is not one of the 4 ranks"),
        ({"straggler": -1}, "the straggler -1 is not one of the 4 ranks"),
        ({"straggler": "last"}, "the straggler 'last' is not one of the 4 ranks"),
        ({"straggler": True}, "the straggler True is not one of the 4 ranks"),
    ],
)
def test_a_schedule_with_invalid_values_is_refused(changes: dict[str, object], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        replace(ring(4), **changes)


@pytest.mark.parametrize("ranks", [0, -1])
def test_a_ring_without_ranks_is_refused(ranks: int) -> None:
    with pytest.raises(ValueError, match="ring must have at least 1 rank"):
        ring(ranks)
