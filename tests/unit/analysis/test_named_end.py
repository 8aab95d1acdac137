"""Trials that are expected to end by name: what was struck is named, or the run has failed."""

from contextlib import nullcontext

import pytest

from testbed.analysis.summary import summarise
from testbed.events import Event
from testbed.run.planning.metric_checks import check_metrics
from testbed.schema import load_experiment
from testbed.schema.validation import SchemaError
from tests.unit.analysis.logs_by_hand import Log

EXPERIMENT = """\
experiment: ends
question: Who is named when the job cannot go on?
needs: {hosts: 6, fabric: circuit}
jobs: {main: {kind: train, ranks: 4, spares: 2}}
faults: [{kind: rank-freeze, target: rank 1, at: {step: 8}}]
checks: {CHECK: {every: "< 3 s"}}
"""
FAILED = {"recovered": False}


@pytest.fixture
def verdict(tmp_path):
    def summary(log, check="named_end"):
        (tmp_path / "e.yaml").write_text(EXPERIMENT.replace("CHECK", check))
        end = {"error": "", "exit_code": 0, "cleanup": "verified", "left": []}
        events = [*log.events, Event(9999, 9.0, "run.end", "", None, end)]
        return summarise("run", load_experiment(tmp_path / "e.yaml"), events)

    return summary


def log(**end):
    """Return a trial whose fault, of rank 1 on h1, took effect at 2 s; it is over at 4.5 s."""
    found = Log()
    found.begin(arm="only")
    found.measure(0.5)
    found.steps(1.0, range(10))
    found.fault(2.0, fault="rank-freeze")
    found.receipt(2.1)
    found.end(4.5, **end)
    return found


@pytest.mark.parametrize(
    "reason",
    ["nothing is heard of rank 1", "nothing is heard of rank 0 and 1; x", "h1 is gone", "x: h1: y"],
)
def test_a_trial_that_ends_within_the_limit_and_names_what_was_struck_passes(reason, verdict):
    found = verdict(log(reason=reason, **FAILED))
    assert (found.outcome, found.exit_code) == ("passed", 0)
    (trial,) = found.trials
    assert trial.outcome == "ended by name"
    assert trial.values["named_end"] == pytest.approx(2.5)


@pytest.mark.parametrize(
    "reason",
    ["", "rank 12 did not ask", "rank 2 did not ask", "h10 is gone", "h1.p1 is dark", "rank1"],
)
def test_a_trial_that_ends_otherwise_fails(reason, verdict):
    found = verdict(log(reason=reason or "no reason", **FAILED))
    assert (found.outcome, found.exit_code) == ("failed", 1)
    assert found.trials[0].outcome == "not recovered"


def test_a_trial_that_ends_too_late_fails(verdict):
    late = log(reason="rank 1", **FAILED)
    late.events = late.events[:-1]
    late.end(5.1, reason="rank 1", **FAILED)
    found = verdict(late)
    assert found.outcome == "failed"
    assert "worst 3.1 s" in found.reason or "3.1 s" in found.reason


def test_a_trial_whose_job_goes_on_fails(verdict):
    going = log()
    going.events = going.events[:-1]
    going.steps(2.05, range(10, 20))
    going.end(4.5)
    found = verdict(going)
    assert found.outcome == "failed"
    assert "1 of 1 trials have no value" in found.reason


def test_a_trial_in_which_the_fault_did_not_strike_is_inconclusive(verdict):
    found = verdict(log(valid=False, reason="rank 1 is not heard of", **FAILED))
    assert (found.outcome, found.exit_code) == ("inconclusive", 3)


def test_a_trial_that_ends_by_name_has_failed_where_nobody_expects_that(verdict):
    found = verdict(log(reason="rank 1", **FAILED), check="step_time")
    assert found.outcome == "failed"
    assert found.trials[0].outcome == "not recovered"


def test_a_switch_that_was_struck_must_be_named_too(verdict):
    for reason, outcome in (("rail0: refused", "passed"), ("rail01 refused", "failed")):
        struck = Log()
        struck.begin(arm="only")
        struck.steps(1.0, range(10))
        struck.write(2.0, "far-end.fault", "rail0", fault="switch-error", scope={})
        struck.end(4.5, reason=reason, **FAILED)
        assert verdict(struck).outcome == outcome


def test_a_check_on_a_named_end_is_refused_where_nothing_is_broken(tmp_path):
    text = EXPERIMENT.replace("CHECK", "named_end")
    quiet = [line for line in text.splitlines(True) if not line.startswith("faults")]
    for lines, is_refused in ((text, False), ("".join(quiet), True)):
        (tmp_path / "e.yaml").write_text(lines)
        experiment = load_experiment(tmp_path / "e.yaml")
        with pytest.raises(SchemaError, match="nothing is broken") if is_refused else nullcontext():
            check_metrics(experiment)
