"""The cost model, against arithmetic by hand and against the figures of the papers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.collectives.catalogue import ALGORITHMS, Algorithm, all_reduce, candidates
from testbed.collectives.cost import Links, cost, critical_delay, most_sent
from testbed.collectives.exchanges import all_to_all
from testbed.collectives.halving import folded_halving_doubling, halving_doubling
from testbed.collectives.own_pace import seconds_at_own_pace
from testbed.collectives.rings import ring
from testbed.collectives.schedule import Round, Schedule, Send
from testbed.collectives.stragglar import direct, stragglar

GIB = 2**30
PAPER = Links(alpha=3e-6, beta=1 / (450 * GIB))
"""The links of the authors' model: 3 µs and 450 GiB/s."""
TWIN = Links(alpha=1e-3, beta=8 / 100e6)
"""Links of 100 Mbit/s: papers.md 3.5."""
BYTES = Links(alpha=0.0, beta=1.0)
"""A byte in a second, and no latency: times are bytes."""
sizes = st.integers(1, 10**9)


def speed_up(
    schedule: Schedule,
    other: Schedule,
    size: int,
    links: Links,
    late: Mapping[int, float] | None = None,
) -> float:
    """Return how many times faster a schedule is than another."""
    return cost(other, size, links, late).total / cost(schedule, size, links, late).total


def fastest(
    schedules: Sequence[Schedule], size: int, links: Links, late: Mapping[int, float] | None = None
) -> Schedule:
    return min(schedules, key=lambda schedule: cost(schedule, size, links, late).total)


def one(*rounds: list[Send], ranks: int = 4, chunks: int = 1) -> Schedule:
    return Schedule("made", "all-reduce", ranks, chunks, tuple(Round.of(step) for step in rounds))


def test_a_round_takes_as_long_as_its_largest_message() -> None:
    schedule = one([Send(0, 1, 0, "copy", 2), Send(2, 3, 2, "copy")], chunks=3)
    assert cost(schedule, 11, Links(10, 1)).total == 10 + 8  # chunks of 4, 4 and 3 bytes


def test_a_message_with_an_empty_chunk_still_costs_the_latency() -> None:
    assert cost(one([Send(0, 1, 2, "copy")], chunks=3), 2, Links(10, 1)).total == 10


def test_a_schedule_costs_the_switch_time_only_when_circuits_change() -> None:
    links = Links(0, 0, reconfiguration=1)
    same = [Send(0, 1, 0, "copy")], [Send(1, 0, 0, "copy")]
    assert cost(one(*same), 1, links).total == 1


def test_a_circuit_stays_lit_until_one_of_its_ends_is_needed() -> None:
    links = Links(0, 0, reconfiguration=1)
    first, second = [Send(0, 1, 0, "copy")], [Send(2, 3, 0, "copy")]
    crossing = [Send(1, 2, 0, "copy")]
    assert cost(one(first, second, first, second), 1, links).total == 2
    assert cost(one(first, second, crossing, first), 1, links).total == 4


def test_a_ring_needs_one_circuit_change_and_halving_doubling_nearly_one_per_round() -> None:
    links = Links(0, 0, reconfiguration=1)
    assert cost(ring(8), 1, links).total == 1
    # Spans 4, 2, 1 and then 1, 2, 4: the turn in the middle keeps its circuits.
    assert cost(halving_doubling(8), 1, links).total == 5


def test_all_to_all_changes_circuits_for_every_matching() -> None:
    assert cost(all_to_all(8), 1, Links(0, 0, reconfiguration=1)).total == 7


def hidden(schedule: Schedule, size: int, links: Links) -> float:
    """Return how long the rounds take in which the straggler takes no part."""
    first = schedule.rounds[: schedule.early]
    return cost(replace(schedule, rounds=first, straggler=None), size, links).total


def test_the_rounds_before_the_stragglers_arrival_are_hidden_by_its_delay() -> None:
    schedule = stragglar(8)
    at_once, later = cost(schedule, 7, BYTES), cost(schedule, 7, BYTES, {7: 100.0})
    assert hidden(schedule, 7, BYTES) == 6
    assert (at_once.total, at_once.exposed) == (15, 15)
    assert (later.total, later.exposed) == (109, 9)


def test_circuits_are_changed_while_waiting_for_the_straggler() -> None:
    links = Links(0, 0, reconfiguration=1)
    schedule = one([Send(0, 1, 0, "copy")], [Send(1, 2, 0, "copy")])
    assert cost(schedule, 1, links, {2: 10}).total == 10
    assert cost(schedule, 1, links, {2: 1.5}).total == 2


def test_an_unexpected_late_rank_delays_the_whole_schedule() -> None:
    schedule = stragglar(8)
    assert cost(schedule, 7, BYTES, {0: 100.0}).total == 115


def test_a_schedule_ends_after_a_late_rank_that_has_no_part_in_it() -> None:
    assert cost(one([Send(0, 1, 0, "copy")]), 1, BYTES, {3: 10.0}).total == 10


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(st.sampled_from([2, 4, 8, 16]), sizes, st.floats(0, 2), st.floats(0, 2))
@settings(max_examples=15)
def test_a_longer_delay_never_shortens_the_total_nor_lengthens_the_exposed_time(
    algorithm: Algorithm, ranks: int, size: int, one: float, other: float
) -> None:
    schedule = all_reduce(algorithm, ranks)
    short, long = sorted((one, other))
    less, more = (cost(schedule, size, TWIN, {ranks - 1: delay}) for delay in (short, long))
    assert less.total <= more.total + 1e-9
    assert more.exposed <= less.exposed + 1e-9


@given(st.sampled_from([4, 6, 8, 16, 32]), st.integers(10**3, 10**9), st.sampled_from(ALGORITHMS))
def test_at_the_critical_delay_both_schedules_take_the_same_time(
    ranks: int, size: int, other: Algorithm
) -> None:
    schedule, rival = stragglar(ranks), all_reduce(other, ranks)
    delay = critical_delay(schedule, rival, size, TWIN)
    late = {ranks - 1: delay}
    if 0 < delay < math.inf:
        gap = cost(schedule, size, TWIN, late).total - cost(rival, size, TWIN, late).total
        assert gap == pytest.approx(0, abs=1e-9)
    elif delay == 0:
        assert cost(schedule, size, TWIN).total <= cost(rival, size, TWIN).total
    else:
        assert speed_up(schedule, rival, size, TWIN, {ranks - 1: 1e3}) <= 1


def test_a_schedule_without_a_straggler_has_no_critical_delay() -> None:
    with pytest.raises(ValueError, match="ring expects no straggler"):
        critical_delay(ring(4), stragglar(4), 1, BYTES)


def test_halving_doubling_is_fastest_without_delay_and_stragglar_with_one_late_rank() -> None:
    schedules = candidates(8)
    assert fastest(schedules, 7 * 2**20, TWIN).name == "rhd"
    assert fastest(schedules, 7 * 2**20, TWIN, {7: 0.5}).name == "stragglar"
    slow_switch = Links(1e-3, 8 / 100e6, reconfiguration=1.0)
    assert fastest(schedules, 7 * 2**20, slow_switch, {7: 0.5}).name == "ring"


def test_an_odd_number_of_ranks_has_no_stragglar_to_choose() -> None:
    assert [schedule.name for schedule in candidates(7)] == ["ring", "rhd", "direct"]
    assert [schedule.straggler for schedule in candidates(6, 2)] == [None, None, 2, 2]
    assert [schedule.name for schedule in candidates(1)] == ["ring"]


@given(st.sampled_from([2, 4, 7, 8]), st.integers(0, 10**6))
def test_the_busiest_rank_of_a_ring_sends_all_chunks_but_one_twice(ranks: int, size: int) -> None:
    smallest, longer = divmod(size, ranks)
    spared = 2 * smallest + (1 if longer == ranks - 1 else 0)
    assert most_sent(ring(ranks), size) == 2 * size - spared


def test_after_the_straggler_has_come_a_rank_sends_no_more_than_the_bound() -> None:
    for ranks, bound in ((4, 4 / 3), (8, 9 / 7), (16, 18 / 15)):
        size = 420 * (ranks - 1)
        schedule = stragglar(ranks)
        assert 0.9 * bound * size < most_sent(schedule, size, schedule.early) <= bound * size


@pytest.mark.parametrize(
    ("links", "error"),
    [
        ({"alpha": -1.0}, "alpha of links must be at least 0, not -1.0"),
        ({"beta": math.nan}, "beta of links must be at least 0, not nan"),
        ({"credit": math.inf}, "credit of links must be at least 0, not inf"),
    ],
)
def test_impossible_links_are_refused(links: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        Links(**({"alpha": 0.0, "beta": 1.0} | links))


@pytest.mark.parametrize("price", [cost, seconds_at_own_pace])
@pytest.mark.parametrize(
    ("late", "error"),
    [
        ({-1: 1.0}, "rank -1 is not one of the 4 ranks, so it cannot be late"),
        ({4: 1.0}, "rank 4 is not one of the 4 ranks"),
        ({3: math.nan}, "rank 3 cannot be late by nan s"),
        ({3: -1.0}, "rank 3 cannot be late by -1.0 s"),
    ],
)
def test_an_invalid_delay_is_refused(
    price: Callable[..., object], late: dict[int, float], error: str
) -> None:
    with pytest.raises(ValueError, match=error):
        price(ring(4), 4, BYTES, late)


@pytest.mark.parametrize("price", [cost, seconds_at_own_pace])
def test_a_round_without_sends_and_a_negative_size_are_refused(
    price: Callable[..., object],
) -> None:
    with pytest.raises(ValueError, match="made has a round in which no rank sends anything"):
        price(one([Send(0, 1, 0, "copy")], []), 1, BYTES)
    with pytest.raises(ValueError, match="a buffer must have at least 0 bytes, not -1"):
        price(ring(4), -1, BYTES)


@pytest.mark.parametrize("ranks", [2, 3, 7, 8])
def test_the_cost_of_an_all_to_all_is_computed_from_the_bytes_of_each_rank(ranks: int) -> None:
    """Each rank sends n - 1 of its n parts, one a round."""
    schedule = all_to_all(ranks)
    assert cost(schedule, ranks * 5, BYTES).total == 5 * len(schedule.rounds)
    assert most_sent(schedule, ranks * 5) == 5 * (ranks - 1)
    assert most_sent(all_to_all(2), 3) == 2  # of 2 bytes and 1, the longer part comes first


# The papers' figures


@pytest.mark.parametrize(
    ("ranks", "expected"), [(4, 1.333), (8, 1.286), (16, 1.2), (32, 1.129), (64, 1.079)]
)
def test_bytes_sent_per_rank_equal_the_published_table(ranks: int, expected: float) -> None:
    size = ranks * (ranks - 1) * 8
    schedule = stragglar(ranks)
    late = cost(schedule, size, BYTES, {ranks - 1: 1e9}).exposed / size
    print(f"n = {ranks}: StragglAR {late:.3f} of the buffer, the paper {expected}")
    assert late == pytest.approx(expected, abs=5e-4)
    assert cost(ring(ranks), size, BYTES).total / size == pytest.approx(2 * (ranks - 1) / ranks)
    assert cost(halving_doubling(ranks), size, BYTES).total == cost(ring(ranks), size, BYTES).total
    doublings = math.log2(ranks)
    assert cost(direct(ranks), size, BYTES, {ranks - 1: 1e9}).exposed / size == pytest.approx(
        doublings
    )


SCALING = {4: 1.127, 8: 1.363, 16: 1.565, 32: 1.718, 64: 1.826, 128: 1.897, 256: 1.941}
SCALING_RHD = {4: 1.0018, 8: 1.0061, 16: 1.0157, 32: 1.0360, 64: 1.0775, 128: 1.1617, 256: 1.3312}
SCALING_DIRECT = {
    4: 0.7530,
    8: 0.5888,
    16: 0.4782,
    32: 0.4037,
    64: 0.3560,
    128: 0.3320,
    256: 0.3346,
}
"""What the authors' simulation.py (commit 63ae36b) prints: a ring's time over that of each."""
CURVES: dict[Algorithm, dict[int, float]] = {
    "stragglar": SCALING,
    "rhd": SCALING_RHD,
    "direct": SCALING_DIRECT,
}


def over_ring(algorithm: Algorithm, ranks: int) -> float:
    """Label `model`: 1 GiB over ideal links, what can be done before the straggler hidden."""
    exposed = cost(all_reduce(algorithm, ranks), GIB, PAPER, {ranks - 1: 1.0}).exposed
    return cost(ring(ranks), GIB, PAPER).total / exposed


@pytest.mark.parametrize("algorithm", CURVES)
@pytest.mark.parametrize("ranks", SCALING)
def test_s8_modelled_times_equal_the_three_curves_of_the_scaling_figure(
    algorithm: Algorithm, ranks: int
) -> None:
    ratio, theirs = over_ring(algorithm, ranks), CURVES[algorithm][ranks]
    print(f"{algorithm}, n = {ranks}: {ratio:.4f}, the authors {theirs}")
    assert ratio == pytest.approx(theirs, abs=6e-4 if algorithm == "stragglar" else 6e-5)


BETWEEN = {
    6: (1.1921, 0.6699, 0.6491),
    12: (1.3462, 0.6748, 0.5190),
    24: (1.6349, 0.6851, 0.4310),
    48: (1.6168, 0.7060, 0.3729),
    96: (1.7430, 0.7483, 0.3391),
}
"""The same of numbers between the powers of two: StragglAR, halving-doubling and direct."""


@pytest.mark.parametrize("ranks", BETWEEN)
def test_s8_between_powers_of_two_both_are_faster_than_published(
    ranks: int,
) -> None:
    """StragglAR by fewer rounds, halving-doubling by fewer bytes; a broadcast has whole rounds."""
    for algorithm, theirs in zip(CURVES, BETWEEN[ranks], strict=True):
        ratio = over_ring(algorithm, ranks)
        print(f"{algorithm}, n = {ranks}: {ratio:.4f}, the authors {theirs}")
        if algorithm == "direct":
            rounds = math.ceil(math.log2(ranks))
            assert ratio == pytest.approx(theirs * math.log2(ranks) / rounds, abs=1e-4)
        else:
            assert ratio >= theirs - 1e-4


@pytest.mark.parametrize("ranks", [*range(2, 70), 96, 127, 129, 192, 255, 257])
def test_the_cost_of_halving_doubling_equals_its_closed_form(ranks: int) -> None:
    power = 1 << (ranks.bit_length() - 1)
    size, links = 64 * power, Links(3.0, 1.0)
    rounds = (ranks - 1).bit_length()
    extra = 0.0 if ranks == power else 1 / (2 * (ranks & -ranks))
    found = cost(halving_doubling(ranks), size, links).total
    published = 1 - 1 / power if ranks == power else 1.5 - 1 / power
    assert found == pytest.approx(2 * rounds * 3 + 2 * size * (1 - 1 / power + extra))
    assert found <= 2 * rounds * 3 + 2 * size * published + 1e-9
    fold = 2 * size * (1 - 1 / power) + (2 * size if ranks != power else 0)
    assert cost(folded_halving_doubling(ranks), size, links).total == 2 * rounds * 3 + fold


@pytest.mark.parametrize("ranks", [*range(2, 70), 96, 127, 129, 192, 255, 257])
def test_the_costs_of_ring_and_direct_equal_their_closed_forms(ranks: int) -> None:
    size, links = ranks * (ranks - 1), Links(3.0, 1.0)
    around = 2 * (ranks - 1) * (3 + size / ranks)
    assert cost(ring(ranks), size, links).total == pytest.approx(around)
    spread = (ranks - 1).bit_length() * (3 + size)
    assert cost(direct(ranks), size, links, {ranks - 1: 1e9}).exposed == pytest.approx(spread)


@pytest.mark.parametrize(
    ("ranks", "delay", "relative"),
    [
        (4, 0.500, 1.33),
        (8, 0.393, 1.22),
        (16, 0.258, 1.14),
        (32, 0.159, 1.08),
        (64, 0.095, 1.05),
        (256, 0.031, 1.02),
    ],
)
def test_the_critical_delay_shrinks_with_scale(ranks: int, delay: float, relative: float) -> None:
    size = ranks * (ranks - 1)
    schedule = stragglar(ranks)
    critical = critical_delay(schedule, ring(ranks), size, BYTES) / size
    loss = cost(schedule, size, BYTES).total / cost(ring(ranks), size, BYTES).total
    print(f"n = {ranks}: critical delay {critical:.3f} s·β (paper {delay}), {loss:.2f} at once")
    assert critical == pytest.approx(delay, abs=6e-4)
    assert loss == pytest.approx(relative, abs=6e-3)


@pytest.mark.parametrize(("ranks", "delay"), [(8, 0.88e-3), (256, 0.09e-3)])
def test_the_critical_delay_on_the_links_of_the_paper_equals_theirs(
    ranks: int, delay: float
) -> None:
    critical = critical_delay(stragglar(ranks), ring(ranks), GIB, PAPER)
    print(f"n = {ranks}: {critical * 1e3:.3f} ms, papers.md {delay * 1e3:.2f} ms")
    assert critical == pytest.approx(delay, abs=0.6e-5)


@pytest.mark.parametrize(
    ("delay", "expected"), [(0, 0.82), (0.25, 1.01), (0.5, 1.21), (1.0, 1.16), (2.0, 1.10)]
)
def test_s4_the_modelled_speed_up_over_the_ring_at_each_delay_equals_the_one_by_hand(
    delay: float, expected: float
) -> None:
    ratio = speed_up(stragglar(8), ring(8), 7 << 20, TWIN, {7: delay})
    print(f"d = {delay} s: {ratio:.3f}, papers.md {expected}")
    assert ratio == pytest.approx(expected, abs=0.01)


def test_s4_stragglar_is_slower_without_a_late_rank() -> None:
    for ranks in (4, 8):
        assert speed_up(stragglar(ranks), ring(ranks), 7 << 20, TWIN) < 0.95


@given(
    st.sampled_from([4, 6, 8, 16]),
    st.dictionaries(st.integers(0, 15), st.floats(0, 3), max_size=3),
    st.sampled_from([1 << 10, 7 << 20]),
)
def test_s7_any_late_rank_costs_stragglar_no_more_than_no_late_rank(
    ranks: int, late: dict[int, float], size: int
) -> None:
    """A wrong straggler, several of them, any delays: the loss at no delay is the bound."""
    delays = {rank: delay for rank, delay in late.items() if rank < ranks}
    at_once = speed_up(stragglar(ranks), ring(ranks), size, TWIN)
    assert speed_up(stragglar(ranks), ring(ranks), size, TWIN, delays) >= at_once - 1e-9


def test_s5_the_speed_up_of_stragglar_at_its_ideal_delay_is_that_of_the_paper() -> None:
    schedule, size = stragglar(8), 7 << 20
    ideal = hidden(schedule, size, TWIN)
    total = speed_up(schedule, ring(8), size, TWIN, {7: ideal})
    alone = cost(ring(8), size, TWIN).total / cost(schedule, size, TWIN, {7: ideal}).exposed
    print(f"d = {ideal:.3f} s: {total:.3f} in all (1.15 to 1.25), {alone:.3f} without the delay")
    assert 1.15 <= total <= 1.25
    assert 1.25 <= alone <= 1.40


@pytest.mark.parametrize("late", [{0: 0.5}, {3: 0.2}, {7: 0.4, 0: 0.4}, {7: 0.5, 2: 0.1}])
def test_s7_a_wrongly_named_straggler_costs_no_more_than_none(late: dict[int, float]) -> None:
    at_once = speed_up(stragglar(8), ring(8), 7 << 20, TWIN)
    wrong = speed_up(stragglar(8), ring(8), 7 << 20, TWIN, late)
    print(f"late {late}: {wrong:.3f}, with nobody late {at_once:.3f}")
    assert wrong >= at_once
