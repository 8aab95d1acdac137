"""The course of a recovery that a plan expects: the real controllers on expected observations."""

from pathlib import Path

import pytest

from testbed.run.planning.planner import make_plan
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]


def trials(name, repeat=2, lab="rack"):
    experiment = load_experiment(ROOT / "experiments" / f"{name}.yaml")
    return make_plan(
        experiment, load_lab(ROOT / "configs" / f"{lab}.yaml"), seed=7, repeat=repeat
    ).trials


def expected(trial):
    """Return the recovery of a trial: who replaces whom, which fence is up, and who is left."""
    (recovery,) = trial.recoveries
    decisions = [(one.victim, one.replacement) for one in recovery.decisions]
    fences = [(one.host, one.means) for one in recovery.fences]
    return decisions, fences, recovery.hosts


def test_a_job_that_lives_on_is_expected_where_the_recovery_before_has_left_it():
    hosts = ("h0", "h1", "h2", "h3")
    spares = ["h4", "h5"]
    for trial in trials("lumion", repeat=4):
        victim = hosts[trial.faults[0].rank]
        ((lost, spare),), fences, after = expected(trial)
        assert (lost, spare) == (victim, spares[0] if spares[0] != victim else spares[1])
        assert fences == [(victim, "none")]  # its outlet reads off
        assert after == tuple(spare if host == victim else host for host in hosts)
        circuits = {host for circuit in trial.recoveries[0].circuits[-1] for host in circuit.hosts}
        assert circuits == set(after)
        hosts = after
        spares = [f"h{n}" for n in (0, 1, 2, 3, 4, 5) if f"h{n}" not in hosts]


def test_each_fault_is_expected_to_be_recovered_by_what_repairs_it():
    by_kind = {trial.faults[0].kind: expected(trial) for trial in trials("faults", repeat=1)}
    assert by_kind["rank-kill"][1][0][1] == by_kind["rank-freeze"][1][0][1] == "process"
    assert by_kind["power-cut"][1][0][1] == "none"
    decisions, fences, _ = by_kind["dark-circuit"]
    assert decisions[0][0] == decisions[0][1] and "–" in decisions[0][0]
    assert fences == []


def test_a_job_that_shrinks_is_expected_on_the_hosts_that_are_left():
    for trial in trials("shrink"):
        hosts = ("h0", "h1", "h2", "h3")  # a job that shrank is started anew
        victim = hosts[trial.faults[0].rank]
        assert expected(trial)[2] == tuple(host for host in hosts if host != victim)


def test_a_job_that_restarts_is_expected_to_come_back_from_its_checkpoint():
    for trial in trials("restart"):
        if trial.faults:
            victim = ("h0", "h1", "h2", "h3")[trial.faults[0].rank]
            replaced = expected(trial)[0][0]
            spare = "h4" if trial.faults[0].kind == "power-cut" else victim
            assert replaced == (victim, spare)
            assert spare in expected(trial)[2]


@pytest.mark.parametrize(
    ("name", "lab"), [("rotate", "quad"), ("stragglar-training", "slow-packet-rack")]
)
def test_no_recovery_is_expected_where_nothing_breaks(name, lab):
    assert not any(trial.recoveries for trial in trials(name, lab=lab))


@pytest.mark.parametrize(("hold", "recoveries"), [("50 ms", 0), ("300 ms", 1)])
def test_a_freeze_shorter_than_the_heartbeat_is_expected_to_be_ridden_out(desk, hold, recoveries):
    cut = "{kind: power-cut, target: random, at: {step: 8}}"
    desk.change("lab", "allow: [power-cut, ", "allow: [power-cut, rank-freeze, ")
    desk.change(
        "experiment", cut, cut.replace("power-cut", "rank-freeze")[:-1] + f", hold: {hold}}}"
    )
    assert {len(trial.recoveries) for trial in desk.plan().trials} == {recoveries}
