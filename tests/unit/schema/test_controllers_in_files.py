"""Controllers as an experiment file asks for them: `controllers`, and `policy` as a short form."""

import pytest

from testbed.errors import FileError
from testbed.plugins import kinds
from testbed.schema import load_experiment

TWO_JOBS = """\
experiment: x
question: What reacts?
needs: {hosts: 2, fabric: circuit}
jobs:
  a: {kind: toy-train, ranks: 1}
  b: {kind: toy-train, ranks: 1}
"""
ONE_JOB = TWO_JOBS.replace("  b: {kind: toy-train, ranks: 1}\n", "")
SLOTS = "slots: [{topology: ring, steps: 3}]"
CUT = "{{kind: toy-cut, job: {}, target: random, at: {{step: 20}}}}"


@pytest.fixture
def read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def read(text):
        (tmp_path / "f").write_text(text)
        return load_experiment("f")

    return read


def named(experiment):
    return [(spec.name, spec.job, spec.steps) for spec in experiment.reacting()]


def test_an_entry_acts_on_the_only_job_or_on_the_one_that_it_names(read):
    (spec,) = read(f"{ONE_JOB}controllers: [{{kind: rotate, {SLOTS}}}]\n").reacting()
    assert (spec.name, spec.job, spec.acts_on) == ("rotate", "a", ("circuits",))
    assert spec.options.slots[0].steps == 3
    (spec,) = read(f"{TWO_JOBS}controllers: [{{kind: rotate, job: b, {SLOTS}}}]\n").reacting()
    assert (spec.name, spec.job) == ("rotate", "b")


def test_a_policy_stands_for_a_controller_of_each_job_that_a_fault_names(read):
    policy = "policy: {kind: toy-splice, standby: cold}\n"
    found = read(f"{ONE_JOB}{policy}")
    assert named(found) == [("toy-splice", "a", ("policy",))]
    (spec,) = found.reacting()
    assert (spec.options.standby, spec.acts_on) == ("cold", ("membership", "circuits"))
    assert found.recovers
    found = read(f"{TWO_JOBS}faults: [{CUT.format('b')}, {CUT.format('b')}]\n{policy}")
    assert named(found) == [("toy-splice", "b", ("policy",))]
    found = read(f"{TWO_JOBS}faults: [{CUT.format('b')}, {CUT.format('a')}]\n{policy}")
    of_b, of_a = ("toy-splice of b", "b", ("policy",)), ("toy-splice of a", "a", ("policy",))
    assert named(found) == [of_b, of_a]


def test_every_policy_is_a_controller(read):
    assert kinds("policies").keys() < kinds("controllers").keys()
    entry = "{kind: toy-splice, job: a, standby: cold}"
    (spec,) = read(f"{TWO_JOBS}controllers: [{entry}]\n").reacting()
    assert (spec.options.standby, spec.steps) == ("cold", ("controllers", 0))
    assert spec.acts_on == ("membership", "circuits")


def test_controllers_of_one_kind_have_different_names(read):
    entries = ", ".join(f"{{kind: rotate, job: {job}, {SLOTS}}}" for job in "abb")
    found = read(f"{TWO_JOBS}controllers: [{entries}]\n")
    names = [name for name, _, _ in named(found)]
    assert names == ["rotate of a", "rotate of b", "rotate of b 2"]
    assert not found.recovers


def test_a_variant_may_change_a_controller(read):
    text = f"{ONE_JOB}controllers: [{{kind: toy-splice}}]\n"
    found = read(text + "variants: {x: {}, y: {controllers.0.standby: cold}, z: {controllers: []}}")
    options = [[s.options.standby for s in arm.experiment.reacting()] for arm in found.arms()]
    assert options == [["warm"], ["cold"], []]


@pytest.mark.parametrize(
    ("entry", "error"),
    [
        ("{kind: rotat, slots: []}", "7:22: controllers.0.kind: 'rotat' is not one of the contro"),
        ("{kind: toy-splice}", "7:15: controllers.0: the controller names no `job`, and the"),
        ("{kind: toy-splice, job: c}", "7:39: controllers.0.job: 'c' is not a job of this exper"),
        ("{kind: rotate, job: a}", "the key 'slots' is missing"),
        ("{kind: rotate, job: a, slots: []}", "a rotation needs at least one time slot"),
        (
            "{kind: rotate, job: a, slots: [{topology: ring}]}",
            "7:46: controllers.0.slots.0: a time slot has either 'steps' or 'hold'",
        ),
        (
            "{kind: rotate, job: a, slots: [{topology: ring, links: [], steps: 1}]}",
            "controllers.0.slots.0: a time slot has either 'topology' or 'links'",
        ),
        (
            "{kind: rotate, job: a, slots: [{topology: rign, steps: 1}]}",
            "7:57: controllers.0.slots.0.topology: unknown word 'rign'; did you mean 'ring'?",
        ),
        (
            "{kind: rotate, job: a, slots: [{links: [], steps: 0}]}",
            "a time slot lasts at least 1 step, not 0",
        ),
        (
            "{kind: rotate, job: a, slots: [{links: [], hold: 1 µs}]}",
            "a time slot lasts at least 1 ms, not 1 µs",
        ),
        (
            "{kind: rotate, job: a, slots: [{links: [], hold: 1 s}, {links: [], steps: 1}]}",
            "all time slots last so many steps, or all so long: not some of each",
        ),
    ],
)
def test_what_is_wrong_with_a_controller_is_said_at_its_place(read, entry, error):
    with pytest.raises(FileError) as refused:
        read(f"{TWO_JOBS}controllers: [{entry}]\n")
    assert error in str(refused.value)
