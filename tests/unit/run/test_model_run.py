"""Runs of a model: computed, recorded like any other, and refused when they are half of one."""

import json
import signal

import pytest

from testbed.analysis.summary import summarise
from testbed.errors import FileError
from testbed.record.log import EventLog, read_events
from testbed.record.rundir import RunDirectory
from testbed.run.inbox import Inbox
from testbed.run.model_run import compute
from testbed.run.planning.planner import make_plan
from testbed.schema import load_experiment, load_lab

LAB = """
lab: bare
hosts: {h0: {ssh: h0}}
"""
MODEL = """
experiment: paper
question: What does the model say?
needs: {hosts: 0, fabric: any}
jobs: {main: {kind: collective-model, ranks: 8, size: 7 MiB, alpha: 1 ms, rate: 100 Mbit/s}}
variants:
  at-once: {jobs.main.delay: 0 s}
  late: {jobs.main.delay: 500 ms}
checks:
  at-once.speedup: {every: "< 0.95"}
  late.speedup: {min: "> 1.15", max: "< 1.25"}
  late.rounds: {equals: 9}
"""


@pytest.fixture
def lab(tmp_path):
    path = tmp_path / "bare.yaml"
    path.write_text(LAB)
    return load_lab(path)


def experiment(tmp_path, text=MODEL):
    path = tmp_path / "paper.yaml"
    path.write_text(text)
    return load_experiment(path)


def run_wiring_check(tmp_path, wanted, lab, *signals, repeat=None):
    plan = make_plan(wanted, lab, seed=1, repeat=repeat)
    run = RunDirectory.create(tmp_path, "paper")
    log = EventLog(run.events)
    log.append("run.begin", "paper", label="model", lab=lab.lab, seed=1)
    inbox = Inbox()
    for number in signals:
        inbox.interrupt(number)
    compute(plan, wanted, run, log, inbox)
    log.close()
    return summarise(run.id, wanted, list(read_events(run.events)))


def test_a_model_needs_no_hosts_and_gives_metrics_and_checks(tmp_path, lab):
    summary = run_wiring_check(tmp_path, experiment(tmp_path), lab)
    assert (summary.outcome, summary.exit_code, summary.cleanup) == ("passed", 0, "verified")
    assert summary.label == "model"
    assert [check.verdict for check in summary.checks] == ["passed"] * 4
    late = summary.metrics
    assert late["late.speedup"].median == pytest.approx(1.21, abs=0.01)  # papers.md 3.5
    assert late["late.critical_delay"].median == late["at-once.critical_delay"].median
    json.dumps(summary.to_json())


def test_a_model_that_misses_its_check_fails(tmp_path, lab):
    wanted = experiment(tmp_path, MODEL.replace("< 0.95", "> 0.95"))
    assert run_wiring_check(tmp_path, wanted, lab).outcome == "failed"


CLIENTS = """
experiment: paper
question: Does the simulation do what the formula says?
needs: {hosts: 0, fabric: any}
jobs: {main: {kind: clients-model, study: scale, load: light, policy: fifo, clients: 600}}
checks:
  only.clients_bound: {near_prediction: 0 %}
  only.scheduling_time: {near_prediction: 0 %}
"""


def test_what_a_formula_expects_stands_beside_what_a_model_computes(tmp_path, lab):
    summary = run_wiring_check(tmp_path, experiment(tmp_path, CLIENTS), lab)
    assert [check.verdict for check in summary.checks] == ["passed", "failed"]
    bound = summary.metrics["only.clients_bound"]
    assert bound.predicted == bound.median > 0
    assert summary.metrics["only.over_assigned"].predicted is None


def test_a_check_near_the_prediction_of_a_formula_alone_is_refused(tmp_path, lab):
    text = CLIENTS.replace("clients: 600", "clients: 600, by: formula")
    with pytest.raises(FileError, match="nothing predicts 'clients_bound'"):
        run_wiring_check(tmp_path, experiment(tmp_path, text), lab)


CLUSTERS = """
experiment: paper
question: What does the model draw?
needs: {hosts: 0, fabric: any}
jobs: {main: {kind: fleet-model, racks: 2}}
variants: {one: {}, other: {}}
trials: 3
"""


def test_every_trial_of_a_model_draws_from_a_seed_of_its_own_that_all_arms_share(tmp_path, lab):
    trials = run_wiring_check(tmp_path, experiment(tmp_path, CLUSTERS), lab).trials
    one, other = ([t.values for t in trials if t.arm == arm] for arm in ("one", "other"))
    assert one == other
    assert len({str(values) for values in one}) == 3


def test_every_repetition_of_a_model_gives_the_same_result(tmp_path, lab):
    summary = run_wiring_check(tmp_path, experiment(tmp_path), lab, repeat=3)
    assert len(summary.trials) == 6
    assert len(set(summary.metrics["late.total_time"].values)) == 1


def test_a_signal_ends_a_model(tmp_path, lab):
    summary = run_wiring_check(tmp_path, experiment(tmp_path), lab, signal.SIGTERM)
    assert (summary.outcome, summary.exit_code) == ("aborted", 128 + signal.SIGTERM)
    assert summary.trials == []


def test_an_algorithm_without_a_straggler_has_no_critical_delay(tmp_path, lab):
    text = MODEL.replace("ranks: 8", "ranks: 8, algorithm: rhd").replace(
        "late.rounds: {equals: 9}", "late.rounds: {equals: 6}"
    )
    text = text.replace('  late.speedup: {min: "> 1.15", max: "< 1.25"}\n', "")
    text = text.replace("< 0.95", "> 1")
    summary = run_wiring_check(tmp_path, experiment(tmp_path, text), lab)
    assert summary.outcome == "passed"
    assert "late.critical_delay" not in summary.metrics


@pytest.mark.parametrize(
    ("found", "instead", "line", "words"),
    [
        ("hosts: 0", "hosts: 1", 4, "a model runs on no host, and needs.hosts is 1"),
        ("hosts: 0", "hosts: 0, attributes: {gpus: 8}", 4, "so none needs attributes; remove"),
        ("{main: {", "{main: {hosts: [h0], ", 5, "a model runs on no host, so it cannot have"),
        ("late: {", "late: {lab.twin.settle: 1 s, ", 8, "lab.twin.settle changes nothing"),
        (
            "late: {jobs.main.delay: 500 ms}",
            "late: {jobs.main: {kind: allreduce, ranks: 2, sizes: [4 KiB]}}",
            7,
            "late runs a job and other arms compute a model",
        ),
        ("variants:", "policy: {kind: splice}\nvariants:", 6, "no hosts for policy to act on"),
    ],
)
def test_options_of_running_jobs_are_refused_for_a_model(
    tmp_path, lab, found, instead, line, words
):
    assert MODEL.count(found) == 1
    wanted = experiment(tmp_path, MODEL.replace(found, instead))
    with pytest.raises(FileError, match=words) as caught:
        make_plan(wanted, lab, seed=1)
    assert f"paper.yaml:{line}:" in str(caught.value)


@pytest.mark.parametrize(
    ("instead", "words"),
    [
        ("ranks: 1", "ranks must be at least 2, not 1"),
        ("ranks: 7", "stragglar pairs its ranks, so their number must be even, not 7"),
        ("ranks: 8192", "ranks must be at most 4096"),
        ("ranks: 8, rate: 0 Gbit/s", "rate must be above 0"),
    ],
)
def test_impossible_models_are_refused(tmp_path, instead, words):
    text = MODEL.replace(", rate: 100 Mbit/s", "") if "rate" in instead else MODEL
    with pytest.raises(FileError, match=words):
        experiment(tmp_path, text.replace("ranks: 8", instead))
