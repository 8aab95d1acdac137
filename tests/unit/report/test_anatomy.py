"""The parts of a recovery."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.plugins import PHASES
from testbed.report.anatomy import anatomies, first_seen, phases, split
from testbed.report.step_rates import step_rates
from tests.unit.report.runs_by_hand import SPLICE, lost, marks, recovery, summary, trial

times = st.lists(st.floats(0, 60), min_size=7, max_size=7).map(sorted)


def test_each_part_of_a_recovery_begins_at_the_end_of_the_previous_one():
    assert split(recovery(0)) == pytest.approx(
        {
            "detection": 0.02,
            "fencing": 0.01,
            "planning": 0.005,
            "reconfiguration": 0.045,
            "waiting": 0.1,  # from t6 to the spare's readiness, 20 ms before t8
            "joining": 0.02,
            "restoring": 0.1,
            "first step": 0.2,
        }
    )


@given(times, st.floats(0, 1))
def test_the_parts_of_a_recovery_add_up_to_the_time_from_t0_to_t10(at, share):
    reached = dict(zip(("t2", "t3", "t4", "t6", "t8", "t9", "t10"), at, strict=True))
    joining = share * (reached["t8"] - reached["t6"])
    one = trial(0, marks=marks({"t0": 0.0} | reached), values={"joining": joining})
    parts = split(one)
    assert sum(parts.values()) == pytest.approx(reached["t10"], abs=1e-5)
    assert list(parts) == [part.name for part in PHASES]
    assert min(parts.values()) >= -1e-5


def test_time_up_to_a_mark_that_a_recovery_lacks_belongs_to_the_next_part():
    relit = {name: t for name, t in SPLICE.items() if name != "t3"}
    parts = split(trial(0, marks=marks(relit)))
    assert "fencing" not in parts
    assert parts["planning"] == pytest.approx(0.015)


def test_a_trial_that_did_not_recover_has_no_parts_but_is_counted():
    (arm,) = anatomies(summary(recovery(0), lost(1), recovery(2)))
    assert split(lost(1)) == {}
    assert (len(arm.trials), len(arm.valid), len(arm.recovered)) == (3, 3, 2)
    assert all(len(duration.values) == 2 for duration in arm.parts)


def test_the_breakdown_of_recoveries_leaves_out_invalid_trials():
    (arm,) = anatomies(summary(recovery(0), recovery(1, longer=5.0, valid=False)))
    assert arm.parts[-1].median == pytest.approx(0.2)


def test_each_part_is_shown_with_its_prediction():
    predicted = {"detection": 0.002, "reconfiguration": 0.035, "recovery_time": 0.4}
    (arm,) = anatomies(summary(recovery(0, predicted=predicted)))
    shown = {d.part.name: d.predicted for d in arm.parts if d.predicted is not None}
    assert shown == {"detection": 0.002, "reconfiguration": 0.035}


def test_a_run_without_a_fault_has_no_recovery_breakdown():
    assert anatomies(summary(trial(0))) == []


def test_detectors_of_a_fault_are_listed_by_their_delay():
    trials = [
        recovery(0, witnesses={"peer-lost": 0.03, "carrier": 0.01}),
        recovery(1, witnesses={"carrier": 0.02}),
    ]
    assert first_seen(trials) == {"carrier": [0.01, 0.02], "peer-lost": [0.03]}
    assert list(first_seen(trials)) == ["carrier", "peer-lost"]


def test_the_parts_of_a_recorded_recovery_add_up_to_its_time_exactly(recoveries, summarised):
    for one in summarised(recoveries).trials:
        assert sum(split(one).values()) == pytest.approx(one.values["recovery_time"], abs=2e-6)
        assert min(split(one).values()) > -1e-6


def test_the_step_rate_of_a_recorded_trial_falls_at_its_fault(recoveries, summarised):
    found = step_rates(summarised(recoveries).trials)
    assert len(found) == 2
    for pace in found:
        zero, back = pace.mark("t0"), pace.mark("t10")
        slowest = pace.rates.index(min(pace.rates))
        assert pace.ends[slowest] <= zero <= back <= pace.ends[slowest + 1] + 1e-3


def test_phases_are_those_of_the_policy_that_decided():
    reached = {name: t for name, t in SPLICE.items() if name not in ("t4", "t5", "t6", "t7")}
    restarted = replace(
        trial(0, marks=marks(reached), values={"joining": 0.02}), controller="restart"
    )
    assert list(split(restarted)) == [
        "detection",
        "fencing",
        "starting",
        "joining",
        "restoring",
        "first step",
    ]
    assert {phase.name for phase in phases(trial(0))} == {phase.name for phase in PHASES}
