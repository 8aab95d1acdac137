"""What programs printed, as metrics; and trials whose job did not end well."""

from __future__ import annotations

import pytest

from testbed.analysis.checks import evaluate
from testbed.analysis.metric_definitions import MetricDefinition, meaning
from testbed.analysis.metrics import metrics
from testbed.analysis.summary import summarise
from testbed.events import Event
from testbed.report.wording import check_value
from testbed.schema import load_experiment
from tests.unit.analysis.logs_by_hand import Log

EXPERIMENT = """\
experiment: command
question: How fast?
needs: {hosts: 2}
jobs:
  main:
    kind: command
    ranks: 2
    command: ["true"]
    metrics:
      rate: {pattern: '(.*)', unit: Mbit/s, better: higher}
checks: {rate: {min: ">= 2 Mbit/s"}}
"""


@pytest.fixture
def experiment(tmp_path):
    path = tmp_path / "e.yaml"
    path.write_text(EXPERIMENT)
    return load_experiment(path)


def program(*rates, reason=""):
    """Return a trial of a program that printed its rate, in Mbit/s."""
    log = Log()
    log.begin(arm="only")
    log.write(0.5, "program.begin", "rank 0", argv=["true"])
    for rate in rates:
        log.write(1.0, "reading", "rate", value=rate * 1e6, unit="bit/s", better="higher", count=1)
    log.write(1.1, "job.done", "rank 0", rank=0, digest="that of nothing")
    log.end(1.2, recovered=not reason, reason=reason)
    return log


def verdict(experiment, log):
    end = {"error": "", "exit_code": 0, "cleanup": "verified", "left": []}
    return summarise("r", experiment, [*log.events, Event(99, 9.0, "run.end", "", None, end)])


def test_a_number_printed_by_a_program_is_a_metric_as_the_file_defines_it():
    trial = program(3).trial()
    assert trial.values == {"rate": 3e6}  # and no digest: nobody knows a program's state
    (metric,) = metrics([trial]).values()
    assert (metric.values, metric.meaning) == ((3e6,), MetricDefinition("bit/s", "higher", ""))


def test_a_check_of_a_programs_own_metric_is_shown_in_its_unit(experiment):
    summary = verdict(experiment, program(3))
    assert (summary.outcome, summary.exit_code) == ("passed", 0)
    (check,) = summary.checks
    assert check_value(check) == "3 Mbit/s"


def test_a_check_whose_limit_a_program_misses_fails(experiment):
    assert verdict(experiment, program(1)).outcome == "failed"


def test_a_trial_whose_program_failed_counts_against_its_check(experiment):
    trial = program(3, reason="the program on h0 failed: it ended with code 3").trial()
    assert trial.job_failed
    assert trial.recovered is None
    (check,) = experiment.all_checks()
    assert evaluate(check, [trial], metrics([trial])).verdict == "failed"


def test_a_run_whose_program_failed_fails_with_the_reason(experiment):
    summary = verdict(experiment, program(reason="the program on h0 failed"))
    assert (summary.outcome, summary.exit_code) == ("failed", 1)
    without = experiment.model_copy(update={"checks": {}})
    summary = verdict(without, program(reason="the program on h0 failed"))
    assert (summary.outcome, summary.exit_code) == ("failed", 1)
    assert summary.reason == "1 of 1 trials did not end well: the program on h0 failed"


def test_a_failed_program_takes_precedence_over_its_missing_output(experiment):
    """Of a program that is not there: no reading, and still the unit that the file gives."""
    why = "the program 'iperf9' on h1 could not be started: No such file or directory"
    summary = verdict(experiment, program(reason=why))
    assert (summary.outcome, summary.trials[0].outcome) == ("failed", "failed")
    assert summary.reason == f"1 of 1 trials did not end well: {why}"
    (check,) = summary.checks
    assert (check.verdict, check.unit) == ("failed", "bit/s")
    assert check.reason == "1 of 1 trials have no value (1 failed)"


def test_a_trial_whose_program_succeeded_has_not_failed():
    assert not program(3).trial().job_failed


@pytest.mark.parametrize("name", ["busbw_64mib", "time_8b_in_place", "algbw_1gib_in_place"])
def test_metrics_of_message_sizes_are_read_in_place_and_out_of_place(name):
    assert meaning(name).unit in ("s", "bit/s")


def test_a_pattern_without_a_match_is_named_as_the_cause(experiment):
    log = program()
    log.write(1.15, "load", "this machine", others=0.9)
    (check,) = verdict(experiment, log).checks
    assert check.verdict == "unknown"
    assert check.reason == (
        "1 of 1 trials have no value; no line that its programs printed was read by '(.*)'; "
        "what they printed is in logs/*/program.stdout of the run"
    )
