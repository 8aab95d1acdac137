"""Which AllReduce is chosen, on arrivals written by hand and links of papers.md 3.5."""

import pytest

from testbed.analysis.clocks import Instant
from testbed.collectives.catalogue import all_reduce
from testbed.collectives.cost import Links, cost, critical_delay
from testbed.control.collective_choice import WORTH, choose

MIB = 1 << 20
LINKS = Links(1e-3, 8 / 100e6)
RING = all_reduce("ring", 8)


def arrivals(late, ranks=8):
    """Return arrivals at five collectives: a millisecond apart, each time in another order."""
    return [
        {
            rank: Instant.exactly(10 * number + (rank + number) % ranks / 1e3 + late.get(rank, 0.0))
            for rank in range(ranks)
        }
        for number in range(5)
    ]


def test_for_a_persistently_late_rank_a_schedule_that_expects_it_is_chosen():
    choice = choose(arrivals({2: 0.6}), RING, 7 * MIB, LINKS)
    assert (choice.schedule.name, choice.schedule.straggler) == ("stragglar", 2)
    assert choice.straggler.rank == 2
    gap = choice.straggler.gap
    assert gap == pytest.approx(0.6, abs=0.008)
    assert choice.because == f"rank 2 comes {gap:.3f} s after the others"
    held_up = cost(RING, 7 * MIB, LINKS, {2: gap}).total
    assert choice.present == pytest.approx(held_up)
    assert choice.gain == pytest.approx(1 - choice.expected["stragglar"] / held_up)
    assert set(choice.expected) == {"ring", "rhd", "direct", "stragglar"}


def test_without_late_ranks_the_ring_is_kept():
    choice = choose(arrivals({}), RING, 7 * MIB, LINKS)
    assert choice.schedule is RING
    assert choice.gain == 0
    assert choice.because == "no rank comes last persistently"


def test_a_straggler_delay_below_the_critical_delay_changes_no_schedule():
    critical = critical_delay(all_reduce("stragglar", 8), RING, 7 * MIB, LINKS)
    for delay in (0.1, 0.99 * critical):
        assert choose(arrivals({7: delay}), RING, 7 * MIB, LINKS).schedule is RING
    assert choose(arrivals({7: 1.5 * critical}), RING, 7 * MIB, LINKS).schedule is not RING


def test_a_recovered_straggler_is_no_longer_expected():
    present = all_reduce("stragglar", 8, 2)
    choice = choose(arrivals({}), present, 7 * MIB, LINKS)
    assert choice.schedule.name in {"ring", "rhd"}
    assert choice.expected[choice.schedule.name] < (1 - WORTH) * choice.present


def test_a_schedule_that_expects_another_rank_is_replaced():
    present = all_reduce("stragglar", 8, 2)
    choice = choose(arrivals({5: 0.6}), present, 7 * MIB, LINKS)
    assert (choice.schedule.name, choice.schedule.straggler) == ("stragglar", 5)
    kept = choose(arrivals({2: 0.6}), present, 7 * MIB, LINKS)
    assert kept.schedule is present


def test_a_rank_late_three_times_of_five_is_not_a_persistent_straggler():
    seen = arrivals({2: 0.6})[:3] + arrivals({4: 0.6})[:2]
    choice = choose(seen, RING, 7 * MIB, LINKS)
    assert choice.straggler is None and choice.schedule is RING


def test_for_an_odd_number_of_ranks_a_schedule_that_supports_it_is_chosen():
    choice = choose(arrivals({2: 0.6}, ranks=5), all_reduce("ring", 5), 7 * MIB, LINKS)
    assert "stragglar" not in choice.expected


def test_the_predicted_gain_of_a_step_is_that_of_its_collective_times_its_share():
    choice = choose(arrivals({2: 0.6}), RING, 7 * MIB, LINKS)
    expected = choice.predict(2 * choice.present)
    assert expected["communication_share"] == pytest.approx(0.5)
    assert expected["step_gain"] == pytest.approx(0.5 * choice.gain)
    saved = choice.present - choice.expected["stragglar"]
    assert expected["straggling_step_time"] == pytest.approx(2 * choice.present - saved)
