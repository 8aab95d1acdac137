"""Plans on a packet switch: no circuit is made, every path is verified."""

from pathlib import Path

import pytest

from testbed.errors import FileError
from testbed.fabric.circuits import HostPort
from testbed.run.planning.planner import make_plan
from testbed.run.planning.steps import OpenInstruments, ProgramCircuits, StartJob, VerifyPaths
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]
LAB = (ROOT / "configs" / "packet-rack.yaml").read_text()
EXPERIMENT = """\
experiment: small
question: What does the switch carry?
needs: {hosts: 4, fabric: any}
jobs:
  main: {kind: allreduce, ranks: 3, spares: 1, sizes: [64 KiB]}
"""


@pytest.fixture
def plan(tmp_path):
    """Return what plans the experiment with texts replaced in it and in the lab."""

    def plan(experiment=(), lab=()):
        for name, text, changes in (("e", EXPERIMENT, experiment), ("l", LAB, lab)):
            for old, new in changes:
                assert text.count(old) == 1, old
                text = text.replace(old, new)
            (tmp_path / name).write_text(text)
        return make_plan(load_experiment(tmp_path / "e"), load_lab(tmp_path / "l"), seed=7)

    return plan


def test_no_circuit_is_planned_on_a_packet_switch_and_every_path_is_verified(plan):
    steps = plan().steps
    (paths,) = [step for step in steps if isinstance(step, VerifyPaths)]
    assert paths.ports == tuple(HostPort(f"h{i}", "p0") for i in range(4))
    assert not [step for step in steps if isinstance(step, ProgramCircuits)]
    assert steps[0] == OpenInstruments((), ("pdu",))


@pytest.mark.parametrize("fabric", ["packet", "any"])
def test_an_experiment_may_require_a_kind_of_fabric_or_accept_any(plan, fabric):
    found = plan([("fabric: any", f"fabric: {fabric}")])
    assert any(isinstance(step, VerifyPaths) for step in found.steps)


KILL = "\nfaults: [{kind: power-cut, target: random, at: {step: 2}}]"
TRAINS = "kind: allreduce, ranks: 3, spares: 1, sizes: [64 KiB]"


def trains(collective):
    return f"kind: train, ranks: 4, steps: 9, collective: {collective}"


REFUSED = {
    "circuits": (
        [("fabric: any", "fabric: circuit")],
        [],
        "needs a circuit fabric and lab packet-rack has a packet switch",
    ),
    "two packet switches": (
        [],
        [("packet: tor.2}", "packet: other.1}"), ("[1-8]}", "[1-8]}\n  other: {ports: [1]}")],
        "the hosts of job main are on several packet switches: other, tor",
    ),
    "a controller of circuits": (
        [("jobs:", "controllers: [{kind: rotate, slots: [{topology: ring, steps: 2}]}]\njobs:")],
        [],
        "rotate re-points circuits, and a packet switch has none",
    ),
    "a policy for ranks that run schedules": (
        [
            ("jobs:", "policy: {kind: splice}\njobs:"),
            ("ranks: 3, spares: 1", "ranks: 4, mesh: {dp: 2, tp: 2}"),
        ],
        [],
        "splice restores a rank from the one before it, and those of job main are in groups of a "
        "mesh, beside others that hold other states",
    ),
    "a policy for ranks that time collectives": (
        [
            ("jobs:", "policy: {kind: splice}\njobs:"),
            ("kind: allreduce, ranks: 3, spares: 1", "kind: collective, ranks: 4"),
        ],
        [],
        "those of job main time collectives in turn: one that is cut short is no sample",
    ),
    "a policy that leaves ranks of a schedule out": (
        [("jobs:", "policy: {kind: shrink}\njobs:"), (TRAINS, trains("stragglar"))],
        [],
        "shrink cannot repair job main: stragglar is a schedule of the 4 ranks",
    ),
    "a policy for a job that chooses its collective": (
        [("jobs:", "policy: {kind: splice}\njobs:"), (TRAINS, trains("auto"))],
        [],
        "splice cannot repair job main: a rank that takes another's place was not told which",
    ),
    "a spare on a host in use for a policy that knows one rank a host": (
        [
            ("jobs:", "policy: {kind: restart}\njobs:"),
            ("kind: allreduce", "kind: train, checkpoint: {every: 5}, hosts: [h0, h1, h2, h1]"),
            (", sizes: [64 KiB]}", "}" + KILL.replace("power-cut", "rank-kill")),
        ],
        [],
        "restart takes hosts with one rank each, and a spare is on a host in use",
    ),
    "a power cut": (
        [("[64 KiB]}", "[64 KiB]}" + KILL)],
        [("allow: [", "allow: [power-cut, ")],
        "no neighbour would observe a power cut",
    ),
    "a dark circuit": (
        [("[64 KiB]}", "[64 KiB]}" + KILL.replace("power-cut", "dark-circuit"))],
        [("allow: [", "allow: [dark-circuit, ")],
        "on a packet switch there is no circuit that could go dark",
    ),
}


@pytest.mark.parametrize("why", REFUSED)
def test_an_experiment_that_needs_circuits_is_refused_on_a_packet_switch(plan, why):
    experiment, lab, error = REFUSED[why]
    with pytest.raises(FileError) as refused:
        plan(experiment, lab)
    assert error in str(refused.value)


def test_a_host_without_a_port_on_the_packet_switch_is_refused(plan):
    port = "    ports:\n      p0: {interface: eth1, address: 10.0.0.2/24, packet: tor.2}\n"
    with pytest.raises(FileError, match="h1 of lab packet-rack is on no packet switch"):
        plan(lab=[(port, "")])


@pytest.mark.parametrize("policy", ["splice", "restart"])
def test_a_job_that_follows_a_schedule_may_have_a_spare_take_a_place(plan, policy):
    text = trains("stragglar, spares: 1, checkpoint: {every: 5}")
    kill = KILL.replace("power-cut", "rank-kill")
    changes = [("jobs:", f"policy: {{kind: {policy}}}\njobs:"), (TRAINS + "}", text + "}" + kill)]
    found = plan([*changes, ("hosts: 4", "hosts: 5")])
    (job,) = [step for step in found.steps if isinstance(step, StartJob)]
    assert job.spares == ("h4",)


def test_a_spare_may_be_on_a_host_that_runs_a_rank(plan):
    found = plan(
        [
            ("jobs:", "policy: {kind: splice}\njobs:"),
            ("kind: allreduce", "kind: train, hosts: [h0, h1, h2, h1]"),
            ("hosts: 4", "hosts: 3"),
            (", sizes: [64 KiB]}", "}" + KILL.replace("power-cut", "rank-kill")),
        ]
    )
    (job,) = [step for step in found.steps if isinstance(step, StartJob)]
    assert (job.hosts, job.spares) == (("h0", "h1", "h2"), ("h1",))


def test_a_job_whose_ranks_ask_for_circuits_is_refused_on_a_packet_switch():
    wanted = load_experiment(ROOT / "experiments" / "pipswitch.yaml", ["needs.fabric=packet"])
    lab = load_lab(ROOT / "configs" / "packet-quad.yaml")
    with pytest.raises(FileError, match="ask for circuits, and a packet switch has none"):
        make_plan(wanted, lab, seed=7)
