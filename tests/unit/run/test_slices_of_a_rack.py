"""Jobs on a rack whose servers have a switch each: which hosts, and over which fibres."""

from itertools import product
from pathlib import Path

import pytest

from testbed.bench.lease_resources import needs
from testbed.errors import FileError
from testbed.fabric.circuits import cross_connects, matching
from testbed.run.planning.placement import place
from testbed.run.planning.planner import make_plan
from testbed.schema import load_experiment, load_lab

SLICES = Path(__file__).parents[3] / "configs" / "slices.yaml"
FAULT = """\
faults: [{kind: power-cut, job: j0, target: random, at: {step: 5}}]
policy: {kind: splice}
"""
ONE_PORT = """\
  h0:
    ssh: h0
    power: pdu.1
    ports: {p0: {interface: eth1, address: 10.0.0.1/24, tx: mesh0.1, rx: mesh0.7}}
"""
QUARANTINE = "quarantine: [{{what: {}, until: 2099-12-31, reason: it is worn out}}]\n"


@pytest.fixture
def placed(tmp_path, monkeypatch):
    """Return what places jobs, each a line of keys, on the rack, of which parts are set aside."""
    monkeypatch.chdir(tmp_path)

    def placed(*jobs, quarantine="", more="", planned=False, hosts=6, narrow=("", "")):
        text = SLICES.read_text() + (QUARANTINE.format(quarantine) if quarantine else "")
        text = text.replace(*narrow)
        Path("lab.yaml").write_text(text)
        rows = [f"  j{n}: {{kind: train, rings: 2, {keys}}}" for n, keys in enumerate(jobs)]
        head = "experiment: small\nquestion: Which hosts?\nneeds: {hosts: %s, fabric: circuit}\n"
        Path("e.yaml").write_text("\n".join([head % hosts + "jobs:", *rows, more]))
        experiment, lab = load_experiment("e.yaml"), load_lab("lab.yaml")
        if planned:
            return make_plan(experiment, lab, seed=1)
        found = place(experiment, lab)
        if found.circuits:
            assert cross_connects(matching(found.circuits), lab.wiring())
        return found

    return placed


def passed(placement):
    return {pair.name for circuit in placement.circuits for pair in circuit.via}


def test_slices_are_rows_of_servers_side_by_side(placed):
    found = placed("ranks: 2", "ranks: 2", "ranks: 2")
    assert [one.hosts for one in found.values()] == [("h0", "h1"), ("h2", "h3"), ("h4", "h5")]
    assert passed(found["j1"]) == {"f23a", "f23b"}


def test_a_slice_whose_row_is_not_free_is_fragmented(placed):
    found = placed("ranks: 2, hosts: [h1, h2]", "ranks: 2", quarantine="h4", hosts=4)
    assert {*found["j1"].hosts} == {"h0", "h5"}
    assert passed(found["j1"]) == {"f50a", "f50b"}


def test_a_ring_of_three_servers_is_closed_past_the_one_between(placed):
    found = placed("ranks: 3")["j0"]
    assert found.hosts == ("h0", "h1", "h2")
    assert sorted(len(circuit.via) for circuit in found.circuits) == [1, 1, 2]


def test_a_slice_without_free_fibres_between_its_servers_is_refused(placed):
    with pytest.raises(
        FileError, match=r"no paths between its servers have a free fibre for each"
    ) as refused:
        placed("ranks: 2, hosts: [h0, h2]", "ranks: 2, hosts: [h1, h3]")
    assert "e.yaml:6:" in str(refused.value)


def test_a_fibre_in_quarantine_is_not_used(placed):
    found = placed("ranks: 2", quarantine="mesh1.3")  # an end of f01a
    assert found["j0"].hosts == ("h2", "h3")
    found = placed("ranks: 2, hosts: [h0, h1]", quarantine="mesh1.3")
    assert sorted(len(circuit.via) for circuit in found["j0"].circuits) == [1, 5]


def test_a_run_leases_every_mesh_that_its_circuits_may_pass(placed):
    placed("ranks: 2")
    leased = {str(one) for one in needs(load_lab("lab.yaml"), ["h2"])}
    assert {f"mesh{n}" for n in range(6)} <= leased


@pytest.mark.parametrize("name", ["shrink", "restart"])
def test_a_policy_that_joins_hosts_over_one_switch_is_refused(placed, name):
    checkpoint = "checkpoint: {every: 5}" if name == "restart" else "batch: 2"
    more = FAULT.replace("power-cut", "rank-kill").replace("splice", name)
    with pytest.raises(
        FileError, match=rf"{name} joins hosts over one switch, and circuits of lab"
    ):
        placed(f"ranks: 3, {checkpoint}", more=more, planned=True)


@pytest.mark.parametrize(
    ("job", "more", "said"),
    [
        ("{kind: reach, ranks: 4}", "", "job j0 ask for circuits over one switch"),
        (
            "{kind: hybrid, ranks: 4, steps: 5, mesh: {dp: 2, pp: 2}}",
            "controllers: [{kind: rails}]",
            "rails joins hosts over one switch, and circuits of lab slices pass several",
        ),
    ],
)
def test_a_job_whose_circuits_are_re_pointed_is_refused(tmp_path, job, more, said):
    file = tmp_path / "e.yaml"
    head = "experiment: small\nquestion: May it?\nneeds: {hosts: 4, fabric: circuit}\n"
    file.write_text(f"{head}jobs: {{j0: {job}}}\n{more}\n")
    with pytest.raises(FileError, match=said):
        make_plan(load_experiment(file), load_lab(SLICES), seed=1)


def test_on_the_packet_switch_of_a_rack_any_policy_may_recover(tmp_path):
    """Its circuits pass several switches, and this job has none."""
    port = "\n      e0: {interface: eth3, address: 10.0.1.<n+1>/24, packet: tor.<n+1>}"
    text = SLICES.read_text().replace("rx: mesh<n>.8}", "rx: mesh<n>.8}" + port)
    lab, file = tmp_path / "lab.yaml", tmp_path / "e.yaml"
    lab.write_text(text + "packet_switches: {tor: {ports: [1-6]}}\n")
    shrinks = FAULT.replace("power-cut", "rank-kill").replace("splice", "shrink")
    file.write_text(
        "experiment: small\nquestion: May it shrink?\nneeds: {hosts: 3, fabric: packet}\n"
        f"jobs: {{j0: {{kind: train, ranks: 3}}}}\n{shrinks}"
    )
    plan = make_plan(load_experiment(file), load_lab(lab), seed=1)
    assert [planned.kind for arm in plan.arms for planned in arm.controllers] == ["shrink"]


def test_the_spare_is_one_that_fibres_join_to_the_slice(placed):
    """h4 could reach no neighbour past j1, whose circuits have all fibres; h2 can."""
    jobs = "ranks: 2, spares: 1, hosts: [h0, h1, h2]", "ranks: 2, hosts: [h3, h5]"
    found = placed(jobs[0].replace(", hosts: [h0, h1, h2]", ""), jobs[1], more=FAULT)
    assert found["j0"].spares == ("h2",)
    plan = placed(*jobs, more=FAULT, planned=True)
    for trial in plan.trials:
        (recovery,) = trial.recoveries
        assert recovery.decisions[0].replacement == "h2"
        assert all(circuit.via for made in recovery.circuits for circuit in made)


def test_a_spare_breaks_up_no_row_that_another_slice_can_have(placed):
    """h0 is set aside, so h1 is in no free row; h5 would be the last host."""
    found = placed("ranks: 2, spares: 1", "ranks: 2", quarantine="h0", hosts=5, more=FAULT)
    assert (found["j0"].hosts, found["j0"].spares) == (("h2", "h3"), ("h1",))
    assert found["j1"].hosts == ("h4", "h5")


def test_a_named_spare_that_no_free_fibres_reach_is_refused(placed):
    """Circuits of j1 have all fibres between h4 and the ranks of j0, from both sides."""
    jobs = "ranks: 2, spares: 1, hosts: [h0, h1, h4]", "ranks: 2, hosts: [h3, h5]"
    with pytest.raises(
        FileError, match=r"spare h4 can replace no host of job j0: too few free fibres"
    ):
        placed(*jobs, more=FAULT, planned=True)


def test_a_host_with_fewer_ports_is_left_out_where_a_slice_gets_more_without_it(placed):
    narrow = ("  h[0-5]:\n", ONE_PORT + "  h[1-5]:\n")
    assert placed("ranks: 2", narrow=narrow)["j0"].hosts == ("h2", "h3")
    with pytest.raises(FileError, match=r"; h0 has 1"):
        placed("ranks: 6", narrow=narrow)


def test_the_plan_names_the_fibres_and_all_switches(placed):
    plan = placed("ranks: 2, steps: 5, hosts: [h0, h2]", planned=True)
    steps = plan.to_json()["steps"]
    assert steps[0]["switches"] == [f"mesh{n}" for n in range(6)]
    (circuits,) = (step for step in steps if step["do"] == "ProgramCircuits")
    ways = [tuple(circuit["via"]) for circuit in circuits["circuits"]]
    assert all(len(way) in (2, 4) for way in ways)
    assert len(circuits["adds"]) == sum(2 * (len(way) + 1) for way in ways)


def test_every_pair_of_servers_can_be_a_slice(placed):
    for one, other in product(range(6), repeat=2):
        if one != other:
            found = placed(f"ranks: 2, hosts: [h{one}, h{other}]")["j0"]
            assert len(found.circuits) == 2
