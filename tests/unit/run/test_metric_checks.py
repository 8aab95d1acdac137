"""Which checks an experiment's file may state: of metrics that its trials have, in their unit."""

from __future__ import annotations

import re

import pytest

from testbed.analysis.limit_dimensions import dimension_mismatch
from testbed.analysis.metric_definitions import METRICS, MetricDefinition, meaning
from testbed.cli import run as command_line
from testbed.errors import FileError
from testbed.run.planning.metric_checks import check_metrics
from testbed.schema import Condition, load_experiment
from testbed.schema.condition import Statistics
from testbed.schema.validation import validated
from tests.unit.schema.conftest import installed

AUTO = "kind: train, ranks: 4, collective: auto"
TRAIN = "kind: train, ranks: 4, spares: 1"
ALLREDUCE = "kind: allreduce, ranks: 4, sizes: [64 KiB, 1 MiB]"
COLLECTIVE = "kind: collective, ranks: 4, sizes: [1 MiB], algorithms: [ring, rhd, stragglar]"
COMMAND = (
    "kind: command, ranks: 2, command: [ping], metrics: {rtt: {pattern: 't=(.*)', unit: ms, better"
    ": lower}, hits: {pattern: 'h=(.*)', unit: '%', better: higher}, "
    "rate: {pattern: 'r=(.*)', unit: 1/s, better: lower}}"
)
FAULT = "faults: [{kind: power-cut, target: random, at: {step: 8}}]\n"
DELAY = "faults: [{kind: straggler, target: rank 1, at: {step: 1}, delay: 1 s}]\n"
POLICY = "policy: {kind: splice}\n"

LIMITS = {
    "s": "< 500 ms",
    "bit/s": "< 500 Mbit/s",
    "B": "< 16 MiB",
    "dBm": "< -3 dBm",
    "dB": "< 3 dB",
    "%": "< 8 %",
    "1": "< 500",
}
"""A limit of every dimension, by the unit of the metrics that it can be meant of."""

SIZED = ("time_4kib", "algbw_1mib_in_place", "busbw_100b", "total_ring_7mib", "exposed_rhd_1mib",
         "busbw_stragglar_1mib", "sent_direct_1gib", "over_gloo_ring_64kib")  # fmt: skip


@pytest.mark.parametrize("metric", [*METRICS, *SIZED])
def test_every_metric_takes_limits_of_its_own_dimension_only(metric):
    unit = meaning(metric).unit
    taken = {
        name
        for name, text in LIMITS.items()
        if not dimension_mismatch(metric, meaning(metric), "every", Condition.parse(text))
    }
    assert taken == ({unit} & LIMITS.keys())
    assert unit in LIMITS or metric in ("digest", "inputs")


@pytest.mark.parametrize(
    ("unit", "taken"),
    [
        *((unit, {unit, "%"}) for unit in ("s", "bit/s", "B", "1")),
        ("%", {"%"}),  # a share of the prediction, as of any other metric
        ("dBm", {"dB"}),  # a distance between two levels is in dB
        ("dB", {"dB"}),
    ],
)
def test_the_limit_of_near_prediction_is_a_share_or_in_the_unit_of_the_metric(unit, taken):
    metric = next((name for name in METRICS if METRICS[name].unit == unit), "")
    of = METRICS[metric] if metric else type(METRICS["dip"])(unit, "lower", "")
    found = {
        name
        for name, text in LIMITS.items()
        if not dimension_mismatch("it", of, "near_prediction", Condition.parse(text))
    }
    assert found == taken


@pytest.mark.parametrize("statistic", ["every", "equals", "near_prediction"])
@pytest.mark.parametrize("text", [*LIMITS.values(), "<=.5e3", "> -1.5 dBm", ">=0.3", "== 7s"])
@pytest.mark.parametrize("unit", LIMITS)
def test_the_limit_suggested_in_an_error_is_accepted_unchanged(unit, text, statistic):
    def problem(written):
        of = MetricDefinition(unit, "lower", "")
        limit = validated(Statistics, {statistic: written}).conditions()[statistic]
        return dimension_mismatch("it", of, statistic, limit)

    if statistic != "every":  # they compare in one way, and a distance is not negative
        text = text.lstrip("<>= -")
    if said := problem(text):
        suggestion = said.partition(", as ")[2].strip("'")
        assert not problem(suggestion)
        assert suggestion.startswith(re.match("[<>= ]*", text)[0])


@pytest.mark.parametrize(
    ("metric", "text", "suggested"),
    [
        ("plateau", "> 95 %", "> 0.95"),
        ("wire_overhead", "< 0.08", "< 8 %"),
        ("wire_overhead", "< 8", "< 8 %"),
    ],
)
def test_a_suggested_limit_means_what_was_written(metric, text, suggested):
    said = dimension_mismatch(metric, METRICS[metric], "every", Condition.parse(text))
    assert said.endswith(f"as {suggested!r}")


@pytest.fixture
def refusals(tmp_path):
    """Return every problem of an experiment's checks, without the file's name."""

    def found(job, checks, rest=""):
        path = tmp_path / "e.yaml"
        text = "experiment: e\nquestion: What?\nneeds: {hosts: 6}\n"
        path.write_text(text + f"jobs: {{main: {{{job}}}}}\nchecks: {{{checks}}}\n{rest}")
        try:
            check_metrics(load_experiment(path))
        except FileError as error:
            return [str(one).removeprefix(f"{path}:") for one in (error, *error.others)]
        return []

    return found


@pytest.mark.parametrize(
    ("job", "check", "words"),
    [
        (
            COMMAND,
            'rtt: {every: "< 500 Mbit/s"}',
            "5:23: checks.rtt.every: '< 500 Mbit/s' is a rate, and rtt is a time: write it with "
            "a unit, as '< 500 ms'",
        ),
        (COMMAND, 'rtt: {median: "< 5"}', "'< 5' is a plain number, and rtt is a time"),
        (
            COMMAND,
            'hits: {min: ">= 90"}',
            "'>= 90' is a plain number, and hits is a percentage: write it with a unit, as "
            "'>= 90 %'",
        ),
        (
            ALLREDUCE,
            'busbw_64kib: {median: "> 1 ms"}',
            "'> 1 ms' is a time, and busbw_64kib is a rate",
        ),
        (
            ALLREDUCE,
            'busbw_64kib: {median: "> 1"}',
            "'> 1' is a plain number, and busbw_64kib is a rate",
        ),
        (
            COLLECTIVE,
            'speedup: {min: "> 1 s"}',
            "'> 1 s' is a time, and speedup is a plain number: write it without a unit, as '> 1'",
        ),
        (COLLECTIVE, 'model_error: {max: "<= 0.1"}', "model_error is a percentage"),
        (TRAIN, "steps: {equals: 30 s}", "steps is a plain number"),
        (
            TRAIN + ", steps: 9",
            "digest: {equals: 30}",
            "digest is text, which only `same_as` compares",
        ),
        (
            TRAIN,
            "step_time: {near_prediction: 5}",
            "'5' is a plain number, and step_time is a time",
        ),
    ],
)
def test_a_limit_of_another_dimension_is_an_error_at_its_place(refusals, job, check, words):
    (found,) = refusals(job, check)
    assert words in found and found.startswith("5:")


@pytest.mark.parametrize(
    ("job", "metric", "rest", "words"),
    [
        (
            ALLREDUCE,
            "busbw_128kib",
            "",
            "5:10: checks.busbw_128kib: no trial of only has 'busbw_128kib': job main (allreduce) "
            "does not measure it; known: busbw_64kib, busbw_1mib",
        ),
        (
            ALLREDUCE,
            "time_1mib_in_place",
            "",
            "does not measure it; known: steps, digest, time_64kib, ",
        ),
        (ALLREDUCE, "step_time", "", "does not measure it"),
        (
            TRAIN,
            "recovery_time",
            "",
            "no trial of only has 'recovery_time': nothing is broken in its trials",
        ),
        (TRAIN, "detection", "", "nothing is broken in its trials"),
        (TRAIN, "detection", FAULT, "no policy repairs anything"),
        (TRAIN, "recovery_time", FAULT, "no policy replaces the rank of job main that fails"),
        (TRAIN, "recovery_time", DELAY, "nothing is broken in its trials"),
        (
            ALLREDUCE + ", spares: 0",
            "detection",
            FAULT.replace("power-cut", "rank-freeze") + POLICY,
            "splice replaces a rank by a spare host, and job main has none; write `spares: 1`",
        ),
        (
            ALLREDUCE,
            "detection",
            FAULT + "controllers: [{kind: splice}]\n",
            "splice replaces a rank by a spare host, and job main has none; write `spares: 1`",
        ),
        (TRAIN, "straggling_step_time", FAULT, "no rank is slowed down"),
        (TRAIN, "step_gain", DELAY, "no controller collective-choice acts on main"),
        (TRAIN, "busbw_1mib", FAULT, "does not measure it"),
        (
            TRAIN,
            "recoverytime",
            FAULT + POLICY,
            "'recoverytime' is not a metric; did you mean 'recovery_time'?",
        ),
        (COLLECTIVE, "speedup_over_direct", "", "did you mean 'speedup_over_rhd'?"),
        (COLLECTIVE, "total_ring_2mib", "", "known: total_ring_1mib"),
        (COMMAND, "ttr", "", "'ttr' is not a metric; known: rtt, hits, rate"),
        (COMMAND, "rat", "", "'rat' is not a metric; did you mean 'rate'?"),
        (COMMAND, "busbw_1mib", "", "does not measure it; known: rtt, hits"),
    ],
)
def test_a_check_on_a_metric_that_no_trial_has_is_refused_with_the_nearest_metric(
    refusals, job, metric, rest, words
):
    (found,) = refusals(job, f'{metric}: {{every: "< 1 s"}}', rest)
    assert words in found and found.startswith("5:10: ")


@pytest.mark.parametrize(
    ("job", "metric", "rest", "hint"),
    [
        (TRAIN, "step_time", "", "compare it with a value, as in median: …"),
        (TRAIN, "dip", FAULT + POLICY, "known: detection, first_step, "),
        (TRAIN, "step_time", DELAY, "known: straggling_step_time"),
        (AUTO, "step_time", DELAY, "known: collective_gain, communication_share, step_gain, "),
        (f"{TRAIN}, pace: 1 s", "step_time", FAULT + POLICY, "known: detection, first_step, "),
        (ALLREDUCE, "busbw_64kib", "", "known: busbw_1mib"),
        (COLLECTIVE, "busbw_ring_1mib", "", "known: critical_delay, "),
        (COLLECTIVE, "skew", "", "known: critical_delay, "),
        (COLLECTIVE, "recovery_time", FAULT, "compare it with a value"),
        (COMMAND, "rtt", "", "compare it with a value"),
    ],
)
def test_near_prediction_of_a_metric_without_prediction_is_refused_at_its_place(
    refusals, job, metric, rest, hint
):
    (found,) = refusals(job, f"{metric}: {{near_prediction: 10 %}}", rest)
    place = f"5:{10 + len(metric) + 3 + len('near_prediction: ')}: "
    words = f"nothing predicts '{metric}' in the trials of only; "
    assert found.startswith(f"{place}checks.{metric}.near_prediction: {words}{hint}")


@pytest.mark.parametrize(
    ("job", "checks", "rest"),
    [
        (COLLECTIVE, "speedup: {near_prediction: 5 %}", DELAY),
        (COLLECTIVE, "total_rhd_repointed_1mib: {near_prediction: 5 %}", ""),
        (AUTO, "step_gain: {near_prediction: 5 %}", DELAY),
        (f"{TRAIN}, pace: 100 ms", "step_time: {near_prediction: 5 %}", ""),
        (TRAIN, "detection: {near_prediction: 5 ms}", FAULT + POLICY),
        (COMMAND, 'rate: {every: "< 5 1/s", max: "< 5"}', ""),
        (TRAIN, 'recovery_time: {every: "< 1 s", near_prediction: 10 %}', FAULT + POLICY),
        (
            TRAIN,
            'reconfiguration: {near_prediction: 30 ms}, plateau: {min: "> 0.9"}',
            FAULT + POLICY,
        ),
        (
            TRAIN,
            'wire_overhead: {every: "< 8 %"}, busbw: {min: "> 1 Mbit/s"}, loss: {max: "< 9"}',
            "",
        ),
        (AUTO, 'straggling_step_time: {near_prediction: 5 %}, step_gain: {min: "> 0 %"}', DELAY),
        (ALLREDUCE, 'busbw_64kib: {min: "> 1 Gbit/s"}, time_1mib: {max: "< 1 s"}', ""),
        (ALLREDUCE + ", spares: 1", 'recovery_time: {every: "< 1 s"}', FAULT + POLICY),
        (ALLREDUCE, "steps: {equals: 9}", FAULT + POLICY),
        (
            ALLREDUCE,
            'recovery_time: {every: "< 1 s"}',
            FAULT.replace("power-cut", "dark-circuit") + POLICY,
        ),
        (
            ALLREDUCE,
            'dip: {every: "< 1 s"}',
            FAULT.replace("power-cut", "rank-freeze").replace("}}", "}, hold: 9 ms}") + POLICY,
        ),
        (COLLECTIVE, 'total_rhd_repointed_1mib: {max: "< 1 s"}, straggler: {equals: 3}', ""),
        (COLLECTIVE, 'sent_ring_1mib: {near_prediction: 5 %}, speedup_over_rhd: {min: "> 1"}', ""),
        (COMMAND, 'rtt: {median: "< 5 ms"}, hits: {min: ">= 90 %"}', ""),
        ("kind: nccl-tests, ranks: 2", 'busbw_3mib_in_place: {min: "> 1 Gbit/s"}', ""),
    ],
)
def test_checks_on_metrics_that_trials_have_are_accepted(refusals, job, checks, rest):
    assert refusals(job, checks, rest) == []


SHRINKERS = """
from testbed.plugins import Kind, RecoveryProperties

NEVER = Kind("goes on with a rank less", "json:dumps", recovery=RecoveryProperties("never"))
HOST = Kind("starts the rank again", "json:dumps", recovery=RecoveryProperties("host"))
"""


@pytest.fixture
def other_policies(tmp_path_factory):
    """Install policies `dwindle` and `reborn`, which do not always take a spare host."""
    points = "[testbed.policies]\ndwindle = shrinkers:NEVER\nreborn = shrinkers:HOST\n"
    with installed(tmp_path_factory.mktemp("site"), "shrinkers", SHRINKERS, points):
        yield


@pytest.mark.parametrize(
    ("policy", "fault", "accepted"),
    [
        ("dwindle", "power-cut", True),
        ("reborn", "rank-freeze", True),
        ("reborn", "power-cut", False),
        ("splice", "rank-freeze", False),
    ],
)
def test_checks_on_recoveries_without_a_spare_depend_on_what_the_policy_takes(
    other_policies, refusals, policy, fault, accepted
):
    rest = f"{FAULT.replace('power-cut', fault)}policy: {{kind: {policy}}}\n"
    found = refusals(ALLREDUCE, 'recovery_time: {every: "< 1 s"}', rest)
    assert [f"{policy} replaces a rank by a spare host" in one for one in found] == (
        [] if accepted else [True]
    )


def test_every_problem_with_a_check_is_reported_at_its_place(refusals):
    found = refusals(COMMAND, 'rtt: {every: "< 1", max: "< 1 B"}, ttr: {every: "< 1 s"}')
    assert [one.partition(": ")[0] for one in found] == ["5:23", "5:35", "5:45"]


def test_the_metrics_of_an_arm_depend_on_its_own_job_and_fault(refusals):
    rest = FAULT + POLICY + "variants: {broken: {}, quiet: {faults: [], jobs.main.steps: 9}}\n"
    assert refusals(TRAIN, 'broken.recovery_time: {every: "< 1 s"}', rest) == []
    (found,) = refusals(TRAIN, 'quiet.recovery_time: {every: "< 1 s"}', rest)
    assert "no trial of quiet has 'recovery_time': nothing is broken" in found
    (found,) = refusals(TRAIN, "quiet.steps: {same_as: broken.step_time}", rest)
    assert "steps (a number) and step_time (in s) cannot be compared" in found


@pytest.mark.parametrize(
    ("beside", "words"),
    [
        (f"{TRAIN}, pace: 100 ms", ""),
        (COLLECTIVE, ""),
        ("kind: all-to-all, ranks: 4, sizes: [1 MiB], hold: 100 ms", ""),
        (TRAIN, "nothing predicts 'mean_step_time' in the trials of only"),
    ],
)
def test_a_mean_step_is_predicted_of_a_job_beside_others_whose_step_is(tmp_path, beside, words):
    path = tmp_path / "e.yaml"
    fault = FAULT.replace("{kind", "{job: main, kind")
    jobs = f"jobs: {{main: {{{TRAIN}}}, other: {{{beside}}}}}\n{fault}"
    path.write_text(
        f"experiment: e\nquestion: What?\nneeds: {{hosts: 9}}\n{jobs}"
        "controllers: [{kind: splice, job: main}]\n"
        "checks: {other.mean_step_time: {near_prediction: 5 %}}\n"
    )
    if not words:
        check_metrics(load_experiment(path))
        return
    with pytest.raises(FileError, match=words):
        check_metrics(load_experiment(path))


def test_validate_prints_the_problems_and_exits_with_2(tmp_path, capsys):
    path = tmp_path / "e.yaml"
    job = f"jobs: {{main: {{{TRAIN}}}}}\n{FAULT}{POLICY}"
    text = f"experiment: e\nquestion: What?\nneeds: {{hosts: 6}}\n{job}"
    path.write_text(text + 'checks: {recovery_time: {every: "< 500"}}\n')
    assert command_line(["validate", str(path)]) == 2
    said = capsys.readouterr().err
    assert f"{path}:7:33: checks.recovery_time.every: '< 500' is a plain number" in said


def test_same_as_can_name_an_arm_of_a_matrix_whose_name_has_dots(refusals):
    job, rest = TRAIN + ", steps: 9", "matrix: {jobs.main.batch: [1, 2]}\n"
    check = "jobs.main.batch=1.digest: {same_as: jobs.main.batch=2.digest}"
    assert refusals(job, check, rest) == []
    (found,) = refusals(job, check.replace("=2.", "=3."), rest)
    assert (
        "'jobs.main.batch=3' is not an arm of this experiment; did you mean 'jobs.main.batch="
        in found
    )
