"""A slowdown counts when a second run shows it, too."""

from testbed.nightly.baseline import Slower
from testbed.nightly.speed import SpeedComparison

COMPARED = {"warm.recovery_time": 0.001, "warm.detection": 0.001, "cold.recovery_time": 0.001}


def slower(arm, metric):
    return Slower(arm, metric, "s", (0.6, 0.7), (0.4, 0.5))


FIRST = SpeedComparison(
    COMPARED, (slower("warm", "recovery_time"), slower("cold", "recovery_time"))
)


def fates(speed, is_sure=True):
    return {case.name.split()[0]: case.fate for case in speed.cases(is_sure=is_sure)}


def test_only_a_slowdown_measured_twice_fails():
    second = SpeedComparison(
        COMPARED, (slower("warm", "recovery_time"), slower("warm", "detection"))
    )
    (case, _) = second.also_in(FIRST).cases(is_sure=True)
    assert fates(second.also_in(FIRST)) == {"warm": "failure", "cold": "passed"}
    assert case.reason == "recovery_time is slower: 600–700 ms, before 400–500 ms"


def test_an_unconfirmed_slowdown_is_reported_without_a_failure():
    assert fates(FIRST, is_sure=False) == {"warm": "skipped", "cold": "skipped"}
    assert all("run again" in case.reason for case in FIRST.cases(is_sure=False))


def test_an_arm_without_baselines_gets_no_test_case():
    assert fates(SpeedComparison({}, ())) == {}
