"""Faults of far ends in an experiment: planned beside the fault of the job, or refused in words."""

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.plugins import kinds
from testbed.run.planning.planner import make_plan
from testbed.run.planning.steps import FarEndFault
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]
POWER_CUT = "{kind: power-cut, target: random, at: {step: 8}}"


@pytest.fixture
def planned(tmp_path):
    def plan(*faults):
        path = tmp_path / "made.yaml"
        rows = "\n".join(f"  - {fault}" for fault in faults)
        path.write_text(
            "experiment: made\nquestion: Is it planned?\nneeds: {hosts: 6}\n"
            "jobs: {main: {kind: train, ranks: 4, spares: 2, topology: ring, steps: 30}}\n"
            f"faults:\n{rows}\n"
        )
        lab = load_lab(ROOT / "configs" / "rack.yaml")
        return make_plan(load_experiment(path), lab, seed=1).trials[0]

    return plan


def test_a_far_end_fault_is_planned_beside_the_fault_of_the_job(planned):
    trial = planned(POWER_CUT, "{kind: switch-late-reply, target: ocs, at: {step: 6}, count: 1}")
    assert trial.faults[0].kind == "power-cut"
    assert trial.far_end_faults == (FarEndFault("switch-late-reply", "ocs", 6, entry=1),)


def test_several_far_end_faults_are_planned_in_the_order_of_their_steps(planned):
    trial = planned(
        POWER_CUT,
        "{kind: switch-busy, target: ocs, at: {step: 7}, delay: 1 s}",
        "{kind: switch-banner, target: ocs, at: {step: 2}}",
    )
    assert [(f.kind, f.entry) for f in trial.far_end_faults] == [
        ("switch-banner", 2),
        ("switch-busy", 1),
    ]


def test_a_far_end_fault_may_begin_in_the_step_of_the_fault_of_the_job(planned):
    trial = planned(POWER_CUT, "{kind: switch-busy, target: ocs, at: {step: 8}}")
    assert [fault.step for fault in trial.far_end_faults] == [8]


def test_a_trial_may_have_a_far_end_fault_without_a_fault_of_the_job(planned):
    trial = planned("{kind: switch-restart, target: ocs, at: {step: 3}}")
    assert not trial.faults
    assert [fault.kind for fault in trial.far_end_faults] == ["switch-restart"]


@pytest.mark.parametrize(
    ("faults", "words"),
    [
        ([POWER_CUT, "{kind: switch-busy, target: oc, at: {step: 1}}"], "not a switch of lab rack"),
        ([POWER_CUT, "{kind: switch-busy, target: ocs, at: {step: 9}}"], "after the power-cut"),
        (
            [POWER_CUT, "{kind: switch-busy, target: ocs, at: {step: 1}, hold: 1 s}"],
            "until the trial",
        ),
        (
            ["{kind: switch-busy, target: ocs, at: {step: 1}}", POWER_CUT],
            "power-cut is a fault of a job and must be the first entry; list the faults",
        ),
        (
            [POWER_CUT, "{kind: switch-busy, target: ocs, at: {after: 1 s}}"],
            "switch-busy begins in a step",
        ),
    ],
)
def test_an_invalid_far_end_fault_is_refused_at_its_place(planned, faults, words):
    with pytest.raises(FileError, match=words) as caught:
        planned(*faults)
    assert "made.yaml:" in caught.value.where


RANK_1 = "{kind: power-cut, target: rank 1, at: {step: 8}}"


def test_several_faults_are_planned_each_with_its_own_victim_and_time(planned):
    trial = planned(
        POWER_CUT,
        "{kind: rank-kill, target: random, at: {after: 50 ms}}",
        "{kind: rank-freeze, target: rank 2, at: {step: 20}, hold: 300 ms}",
    )
    first, second, third = trial.faults
    assert trial.faults[0] is first
    assert [(one.entry, one.step, one.after) for one in trial.faults] == [
        (0, 8, None),
        (1, 8, 0.05),
        (2, 20, None),
    ]
    assert (third.rank, third.hold) == (2, 0.3)
    assert len({first.rank, second.rank, third.rank}) == 3


def test_random_victims_of_one_trial_are_never_one_rank(planned):
    for _ in range(3):
        found = planned(POWER_CUT, *["{kind: rank-kill, target: random, at: {after: 9 ms}}"] * 3)
        assert {fault.rank for fault in found.faults} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("faults", "where", "words"),
    [
        ([RANK_1, "{kind: power-cut, target: rank 2, at: {step: 8}}"], "7", "a later step"),
        ([RANK_1, "{kind: rank-kill, target: rank 1, at: {after: 1 s}}"], "7", "hits rank 1 alr"),
        ([RANK_1, "{kind: rank-kill, target: h1, at: {after: 1 s}}"], "7", "hits rank 1 already"),
        (["{kind: rank-kill, target: random, at: {after: 1 s}}"], "6", "no fault before this"),
        (["{kind: rank-kill, target: random, at: {}}"], "6", "a time after the fault before"),
        (
            ["{kind: rank-kill, target: rank 0, at: {step: 1, after: 1 s}}"],
            "6",
            "`at` names a step of the job, or",
        ),
        ([RANK_1, "{kind: rank-kill, target: rank 4, at: {after: 1 s}}"], "7", "has no rank 4"),
        (
            [RANK_1, "{kind: straggler, target: rank 2, at: {after: 1 s}, delay: 1 s}"],
            "7",
            "straggler only slows a rank down",
        ),
        (
            [POWER_CUT, *["{kind: rank-kill, target: random, at: {after: 1 s}}"] * 4],
            "10",
            "more faults than job main has ranks",
        ),
    ],
)
def test_faults_that_cannot_be_in_one_trial_are_refused_at_their_place(
    planned, faults, where, words
):
    with pytest.raises(FileError, match=words) as caught:
        planned(*faults)
    assert f"made.yaml:{where}:" in caught.value.where


def test_two_equal_far_end_faults_in_one_trial_are_refused():
    named = [kind.far_end for kind in kinds("faults").values() if kind.role == "far-end"]
    assert named and len(named) == len(set(named))
