"""How fast the job goes, as far as the orchestrator can tell."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from testbed.run.step_pace import BACK, WINDOW, StepPace


def word(generation, step, took=0.1):
    return {"event": "step", "generation": generation, "step": step, "begin": 0.0, "end": took}


def at(instants, generation=1, first=0, pace=None):
    """Return a pace of one rank whose steps ended at these instants."""
    pace = pace or StepPace(1)
    for step, instant in enumerate(instants, start=first):
        pace.add_step(0, word(generation, step), instant)
    return pace


def test_a_step_ends_with_the_report_of_its_last_rank():
    pace = StepPace(3)
    for rank, received in ((2, 1.0), (0, 1.1), (1, 1.4)):
        assert pace.steps(1) == 0
        pace.add_step(rank, word(1, 0), received)
    assert pace.steps(1) == 1


def test_a_later_generation_may_have_fewer_ranks():
    pace = StepPace(3)
    pace.expect(2, 2)
    for generation in (1, 2):
        for rank in range(2):
            pace.add_step(rank, word(generation, 0), 1.0)
    assert (pace.steps(1), pace.steps(2)) == (0, 1)


def test_a_step_reported_twice_by_a_rank_counts_once():
    pace = StepPace(2)
    pace.add_step(0, word(1, 0), 1.0)
    pace.add_step(0, word(1, 0), 1.1)
    assert pace.steps(1) == 0


@given(st.permutations([(rank, step) for rank in range(3) for step in range(4)]))
def test_in_any_order_of_reports_every_step_ends_once(order):
    pace = StepPace(3)
    ends = []
    for instant, (rank, step) in enumerate(order):
        pace.add_step(rank, word(1, step), float(instant))
        ends += [float(instant)] * (pace.steps(1) - len(ends))
    last = {step: i for i, (_, step) in enumerate(order)}
    assert ends == sorted(map(float, last.values()))


def test_the_same_step_of_two_generations_is_two_steps():
    pace = StepPace(2)
    pace.add_step(0, word(1, 7), 1.0)
    pace.add_step(1, word(2, 7), 2.0)
    assert (pace.steps(1), pace.steps(2)) == (0, 0)
    pace.add_step(0, word(2, 7), 2.1)
    assert (pace.steps(1), pace.steps(2)) == (0, 1)


def test_the_time_of_a_step_is_the_median_within_one_generation():
    pace = at([0.0, 0.1, 0.2, 5.2, 5.3])
    at([100.0, 101.0], generation=2, pace=pace)
    assert round(pace.step_time(1), 9) == 0.1
    assert pace.step_time(2) == 1.0


def test_before_two_finished_steps_the_step_time_is_that_of_the_slowest_rank():
    assert StepPace(1).step_time(1) == 0.0
    pace = StepPace(2)
    pace.add_step(0, word(1, 0, took=0.25), 3.0)
    assert pace.step_time(1) == 0.25
    pace.add_step(1, word(1, 0, took=0.5), 3.0)
    assert pace.step_time(1) == 0.5
    assert pace.step_time(2) == 0.0


def test_throughput_is_back_when_five_steps_in_a_row_are_as_fast_as_before_or_nearly():
    before = 0.1
    slow = [n * before / BACK * 1.001 for n in range(WINDOW + 1)]
    fast = [n * before / BACK * 0.999 for n in range(WINDOW + 1)]
    assert not at(slow).is_back(1, before)
    assert at(fast).is_back(1, before)
    assert not at(fast[:-1]).is_back(1, before)


def test_only_the_last_five_steps_count_for_the_return_of_throughput():
    dip = [0.0, 0.1, 3.0]
    pace = at([*dip, *(3.0 + 0.1 * n for n in range(1, WINDOW))])
    assert not pace.is_back(1, 0.1)
    at([3.0 + 0.1 * WINDOW], first=7, pace=pace)
    assert pace.is_back(1, 0.1)


def test_steps_of_the_previous_generation_do_not_count_for_throughput():
    pace = at([0.1 * n for n in range(20)])
    assert pace.is_back(1, 0.1)
    assert not pace.is_back(2, 0.1)


def test_without_a_step_time_before_the_fault_five_steps_are_enough():
    assert not at([0.0, 1.0, 2.0, 3.0, 4.0]).is_back(1, 0.0)
    assert at([0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).is_back(1, 0.0)


def test_memory_for_step_times_does_not_grow_with_the_duration_of_a_job():
    def size(steps):
        pace = StepPace(2)
        for step in range(steps):
            pace.add_step(0, word(step // 1000, step), float(step))
            if step % 1000 != 999:  # the last step of a generation is never finished
                pace.add_step(1, word(step // 1000, step), float(step))
        return len(pickle.dumps(pace))

    few = 100  # bytes for the number of steps of each generation
    assert size(40_000) - size(10_000) <= 30 * few


def test_the_number_of_steps_includes_those_no_longer_kept_in_memory():
    assert at(range(3000)).steps(1) == 3000
