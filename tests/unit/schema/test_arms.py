"""Arms: variants times the points of the matrix, each a checked experiment of its own."""

from __future__ import annotations

import pytest

from testbed.errors import FileError
from testbed.schema import load_experiment


@pytest.fixture
def read(tmp_path, monkeypatch, experiment_text):
    """Read the valid experiment with its variants and checks replaced by other text."""
    monkeypatch.chdir(tmp_path)
    start, end = experiment_text.index("variants:"), experiment_text.index("trials:")
    checks, limits = experiment_text.index("checks:"), experiment_text.index("limits:")

    def read(compared):
        rest = experiment_text[end:checks] + experiment_text[limits:]
        (tmp_path / "f").write_text(experiment_text[:start] + compared + rest)
        return load_experiment("f")

    return read


def test_an_experiment_that_compares_nothing_has_one_arm(read):
    experiment = read("")
    (arm,) = experiment.arms()
    assert (arm.name, arm.experiment, arm.lab_overrides) == ("only", experiment, {})


def test_a_metric_without_an_arm_name_belongs_to_the_only_arm(read):
    (check,) = read("checks: {recovery_time: {max: < 2 s}}\n").all_checks()
    assert (check.arm, check.metric) == ("only", "recovery_time")


def test_each_variant_is_an_arm_with_its_overrides(experiment, lab):
    warm, cold = experiment.arms()
    assert (warm.name, cold.name) == ("warm", "cold")
    assert warm.experiment.policy.options.standby == "warm"
    assert cold.experiment.policy.options.standby == "cold"
    assert experiment.policy.options.standby == "warm"
    assert cold.lab_overrides == {"lab.twin.settle": "50 ms"}
    assert cold.of(lab).twin.settle == 0.05
    assert warm.of(lab) is lab


def test_every_combination_of_the_matrix_is_an_arm(read):
    arms = read("matrix: {jobs.main.ranks: [2, 4], policy.standby: [warm, cold]}\n").arms()
    assert [arm.name for arm in arms] == [
        "jobs.main.ranks=2,policy.standby=warm",
        "jobs.main.ranks=2,policy.standby=cold",
        "jobs.main.ranks=4,policy.standby=warm",
        "jobs.main.ranks=4,policy.standby=cold",
    ]
    assert [arm.experiment.jobs["main"].options.ranks for arm in arms] == [2, 2, 4, 4]


def test_every_variant_is_combined_with_every_point_of_the_matrix(read):
    arms = read(
        "variants: {base: {}, wait: {policy: {kind: toy-wait}}}\nmatrix: {needs.hosts: [2, 3]}\n"
    ).arms()
    assert [(arm.name, arm.experiment.policy.kind, arm.experiment.needs.hosts) for arm in arms] == [
        ("base/needs.hosts=2", "toy-splice", 2),
        ("base/needs.hosts=3", "toy-splice", 3),
        ("wait/needs.hosts=2", "toy-wait", 2),
        ("wait/needs.hosts=3", "toy-wait", 3),
    ]


def test_a_check_may_name_an_arm_of_the_matrix(read):
    compared = (
        "matrix: {jobs.main.ranks: [2, 4]}\nchecks: {jobs.main.ranks=4.busbw: {min: '> 1'}}\n"
    )
    (check,) = read(compared).all_checks()
    assert (check.arm, check.metric) == ("jobs.main.ranks=4", "busbw")


def test_values_of_an_arm_keep_their_places_in_the_file(experiment):
    _, cold = experiment.arms()
    source = cold.experiment.source
    assert source.where("policy", "standby").endswith("experiment.yaml:13:26")
    assert source.where("jobs", "main", "hosts", 1).endswith("experiment.yaml:6:60")


@pytest.mark.parametrize(
    ("compared", "error"),
    [
        ("variants: {a: {policy.standyb: cold}}", "11:16: policy.standyb: no such key; did you"),
        ("variants: {a: {policy.standby: hot}}", "11:32: policy.standby: unknown word 'hot'"),
        ("variants: {a: {jobs.mian.ranks: 2}}", "11:16: jobs.mian: the key 'kind' is missing"),
        ("variants: {a: {jobs.main.ranks.x: 2}}", "11:16: jobs.main.ranks.x: jobs.main.ranks is 2"),
        ("variants: {a: {policy: {kind: no}}}", "11:31: policy.kind: 'no' is not one of the pol"),
        ("variants: {a: {trials: 5}}", "11:16: variants.a.trials: 'trials' is not a key that"),
        ("variants: {a: {lab.allow: [x]}}", "11:16: variants.a.lab.allow: 'lab.allow' is not a k"),
        ("variants: {a: {lab.hosts.h.allow: [x]}}", "11:16: variants.a.lab.hosts.h.allow: 'lab.h"),
        ("variants: {a: {lab.twin.setle: 1 s}}", "11:16: twin.setle: no such key; did you mean"),
        ("variants: {a: {lab.twin.settle: 1}}", "11:33: twin.settle: 1 is not a time"),
        ("variants: {a: 5}", "11:15: variants.a: expected a mapping of keys, got 5"),
        ("variants: {a b: {}}", "11:12: variants.a b: 'a b' is not a name"),
        ("matrix: {needs.hosts: [1, -1]}", "11:27: needs.hosts: expected at least 0, got -1"),
        ("matrix: {needs.hosts: []}", "11:23: matrix.needs.hosts: expected at least 1 entry"),
        ("matrix: {needs.hosts: 3}", "11:23: matrix.needs.hosts: expected a list, got 3"),
        ("matrix: {needs.hosts: [2, 3, '2']}", "11:30: matrix.needs.hosts.2: 2 is listed twice"),
        ("matrix: {needs: [1], seed: [1]}", "11:22: matrix.seed: 'seed' is not a key that an arm"),
        (
            f"matrix: {{needs.hosts: {list(range(1, 100))}, jobs.main.ranks: {list(range(99))}}}",
            "11:1: matrix: this makes 9801 arms, and there may be at most 1000",
        ),
    ],
)
def test_an_invalid_arm_is_refused_at_its_place_in_the_file(read, compared, error):
    with pytest.raises(FileError) as refusal:
        read(f"{compared}\n")
    assert str(refusal.value).startswith(f"f:{error}")


def test_the_same_mistake_in_many_arms_is_reported_once(read):
    with pytest.raises(FileError) as refusal:
        read("matrix: {needs.hosts: [1, 2, 3], policy.standby: [warm, hot, off]}\n")
    assert [error.where for error in (refusal.value, *refusal.value.others)] == [
        "f:11:57",
        "f:11:62",
    ]


def test_an_unknown_switch_is_refused_at_the_arm_that_names_it(read, lab):
    (arm,) = read("variants: {a: {lab.switches.osc.settle: 1 ms}}\n").arms()
    words = r"f:11:16: .*the lab has no switch 'osc'; did you mean 'ocs'\?"
    with pytest.raises(FileError, match=words):
        arm.of(lab)


def test_a_check_may_call_an_arm_by_the_short_name_that_pages_print(read):
    text = "matrix: {policy.standby: [warm, cold], jobs.main.ranks: [2]}\n"
    checks = "checks: {'standby=warm,ranks=2.loss': {same_as: 'standby=cold,ranks=2.loss'}}\n"
    (check,) = read(text + checks).all_checks()
    assert check.arm == "policy.standby=warm,jobs.main.ranks=2"
    assert check.condition == "policy.standby=cold,jobs.main.ranks=2.loss"


def test_an_ambiguous_short_name_of_an_arm_is_refused(read):
    keys = "matrix: {faults.0.hold: [1 s, 2 s], faults.1.hold: [1 s]}\n"
    (check,) = read(f"{keys}checks: {{'0.hold=2 s,1.hold=1 s.loss': {{max: < 2}}}}\n").all_checks()
    assert check.arm == "faults.0.hold=2 s,faults.1.hold=1 s"
    with pytest.raises(FileError, match="'hold=2 s,hold=1 s' is not an arm of this experiment"):
        read(f"{keys}checks: {{'hold=2 s,hold=1 s.loss': {{max: < 2}}}}\n")
