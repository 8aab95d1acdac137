"""Controllers of an experiment before it runs: made, and held against each other, job and lab."""

from pathlib import Path

import pytest

from testbed.cli import run as command_line
from testbed.control.controller import PolicyController, Scope
from testbed.control.descriptors import RotateOptions, RotateSlot
from testbed.control.rotate import Rotate
from testbed.errors import FileError
from testbed.jobs.descriptors import TrainOptions
from testbed.jobs.training import Train
from testbed.plugins import kinds
from testbed.run.planning.controllers import made_controllers
from testbed.run.planning.placement import place
from testbed.run.planning.planner import make_plan
from testbed.schema import load_experiment, load_lab

PACKET_LAB = Path(__file__).parents[3] / "configs" / "packet-rack.yaml"
TRAINING = Train(TrainOptions(ranks=2, spares=1))
POLICY = "policy: {kind: splice}\n"
VARIANTS = """\
variants:
  warm: {policy.standby: warm}
  cold: {policy.standby: cold}
"""
CHECKS = """\
checks:
  warm.recovery_time: {every: "< 1 s"}
"""
FAULT = """\
faults:
  - {kind: power-cut, target: random, at: {step: 8}}
"""


def rotating(desk, slots, kind="rotate"):
    """Have the job end by itself, with no fault, and let a controller move its circuits."""
    desk.change("experiment", "topology: ring", "topology: ring, steps: 30")
    for left in (FAULT, VARIANTS, CHECKS):
        desk.change("experiment", left, "")
    return desk.change("experiment", POLICY, f"controllers: [{{kind: {kind}, slots: {slots}}}]\n")


def test_a_policy_is_a_short_form_of_its_entry_among_the_controllers(desk):
    short = desk.plan()
    desk.change("experiment", POLICY, "controllers: [{kind: splice, job: main}]\n")
    desk.change("experiment", "{policy.standby: warm}", "{controllers.0.standby: warm}")
    desk.change("experiment", "{policy.standby: cold}", "{controllers.0.standby: cold}")
    assert desk.plan() == short
    assert short.fences


def test_a_rotation_is_planned_and_nothing_is_fenced(desk):
    slots = "[{topology: ring, hold: 1 s}, {links: [], hold: 100 ms}]"
    plan = rotating(desk, slots).plan()
    assert plan.fences == ()
    made = made_controllers(load_experiment("experiment.yaml"), {"main": TRAINING})
    assert isinstance(made["rotate"], Rotate)
    assert made["rotate"].scopes == (Scope("circuits", "main"),)


def test_a_policy_is_made_for_its_job(desk):
    desk.plan()
    (made,) = made_controllers(load_experiment("experiment.yaml"), {"main": TRAINING}).items()
    assert made[0] == "splice"
    assert isinstance(made[1], PolicyController)
    assert made[1].scopes == (Scope("membership", "main"), Scope("circuits", "main"))


def test_controllers_act_on_what_their_description_says():
    rotate = kinds("controllers")["rotate"]
    made = rotate.load()(RotateOptions((RotateSlot(topology="ring", steps=1),)), "main")
    assert tuple(scope.of for scope in made.scopes) == rotate.acts_on


TABLE = "[{topology: ring, steps: 3}]"


@pytest.mark.parametrize(
    ("controllers", "error"),
    [
        (
            f"{{kind: rotate, slots: {TABLE}}}",
            "experiment.yaml:9:22: splice and rotate both act on the circuits of job main; "
            "leave one of them out",
        ),
        (
            "{kind: splice}",
            "experiment.yaml:9:22: splice of main and splice of main 2 both act on the membership "
            "of job main; leave one of them out",
        ),
    ],
)
def test_two_controllers_of_one_kind_on_one_object_are_refused(desk, capsys, controllers, error):
    desk.change("experiment", POLICY, f"{POLICY}controllers: [{controllers}]\n")
    assert desk.refusal() == error
    assert command_line(["validate", "experiment.yaml"]) == 2
    assert f"testbed: {error}\n" in capsys.readouterr().err


def test_two_controllers_that_only_one_variant_has_together_are_refused(desk):
    entry = f"{{kind: rotate, slots: {TABLE}}}"
    desk.change("experiment", "{policy.standby: cold}", f"{{controllers: [{entry}]}}")
    assert "splice and rotate both act on the circuits of job main" in desk.refusal()


@pytest.mark.parametrize(
    ("slots", "error"),
    [
        (
            "[{links: [[0, 5]], steps: 3}]",
            "rotate does not fit job main: rank 5 is not one of the 2 ranks",
        ),
        (
            "[{links: [[0, 1], [0, 1], [0, 1]], hold: 1 s}]",
            "rotate does not fit job main: rank 0 has no port left for the link of 0 and 1",
        ),
    ],
)
def test_a_table_that_does_not_fit_the_job_is_refused_at_the_controller(desk, slots, error):
    found = rotating(desk, slots).refusal()
    assert found == f"experiment.yaml:6:15: {error}"


def test_a_table_that_the_fibres_cannot_make_is_refused(desk):
    """The ports in the middle are on different switches; the ring does not use them."""
    text = "{{interface: eth{}, address: 10.0.1.{}/24, tx: {}.{}, rx: {}.{}}}"
    for host, after, switch in (("h0", "ocs.17}", "ocs"), ("h1", "ocs.19}", "other")):
        number = int(host[1:]) + 9
        port = text.format(number, number, switch, number, switch, number + 16)
        desk.change("lab", f"rx: {after}\n", f"rx: {after}\n      px: {port}\n")
    desk.change("lab", "ports: [1-32]}\n", "ports: [1-32]}\n" + OTHER)
    once = "{links: [[0, 1]], steps: 3}"
    twice = "{links: [[0, 1], [0, 1]], steps: 3}"
    rotating(desk, f"[{once}]").plan()
    desk.change("experiment", once, twice)
    assert "rotate does not fit job main: " in (found := desk.refusal())
    assert "other" in found


OTHER = """\
  other: {driver: polatis, resource: "TCPIP::192.0.2.12::5025::SOCKET", ports: [1-32]}
"""


def test_no_circuit_is_disconnected_while_another_controller_moves_circuits(desk):
    desk.change("experiment", "kind: power-cut", "kind: dark-circuit")
    desk.change("experiment", POLICY, f"controllers: [{{kind: rotate, slots: {TABLE}}}]\n")
    for left in (VARIANTS, CHECKS):
        desk.change("experiment", left, "")
    assert "rotate moves circuits while dark-circuit disconnects some of them" in desk.refusal()


def test_a_restart_of_a_job_that_writes_no_checkpoints_is_refused(desk):
    desk.change("experiment", "policy: {kind: splice}", "policy: {kind: restart}")
    desk.change("experiment", "{policy.standby: warm}", "{policy.probe: 10 ms}")
    desk.change("experiment", "{policy.standby: cold}", "{policy.probe: 20 ms}")
    words = "restart goes on from checkpoints, and job main writes none"
    assert words in desk.refusal()


def test_a_migration_of_a_job_whose_checkpoints_no_other_host_can_read_is_refused(desk):
    desk.change("experiment", "policy: {kind: splice}", "policy: {kind: migrate}")
    desk.change("experiment", "{policy.standby: warm}", "{policy.probe: 10 ms}")
    desk.change("experiment", "{policy.standby: cold}", "{policy.probe: 20 ms}")
    desk.change("experiment", "kind: train", "kind: train, checkpoint: {every: 5}")
    words = "goes on from checkpoints on other hosts, and each host of job main writes them to its"
    assert words in desk.refusal()


CHOICE = """\
experiment: auto
question: What sums its gradients?
needs: {hosts: 2, fabric: packet}
jobs: {main: {kind: train, ranks: 2, collective: COLLECTIVE, steps: 9}}
controllers: [ENTRIES]
"""
ENTRY = "{kind: collective-choice}"


@pytest.mark.parametrize(
    ("collective", "entries", "error"),
    [
        ("auto", "", ""),
        ("auto", ENTRY, ""),
        ("auto", f"{ENTRY}, {ENTRY}", "both act on the collective of job main; leave one of them"),
        ("ring", ENTRY, "collective-choice does not fit job main: its options leave nothing to"),
    ],
)
def test_one_controller_chooses_the_collective_of_a_job_written_or_not(
    tmp_path, collective, entries, error
):
    text = CHOICE.replace("COLLECTIVE", collective).replace("ENTRIES", entries)
    (tmp_path / "e.yaml").write_text(text)
    experiment, lab = load_experiment(tmp_path / "e.yaml"), load_lab(PACKET_LAB)
    if error:
        with pytest.raises(FileError, match=error):
            make_plan(experiment, lab, seed=7)
        return
    (placed,) = place(experiment, lab).values()
    assert list(made_controllers(experiment, {"main": placed.job})) == ["collective-choice"]
