"""Iterations on rails are predicted by a replay of another arm, also beside other jobs."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_prediction import with_replays
from testbed.analysis.rail_times import profile_of
from testbed.record.log import read_events
from testbed.schema import load_experiment
from tests.unit.analysis.test_checks import trial
from tests.unit.analysis.test_rail_profile import TRAINING

EVERYTHING = Path(__file__).parents[3] / "experiments" / "everything.yaml"
SETTINGS = {name: {"settle": 0.025, "link_up": 0.010} for name in ("control", "fault")}


def measured(arm, change_time):
    events = list(read_events(TRAINING))
    profile = profile_of(0, events, Clocks(events))
    return replace(trial(arm=arm, change_time=change_time), rail_profile=profile)


def test_the_job_on_rails_of_an_arm_is_predicted_from_the_same_job_of_another_arm():
    trials = [measured("control.rails", 0.041), measured("fault.rails", 0.045)]
    trials.append(trial(arm="fault.slice", step_time=0.1))
    experiment = load_experiment(EVERYTHING)
    source, other, slice_ = with_replays(experiment.measured(), trials, SETTINGS)
    assert source.values["control_time"] == pytest.approx(0.006)
    assert other.values["control_time"] == pytest.approx(0.010)
    assert "iteration_time" not in source.predicted
    assert 0.1 < other.predicted["iteration_time"] < 10.0
    assert slice_.values == {"step_time": 0.1} and slice_.predicted == {}
