"""When something counts as slower, and how often it does so by chance."""

import itertools
import json
import random

import pytest

from testbed.analysis.statistics import median_interval
from testbed.errors import UsageError
from testbed.nightly.baseline import (
    Baselines,
    Machine,
    false_positive_rate,
    is_slower,
    this_machine,
    with_load,
)

MACHINE = Machine("Some CPU (R) @ 2 GHz", 2, "6.1.0")


def metric(values, unit="s", better="lower", *, busy=False):
    low_high = median_interval(values)
    ordered = sorted(values)
    return {
        "unit": unit,
        "better": better,
        "n": len(values),
        "median": ordered[len(values) // 2],
        "ci95": list(low_high) if low_high else None,
        "busy": busy,
    }


def spread(centre, share, n=6):
    return [centre * (1 + share * (i - (n - 1) / 2) / n) for i in range(n)]


@pytest.fixture
def baselines(tmp_path):
    found = Baselines(tmp_path, MACHINE)
    old = {
        "a.recovery_time": metric(spread(1.0, 0.1)),
        "a.busbw": metric(spread(1e8, 0.1), "bit/s", "higher"),
    }
    assert found.take("x on y", old, "a-run", "a-commit") == 2
    return Baselines(tmp_path, MACHINE)  # as the next night reads it


@pytest.mark.parametrize(
    ("factor", "is_red"), [(1.0, False), (0.5, False), (1.05, False), (1.2, True), (2.0, True)]
)
def test_a_slowdown_of_a_fifth_is_reported_and_noise_is_not(baselines, factor, is_red):
    now = {
        "a.recovery_time": metric(spread(1.0 * factor, 0.1)),
        "a.busbw": metric(spread(1e8 / factor, 0.1), "bit/s", "higher"),
    }
    slower = list(baselines.slower("x on y", now))
    assert [one.metric for one in slower] == (["recovery_time", "busbw"] if is_red else [])


def test_a_baseline_keeps_its_interval_its_run_and_its_machine(baselines):
    kept = json.loads(baselines.file.read_text())
    assert kept["machine"] == {"cpu": "Some CPU (R) @ 2 GHz", "cores": 2, "kernel": "6.1.0"}
    one = kept["baselines"]["x on y"]["a.recovery_time"]
    assert one["ci95"][0] < one["median"] <= one["ci95"][1] and one["n"] == 6
    assert (one["run"], one["commit"]) == ("a-run", "a-commit")
    assert "/" not in baselines.file.name and this_machine().cores >= 1


def test_a_baseline_is_not_replaced_by_a_slower_result(baselines):
    slower = {"a.recovery_time": metric(spread(1.2, 0.1))}
    assert baselines.take("x on y", slower, "later", "") == 0
    assert list(baselines.slower("x on y", slower))


def test_only_times_with_an_interval_and_a_direction_become_baselines(baselines):
    new = {
        "b.recovery_time": metric([1.0]),
        "b.digest": metric(spread(1, 0.1), "", "neither"),
        "b.speedup": metric(spread(1, 0.1), "1", "higher"),
    }
    assert baselines.take("x on y", new, "run", "") == 0


def test_other_machines_and_other_labs_have_baselines_of_their_own(baselines, tmp_path):
    slow = {"a.recovery_time": metric(spread(9.0, 0.1))}
    assert not list(baselines.slower("x on z", slow))
    assert not list(Baselines(tmp_path, Machine("other", 2, "6.1.0")).slower("x on y", slow))


@pytest.mark.parametrize(
    "text", ["", "[]", '{"format": 2}', '{"format": 1}', '{"format": 1, "baselines": []}']
)
def test_a_corrupt_baseline_file_is_reported_in_one_sentence(tmp_path, text):
    (tmp_path / f"{MACHINE.name}.json").write_text(text)
    with pytest.raises(UsageError):
        Baselines(tmp_path, MACHINE)


@pytest.mark.parametrize(("n", "before"), [(6, 6), (6, 8), (8, 6), (7, 7)])
def test_the_false_positive_rate_equals_a_count_over_all_orders_of_two_samples(n, before):
    red = total = 0
    for mine in itertools.combinations(range(n + before), n):
        others = sorted(set(range(n + before)) - set(mine))
        new, old = median_interval(mine), median_interval(others)
        red += new[0] > old[1]
        total += 1
    assert false_positive_rate(n, before) == pytest.approx(red / total, rel=1e-12)


def test_a_slowdown_of_a_fifth_is_found_where_trials_differ_by_a_few_percent():
    """Ten trials of each, with a standard deviation of 3 % around their mean."""
    chance = random.Random(12)
    found = alarms = 0
    for _ in range(1000):
        old, same, slow = (
            metric([chance.gauss(mean, 0.03) for _ in range(10)]) for mean in (1.0, 1.0, 1.2)
        )
        alarms += is_slower(same, old)
        found += is_slower(slow, old)
    assert (found, alarms) == (1000, 0)


def test_a_difference_below_a_millisecond_is_ignored(baselines):
    old = {"a.waiting": metric([0.0] * 6)}
    assert baselines.take("x on y", old, "run", "") == 1
    for later, is_found in ((0.9e-3, False), (1.1e-3, True)):
        now = {"a.waiting": metric([later] * 6)}
        assert bool(list(baselines.slower("x on y", now))) == is_found


def test_a_clearly_faster_result_becomes_the_baseline(baselines):
    hardly = {"a.recovery_time": metric(spread(0.95, 0.1))}
    assert baselines.take("x on y", hardly, "later", "") == 0
    faster = {"a.recovery_time": metric(spread(0.7, 0.1))}
    assert baselines.take("x on y", faster, "later", "") == 1
    assert list(baselines.slower("x on y", {"a.recovery_time": metric(spread(1.0, 0.1))}))


def test_results_of_a_busy_machine_are_compared_with_busy_ones_and_replaced_by_idle_ones(tmp_path):
    found = Baselines(tmp_path, MACHINE)
    idle, busy, busier = (
        {"a.recovery_time": metric(spread(centre, 0.1), busy=is_busy)}
        for centre, is_busy in ((1.1, False), (1.0, True), (1.5, True))
    )
    assert found.take("x on y", busy, "first", "") == 1
    assert list(found.slower("x on y", busier))
    assert found.take("x on y", idle, "later", "") == 1  # a little slower, but idle
    assert not list(found.slower("x on y", busier))


def test_a_machine_is_busy_in_an_arm_when_it_was_in_more_than_a_third_of_its_trials():
    loads = {"a": [0.3, 0.0, 0.1], "b": [0.3, 0.4, 0.1], "c": [None, None, None]}
    trials = [{"variant": arm, "others": load} for arm, all_ in loads.items() for load in all_]
    metrics = {f"{arm}.recovery_time": {"n": 3} for arm in loads}
    found = with_load({"trials": trials, "metrics": metrics})
    assert {name[0]: metric["busy"] for name, metric in found.items()} == {
        "a": False, "b": True, "c": False,
    }  # fmt: skip
