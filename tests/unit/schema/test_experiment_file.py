"""The experiment file: what it says, and every way in which it can be wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import TestbedError
from testbed.schema import Condition, Target, load_experiment
from testbed.units import RATE, SHARE, TIME


def test_an_experiment_is_read_from_its_file(experiment):
    job = experiment.jobs["main"]
    assert (job.kind, job.hosts) == ("toy-train", ("h0", "h1"))
    assert type(job.options).__name__ == "TrainOptions"
    assert (job.options.ranks, job.options.topology, job.options.sizes) == (2, "ring", (1, 2))
    cut, slow = experiment.faults
    assert (cut.target, cut.at.step, cut.hold) == (Target("random"), 20, None)
    assert (slow.target, slow.hold) == (Target("port", host="h1", port="p0"), 2.0)
    assert slow.options.delay == 0.01
    assert experiment.policy.options.standby == "warm"
    assert (experiment.needs.hosts, experiment.needs.fabric) == (2, "circuit")
    assert (experiment.trials, experiment.seed, experiment.keep) == (3, 7, False)
    assert (experiment.limits.trial, experiment.limits.run) == (90.0, 3600.0)


def test_a_fault_without_a_job_name_targets_the_only_job(experiment):
    assert [fault.job for fault in experiment.faults] == ["main", "main"]


def test_every_check_has_one_condition_and_its_arm(experiment):
    stated = [
        (check.arm, check.metric, check.statistic, check.condition)
        for check in experiment.all_checks()
    ]
    assert stated == [
        ("warm", "recovery_time", "every", Condition("<", 1.0, TIME, "< 1 s")),
        ("warm", "recovery_time", "near_prediction", Condition("<=", 0.1, SHARE, "10 %")),
        ("cold", "recovery_time", "median", Condition(">=", 0.02, TIME, ">= 20 ms")),
        ("cold", "recovery_time", "equals", Condition("==", 3.0, None, "3")),
    ]


@pytest.mark.parametrize(
    ("text", "target"),
    [
        ("random", Target("random")),
        ("rank 3", Target("rank", rank=3)),
        ("h0", Target("host", host="h0")),
        ("rack r-1", Target("rack", group="r-1")),
        ("feed a", Target("feed", group="a")),
        ("gpu-1.p_0", Target("port", host="gpu-1", port="p_0")),
    ],
)
def test_a_fault_target_reads_back_as_printed(text, target):
    assert Target.parse(text) == target
    assert str(target) == text


@given(
    st.sampled_from(["<", "<=", ">", ">=", "=="]),
    st.integers(0, 10**6),
    st.sampled_from([("ms", TIME), ("Gbit/s", RATE), ("%", SHARE), ("", None)]),
)
def test_a_condition_is_parsed_to_a_comparator_and_a_value_in_the_base_unit(
    comparator, number, unit
):
    name, dimension = unit
    condition = Condition.parse(f"{comparator} {number} {name}".strip())
    scale = dimension.units[name] if dimension else 1
    assert (condition.comparator, condition.dimension) == (comparator, dimension)
    assert condition.value == pytest.approx(number * scale)


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("question: How soon", "question: ''\nx: How", "2:11: question: '' is not a sentence"),
        ("needs:", "need:", "4:1: need: no such key; did you mean 'needs'?"),
        ("fabric: circuit", "fabric: circus", "4:27: needs.fabric: unknown word 'circus'; did you"),
        ("{hosts: 2", "{hosts: -2", "4:16: needs.hosts: expected at least 0, got -2"),
        ("{hosts: 2", "{hosts: true", "4:16: needs.hosts: expected a whole number, got true"),
        ("ranks: 2,", "rank: 2,", "6:27: jobs.main.rank: no such key; did you mean 'ranks'?"),
        ("ranks: 2,", "", "6:3: jobs.main: the key 'ranks' is missing"),
        ("ranks: 2,", "ranks: '2',", "6:34: jobs.main.ranks: expected a whole number, got '2'"),
        ("ranks: 2,", "ranks: 2.0,", "6:34: jobs.main.ranks: expected a whole number, got 2.0"),
        ("spares: 1", "spares: 3", "6:9: jobs.main: more spares than ranks"),
        ("spares: 1", "options: 1", "6:37: jobs.main.options: no such key; known: "),
        ("hosts: [", "hots: [", "6:48: jobs.main.hots: no such key; did you mean 'hosts'?"),
        ("[h0, h1]", "[h0, h0]", "6:60: jobs.main.hosts.1: h0 is listed twice"),
        ("[h0, h1]", "[h0, h1, h1, h1]", "6:68: jobs.main.hosts.3: h1 is listed twice"),
        ("[h0, h1]", "[]", "6:55: jobs.main.hosts: expected at least 1 entry, got a list"),
        ("toy-train", "toy-tran", "6:16: jobs.main.kind: 'toy-tran' is not one of the jobs; did"),
        ("kind: toy-train, ", "", "6:3: jobs.main: the key 'kind' is missing; known: "),
        ("[1, 2]", "[1, a]", "6:76: jobs.main.sizes.1: expected a whole number, got 'a'"),
        ("{a: 0.5}", "{a: .inf}", "6:93: jobs.main.weights.a: expected a number, got '.inf'"),
        (
            "target: random",
            "target: a b",
            "8:40: faults.0.target: 'a b' is not a target; write 'ra",
        ),
        ("target: random", "targt: random", "8:32: faults.0.targt: no such key; did you mean 't"),
        (
            "job: main",
            "job: mian",
            "8:26: faults.0.job: 'mian' is not a job of this experiment; did you mean 'mai",
        ),
        ("{step: 20}", "{step: 0}", "8:59: faults.0.at.step: expected at least 1, got 0"),
        ("{step: 20}", "20", "8:52: faults.0.at: expected a mapping of keys, got 20"),
        ("hold: 2 s", "hold: 2", "9:58: faults.1.hold: 2 is not a time"),
        (", delay: 10 ms", "", "9:5: faults.1: the key 'delay' is missing"),
        ("delay: 10 ms", "dlay: 1 s", "9:63: faults.1.dlay: no such key; did you mean 'delay'?"),
        ("{kind: toy-splice}", "toy-splice", "10:9: policy: expected a mapping of keys, got 'toy-"),
        ("toy-splice", "toy-splce", "10:16: policy.kind: 'toy-splce' is not one of the policies"),
        ("trials: 3", "trials: 0", "14:9: trials: expected at least 1, got 0"),
        (
            "  warm.r",
            "  wram.r",
            "16:3: checks.wram.recovery_time: 'wram' is not an arm of this experiment; did you",
        ),
        (
            "  warm.r",
            "  r",
            "16:3: checks.recovery_time: the check names no arm, and the experiment has 2",
        ),
        (
            "  warm.recovery_time",
            "  warm",
            "16:3: checks.warm: the check names the arm 'warm', but no metric; "
            "write a metric after it, as 'warm.recovery_time'",
        ),
        (
            "warm.recovery_time",
            "warm.Time",
            "16:3: checks.warm.Time: 'warm.Time' is not a metric, as",
        ),
        ("every", "evry", "16:24: checks.warm.recovery_time.evry: no such key; did you mean 'ever"),
        ("< 1 s", "1 s", "16:31: checks.warm.recovery_time.every: '1 s' does not begin with <"),
        (
            "< 1 s",
            "< 1 parsec",
            "16:31: checks.warm.recovery_time.every: '1 parsec' is neither a number",
        ),
        ("< 1 s", "< nan", "16:31: checks.warm.recovery_time.every: 'nan' is neither a number"),
        ("10 %", "-10", "16:57: checks.warm.recovery_time.near_prediction: '-10' is negative"),
        (
            "10 %",
            "[1]",
            "16:57: checks.warm.recovery_time.near_prediction: expected a number, or a",
        ),
        ('{median: ">= 20 ms", equals: 3}', "{}", "17:23: checks.cold.recovery_time: the check st"),
        ("trial: 90 s", "trial: 0 s", "18:17: limits.trial: expected more than 0 s, got '0 s'"),
        ("keep: false", "keep: no", "19:7: keep: expected true or false, got 'no'"),
        ("seed: 7", "seed: -7", "20:7: seed: expected at least 0, got -7"),
    ],
)
def test_a_wrong_experiment_is_refused_with_place_reason_and_remedy(
    refused_experiment, old, new, error
):
    said = refused_experiment(old, new)
    assert said[0].startswith(f"f:{error}")
    assert len(said) == (2 if "question" in old else 1)


def test_a_fault_must_name_its_job_where_there_are_several(refused_experiment):
    second = "jobs:\n  other: {kind: toy-train, ranks: 1}\n"
    assert refused_experiment("jobs:\n", second) == [
        "f:10:5: faults.1: the fault names no `job`, and the experiment has several; "
        "known: other, main"
    ]


def test_a_plug_in_may_not_redefine_a_common_key(tmp_path, experiment_text, clashing_policy):
    (tmp_path / "f").write_text(experiment_text.replace("toy-splice", clashing_policy))
    with pytest.raises(TestbedError, match=r"'toy-clash' has an option 'kind', which every Policy"):
        load_experiment(tmp_path / "f")
