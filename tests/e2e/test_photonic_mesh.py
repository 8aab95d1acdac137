"""A photonic mesh as the switch of a live twin: each matching joins those it should, and no others.

Light follows from the cells of the far end, which the driver routes circuits through.
"""

from __future__ import annotations

import json
import os
from collections import defaultdict
from pathlib import Path

import pytest

from testbed.fabric.mesh import Gate, hexagonal
from testbed.fabric.mesh_routes import route
from tests.e2e.commandline import ROOT, CommandLine, small_model

JOBS = ("struck", "neighbour")
ALL_REDUCES = """
experiment: collective
question: Are sums right whose rounds ask a photonic mesh for one matching after the other?
lab: mesh-quad
needs: {hosts: 4, fabric: circuit}
jobs:
  main:
    kind: collective
    ranks: 4
    circuits: re-point
    iterations: 1
    warmup: 0
    algorithms: [rhd, direct, stragglar]
    sizes: [64 KiB]
trials: 1
"""


def reports(run: Path) -> list[dict]:
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    return [event["data"] for event in events if event["kind"] == "reach"]


def test_every_matching_of_four_hosts_joins_exactly_its_pairs(testbed: CommandLine) -> None:
    done = testbed.run("pipswitch", "--repeat", "1")
    assert done.code == 0, done.err
    found = done.json()
    assert (found["outcome"], found["cleanup"], found["label"]) == (
        "passed",
        "verified",
        "measured-twin",
    )
    met = defaultdict(set)
    for report in reports(testbed.results / "latest"):
        met[report["step"]].add(frozenset((report["rank"], report["peer"])))
        assert report["answered"] == report["heard"]
        others = {int(r): n for r, n in report["answered"].items() if int(r) != report["peer"]}
        assert (report["answered"][str(report["peer"])], set(others.values())) == (100, {0})
    assert [len(pairs) for pairs in met.values()] == [2, 2, 2]
    assert len(set.union(*met.values())) == 6
    notes = (testbed.results / "latest" / "wire" / "mesh.jsonl").read_text()
    assert "cells that each circuit passes: " in notes


def test_sums_over_matchings_that_the_rounds_of_a_schedule_ask_for_are_right(
    testbed: CommandLine,
) -> None:
    summary, run = testbed.run_text(ALL_REDUCES, "mesh-quad")
    assert summary["cleanup"] == "verified"
    events = [json.loads(row) for row in (run / "events.jsonl").read_text().splitlines()]
    samples = [event["data"] for event in events if event["kind"] == "sample"]
    assert {sample["algorithm"] for sample in samples} >= {"rhd_repointed", "stragglar_repointed"}
    assert all(sample["verified"] for sample in samples)


def test_a_chip_of_a_slice_is_replaced_and_the_slice_beside_it_keeps_its_paths(
    testbed: CommandLine,
) -> None:
    """Two slices with both ports redirected, tenants of one mesh; a rank of the first is killed."""
    small = [*small_model("struck"), *small_model("neighbour"), "-S", "lab.twin.settle=10 ms"]
    small += [part for job in JOBS for part in ("-S", f"jobs.{job}.pace=20 ms")]
    done = testbed.run("morphlux-replace", "--lab", "mesh-rack", *small, "--repeat", "1")
    trials = {trial["variant"]: trial for trial in done.json()["trials"]}
    assert trials["fault.struck"]["outcome"] == "recovered"
    assert trials["fault.neighbour"]["values"]["steps"] == 24
    rows = (testbed.results / "latest" / "events.jsonl").read_text().splitlines()
    events = [json.loads(row) for row in rows]
    (change,) = (event for event in events if event["subject"] == "recovery")
    assert (change["kind"], change["owner"]) == ("fabric.change", "struck")
    assert len(change["data"]["removed"]) == len(change["data"]["added"]) == 4
    assert change["data"]["disturbed"] == []
    steps = [event for event in events if event["kind"] == "step"]
    assert all(step["data"]["verified"] for step in steps)
    (joined,) = (event for event in events if event["kind"] == "membership")
    after = [e for e in steps if e.get("job") == "struck" and e["seq"] > joined["seq"]]
    assert {step["data"]["rank"] for step in after} == {0, 1}


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_a_stuck_cell_is_found_by_the_light_and_routed_around(
    testbed: CommandLine, tmp_path: Path
) -> None:
    """The check of the cells names it; with it in the lab file all matchings carry data."""
    name = f"stuck-{os.getpid()}"
    first = route(hexagonal(8, 8), {1: 11, 3: 9, 5: 15, 7: 13}).paths[1].steps
    cell = next(step.cell for step in first[2:] if step.gate is Gate.CROSS)
    text = (ROOT / "configs" / "mesh-quad.yaml").read_text()
    assert text.count("height: 8}") == 1
    known = tmp_path / "known.yaml"
    known.write_text(text.replace("height: 8}", f"height: 8, stuck_bar: [{cell}]}}"))
    assert testbed("twin", "up", "mesh-quad", "--name", name).code == 0
    try:
        planted = testbed("twin", "fault", name, "mesh", "cell-stuck", "--port", str(cell))
        assert planted.code == 0, planted.err
        where = ["--twin", name, "--results", str(testbed.results)]
        done = testbed("doctor", "mesh-quad", "--cells", "--json", *where, limit=150)
        assert done.code == 1, done.err
        (found,) = done.json()
        assert found["state"] == "stuck"
        assert {"cell": cell, "state": "="} in found["suspects"]
        assert len(found["suspects"]) <= 4  # of 446 ways in which a cell may be stuck
        ran = testbed("run", "pipswitch", "--lab", str(known), "--repeat", "1", "--json", *where)
        assert ran.code == 0, ran.err
    finally:
        testbed("twin", "down", name)


@pytest.mark.soak
@pytest.mark.parametrize(("hosts", "edge"), [(8, 16)])
def test_every_matching_of_more_hosts_joins_exactly_its_pairs(
    testbed: CommandLine, hosts: int, edge: int
) -> None:
    path = testbed.results.with_name("lab.yaml")
    path.write_text(lab(hosts, edge))
    where = ["--lab", str(path), "--repeat", "1", "-S", f"jobs.main.ranks={hosts}"]
    pairs = hosts * (hosts - 1) // 2
    wanted = ["-S", f"needs.hosts={hosts}", "-S", f"checks.pairs_met.equals={pairs}"]
    done = testbed.run("pipswitch", *where, *wanted, limit=600)
    print(f"{hosts} hosts: {done.json()['metrics']}")
    assert done.code == 0, done.err


def lab(hosts: int, edge: int) -> str:
    """Return a lab of so many hosts of two ports on a mesh of as many rows as inputs."""
    ports = 2 * hosts
    rows = [f"lab: mesh-{hosts}", "hosts:"]
    for host in range(hosts):
        rows += [f"  h{host}:", f"    ssh: h{host}", "    ports:"]
        for port in range(2):
            number = 2 * host + port + 1
            rows.append(
                f"      p{port}: {{interface: eth{port + 1}, address: 10.0.0.{number}/24, "
                f"tx: mesh.{number}, rx: mesh.{number + ports}}}"
            )
    rows += [
        "switches:",
        '  mesh: {driver: photonic-mesh, resource: "TCPIP::192.0.2.10::5025::SOCKET", '
        f"identity: TB-0003, ports: [1-{2 * ports}], width: {edge}, height: {edge}}}",
        "fence: [network, process]",
        "twin: {settle: 10 ms, loss_of_signal: 2 ms, link_up: 10 ms, rate: 100 Mbit/s}",
    ]
    return "\n".join(rows) + "\n"


BESIDE_A_SLICE = """\
experiment: beside-a-slice
question: Does a slice whose sums move its circuits round by round leave the slice beside it alone?
needs: {hosts: 6, fabric: circuit}
jobs:
  stragglar:
    kind: collective
    ranks: 4
    hosts: [m0, m1, m2, m3]
    circuits: re-point
    algorithms: [stragglar]
    sizes: [768 KiB]
    iterations: 4
  tenant:
    kind: train
    ranks: 2
    hosts: [m4, m5]
    rings: 2
    steps: 40
    pace: 60 ms
    dim: 96
    hidden: 256
    batch: 1
faults: [{kind: straggler, job: stragglar, target: rank 3, at: {step: 1}, delay: 200 ms}]
checks:
  stragglar.steps: {equals: 4}
  tenant.steps: {equals: 40}
"""


def test_stragglar_moves_its_circuits_in_a_slice_while_another_tenant_has_one_beside_it(
    testbed: CommandLine, tmp_path: Path
) -> None:
    """On one mesh, through which the circuits of both are routed; the tenant's stay all along."""
    file = tmp_path / "beside-a-slice.yaml"
    file.write_text(BESIDE_A_SLICE)
    where = ["--lab", "everything", "--results", str(testbed.results), "--twin", "--json"]
    done = testbed("run", str(file), *where, limit=200)
    assert done.code == 0, done.err
    rows = (testbed.results / "latest" / "events.jsonl").read_text().splitlines()
    events = [json.loads(row) for row in rows]
    rounds: dict[str, list[int]] = {"stragglar": [], "tenant": []}
    for event in events:
        if event["kind"] in ("step", "sample"):
            assert event["data"]["verified"], event
            rounds[event["job"]].append(event["seq"])
    both = max(map(min, rounds.values())), min(map(max, rounds.values()))
    changes = [e for e in events if e["kind"] == "fabric.change" and both[0] < e["seq"] < both[1]]
    assert len(changes) > 10, "rounds ask for circuits while the tenant makes steps"
    assert {change["owner"] for change in changes} == {"stragglar"}
    for change in changes:
        data = change["data"]
        assert data["disturbed"] == []
        assert not [c for c in (*data["removed"], *data["added"]) if "m4" in c or "m5" in c]
    lost = [e for e in events if e["kind"] == "symptom" and e["data"].get("host") in ("m4", "m5")]
    assert not [e for e in lost if both[0] < e["seq"] < both[1]]
