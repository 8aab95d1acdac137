"""Iterations on rails are predicted by a replay of another arm, also beside other jobs."""

from dataclasses import replace
from pathlib import Path

import pytest

from testbed.analysis.clocks import Clocks
from testbed.analysis.rail_prediction import (
    delay_sweeps,
    profile_of_run,
    replayable,
    replayed,
    with_replays,
)
from testbed.analysis.rail_times import profile_of
from testbed.events import Event
from testbed.rails.rail_replay import Rails
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
    assert (source.rails, other.rails, slice_.rails) == (Rails(0.035), Rails(0.035), None)
    assert source.replayed_from is slice_.replayed_from is None
    assert other.replayed_from.iterations == source.rail_profile.iterations
    assert other.predicted["iteration_time"] == replayed(other.replayed_from, other.rails)


def test_arms_on_rails_with_the_same_job_are_a_sweep_if_their_circuits_differ_in_delay():
    experiment = load_experiment(EVERYTHING.with_name("opus.yaml"))
    names = ("learned-50", "demand-10", "demand-0", "provisioned-0")
    trials = [trial(arm=arm, change_time=0.01) for arm in names]
    trials.append(trial(arm="learned-0", iteration_time=0.3))
    settings = {arm: {"settle": int(arm.split("-")[1]) / 1e3, "link_up": 0.005} for arm in names}
    (sweep,) = delay_sweeps(experiment.measured(), trials, settings)
    assert [(one.arm, one.mode, pytest.approx(one.delay)) for one in sweep] == [
        ("demand-0", "on-demand", 0.005),
        ("provisioned-0", "provisioned", 0.005),
        ("demand-10", "on-demand", 0.015),
        ("learned-50", "learned", 0.055),
    ]
    assert delay_sweeps(experiment.measured(), trials, {}) == []


GROUPS = {"dp0": (0, 1), "dp1": (2, 3), "pp0": (0, 2), "pp1": (1, 3)}


def planted(dark):
    """Return a run of four ranks on a rail whose groups take turns, by what its events say.

    They compute for 100 ms before each collective of 20 ms. A change takes the delay of the switch
    and 10 ms, of which the controller sees 6: the messages of ranks and to them take the rest.
    """
    at, events = 10.0, []
    for step in range(8):
        came, went = at + 0.1, at + 0.1 + dark + 0.010
        at = went + 0.020
        times = {"reached": came, "lit": went, "begin": went, "end": at}
        for name in (("dp0", "dp1"), ("pp0", "pp1"))[step % 2]:
            members = GROUPS[name]
            for rank in members:
                which = {"rank": rank, "host": f"h{rank}", "step": step, "iteration": step // 2}
                of = {"dimension": name[:2], "members": members, "size": 1024, "bytes": 1024}
                data = {**which, **of, **times}
                events.append(Event(0, at, "sample", f"rank {rank}", 0, data))
            data = {"rail": "rail0", "stage": [name, step // 2, [*members], 0]}
            data |= {"changed": True, "seconds": dark + 0.006}
            events.append(Event(0, went - 0.002, "stage.lit", name, 0, data))
    clock = {"ahead": 0.0, "bound": 1e-4}
    return events + [Event(0, 10.0, "clock.offset", f"h{n}", 0, clock) for n in range(4)]


@pytest.mark.parametrize("dark", [0.0, 0.035])
def test_the_control_of_a_profile_is_what_the_ranks_see_of_it(dark):
    events = planted(dark)
    found = profile_of(0, events, Clocks(events))
    assert found.control.change == pytest.approx(dark + 0.010)
    assert found.control.answer == 0.0


@pytest.mark.parametrize(
    ("mode", "delay", "expected"),
    [
        ("on-demand", 0.0, 2 * (0.100 + 0.010 + 0.020)),
        ("on-demand", 0.250, 2 * (0.100 + 0.260 + 0.020)),
        ("provisioned", 0.050, 2 * (0.100 + 0.020)),
        ("provisioned", 0.250, 2 * (0.260 + 0.020)),
    ],
)
@pytest.mark.parametrize("dark", [0.0, 0.035])
def test_an_arm_is_predicted_with_its_own_delay_and_the_control_of_the_other(
    dark, mode, delay, expected
):
    events = planted(dark)
    profile = profile_of(0, events, Clocks(events))
    source = replace(trial(arm="source"), rail_profile=profile)
    assert replayed(replayable(source, dark), Rails(delay, mode)) == pytest.approx(
        expected, abs=1e-6
    )


@pytest.mark.parametrize("dark", [0.0, 0.035])
def test_the_profile_of_a_run_has_its_control_without_the_delay_of_the_switch(dark):
    settings = Event(0, 0.0, "settings", "demand", None, {"settle": dark, "link_up": 0.0})
    begin = Event(0, 9.9, "trial.begin", "demand", 0, {})
    found = profile_of_run([settings, begin, *planted(dark)], "a run")
    assert found.control.change == pytest.approx(0.010)
    assert profile_of_run(planted(0.0), "a run", 0).source == "a run"
    assert profile_of_run(read_events(TRAINING), "training").control.change == 0.0


@pytest.mark.parametrize(
    ("arm", "longer", "error", "over"),
    [
        # Two changes an iteration, each of 60 ms with control: the best schedule hides both.
        ("demand-50", 0.0, 0.0, 0.36 / 0.24),
        ("demand-50", 0.008, 0.004, 0.368 / 0.24),
        ("demand-50", -0.008, 0.004, 0.352 / 0.24),
        ("provisioned-50", 0.008, 0.004, 0.248 / 0.24),
        ("learned-50", 0.0, 0.0, 1.0),
    ],
)
def test_an_iteration_is_held_against_its_prediction_and_the_best_that_there_is(
    arm, longer, error, over
):
    events = planted(0.0)
    profile = profile_of(0, events, Clocks(events))
    predicted = 0.36 if arm == "demand-50" else 0.24
    trials = [
        replace(trial(arm="demand-0", change_time=0.006), rail_profile=profile),
        trial(arm=arm, change_time=0.056, iteration_time=predicted + longer),
    ]
    experiment = load_experiment(EVERYTHING.with_name("opus.yaml"))
    settings = {"demand-0": {"settle": 0.0}, arm: {"settle": 0.05}}
    source, found = with_replays(experiment.measured(), trials, settings)
    assert "change_error" not in source.values
    assert found.predicted["iteration_time"] == pytest.approx(predicted)
    assert found.values["change_error"] == pytest.approx(error, abs=1e-6)
    assert found.values["over_optimum"] == pytest.approx(over)
