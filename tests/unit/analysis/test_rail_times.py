"""The times of a job on rails, from planted events."""

from dataclasses import replace

import pytest

from testbed.analysis.rail_times import rail_values
from testbed.events import Event


def sample(rank, step, end, size=1024, dimension="dp"):
    data = {"rank": rank, "step": step, "end": end, "size": size, "dimension": dimension}
    return Event(0, end, "sample", f"rank {rank}", data={**data, "iteration": step // 2})


def lit(seconds, changed=True):
    return Event(0, 1.0, "stage.lit", "dp0", data={"seconds": seconds, "changed": changed})


def iterations(*ends, rank=0, size=1024):
    """Return the samples of iterations that end then, each of two collectives."""
    for number, end in enumerate(ends):
        yield sample(rank, 2 * number, end - 0.1, size)
        yield sample(rank, 2 * number + 1, end, size, "pp")


def test_an_iteration_is_the_median_of_the_second_half():
    samples = [*iterations(0.0, 9.0, 18.0, 19.0, 20.0), *iterations(0, 9, 18, 19, 20, rank=1)]
    assert rail_values(samples, [])["iteration_time"] == pytest.approx(1.0)


def test_jitter_of_ranks_does_not_lengthen_an_iteration():
    samples = [
        *iterations(0.0, 1.1, 2.0, 3.1, 4.0, 5.1, 6.0),
        *iterations(100.1, 101.0, 102.1, 103.0, 104.1, 105.0, 106.1, rank=1),
    ]
    assert rail_values(samples, [])["iteration_time"] == pytest.approx(1.0)


def test_an_iteration_is_of_the_largest_messages_alone():
    samples = [*iterations(0.0, 1.0, 2.0), *iterations(5.0, 5.5, 6.0, size=64)]
    assert rail_values(samples, [])["iteration_time"] == pytest.approx(1.0)


def test_a_change_takes_the_median_of_those_that_changed_something():
    assert rail_values([], [lit(0.1), lit(0.3), lit(0.2), lit(0.0, False)]) == {"change_time": 0.2}


def test_losses_count_from_the_first_sample_of_each_rank_to_its_last():
    def losing(rank, step, again, dropped):
        before = sample(rank, step, float(step))
        return replace(before, data={**before.data, "retransmitted": again, "dropped": dropped})

    samples = [losing(0, 0, 5, 2), losing(1, 0, 1, 0), losing(0, 1, 9, 2), losing(1, 1, 1, 3)]
    found = rail_values(iter(samples), [])
    assert (found["retransmitted"], found["dropped"]) == (4.0, 3.0)


def test_without_groups_and_rails_there_is_nothing():
    assert rail_values([], []) == {}
