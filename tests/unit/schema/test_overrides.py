"""`-S key=value`: fields set on the command line."""

from __future__ import annotations

import pytest

from testbed.errors import FileError
from testbed.schema import load_experiment, load_lab, split_overrides


@pytest.fixture
def experiment_with(tmp_path, experiment_text):
    (tmp_path / "f").write_text(experiment_text)
    return lambda *overrides: load_experiment(tmp_path / "f", overrides)


def test_an_override_replaces_a_value_of_the_file(experiment_with):
    assert experiment_with("trials=9").trials == 9
    assert experiment_with("jobs.main.ranks=4").jobs["main"].options.ranks == 4
    assert experiment_with("faults.0.at.step=30").faults[0].at.step == 30
    assert experiment_with("faults=[]").faults == ()
    assert experiment_with("trials=5", "trials=6").trials == 6


def test_an_override_gives_a_value_to_a_field_that_the_file_leaves_out(experiment_with):
    assert experiment_with("policy.standby=cold").policy.options.standby == "cold"
    experiment = experiment_with("matrix={needs.hosts: [2, 3]}", "checks={}")
    assert experiment.arms()[1].name == "warm/needs.hosts=3"


def test_an_override_can_set_a_key_that_contains_dots(experiment_with):
    experiment = experiment_with("checks.warm.recovery_time.every=< 3 s")
    assert next(experiment.all_checks()).condition.value == 3.0


def test_an_override_applies_to_every_arm(experiment_with):
    arms = experiment_with("jobs.main.ranks=4").arms()
    assert [arm.experiment.jobs["main"].options.ranks for arm in arms] == [4, 4]


def test_overrides_that_begin_with_lab_change_the_lab(tmp_path, lab_text):
    given = ["trials=2", "lab.twin.rate=1 Gbit/s", "lab=other", "lab.allow=[toy-cut]"]
    experiment, lab = split_overrides(given)
    assert experiment == ["trials=2", "lab=other"]
    (tmp_path / "lab").write_text(lab_text)
    loaded = load_lab(tmp_path / "lab", lab)
    assert (loaded.twin.rate, loaded.twin.settle, loaded.allow) == (1e9, 0.02, ("toy-cut",))


@pytest.mark.parametrize(
    ("override", "place", "words"),
    [
        ("jobs.main.ranks=eight", "1:17", "jobs.main.ranks: expected a whole number, got 'eight'"),
        ("jobs.main.rnks=8", "1:1", "jobs.main.rnks: no such key; did you mean 'ranks'?"),
        ("jbs.main.ranks=8", "1:1", "jbs: no such key; did you mean 'jobs'?"),
        ("policy={kind: toy-slice}", "1:15", "policy.kind: 'toy-slice' is not one of the policies"),
        ("trials", "1:1", "there is no '='; write -S key=value"),
        ("trials=", "1:1", "it holds no data"),
        ("trials.x=3", "1:1", "trials.x: trials is 3 and has no keys"),
        ("faults.at=3", "1:1", "faults is a list of 2 and has no 'at'; number its items from 0"),
        ("faults.2.at=3", "1:1", "faults is a list of 2 and has no '2'"),
        ("a..b=1", "1:1", "'a..b' has an empty part"),
        ("=1", "1:1", "'' has an empty part"),
        ("trials=[1", "1:10", "not valid YAML"),
        ("trials=!!python/name:x 1", "1:8", "tag '!!python/name:x' is not allowed"),
    ],
)
def test_a_wrong_override_is_refused_at_its_place_in_the_option(
    experiment_with, override, place, words
):
    with pytest.raises(FileError) as refusal:
        experiment_with(override)
    assert refusal.value.where == f"-S {override.partition('=')[0]}:{place}"
    assert words in str(refusal.value)


def test_a_key_of_the_experiment_is_refused_for_the_lab(tmp_path, lab_text):
    (tmp_path / "lab").write_text(lab_text)
    with pytest.raises(FileError, match=r"'twin\.settle' is not a key of a lab; write lab\.twin"):
        load_lab(tmp_path / "lab", ["twin.settle=5 ms"])


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("lab.hosts.h9.ssh=x", "the lab has no host 'h9'; known: h0, h1"),
        ("lab.hosts.h9={ssh: x}", "the lab has no host 'h9'; known: h0, h1"),
        ("lab.switches.osc.identity=x", "the lab has no switch 'osc'; did you mean 'ocs'?"),
        ("lab.power.pud.identity=x", "the lab has no power unit 'pud'; did you mean 'pdu'?"),
        ("lab.meters.opm.identity=x", "the lab has no power meter 'opm'; known: none"),
    ],
)
def test_an_override_cannot_add_a_host_or_an_instrument(tmp_path, lab_text, override, words):
    (tmp_path / "lab").write_text(lab_text)
    with pytest.raises(FileError) as refusal:
        load_lab(tmp_path / "lab", [override])
    key = override.partition("=")[0]
    assert str(refusal.value).startswith(f"-S {key}:1:1: {key}: {words}")


def test_an_override_can_add_entries_with_free_names(tmp_path, lab_text):
    (tmp_path / "lab").write_text(lab_text)
    given = ["lab.hosts.h1.env.NCCL_DEBUG=INFO", "lab.hosts.h1.env={A: b}"]
    lab = load_lab(tmp_path / "lab", given)
    assert lab.hosts["h1"].env == {"A": "b"}
