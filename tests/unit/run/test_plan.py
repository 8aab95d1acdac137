"""Plans as data: they print as JSON, and equal ones are known by their digest."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from testbed.fabric.circuits import Circuit, CrossConnect, HostPort
from testbed.run.planning.plan import Plan
from testbed.run.planning.steps import (
    FarEndFault,
    FaultPlan,
    Light,
    OpenHosts,
    OpenInstruments,
    ProgramCircuits,
    Restore,
    RunTrial,
    StartJob,
)

ONE, OTHER = HostPort("h0", "p1"), HostPort("h1", "p0")
PLAN = Plan(
    "small",
    "bench",
    7,
    (
        OpenInstruments(("ocs",), ("pdu",)),
        OpenHosts(("h0", "h1")),
        ProgramCircuits(
            (Circuit.between(ONE, OTHER),), (Light(CrossConnect("ocs", 2, 19), ONE, OTHER),)
        ),
        StartJob("main", "train", ("h0", "h1"), ()),
        RunTrial(
            0,
            "warm",
            (FaultPlan("power-cut", 1, 8, 0.25, None),),
            (FarEndFault("switch-busy", "ocs", 6, entry=1),),
        ),
        RunTrial(1, "cold", ()),
        Restore(False),
    ),
)


def test_a_plan_is_plain_json_that_names_what_each_step_does():
    plain = PLAN.to_json()
    assert json.loads(json.dumps(plain)) == plain
    assert plain["format"] == 1
    assert [step["do"] for step in plain["steps"]] == [type(step).__name__ for step in PLAN.steps]
    assert plain["steps"][2] == {
        "do": "ProgramCircuits",
        "circuits": [
            {"a": {"host": "h0", "port": "p1"}, "b": {"host": "h1", "port": "p0"}},
        ],
        "adds": [
            {
                "cross": {"switch": "ocs", "ingress": 2, "egress": 19},
                "source": {"host": "h0", "port": "p1"},
                "sink": {"host": "h1", "port": "p0"},
            }
        ],
    }
    assert plain["steps"][4] == {
        "do": "RunTrial",
        "number": 0,
        "arm": "warm",
        "faults": [
            {
                "kind": "power-cut",
                "rank": 1,
                "step": 8,
                "phase": 0.25,
                "hold": None,
                "port": "",
                "entry": 0,
                "after": None,
                "job": "",
            }
        ],
        "far_end_faults": [{"kind": "switch-busy", "switch": "ocs", "step": 6, "entry": 1}],
        "removes": [],
        "adds": [],
        "recoveries": [],
    }


def test_the_trials_of_a_plan_are_found_among_its_steps():
    assert [trial.arm for trial in PLAN.trials] == ["warm", "cold"]


def changed(number, step):
    steps = list(PLAN.steps)
    steps[number] = step
    return replace(PLAN, steps=tuple(steps))


@pytest.mark.parametrize(
    "other",
    [
        replace(PLAN, seed=8),
        replace(PLAN, lab="rack"),
        replace(PLAN, experiment="large"),
        replace(PLAN, steps=PLAN.steps[:-1]),
        changed(3, StartJob("main", "train", ("h1", "h0"), ())),
        changed(4, RunTrial(0, "warm", (FaultPlan("power-cut", 1, 8, 0.250001, None),))),
        changed(4, RunTrial(0, "warm", (FaultPlan("power-cut", 1, 8, 0.25, None),))),
        changed(6, Restore(True)),
    ],
)
def test_plans_that_differ_in_any_value_have_different_digests(other):
    assert other.digest() != PLAN.digest()


def test_the_digest_is_the_same_in_another_process_and_for_an_equal_plan():
    assert changed(6, Restore(False)).digest() == PLAN.digest()
    code = "import test_plan; print(test_plan.PLAN.digest())"
    directory = __file__.rpartition("/")[0]
    told = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, check=True
    )
    assert told.stdout.strip() == PLAN.digest()
