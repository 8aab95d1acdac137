"""What the jobs beside a struck one felt: the mean time of the steps that were under way."""

import math

import pytest

from testbed.analysis.clocks import Instant
from testbed.analysis.report_columns import timed_changes
from testbed.analysis.side_by_side import lost_work, mean_step_time, slowed_at
from testbed.analysis.steps import Step, spans
from testbed.events import Event


def step(end, number, work="", timed_changes=0.0):
    """Return a step of 0.1 s that ended at a time; `work` says of which collective it was."""
    at = Instant(end - 0.1, end - 0.1), Instant(end, end)
    return Step(
        1, number, *at, True, None, 0.05, 0.0, 1_000_000, work=work, timed_changes=timed_changes
    )


def steps(*ends, works=("",)):
    return spans([step(end, n, works[n % len(works)]) for n, end in enumerate(ends)])


def test_one_long_step_counts_where_it_was_under_way():
    found = steps(1.0, 1.1, 1.2, 2.2, 2.3, 2.4)
    assert mean_step_time(found, 1.25, 2.25) == pytest.approx((1.0 + 0.1) / 2)
    assert mean_step_time(found, 2.31, 9.0) == pytest.approx(0.1)
    assert mean_step_time(found, 5.0, 9.0) is None
    assert mean_step_time({}, 0.0, 9.0) is None


def test_lost_work_is_what_steps_under_way_took_beyond_the_usual_of_their_kind():
    found = steps(1.0, 1.1, 1.2, 1.3, 2.3, 2.4, 2.5)
    assert lost_work(found, 1.35, 2.35) == pytest.approx(0.9)
    assert lost_work(found, 2.32, 9.0) == pytest.approx(0.0)
    assert lost_work(found, 5.0, 9.0) is None, "no step was under way"
    assert lost_work(found, 1.05, 9.0) is None, "no step had ended before"
    uneven = steps(1.0, 1.1, 1.3, 1.6, 2.6)
    assert lost_work(uneven, 1.65, 9.0) == pytest.approx(0.8), "the median of 0.1, 0.2 and 0.3 s"
    both = steps(1.0, 1.2, 1.6, 1.8, 2.2, 2.9, 3.3, works=("ring", "stragglar"))
    assert lost_work(both, 2.3, 3.0) == pytest.approx(0.5), "a step of 0.2 s took 0.7 s"
    assert lost_work(both, 2.3, 3.0, 2.0) is None, "what began before a rank was slowed"


def test_of_collectives_in_turn_it_is_the_mean_of_both_however_many_of_each_were_under_way():
    """Rings take 0.4 s here, the others 0.2 s: whichever begins and ends the interval."""
    ends = [1.0, 1.2, 1.6, 1.8, 2.2, 2.4, 2.8, 3.0]
    found = steps(*ends, works=("ring", "stragglar"))
    for first, last in ((0.0, 9.0), (1.05, 1.7), (1.3, 2.3), (1.7, 2.3)):
        assert mean_step_time(found, first, last) == pytest.approx(0.3)


def test_where_one_of_the_collectives_was_not_under_way_there_is_no_mean():
    found = steps(1.0, 1.1, 1.2, 1.6, 2.0, works=("small", "small", "small", "large", "large"))
    assert mean_step_time(found, 1.7, 9.0) is None


def test_circuits_that_are_changed_only_to_be_timed_are_no_part_of_a_step():
    """Each ring of 0.4 s comes after a tour, which takes longer each time."""
    tours = [0.0, 0.0, 0.1, 0.0, 0.3, 0.0, 0.7]
    ends = [1.0, 1.2, 1.7, 1.9, 2.6, 2.8, 3.9]
    rows = zip(ends, tours, strict=True)
    taken = [step(end, n, ("ring", "other")[n % 2], tour) for n, (end, tour) in enumerate(rows)]
    assert mean_step_time(spans(taken), 0.0, 9.0) == pytest.approx(0.3)


def test_what_passes_between_the_time_slots_of_an_all_to_all_is_its_own():
    assert timed_changes({"changes": [0.1, 0.2]}) == pytest.approx(0.3)
    assert timed_changes({"changes": [0.1, 0.2], "slots": []}) == 0.0
    assert timed_changes({}) == 0.0


def test_steps_that_began_before_a_rank_was_slowed_down_do_not_count():
    """The first two take 0.1 s, and one that was under way then, too; all later ones 0.3 s."""
    found = steps(1.0, 1.1, 1.2, 1.3, 1.6, 1.9, 2.2)
    assert mean_step_time(found, 0.0, 9.0, 1.25) == pytest.approx(0.3)
    assert mean_step_time(found, 0.0, 9.0) == pytest.approx(0.2)
    assert mean_step_time(found, 0.0, 9.0, 5.0) is None


def test_a_rank_that_is_slowed_down_after_a_job_was_struck_hides_nothing_of_that():
    at = [(1.0, False), (2.0, False), (3.0, True), (4.0, False)]
    events = [Event(n, t, "fault.inject", "", data={"breaks": b}) for n, (t, b) in enumerate(at)]
    assert slowed_at(events, struck=3.0) == 2.0
    assert slowed_at(events, struck=math.inf) == 4.0
    assert slowed_at(events[2:3], struck=3.0) == -math.inf
