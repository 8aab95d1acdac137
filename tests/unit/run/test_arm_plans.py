"""What a plan says of every arm: its hosts, circuits and faults, and what changes between arms."""

import json
from pathlib import Path

import pytest

from testbed.run.planning.placement import place
from testbed.run.planning.planner import make_plan
from testbed.run.planning.steps import ProgramCircuits
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]
CONFIGS = ROOT / "configs"
EXPERIMENTS = sorted(path.stem for path in (ROOT / "experiments").glob("*.yaml"))


def planned(name):
    experiment = load_experiment(ROOT / "experiments" / f"{name}.yaml")
    lab = load_lab(CONFIGS / f"{experiment.lab}.yaml")
    return experiment, lab, make_plan(experiment, lab, seed=7, repeat=2)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_the_plan_of_every_shipped_experiment_has_the_placement_and_faults_of_all_arms(name):
    experiment, lab, plan = planned(name)
    assert json.loads(json.dumps(plan.to_json())) == plan.to_json()
    if plan.on_paper:
        assert plan.arms == () and "arms" not in plan.to_json()
        return
    assert [arm.name for arm in plan.arms] == [arm.name for arm in experiment.arms()]
    for arm, of_arm in zip(plan.arms, experiment.arms(), strict=True):
        placements = place(of_arm.experiment, lab)
        for job, found in zip(arm.jobs, placements.values(), strict=True):
            assert (job.name, job.kind, job.fabric) == (found.name, found.kind, found.fabric)
            assert (job.hosts, job.spares) == (found.hosts, found.spares)
            assert frozenset(job.circuits) == found.circuits
            assert tuple(map(frozenset, job.asked)) == found.asked
        faults = [(fault.kind, fault.at.step, fault.hold) for fault in of_arm.experiment.faults]
        assert [(fault.kind, fault.step, fault.hold) for fault in arm.faults] == faults


def test_faults_are_planned_with_their_targets_and_options(desk):
    desk.change("lab", "allow: [power-cut, ", "allow: [power-cut, straggler, ")
    slow = "{kind: straggler, target: rank 1, at: {step: 8}, hold: 1 s, delay: 20 ms}"
    busy = "{kind: switch-busy, target: ocs, at: {step: 3}, delay: 5 ms}"
    cut = "{kind: power-cut, target: random, at: {step: 8}}"
    desk.change("experiment", cut, f"{slow}\n  - {busy}")
    desk.change("experiment", 'warm.recovery_time: {every: "< 1 s"}', "warm.steps: {min: '> 1'}")
    for arm in desk.plan().to_json()["arms"]:
        (slow, busy) = arm["faults"]
        assert slow["options"]["delay"] == 0.02
        assert slow["options"]["how"] == "sleep"  # as without it in the file
        assert (slow["target"], slow["job"], slow["hold"]) == ("rank 1", "main", 1.0)
        assert (busy["target"], busy["options"]["delay"]) == ("ocs", 0.005)


def test_circuits_that_differ_between_arms_are_changed_before_a_trial(desk):
    desk.change("experiment", "{policy.standby: warm}", "{}")
    desk.change("experiment", "{policy.standby: cold}", "{jobs.main.hosts: [h1, h2, h0]}")
    plan = desk.plan()
    (lit,) = [set(step.circuits) for step in plan.steps if isinstance(step, ProgramCircuits)]
    of_arm = {arm.name: set(arm.jobs[0].circuits) for arm in plan.arms}
    assert lit == of_arm["warm"] != of_arm["cold"]
    for trial in plan.trials:
        assert lit >= set(trial.removes) and not lit & set(trial.adds)
        lit = lit - set(trial.removes) | set(trial.adds)
        assert lit == of_arm[trial.arm]
    assert any(trial.adds for trial in plan.trials)


def test_nothing_is_changed_between_arms_with_the_same_circuits(desk):
    assert {trial.removes + trial.adds for trial in desk.plan().trials} == {()}
