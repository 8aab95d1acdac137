"""Plans on hosts that have the attributes that an experiment needs of each, and refusals."""

from pathlib import Path

import pytest

from testbed.run.planning.planner import make_plan
from testbed.run.planning.steps import OpenHosts
from testbed.schema import load_experiment, load_lab

SLICES = Path(__file__).parents[3] / "configs" / "slices.yaml"

NEEDS = "{hosts: 3, fabric: circuit"


def needing(desk, attributes, hosts=2):
    """Let the experiment need attributes of two hosts, or of `hosts`, and have no spare."""
    desk.change("experiment", NEEDS, f"{{hosts: {hosts}, fabric: circuit, attributes: {attributes}")
    desk.change("experiment", "spares: 1", "spares: 0")
    return desk.change("experiment", "warm.recovery_time", "warm.step_time")


def with_attributes(desk, **of_hosts):
    for host, attributes in of_hosts.items():
        desk.change("lab", f"    ssh: {host}\n", f"    ssh: {host}\n    attributes: {attributes}\n")
    return desk


def hosts(plan):
    (opened,) = (step.hosts for step in plan.steps if isinstance(step, OpenHosts))
    return opened


def test_a_job_takes_the_hosts_that_have_at_least_what_is_needed(desk):
    needing(desk, "{gpus: 4, gpu_memory: 80}")
    with_attributes(desk, h0="{gpus: 8, gpu_memory: 80}", h2="{gpus: 4, gpu_memory: 141}")
    with_attributes(desk, h1="{gpus: 8, gpu_memory: 40}")
    assert hosts(desk.plan()) == ("h0", "h2")


@pytest.mark.parametrize("what", ["ports", "outlets"])
def test_ports_and_outlets_of_a_host_are_counted(desk, what):
    lines = {
        "ports": "      p1: {interface: eth2, address: 10.0.0.4/24, tx: ocs.4, rx: ocs.20}\n",
        "outlets": "    power: pdu.2\n",
    }
    needing(desk, "{ports: 2}" if what == "ports" else "{outlets: 1}")
    assert hosts(desk.plan()) == ("h0", "h1")
    assert hosts(desk.change("lab", lines[what], "").plan()) == ("h0", "h2")


@pytest.mark.parametrize("count", ["ports", "outlets"])
def test_a_lab_file_does_not_state_what_is_counted(desk, count):
    with_attributes(desk, h1=f"{{{count}: 9}}")
    said = desk.refusal()
    assert f"hosts.h1.attributes.{count}: {count} is counted" in said


def test_too_few_suitable_hosts_are_refused_with_what_the_others_lack(desk):
    needing(desk, "{gpus: 8}")
    with_attributes(desk, h0="{gpus: 4}", h1="{gpus: 8}")
    assert desk.refusal().endswith(
        "the experiment needs 2 hosts with gpus of at least 8, and lab bench has 1: h1; "
        "h0 has gpus 4; h2 has no gpus"
    )


def test_an_attribute_that_no_host_has_is_refused_with_the_nearest_name(desk):
    needing(desk, "{gpu: 8}")
    with_attributes(desk, h0="{gpus: 8}", h1="{gpus: 8}")
    said = desk.refusal()
    assert "needs 2 hosts with gpu of at least 8, and lab bench has none" in said
    assert "did you mean 'gpus'?" in said


def test_a_named_host_that_lacks_an_attribute_is_refused_at_its_name(desk):
    needing(desk, "{gpus: 8}")
    with_attributes(desk, h0="{gpus: 8}", h1="{gpus: 4}", h2="{gpus: 8}")
    desk.change("experiment", "topology: ring", "hosts: [h0, h1]")
    assert "experiment.yaml:5:56: h1 has gpus 4, and the experiment needs hosts with gpus" in (
        desk.refusal()
    )


def test_more_ranks_than_suitable_hosts_are_refused(desk):
    needing(desk, "{gpus: 8}")
    with_attributes(desk, h0="{gpus: 8}", h2="{gpus: 8}")
    desk.change("experiment", "ranks: 2", "ranks: 3")
    assert "need 3 hosts, and lab bench has 2 with the attributes needed" in desk.refusal()


def test_a_host_in_quarantine_is_not_counted_among_the_suitable_ones(desk):
    needing(desk, "{gpus: 8}")
    with_attributes(desk, h0="{gpus: 8}", h1="{gpus: 8}")
    desk.lab += "quarantine: [{what: h1, until: 2026-12-24, reason: its fan is loud}]\n"
    assert "and lab bench has 1: h0" in desk.refusal()


def test_all_arms_are_on_hosts_that_have_what_each_arm_needs(desk):
    needing(desk, "{gpus: 4}")
    with_attributes(desk, h0="{gpus: 4}", h1="{gpus: 8}", h2="{gpus: 8}")
    desk.change("experiment", "cold: {", "cold: {needs.attributes.gpus: 8, ")
    assert hosts(desk.plan()) == ("h1", "h2")


def test_a_job_on_a_rack_of_servers_takes_the_hosts_with_what_is_needed(tmp_path):
    lab = load_lab(SLICES, [f"lab.hosts.{h}.attributes={{gpus: 8}}" for h in ("h2", "h3", "h4")])
    (tmp_path / "experiment.yaml").write_text(
        "experiment: small\nquestion: On which servers?\n"
        "needs: {hosts: 2, attributes: {gpus: 8}}\n"
        "jobs: {main: {kind: train, ranks: 2, topology: ring, steps: 9}}\n"
    )
    experiment = load_experiment(tmp_path / "experiment.yaml")
    plan = make_plan(experiment, lab, seed=7)
    assert hosts(plan) == ("h2", "h3")
