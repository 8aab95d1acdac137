"""Whether `learned` asks early: chosen anew when windows change, without going to and fro."""

from itertools import pairwise
from statistics import median

import pytest

from testbed.rails.choice import SHARE, TRIED, Choice
from testbed.rails.rail_replay import Rails
from testbed.rails.replay import replay

from .profiles import changing_compute

DELAY = 0.2
SHORT, LONG = 0.55, 0.85
"""Compute with which it is quicker to ask on demand, and with which to ask early."""

STAGES = [("dp0", (0, 1), 0), ("pp0", (0, 2), 0)]


def iterations(workload, mode, repeats=1):
    """Return how long each iteration took, by when the last rank ended its last operation."""
    ran = replay(workload, Rails(DELAY, mode, one_at_a_time=True), repeats).ran
    ends = [0.0] * (len(workload.iterations) * repeats)
    for one in ran:
        ends[one.task.iteration] = max(ends[one.task.iteration], one.end)
    return [end - before for before, end in zip([0.0, *ends], ends, strict=False)]


def settled(compute, early):
    """Return an iteration where compute is always so: on demand, or with early requests alone."""
    workload, choice = changing_compute((compute, 1)), Choice(early, since=float("inf"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Choice, "after", lambda *about: choice)
        return iterations(workload, "learned", repeats=20)[-10:]


def test_of_two_computes_one_is_quicker_on_demand_and_the_other_with_early_requests():
    assert min(settled(SHORT, True)) > 1.05 * max(settled(SHORT, False))
    assert max(settled(LONG, True)) < 0.8 * min(settled(LONG, False))


BEST = {SHORT: False, LONG: True}


@pytest.mark.parametrize("computes", [(SHORT, LONG), (LONG, SHORT)])
def test_the_choice_follows_windows_that_change_half_way(computes):
    half = 40
    workload = changing_compute(*((each, half) for each in computes))
    took = iterations(workload, "learned")
    for number, compute in enumerate(computes):
        best = median(settled(compute, BEST[compute]))
        end = (number + 1) * half
        assert median(took[end - half // 2 : end]) == pytest.approx(best, rel=0.001), compute
        # Both ways are tried at first, once more when they have changed, and seldom without a sign.
        slower = sum(each > 1.01 * best for each in took[end - half : end])
        assert slower <= 16, took[end - half : end]


def test_a_job_that_goes_on_as_before_is_hardly_slower_for_the_tries():
    workload = changing_compute((SHORT, 1))
    took = iterations(workload, "learned", repeats=300)[2 * TRIED + 2 :]
    best = median(settled(SHORT, False))
    assert sum(took) <= (1 + 1.5 * SHARE) * best * len(took)
    assert any(each > 1.01 * best for each in took), "nothing was tried again"


def run(choice, count, took, window, now=0.0):
    """Have two stages be reached in turn; return the choice, the time, and the way of each turn.

    `took` are the seconds of an iteration by the way, `window` those of the windows by its number.
    """
    ways, windows = [], dict.fromkeys(STAGES, ())
    for number in range(count):
        ways.append(choice.early)
        for key in STAGES:
            now += took(number, choice.early) / len(STAGES)
            windows[key] = (*windows[key], window(number))[-5:]
            choice = choice.after(now, key, windows, 0.1)
    return choice, now, ways


def changes_of(ways):
    return sum(one != other for one, other in pairwise(ways))


def test_windows_that_swing_do_not_lead_to_one_try_after_another():
    def window(number):
        return 0.02 if number // 5 % 2 else 0.3

    _, _, ways = run(Choice(), 400, lambda number, early: 1.0 + 0.2 * early, window)
    tries = changes_of(ways) / 2
    assert 10 < tries <= 400 / 15, "each begins, and ends"
    assert sum(ways) <= 400 * (TRIED + 1) / 15


def test_a_way_that_is_hardly_quicker_is_not_taken():
    for gain, is_taken in ((0.015, False), (0.03, True)):

        def took(number, early, gain=gain):
            return 1.0 - gain * early if number > 20 else 1.0 + 0.1 * early

        _, _, ways = run(Choice(), 80, took, lambda number: 0.02 if number < 30 else 0.3)
        assert not any(ways[10:30])
        assert ways[-1] is is_taken


def test_windows_that_stay_as_they_were_lead_to_a_try_now_and_then_at_most():
    _, now, ways = run(Choice(), 1000, lambda number, early: 1.0 + 0.2 * early, lambda number: 0.1)
    tried = sum(ways[2 * TRIED :])
    assert tried > 0 and 0.2 * tried <= 1.5 * SHARE * now


def test_a_stage_that_is_reached_no_more_does_not_end_the_tries():
    choice, now, _ = run(Choice(), 2, lambda number, early: 1.0, lambda number: 0.1)
    for _ in range(12):
        now += 1.4 if choice.early else 1.0
        choice = choice.after(now, STAGES[0], {STAGES[0]: (0.1,) * 5}, 0.1)
    assert set(choice.took) == {False, True} and not choice.early
