"""The planner: what the files we ship come to, how fate is drawn, and what is refused where."""

import io
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.errors import UsageError
from testbed.fabric.circuits import CrossConnect
from testbed.report.plan_page import print_plan
from testbed.run.planning.planner import draw_seed, make_plan
from testbed.run.planning.steps import (
    OpenHosts,
    OpenInstruments,
    ProgramCircuits,
    Restore,
    RunTrial,
    StartJob,
)
from testbed.schema import load_experiment, load_lab

ROOT = Path(__file__).parents[3]
PLANS = Path(__file__).parent / "data"
RACK = load_lab(ROOT / "configs" / "rack.yaml")


def shipped(name, *overrides):
    return load_experiment(ROOT / "experiments" / f"{name}.yaml", overrides)


def step(plan, kind):
    (found,) = [step for step in plan.steps if isinstance(step, kind)]
    return found


# --- the files we ship


@pytest.mark.parametrize("name", sorted(p.stem for p in (ROOT / "experiments").glob("*.yaml")))
def test_the_plan_of_every_shipped_experiment_equals_its_golden_plan(name):
    """Each is what `testbed plan experiments/NAME.yaml --seed 7` prints, on a rack where it can be.

    The line with the digest is left out, and what the command prints after it. The recipe for a
    fault in CONTRIBUTING.md has the command that renews one.
    """
    page = io.StringIO()
    lab = LABS[NOT_ON_A_RACK.get(name, "rack")]
    print_plan(make_plan(shipped(name), lab, seed=7), page, 80)
    lines = page.getvalue().splitlines()
    assert lines[:-1] == (PLANS / f"{name}.txt").read_text().splitlines()


NOT_ON_A_RACK = {
    "gloo": "packet-quad",
    "everything": "everything",
    "everything-tenant": "everything",
    "pipswitch-16": "mesh-16",
    "lumion-migrate": "mesh-rack",
    "morphlux-gloo": "mesh-quad",
    "morphlux-replace": "mesh-rack",
    "morphlux-slices": "slices",
    "groups": "packet-quad",
    "hybrid": "packet-quad",
    "hybrid-experts": "rails",
    "hybrid-delays": "rails",
    "opus": "rails",
    "opus-faults": "rails",
    "opus-forward": "rails",
    "opus-link-up": "rails",
    "opus-one-change": "rail",
    "opus-packet": "packet-rails",
    "opus-replace": "rails",
    "opus-static": "rails-wide",
    "opus-wide": "rails-wide",
    "rails": "rails",
    "reconfigure": "quad",
    "nccl-tests": "example-lab",
    "propius-binding": "packet-rack",
    "propius-clients": "packet-rack",
    "propius-data-plane": "packet-rack",
    "propius-faults": "packet-rack",
    "propius-fedavg": "packet-rack",
    "stragglar": "packet-rack",
    "stragglar-training": "slow-packet-rack",
    "unchanged-replicas": "rails",
    "unchanged-script": "rail",
}
"""Experiments that the rack cannot run, and the lab that can."""

LABS = {path.stem: load_lab(path) for path in sorted((ROOT / "configs").glob("*.yaml"))}


HOSTS = 6
"""That the main experiment asks for."""


@pytest.mark.parametrize(
    "lab", [name for name, lab in LABS.items() if lab.switches and len(lab.hosts) >= HOSTS]
)
def test_the_main_experiment_can_be_planned_in_every_lab_with_circuits_and_hosts_enough(lab):
    plan = make_plan(shipped("lumion"), LABS[lab], seed=7)
    assert plan.lab == lab
    assert len(plan.trials) == 20


def test_a_plan_opens_prepares_runs_trials_and_restores_in_this_order():
    plan = make_plan(shipped("lumion"), RACK, seed=7, repeat=2)
    assert [type(step) for step in plan.steps] == [
        OpenInstruments,
        OpenHosts,
        ProgramCircuits,
        StartJob,
        *[RunTrial] * 4,
        Restore,
    ]
    assert [trial.number for trial in plan.trials] == [0, 1, 2, 3]


def test_only_instruments_of_the_used_hosts_are_planned(desk):
    desk.change("lab", "power: pdu.3", "power: other.1")
    desk.change(
        "lab", "\nallow", '\n  other: {driver: redfish, resource: "https://192.0.2.12"}\nallow'
    )
    desk.change("experiment", "spares: 1", "spares: 0")
    desk.change("experiment", "warm.recovery_time", "warm.step_time")
    opened = step(desk.plan(), OpenInstruments)
    assert (opened.switches, opened.power) == (("ocs",), ("pdu",))
    desk.change("experiment", "spares: 0", "spares: 1")
    assert step(desk.plan(), OpenInstruments).power == ("other", "pdu")


def test_hosts_are_taken_in_the_order_of_the_lab_or_of_the_job(desk):
    job = step(desk.plan(), StartJob)
    assert (job.hosts, job.spares) == (("h0", "h1"), ("h2",))
    desk.change("experiment", "topology: ring", "hosts: [h2, h0, h1]")
    job = step(desk.plan(), StartJob)
    assert (job.hosts, job.spares) == (("h2", "h0"), ("h1",))


def test_a_host_in_quarantine_is_avoided_and_the_plan_states_the_reason(desk):
    assert desk.plan().avoided == () and "avoided" not in desk.plan().to_json()
    desk.change("experiment", "{hosts: 3, fabric: circuit}", "{hosts: 2, fabric: circuit}")
    desk.change("experiment", "spares: 1", "spares: 0")
    desk.change("experiment", "warm.recovery_time", "warm.step_time")
    desk.lab += "quarantine: [{what: ocs.3, until: 2026-12-24, reason: its mirror sticks}]\n"
    plan = desk.plan()
    assert {host for step in plan.steps if isinstance(step, OpenHosts) for host in step.hosts} == {
        "h0",
        "h2",
    }
    assert plan.to_json()["avoided"] == [
        {"host": "h1", "what": "ocs.3", "until": "2026-12-24", "reason": "its mirror sticks"}
    ]


def test_naming_a_host_in_quarantine_is_refused(desk):
    desk.change("experiment", "ranks: 2, spares: 1", "ranks: 2, spares: 1, hosts: [h0, h1, h2]")
    desk.change("experiment", "{hosts: 3, fabric: circuit}", "{hosts: 2, fabric: circuit}")
    desk.lab += "quarantine: [{what: h1, until: 2026-12-24, reason: its fan is loud}]\n"
    assert "h1 is in quarantine until 2026-12-24: its fan is loud; name another host" in (
        desk.refusal()
    )


def test_a_plan_is_refused_when_quarantine_leaves_too_few_hosts(desk):
    desk.lab += "quarantine: [{what: h1, until: 2026-12-24, reason: its fan is loud}]\n"
    assert "needs 3 hosts and lab bench has 3, of which h1 must be avoided" in desk.refusal()


def test_every_circuit_has_cross_connects_for_both_directions(desk):
    program = step(desk.plan(), ProgramCircuits)
    assert list(map(str, program.circuits)) == ["h0.p0–h1.p1", "h0.p1–h1.p0"]
    assert [light.cross for light in program.adds] == [
        CrossConnect("ocs", 1, 20),
        CrossConnect("ocs", 4, 17),
        CrossConnect("ocs", 2, 19),
        CrossConnect("ocs", 3, 18),
    ]
    for light in program.adds:
        back = replace(light, source=light.sink, sink=light.source)
        assert (back.source, back.sink) in {(a.source, a.sink) for a in program.adds}


def test_circuits_are_kept_only_where_the_experiment_says_so(desk):
    assert not step(desk.plan(), Restore).keep_circuits
    desk.experiment += "keep: true\n"
    assert step(desk.plan(), Restore).keep_circuits


# --- fate


@given(seed=st.integers(0, 2**63), repeat=st.integers(1, 6))
def test_the_same_seed_gives_the_same_plan(seed, repeat):
    experiment = shipped("faults")
    one = make_plan(experiment, RACK, seed=seed, repeat=repeat)
    other = make_plan(experiment, RACK, seed=seed, repeat=repeat)
    assert one == other
    assert one.digest() == other.digest()


@given(seed=st.integers(0, 2**63), repeat=st.integers(1, 6))
def test_every_block_of_trials_has_each_variant_once(seed, repeat):
    experiment = shipped("faults")
    arms = sorted(arm.name for arm in experiment.arms())
    played = [trial.arm for trial in make_plan(experiment, RACK, seed=seed, repeat=repeat).trials]
    assert len(played) == len(arms) * repeat
    for first in range(0, len(played), len(arms)):
        assert sorted(played[first : first + len(arms)]) == arms


def test_a_plan_with_more_trials_begins_with_the_same_trials():
    few = make_plan(shipped("faults"), RACK, seed=3, repeat=2)
    many = make_plan(shipped("faults"), RACK, seed=3, repeat=4)
    assert many.trials[: len(few.trials)] == few.trials


@pytest.fixture(scope="module")
def thousand():
    """Return the trials of a plan with a thousand of each variant."""
    return make_plan(shipped("lumion"), RACK, seed=1, repeat=1000).trials


def test_the_order_of_variants_within_a_block_is_random(thousand):
    first = Counter(trial.arm for trial in thousand[::2])
    assert 437 <= first["splice-warm"] <= 563  # 4 standard deviations around one half


def test_victims_are_drawn_uniformly_from_ranks_in_every_variant(thousand):
    drawn = Counter((trial.arm, trial.faults[0].rank) for trial in thousand)
    assert drawn.keys() == {(a, r) for a in ("splice-warm", "splice-cold") for r in range(4)}
    # Chi-squared with 7 degrees of freedom: above 24.3 in one seed out of a thousand.
    assert sum((count - 250) ** 2 / 250 for count in drawn.values()) < 24.3


def test_the_moment_of_a_fault_is_drawn_uniformly_within_its_step(thousand):
    phases = [trial.faults[0].phase for trial in thousand]
    assert all(0 <= phase < 1 for phase in phases)
    tenths = Counter(int(phase * 10) for phase in phases)
    # Chi-squared with 9 degrees of freedom: above 27.9 in one seed out of a thousand.
    assert sum((tenths[n] - 200) ** 2 / 200 for n in range(10)) < 27.9


def test_the_victim_of_a_fault_is_the_named_rank_or_host(desk):
    desk.change("experiment", "target: random", "target: rank 1")
    assert {trial.faults[0].rank for trial in desk.plan().trials} == {1}
    desk.change("experiment", "topology: ring", "hosts: [h2, h0, h1]")
    desk.change("experiment", "variants:", "seed: 1\nvariants:")
    desk.change("experiment", "policy: {kind: splice}\n", "")
    desk.change("experiment", "{policy.standby: warm}", "{}")
    desk.change("experiment", "{policy.standby: cold}", "{jobs.main.batch: 2}")
    desk.change("experiment", "target: rank 1", "target: h2")
    desk.change("experiment", "recovery_time", "step_time")
    assert {trial.faults[0].rank for trial in desk.plan().trials} == {0}


def test_a_trial_without_a_fault_is_planned_where_the_job_ends_by_itself():
    plan = make_plan(shipped("resume"), RACK, seed=7)
    assert {trial.arm: not trial.faults for trial in plan.trials} == {
        "interrupted": False,
        "uninterrupted": True,
    }


def test_the_planned_duration_of_a_fault_is_that_of_the_file(desk):
    assert {trial.faults[0].hold for trial in desk.plan().trials} == {None}
    desk.change("experiment", "at: {step: 8}", "at: {step: 9}, hold: 250 ms")
    assert {(trial.faults[0].step, trial.faults[0].hold) for trial in desk.plan().trials} == {
        (9, 0.25)
    }


def test_repeat_replaces_the_number_of_trials_of_every_variant(desk):
    assert len(desk.plan().trials) == 6
    assert len(desk.plan(repeat=1).trials) == 2


def test_the_seed_option_overrides_the_file_and_a_missing_seed_is_drawn():
    experiment = shipped("lumion", "seed=5")
    assert draw_seed(experiment, 9) == 9
    assert draw_seed(experiment, 0) == 0
    assert draw_seed(experiment, None) == 5
    assert len({draw_seed(shipped("lumion"), None) for _ in range(20)}) > 15
    with pytest.raises(UsageError, match="a seed of -1 is negative"):
        draw_seed(experiment, -1)


# --- what no plan can be made of

FAR = """\
  far: {driver: polatis, resource: "TCPIP::192.0.2.12::5025::SOCKET", ports: [1-32]}
"""
UNWIRED = f"""\
  h3:
    ssh: h3
    power: pdu.4
switches:
{FAR}"""
ELSEWHERE = f"""\
  h3:
    ssh: h3
    power: pdu.4
    ports:
      p0: {{interface: eth1, address: 10.0.0.7/24, tx: far.7, rx: far.23}}
      p1: {{interface: eth2, address: 10.0.0.8/24, tx: far.8, rx: far.24}}
switches:
{FAR}"""
REFUSED = {
    "a host that the lab lacks": (
        [("experiment", "topology: ring", "hosts: [h0, h9, h2]")],
        "experiment.yaml:5:56: 'h9' is not a host of lab bench; known: h0, h1, h2",
    ),
    "more hosts than the lab has": (
        [("experiment", "hosts: 3", "hosts: 4")],
        "experiment.yaml:3:16: the experiment needs 4 hosts and lab bench has 3",
    ),
    "more ranks than hosts": (
        [("experiment", "ranks: 2", "ranks: 3")],
        "experiment.yaml:5:30: ranks and spares need 4 hosts, and lab bench has 3",
    ),
    "more ranks than hosts that are named": (
        [("experiment", "topology: ring", "hosts: [h0, h1]")],
        "experiment.yaml:5:51: ranks and spares need 3 hosts, and job main lists 2",
    ),
    "more ranks than the experiment says it needs": (
        [("experiment", "hosts: 3", "hosts: 2")],
        "experiment.yaml:3:16: job main uses 3 hosts (with spares), more than the 2 declared in "
        "needs.hosts; raise needs.hosts, or use fewer ranks or spares",
    ),
    "a packet fabric": (
        [("experiment", "fabric: circuit", "fabric: packet")],
        "experiment.yaml:3:27: the experiment needs a packet fabric and lab bench has circuits",
    ),
    "a ring over hosts with one port": (
        [("lab", "      p1: {interface: eth2, address: 10.0.0.4/24, tx: ocs.4, rx: ocs.20}\n", "")],
        "experiment.yaml:5:54: the fibres of lab bench cannot make this ring: a ring needs two "
        "fabric ports on h1, which has 1",
    ),
    "a ring that no spare could join": (
        [
            ("lab", "switches:\n", ELSEWHERE),
            ("experiment", "topology: ring", "hosts: [h0, h1, h3]"),
        ],
        "experiment.yaml:5:9: the fibres of lab bench cannot make this ring: h0.p1 ends on ocs "
        "and h3.p0 on far: no path of light",
    ),
    "a ring in which nobody could follow the spare": (
        [
            ("lab", "tx: ocs.6, rx: ocs.22", "tx: far.6, rx: far.22"),
            ("lab", "switches:\n", "switches:\n" + FAR),
        ],
        "experiment.yaml:5:54: the fibres of lab bench cannot make this ring: h0.p0 ends on ocs "
        "and h2.p1 on far: no path of light",
    ),
    "a lone rank on a host without a port": (
        [
            ("lab", "switches:\n", UNWIRED),
            ("experiment", "ranks: 2, spares: 1, topology: ring", "ranks: 1, hosts: [h3]"),
            ("experiment", "warm.recovery_time", "warm.step_time"),
        ],
        "experiment.yaml:5:9: the fibres of lab bench cannot make this ring: h3 has no fabric port",
    ),
    "a fault that the lab does not permit": (
        [("experiment", "kind: power-cut", "kind: rank-freeze")],
        "experiment.yaml:7:12: lab bench does not permit rank-freeze on h0; permit it under "
        "`allow` in the lab file, or choose another fault or host",
    ),
    "a fault that one host does not permit, be it a spare": (
        [("lab", "    power: pdu.3\n", "    power: pdu.3\n    allow: [rank-kill]\n")],
        "experiment.yaml:7:12: lab bench does not permit power-cut on h2",
    ),
    "a power cut of a host without a power unit": (
        [("lab", "    power: pdu.3\n", "")],
        "experiment.yaml:7:12: h2 of lab bench has no power unit, so its power cannot be cut",
    ),
    "a dark circuit in a job without one": (
        [
            ("experiment", "kind: power-cut", "kind: dark-circuit"),
            ("experiment", "ranks: 2, spares: 1", "ranks: 1"),
        ],
        "experiment.yaml:7:12: job main has one rank, so no circuit that could go dark",
    ),
    "a rank that there is not": (
        [("experiment", "target: random", "target: rank 2")],
        "experiment.yaml:7:31: job main has no rank 2; its ranks are 0 to 1",
    ),
    "a spare as the victim": (
        [("experiment", "target: random", "target: h2")],
        "experiment.yaml:7:31: power-cut needs a host that runs a rank, and h2 is not one; write "
        "'random', 'rank 0' or one of h0, h1",
    ),
    "a port as the victim": (
        [("experiment", "target: random", "target: h0.p1")],
        "experiment.yaml:7:31: power-cut needs a host that runs a rank, and h0.p1 is not one",
    ),
    "a host as the victim, which the first trial makes a spare": (
        [("experiment", "target: random", "target: h1")],
        "experiment.yaml:7:31: h1 may be a spare in later trials, as the job lives on from trial "
        "to trial; write 'rank 1', or give the job `steps`",
    ),
    "a fault after the job's end": (
        [("experiment", "topology: ring", "steps: 8")],
        "experiment.yaml:7:50: job main ends with step 7 (the first is 0), and power-cut is due in",
    ),
    "nothing that would end a trial": (
        [("experiment", "{policy.standby: cold}", "{faults: []}")],
        "experiment.yaml:5:9: a trial of cold would never end: job main has no fault and no last "
        "step; give the job `steps`",
    ),
    "a heartbeat that every healthy rank misses": (
        [("experiment", "policy: {kind: splice}", "policy: {kind: splice, heartbeat: 0 ms}")],
        "experiment.yaml:8:9: policy: heartbeat must be above 0: a rank that is silent for longer "
        "is replaced; 200 ms is usual",
    ),
    "a recovery by a policy that needs a spare, without one": (
        [("experiment", "spares: 1", "spares: 0")],
        "experiment.yaml:14:3: checks.warm.recovery_time: no trial of warm has 'recovery_time': "
        "splice replaces a rank by a spare host, and job main has none; write `spares: 1` in job "
        "main",
    ),
    "a metric that there is not": (
        [("experiment", "warm.recovery_time", "warm.recovery_tim")],
        "experiment.yaml:14:3: checks.warm.recovery_tim: 'recovery_tim' is not a metric; did "
        "you mean 'recovery_time'?",
    ),
    "a size that there is not": (
        [("experiment", "warm.recovery_time", "warm.busbw_large")],
        "experiment.yaml:14:3: checks.warm.busbw_large: 'busbw_large' is not a metric; known: "
        "recovery_time, return_to_service, fabric_ready, ",
    ),
    "a word that is only a little like a metric": (
        [("experiment", "warm.recovery_time", "warm.loading")],
        "experiment.yaml:14:3: checks.warm.loading: 'loading' is not a metric; known: "
        "recovery_time, return_to_service, fabric_ready, ",
    ),
    "a metric to compare with that there is not": (
        [("experiment", '{every: "< 1 s"}', "{same_as: cold.digests}")],
        "experiment.yaml:14:33: checks.warm.recovery_time.same_as: 'digests' is not a metric; "
        "known: recovery_time, return_to_service, ",
    ),
    "a variant with a host that the first lacks": (
        [
            ("experiment", "spares: 1", "spares: 0"),
            ("experiment", "{policy.standby: cold}", "{jobs.main.spares: 1}"),
            ("experiment", "warm.recovery_time", "warm.step_time"),
        ],
        "experiment.yaml:11:9: cold uses host h2, which the first arm does not use; list the "
        "arm that uses the most hosts first",
    ),
    "a variant that changes in the lab what cannot change": (
        [("experiment", "{policy.standby: cold}", "{lab.twin.rate: 1 Gbit/s}")],
        "experiment.yaml:11:10: lab.twin.rate cannot change from one trial to the next; set it "
        "for the whole run, with -S lab.twin.rate=…",
    ),
    "a variant that changes what a card says": (
        [
            ("experiment", "{policy.standby: cold}", "{lab.twin.settle: 9 ms}"),
            ("lab", "allow:", "twin: {cards: {ocs: piezo}}\nallow:"),
        ],
        "experiment.yaml:11:10: lab.twin.settle changes nothing: every switch settles as its card "
        "says; remove a switch from twin.cards",
    ),
    "a variant that changes what the lab lacks": (
        [("experiment", "{policy.standby: cold}", "{lab.switches.ocx.ports: [1]}")],
        "experiment.yaml:11:10: lab.switches.ocx.ports: the lab has no switch 'ocx'",
    ),
    "a variant of its own that the lab does not permit": (
        [("experiment", "{policy.standby: cold}", "{faults.0.kind: rank-freeze}")],
        "experiment.yaml:11:25: lab bench does not permit rank-freeze on h0",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_an_impossible_plan_is_refused_at_its_place_in_the_file(desk, what):
    changes, said = REFUSED[what]
    for change in changes:
        desk.change(*change)
    assert desk.refusal().startswith(said)


def test_a_lab_without_an_optical_switch_has_no_circuit_fabric(desk):
    hosts = ("h0", "h1", "h2")
    desk.lab = "lab: bench\nhosts:\n" + "".join(f"  {host}: {{ssh: {host}}}\n" for host in hosts)
    refused = desk.refusal()
    assert refused == (
        "experiment.yaml:3:27: the experiment needs a circuit fabric and lab bench has no switch"
    )


def test_a_fault_may_hit_a_named_host_in_the_only_trial(desk):
    desk.change("experiment", "target: random", "target: h1")
    desk.change("experiment", "  cold: {policy.standby: cold}\n", "")
    assert "may be a spare in later trials" in desk.refusal()
    (trial,) = desk.plan(repeat=1).trials
    assert trial.faults[0].rank == 1


def test_a_fault_may_hit_a_named_host_where_each_trial_starts_a_new_job(desk):
    desk.change("experiment", "target: random", "target: h1")
    desk.change("experiment", "topology: ring", "steps: 30")
    assert {trial.faults[0].rank for trial in desk.plan().trials} == {1}


def test_a_fault_in_the_last_step_of_a_job_is_not_too_late(desk):
    desk.change("experiment", "topology: ring", "steps: 9")
    assert {trial.faults[0].step for trial in desk.plan().trials} == {8}


def test_a_problem_of_a_matrix_arm_is_reported_at_its_place_in_the_matrix(desk):
    desk.change("experiment", "spares: 1", "spares: 0")
    begin = desk.experiment.index("variants:")
    desk.experiment = desk.experiment[:begin] + "matrix:\n  jobs.main.spares: [0, 1]\n"
    assert desk.refusal().startswith("experiment.yaml:10:3: jobs.main.spares=1 uses host h2")


def test_an_invalid_override_is_refused_at_its_place_in_the_option(desk):
    refused = desk.refusal(overrides=["faults.0.target=rank 5"])
    assert refused.startswith("-S faults.0.target")
    assert refused.endswith(":1:17: job main has no rank 5; its ranks are 0 to 1")


def test_a_variant_may_repeat_a_setting_of_the_lab(desk):
    desk.change("experiment", "{policy.standby: cold}", "{lab.twin.rate: 0.5 Gbit/s}")
    assert len(desk.plan().trials) == 6
