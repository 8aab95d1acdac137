"""Every generator, over all the numbers of ranks it serves: right, lean, and as short as said."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.collectives.broadcasts import chain
from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce
from testbed.collectives.exchanges import all_to_all, one_factorisation
from testbed.collectives.halving import (
    folded_halving_doubling,
    halving_doubling,
    in_pairs,
    pairs_met,
)
from testbed.collectives.rings import all_gather, reduce_scatter, ring
from testbed.collectives.schedule import Schedule, Send
from testbed.collectives.stragglar import direct, stragglar
from tests.unit.collectives.oracle import most_peers
from tests.unit.collectives.verifier import verify


def late_rounds(schedule: Schedule) -> int:
    return len(schedule.rounds) - schedule.early


@pytest.mark.parametrize(
    "make",
    [ring, reduce_scatter, all_gather, halving_doubling, folded_halving_doubling, all_to_all],
)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32])
def test_every_schedule_is_verified_for_any_number_of_ranks(
    make: Callable[[int], Schedule], ranks: int
) -> None:
    verify(make(ranks))


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 6, 7, 8, 9, 16, 31, 32])
def test_collectives_in_pairs_are_verified_and_need_one_port_a_rank(ranks: int) -> None:
    found = in_pairs(ranks)
    for schedule in found:
        verify(schedule)
        assert most_peers(schedule) <= 1
    met = [pair for matching in pairs_met(ranks) for pair in matching]
    assert len(met) == len(set(met)), "each pair once"
    assert {frozenset(pair) for pair in met} == {
        frozenset(pair) for each in found for step in each.rounds for pair in step.pairs
    }
    halves = ["reduce-scatter", "all-gather"] if ranks & (ranks - 1) == 0 else []
    assert [each.collective for each in found] == ["all-reduce", *halves]


@given(st.integers(2, 20), st.integers(1, 20))
def test_a_chain_takes_one_round_for_each_hop_and_each_further_chunk(
    ranks: int, chunks: int
) -> None:
    schedule = chain(ranks, chunks)
    verify(schedule)
    assert len(schedule.rounds) == ranks - 2 + chunks


@pytest.mark.parametrize("ranks", [2, 4, 6, 8, 16, 32, 64])
def test_all_to_all_meets_every_pair_once_in_n_minus_1_matchings(ranks: int) -> None:
    schedule = all_to_all(ranks)
    met = [pair for step in schedule.rounds for pair in step.pairs]
    assert len(schedule.rounds) == ranks - 1
    assert sorted(met) == [(a, b) for a in range(ranks) for b in range(a + 1, ranks)]
    assert most_peers(schedule) == 1


def test_an_odd_number_has_no_perfect_matching() -> None:
    with pytest.raises(ValueError, match="7 ranks have no perfect matching"):
        one_factorisation(7)


@pytest.mark.parametrize("ranks", [2, 3, 4, 5, 8, 13, 16, 32])
@pytest.mark.parametrize("straggler", [None, 0, 1])
def test_the_direct_all_reduce_ends_with_rounds_of_the_whole_buffer(
    ranks: int, straggler: int | None
) -> None:
    schedule = direct(ranks, straggler)
    verify(schedule)
    assert late_rounds(schedule) == (ranks - 1).bit_length()
    assert {s.count for step in schedule.rounds[schedule.early :] for s in step} == {ranks - 1}


@pytest.mark.parametrize("exponent", range(1, 8))
def test_stragglar_of_a_power_of_two_takes_as_many_rounds_as_proved(exponent: int) -> None:
    ranks = 2**exponent
    schedule = stragglar(ranks)
    verify(schedule)
    assert schedule.early == max(ranks - 2, 0)
    assert late_rounds(schedule) == ranks - 2 + exponent


@pytest.mark.soak
@pytest.mark.parametrize("ranks", [256, 512, 1024, 2048, 4096])
def test_stragglar_is_correct_for_large_powers_of_two(ranks: int) -> None:
    schedule = stragglar(ranks)
    verify(schedule)
    assert late_rounds(schedule) == ranks - 3 + ranks.bit_length()


@pytest.mark.soak
@pytest.mark.parametrize("ranks", [512, 1024])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_all_reduce_is_correct_for_many_ranks(algorithm: Algorithm, ranks: int) -> None:
    verify(all_reduce(algorithm, ranks))


@given(st.integers(1, 16), st.data())
def test_any_rank_can_be_the_straggler(half: int, data: st.DataObject) -> None:
    straggler = data.draw(st.integers(0, 2 * half - 1))
    schedule = stragglar(2 * half, straggler)
    verify(schedule)
    assert schedule.straggler == straggler
    early = {rank for step in schedule.rounds[: schedule.early] for rank in step.source.tolist()}
    assert straggler not in early
    assert all(
        straggler in step.source for step in schedule.rounds[schedule.early :][: 2 * half - 1]
    )


def test_stragglar_of_four_ranks_equals_the_figure_of_the_paper() -> None:
    late = [sorted(map(shown, step)) for step in stragglar(4).rounds[2:]]
    assert late == [
        ["0+3 c0", "3+0 c0"],
        ["0>2 c0", "1+3 c1", "3+1 c1"],
        ["0>1 c0", "1>0 c1", "2+3 c2", "3+2 c2"],
        ["0>2 c1", "2>0 c2", "3>1 c2"],
    ]


def shown(send: Send) -> str:
    sign = "+" if send.operation == "reduce" else ">"
    return f"{send.source}{sign}{send.destination} c{send.chunk}"


@pytest.mark.parametrize("ranks", [0, 1, 3, 7])
def test_stragglar_of_an_odd_number_is_refused(ranks: int) -> None:
    with pytest.raises(ValueError, match=f"an even number of ranks, not {ranks}; use a ring"):
        stragglar(ranks)


@pytest.mark.parametrize("make", [stragglar, direct])
def test_a_straggler_outside_the_ranks_is_refused(
    make: Callable[[int, int], Schedule],
) -> None:
    with pytest.raises(ValueError, match="straggler 4 is not one of the 4 ranks"):
        make(4, 4)
    with pytest.raises(ValueError, match="straggler -1 is not one of the 4 ranks"):
        make(4, -1)


def test_a_single_rank_cannot_have_a_straggler() -> None:
    with pytest.raises(ValueError, match="at least 2 ranks, not 1"):
        direct(1)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_all_reduce_has_its_name(algorithm: Algorithm) -> None:
    schedule = all_reduce(algorithm, 8)
    verify(schedule)
    assert schedule.name == algorithm
    assert schedule.collective == "all-reduce"
